// What the panels ask of the server once a sentence is found, each asked once and kept.
import { signal, type Signal } from "@preact/signals";
import { Failed, ask } from "./api";
import type { Sentence } from "./recording";
import * as s from "./state";
import type { ModelInfo, Places, Tensors, Vectors } from "./types";

// What a page without a server was not given.
const unrecorded = signal<ReadonlySet<Signal<unknown>>>(new Set());

export function isUnrecorded(asked: Signal<unknown>): boolean {
  return unrecorded.value.has(asked);
}

const underWay = new WeakMap<Signal<unknown>, Promise<void>>();
const kept = new WeakMap<Sentence, Map<string, Signal<unknown>>>();

// A signal that is null until the answer is there. more: null where nothing is posted.
function answer<T>(sentence: Sentence, what: string, path: string, more: object | null = {}): Signal<T | null> {
  let mine = kept.get(sentence);
  if (!mine) kept.set(sentence, (mine = new Map()));
  const known = mine.get(what);
  if (known) return known as Signal<T | null>;
  const made = signal<T | null>(null);
  if (!sentence.found) return made;
  mine.set(what, made as Signal<unknown>);
  const tokens = { model: s.chosenModel.value, read: sentence.ids, written: sentence.target, finished: sentence.finished };
  const body = more === null ? undefined : { ...tokens, ...more };
  const number = s.recording.value?.sentences.indexOf(sentence) ?? 0;
  const came = ask<T>(`${number} ${what}`, path, body).then(
    (found) => void (made.value = found),
    (error: unknown) => {
      if (error instanceof Failed && error.message === "saved") unrecorded.value = new Set([...unrecorded.value, made]);
      else mine.delete(what); // it is asked again when it is next shown
      if (error instanceof Failed && error.status === 404) s.phase.value = "expired";
      throw error;
    },
  );
  came.catch(() => {}); // whoever waits for it hears
  underWay.set(made, came);
  return made;
}

// The answer itself, however long it takes.
export async function cameOf<T>(asked: Signal<T | null>): Promise<T> {
  await underWay.get(asked);
  return asked.value!;
}

export function placesOf(sentence: Sentence, temperature = 1): Signal<Places | null> {
  if (s.model.value?.kind === "masked") return signal(null);
  return answer(sentence, `places ${temperature}`, "api/places", { temperature });
}

export function insideOf(sentence: Sentence, place: string): Signal<Tensors | null> {
  return answer(sentence, `inside ${place}`, "api/inside", { place });
}

export function vectorsOf(sentence: Sentence): Signal<Vectors | null> {
  return answer(sentence, "vectors", "api/vectors");
}

// One token on its way: see layer-types.ts. name: as headway/inspect/recorded_answers.py records it.
export function layerOf<T>(sentence: Sentence, name: string, body: object): Signal<T | null> {
  return answer(sentence, `layer ${name}`, "api/layer", body);
}

// All that the panels ask about a sentence, by the names under which they ask, and whatever they have asked beside it:
// what a saved page has with it. The list comes with the model (headway/inspect/recorded_answers.py).
export function recordedOf(sentence: Sentence): [name: string, asked: () => Signal<unknown>][] {
  const listed = s.model.value!.recorded.map(([name, path, body]) => [name, () => answer(sentence, name, path, body)] as const);
  const shown = [...(kept.get(sentence) ?? [])].filter(([, asked]) => asked.value !== null).map(([name, asked]) => [name, () => asked] as const);
  return [...new Map([["costs", () => costsOf(sentence)], ...listed, ...shown])];
}

// The model, its operations counted for this sentence.
export function costsOf(sentence: Sentence): Signal<ModelInfo | null> {
  const query = `source=${sentence.ids.length || 1}&target=${sentence.rows || 1}`;
  return answer(sentence, "costs", `api/models/${encodeURIComponent(s.chosenModel.value)}?${query}`, null);
}
