// The language of the interface: the browser's, until somebody chooses another.
import { computed, signal } from "@preact/signals";
import { en } from "./en";
import { zh } from "./zh";

export type Tongue = "en" | "zh";
const ALL = { en, zh };

function first(): Tongue {
  try {
    const kept = localStorage.getItem("tongue");
    if (kept === "en" || kept === "zh") return kept;
  } catch {
    // a page from a file may keep nothing
  }
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export const tongue = signal<Tongue>(first());
export const words = computed(() => ALL[tongue.value]);

export function choose(chosen: Tongue): void {
  tongue.value = chosen;
  try {
    localStorage.setItem("tongue", chosen);
  } catch {
    // it holds until the page is closed
  }
}
