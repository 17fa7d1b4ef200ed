// What is looked at first, until somebody chooses: the head that shows most, and the step where the model was least sure.
import { effect } from "@preact/signals";
import { placesOf } from "./answers";
import { isSpecial } from "./pieces";
import type { Sentence } from "./recording";
import * as s from "./state";
import type { Weights } from "./tensors";
import type { Kind, ModelInfo } from "./types";

const seen = () => [s.kind.value, s.layer.value, s.head.value].join(" ");
let offered: string | null = null; // null: somebody has chosen

// Of an address that names no head.
export function offerChoice(): void {
  offered = seen();
}

// After a translation; who has chosen a head keeps it.
export function lookFirst(): void {
  const sentence = s.recording.value?.sentences[0];
  if (!sentence || !s.model.value || seen() !== offered) return;
  const found = tellingHead(sentence, s.model.value, s.kind.value);
  if (found) [s.layer.value, s.head.value] = [found.layer, found.head];
  offered = seen();
}

// The head in which most columns are looked at sharply by some row: one that always looks at the same place, or
// everywhere a little, tells less. What a place sees of itself does not count, nor do the marks at the ends.
export function tellingHead(sentence: Sentence, info: ModelInfo, kind: Kind): { layer: number; head: number } | null {
  const pieces = kind === "encoder" ? sentence.pieces : sentence.written;
  const keys = kind === "decoder" || kind === "query" ? sentence.heard : sentence.pieces;
  const rows = [...pieces.keys()].filter((n) => !isSpecial(pieces[n]!));
  const columns = [...keys.keys()].filter((n) => !isSpecial(keys[n]!));
  let best: { layer: number; head: number } | null = null;
  let most = 0;
  for (let layer = 0; layer < s.layersOf(info, kind); layer++) {
    const weights = sentence.weightsOf(kind, layer);
    for (let head = 0; head < (weights?.heads ?? 0); head++) {
      const told = columns.reduce((sum, k) => sum + sharpest(weights!, head, rows, k, kind), 0);
      if (told > most) [most, best] = [told, { layer, head }];
    }
  }
  return best;
}

function sharpest(weights: Weights, head: number, rows: number[], k: number, kind: Kind): number {
  return Math.max(0, ...rows.map((q) => (kind !== "cross" && q === k ? 0 : weights.at(head, q, k))));
}

// Of what the model wrote itself, not of a prompt.
export function unsurestPlace(sentence: Sentence, entropies: number[]): number {
  const own = entropies.map((entropy, n) => (n < sentence.forced ? -1 : entropy));
  return own.indexOf(Math.max(...own));
}

export function keepFirstStep(): void {
  effect(() => {
    s.beat.value; // whether it is found is no signal
    const sentence = s.sentence.value;
    const places = sentence?.found && sentence.hasDecoder ? placesOf(sentence).value?.places : undefined;
    s.unsurestStep.value = places?.length ? unsurestPlace(sentence!, places.map((one) => one.entropy)) + 1 : 0;
  });
}
