// The language of the interface: the browser's, until somebody chooses another. English is always there, and stands in
// for a language that cannot be loaded; a further language is one file here and one line in OTHERS.
import { signal } from "@preact/signals";
import { saved } from "../api";
import { type Words, en } from "./en";

const OTHERS = { zh: async () => (await import("./zh")).zh };
export type Tongue = "en" | keyof typeof OTHERS;
export const TONGUES: Record<Tongue, { name: string; tag: string }> = {
  en: { name: "English", tag: "en" },
  zh: { name: "中文", tag: "zh-Hans" },
};

function isTongue(name: string | null): name is Tongue {
  return name !== null && name in TONGUES;
}

function wantedTongue(): Tongue {
  const asked = new URLSearchParams(location.hash.slice(1)).get("lang") ?? saved?.tongue ?? null;
  if (isTongue(asked)) return asked;
  try {
    const kept = localStorage.getItem("tongue");
    if (isTongue(kept)) return kept;
  } catch {
    // a page from a file may keep nothing
  }
  const [first] = navigator.language.toLowerCase().split("-");
  return isTongue(first!) ? first : "en";
}

export const tongue = signal<Tongue>("en");
export const words = signal<Words>(en);

export async function loadWords(wanted: Tongue = wantedTongue()): Promise<void> {
  try {
    words.value = wanted === "en" ? en : await OTHERS[wanted]();
    tongue.value = wanted;
  } catch {
    // the server is gone: the page goes on in the language that it has
  }
}

export async function choose(chosen: Tongue): Promise<void> {
  await loadWords(chosen);
  try {
    localStorage.setItem("tongue", chosen);
  } catch {
    // it holds until the page is closed
  }
}
