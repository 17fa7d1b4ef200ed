// How the search goes, where it is not to go the model's own way.
import { signal } from "@preact/signals";

export const beamSize = signal(0); // 0: the model's own
export const alpha = signal<number | null>(null); // of the length penalty; null: the model's own
export const sample = signal(false);
export const heat = signal(1);
export const topK = signal(0); // 0: all
const USUAL_P = 0.9; // all of the vocabulary would draw nonsense now and then
export const topP = signal(USUAL_P);
export const seed = signal(1);

// As requests have it. What a way of searching does not use is not sent.
export function wishes(): Record<string, unknown> {
  if (sample.value) return { sample: true, temperature: heat.value, top_k: topK.value, top_p: topP.value, seed: seed.value };
  return { beam_size: beamSize.value || undefined, alpha: alpha.value ?? undefined };
}

// In the address: what differs from the model's own way.
export function tellAddress(told: URLSearchParams): void {
  if (sample.value) {
    told.set("sample", String(seed.value));
    if (heat.value !== 1) told.set("temperature", String(heat.value));
    if (topK.value) told.set("top-k", String(topK.value));
    if (topP.value !== USUAL_P) told.set("top-p", String(topP.value));
    return;
  }
  if (beamSize.value) told.set("beam", String(beamSize.value));
  if (alpha.value !== null) told.set("alpha", String(alpha.value));
}

export function readFrom(given: URLSearchParams): void {
  const number = (name: string, low: number, high: number, otherwise: number): number => {
    const read = given.has(name) ? Number(given.get(name)) : NaN;
    return Number.isFinite(read) ? Math.min(Math.max(read, low), high) : otherwise;
  };
  beamSize.value = Math.round(number("beam", 0, 10, 0));
  alpha.value = given.has("alpha") ? number("alpha", 0, 2, 0.6) : null;
  sample.value = given.has("sample");
  seed.value = Math.round(number("sample", 0, 2 ** 31 - 1, 1));
  heat.value = number("temperature", 0.1, 2, 1);
  topK.value = Math.round(number("top-k", 0, 1000, 0));
  topP.value = number("top-p", 0.05, 1, USUAL_P);
}
