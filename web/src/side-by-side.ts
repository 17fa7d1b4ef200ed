// A second model translates what the page's own has translated.
import { signal } from "@preact/signals";
import { Failed } from "./api";
import { type Problem, problemOf } from "./problems";
import { Recording } from "./recording";
import * as s from "./state";
import { eventsOf, loadModel } from "./translate";

export interface Beside {
  key: string;
  made: Recording | null; // null: not there yet
  problem: Problem | null;
}

export const other = signal<Beside | null>(null);
let abort: AbortController | null = null;

// What the other model is to be asked; "": nothing, until the first has ended.
export function keyOf(made: Recording | null): string {
  if (!s.beside.value || !made?.ended || !made.asked || s.running.value) return "";
  return JSON.stringify([s.beside.value, s.pair.value, made.asked, made.wishes]);
}

// With the same settings, one after the other: so their times can be compared. Loading the model does not count.
export async function translateBeside(first: Recording, key: string): Promise<void> {
  if (other.value?.key === key && !other.value.problem) return;
  abort?.abort();
  const mine = (abort = new AbortController());
  other.value = { key, made: null, problem: null };
  const made = new Recording();
  try {
    const info = await loadModel(s.beside.value);
    const began = performance.now();
    for await (const event of eventsOf(info, first.asked, first.wishes, [], mine.signal)) {
      if (event.event === "error") throw new Failed(event.error, 0, event.reason, event.values);
      made.apply(event);
    }
    made.seconds = (performance.now() - began) / 1000;
    if (mine !== abort) return;
    other.value = { key, made, problem: made.ended ? null : problemOf(new Failed("unreachable")) };
    s.announcement.value = `${info.name}: ${made.text}`;
  } catch (error) {
    if (mine === abort) other.value = { key, made: null, problem: problemOf(error) };
  }
}
