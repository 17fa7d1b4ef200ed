// The catalogue of all variants, and the search in it: the same as `headway variants --search`.
import { loadShipped } from "./api";

export interface Picture {
  written: string;
  about: "mask" | "added" | "scores" | "heard";
  rows: string[]; // a digit a cell, 0 to 9
}

export interface Variant {
  slot: string;
  kind: string;
  line: string;
  cost?: string;
  reference?: string;
  names?: string[];
  settings?: [name: string, initial: string, allowed: string][];
  picture?: Picture;
}

export async function loadVariants(): Promise<Variant[]> {
  return loadShipped<Variant[]>("variants.json");
}

// Without case, accents, punctuation, a plural's -s, and the difference between -ise and -ize.
function wordsIn(text: string): string[] {
  const plain = text.toLowerCase().normalize("NFKD").replace(/[^\x00-\x7f]/g, "").replaceAll("iz", "is");
  return (plain.match(/[a-z0-9]+(?:\.[a-z0-9]+)*/g) ?? []).map((word) => word.replace(/(?<=\w\w[^s])s$/, ""));
}

// How well a variant matches, 0 best; -1: not at all.
function rankOf(one: Variant, wanted: string[]): number {
  const names = [one.kind, ...(one.names ?? [])].map(wordsIn);
  const others = [one.reference ?? "", one.line, one.slot].map(wordsIn);
  const joined = wanted.join("");
  if (names.some((name) => name.join("") === joined)) return 0;
  const begins = (field: string[]): boolean => field.some((_, start) => field.slice(start).join("").startsWith(joined));
  if (names.some(begins)) return 1;
  if (others.some(begins)) return 2;
  const every = [...names, ...others].flat();
  return wanted.every((part) => every.some((word) => word.startsWith(part))) ? 3 : -1;
}

export function search(all: Variant[], text: string): Variant[] {
  const wanted = wordsIn(text);
  if (!text.trim()) return all;
  if (!wanted.length) return [];
  const ranked = all.map((one) => ({ one, rank: rankOf(one, wanted) })).filter(({ rank }) => rank >= 0);
  return ranked.sort((a, b) => a.rank - b.rank).map(({ one }) => one);
}

export function bySlot(found: Variant[]): [slot: string, variants: Variant[]][] {
  const slots = new Map<string, Variant[]>();
  for (const one of found) slots.set(one.slot, [...(slots.get(one.slot) ?? []), one]);
  return [...slots];
}
