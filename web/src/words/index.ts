// The language of the interface: the browser's, until somebody chooses another. English is always there, and stands in
// for what another language lacks. A further language is one file here, which exports `words`, and `parts` for panels
// whose words are loaded with them, and one line in LANGUAGES (see CONTRIBUTING.md).
import { batch, signal } from "@preact/signals";
import { saved } from "../api";
import type { ComparingWords } from "./comparing-en";
import { type Words, en } from "./en";
import type { TourWords } from "./tour/en";

// Words that are loaded with what they are about, where a language brings them in its one file.
export interface Parts {
  tour?: TourWords;
  comparing?: ComparingWords;
}

interface Language {
  name: string;
  tag: string;
  load: () => Promise<{ words: Words; parts?: Parts }>;
}

const LANGUAGES = {
  en: { name: "English", tag: "en", load: async () => ({ words: en }) },
  zh: { name: "中文", tag: "zh-Hans", load: () => import("./zh") },
} satisfies Record<string, Language>;

export type Tongue = keyof typeof LANGUAGES;
export const TONGUES: Record<Tongue, Language> = LANGUAGES;

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
export const parts = signal<Parts>({});

export async function loadWords(wanted: Tongue = wantedTongue()): Promise<void> {
  try {
    const loaded = await TONGUES[wanted].load();
    batch(() => {
      words.value = loaded.words;
      parts.value = loaded.parts ?? {};
      tongue.value = wanted;
    });
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
