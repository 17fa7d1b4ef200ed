// What the panels ask of the server once a sentence is found, each asked once and kept.
import { signal, type Signal } from "@preact/signals";
import { Failed, ask, isRecorded } from "./api";
import { type Problem, problemOf } from "./problems";
import type { Sentence } from "./recording";
import * as s from "./state";
import type { Attributed, Column, ModelInfo, Places, Scored, StreamEvent, Sublayer, Tensor, Vectors } from "./types";

// What a page without a server was not given.
const unrecorded = signal<ReadonlySet<Signal<unknown>>>(new Set());

export function isUnrecorded(asked: Signal<unknown>): boolean {
  return unrecorded.value.has(asked);
}

// Why an answer did not come.
const failures = signal<ReadonlyMap<Signal<unknown>, Problem>>(new Map());

export function failureOf(asked: Signal<unknown>): Problem | undefined {
  return failures.value.get(asked);
}

const forgetting = new WeakMap<Signal<unknown>, () => void>();

// Nobody waits for it any more: the server ends its work.
export function leave(asked: Signal<unknown>): void {
  if (asked.peek() === null && !unrecorded.peek().has(asked)) forgetting.get(asked)?.();
}

export function askAgain(asked: Signal<unknown>): void {
  forgetting.get(asked)?.();
  failures.value = new Map([...failures.value].filter(([one]) => one !== asked));
}

const underWay = new WeakMap<Signal<unknown>, Promise<void>>();
const kept = new WeakMap<Sentence, Map<string, Signal<unknown>>>();

// What the model has read and written. Of an output that was written at once, the decoder's last pass has read another.
function tokensOf(sentence: Sentence): object {
  const expected = sentence.input ? sentence.target : sentence.expected?.ids;
  return {
    model: s.chosenModel.value,
    read: sentence.ids,
    written: sentence.input?.ids ?? sentence.target,
    finished: sentence.finished && !sentence.input,
    ...(sentence.second && { second: sentence.second }),
    ...(expected && { expected }),
  };
}

// A signal that is null until the answer is there. more: null where nothing is posted.
function answer<T>(sentence: Sentence, what: string, path: string, more: object | null = {}, tells = false): Signal<T | null> {
  const body = more === null ? undefined : { ...tokensOf(sentence), ...more };
  return keep(sentence, what, (name, leave) => ask<T>(name, path, body, leave), tells);
}

// tells: whoever shows it says why it did not come, and asks again if somebody wants it.
function keep<T>(sentence: Sentence, what: string, find: (name: string, leave: AbortSignal) => Promise<T>, tells: boolean): Signal<T | null> {
  let mine = kept.get(sentence);
  if (!mine) kept.set(sentence, (mine = new Map()));
  const known = mine.get(what);
  if (known) return known as Signal<T | null>;
  const made = signal<T | null>(null);
  if (!sentence.found) return made;
  mine.set(what, made as Signal<unknown>);
  const number = s.recording.value?.sentences.indexOf(sentence) ?? 0;
  const leaving = new AbortController();
  const came = find(`${number} ${what}`, leaving.signal).then(
    (found) => void (made.value = found),
    (error: unknown) => {
      const isMissing = error instanceof Failed && error.message === "saved";
      if (isMissing) unrecorded.value = new Set([...unrecorded.value, made]);
      else if (!tells) mine.delete(what); // it is asked again when it is next shown
      else if (!leaving.signal.aborted) failures.value = new Map([...failures.value, [made, problemOf(error)]]);
      if (!tells && error instanceof Failed && error.status === 404) s.phase.value = "expired";
      throw error;
    },
  );
  came.catch(() => {}); // whoever waits for it hears
  underWay.set(made, came);
  forgetting.set(made, () => {
    mine.delete(what);
    leaving.abort();
  });
  return made;
}

// The answer itself, however long it takes.
export async function cameOf<T>(asked: Signal<T | null>): Promise<T> {
  await underWay.get(asked);
  return asked.value!;
}

export function placesOf(sentence: Sentence, temperature = 1): Signal<Places | null> {
  if (s.readsOnly(s.model.value) && s.model.value?.kind !== "masked") return signal(null);
  return answer(sentence, `places ${temperature}`, "api/places", { temperature });
}

export function insideOf(sentence: Sentence, place: string): Signal<Sublayer | null> {
  return answer(sentence, `inside ${place}`, "api/inside", { place });
}

// How much each token is heard in a layer, for mixers without attention weights.
export function influenceOf(sentence: Sentence, place: string): Signal<{ values: Tensor } | null> {
  return answer(sentence, `influence ${place}`, "api/influence", { place }, true);
}

export function columnOf(sentence: Sentence, place: string, matrix: string, head: number, channel: number): Signal<Column | null> {
  return answer(sentence, `column ${place} ${matrix} ${head} ${channel}`, "api/column", { place, matrix, head, channel });
}

export function vectorsOf(sentence: Sentence): Signal<Vectors | null> {
  return answer(sentence, "vectors", "api/vectors");
}

// One token on its way: see layer-types.ts. name: as headway/inspect/recorded_answers.py records it.
export function layerOf<T>(sentence: Sentence, name: string, body: object): Signal<T | null> {
  return answer(sentence, `layer ${name}`, "api/layer", body);
}

export function attributionOf(sentence: Sentence, units: string): Signal<Attributed | null> {
  return answer(sentence, `attribution ${units}`, "api/attribution", { units }, true);
}

// How likely an output is: the sentence's own, or what `more` asks for, under a name of its own.
export function scoreOf(sentence: Sentence, name = "", more: object = {}): Signal<Scored | null> {
  return answer(sentence, `${name} score`.trim(), "api/score", more, true);
}

// What else was made of a sentence: the events of another translation.
export function eventsBeside(sentence: Sentence, name: string, make: (leave: AbortSignal) => AsyncGenerator<StreamEvent>): Signal<StreamEvent[] | null> {
  return besideOf(sentence, `${name} events`, async (key, leave) => {
    if (isRecorded()) return ask(key, "");
    const events = [];
    for await (const event of make(leave)) {
      if (event.event === "error") throw new Failed(event.error, 0, event.reason, event.values);
      events.push(event);
    }
    return events;
  });
}

// Something that is kept with a sentence, however it is found.
export function besideOf<T>(sentence: Sentence, name: string, find: (key: string, leave: AbortSignal) => Promise<T>): Signal<T | null> {
  return keep(sentence, name, find, true);
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
