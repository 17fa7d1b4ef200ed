// What the tour says of the sentence that is shown: the model's own numbers.
import { placesOf } from "./answers";
import { unsurestPlace } from "./first-look";
import { bare, isSpecial } from "./pieces";
import type { Sentence } from "./recording";
import * as s from "./state";
import type { Kind, ModelInfo } from "./types";
import type { TourFacts } from "./words/en";

interface Looked {
  from: string;
  to: string;
  weight: number;
  layer: number;
  head: number;
  row: number;
  column: number;
}

const NOBODY: Looked = { from: "", to: "", weight: 0, layer: 1, head: 1, row: 0, column: 0 };

export type Facts = TourFacts & { self: Looked; cross: Looked; place: number; kinds: Kind[]; looksBack: boolean };

export function factsOf(): Facts | null {
  const sentence = s.sentence.value;
  const info = s.model.value;
  if (!sentence?.found || !info) return null;
  const places = placesOf(sentence).value?.places ?? [];
  const place = unsurestPlace(sentence, places.map((one) => one.entropy));
  const told = places[place];
  const kinds = s.kindsOf(info);
  const part = s.partOf(info, kinds[0]!, 0) as { heads?: number; d_k?: number };
  const stack = info.config.encoder.layers ? info.config.encoder : info.config.decoder;
  const fates = sentence.steps.flatMap((one) => one.beam.fates);
  return {
    source: sentence.text,
    result: sentence.result,
    tokens: (sentence.pieces.length ? sentence.pieces : sentence.targetPieces.slice(0, sentence.forced)).map(bare),
    written: sentence.written.map(bare),
    vocabulary: info.config.vocabulary,
    width: info.config.d_model,
    encoderLayers: stack.layers,
    decoderLayers: info.config.decoder.layers,
    heads: part.heads ?? 1,
    headWidth: part.d_k ?? 1,
    position: stack.position[0]?.kind ?? "",
    self: strongest(sentence, info, kinds[0]!),
    cross: kinds.includes("cross") ? strongest(sentence, info, "cross") : NOBODY,
    isForceable: info.kind === "translation",
    likely: told?.pieces[1] === undefined ? null : {
      piece: bare(told.pieces[0]!),
      probability: told.probabilities[0]!,
      second: bare(told.pieces[1]),
      secondProbability: told.probabilities[1]!,
      entropy: told.entropy,
    },
    beam: {
      size: Math.max(1, ...sentence.steps.map((one) => one.beam.fates.filter((fate) => fate === "runs").length)),
      candidates: fates.length,
      pruned: fates.filter((fate) => fate === "pruned").length,
      steps: sentence.steps.length,
    },
    place,
    kinds,
    looksBack: Array.from({ length: s.layersOf(info, "decoder") }, (_, n) => sentence.weightsOf("decoder", n)).some(Boolean),
  };
}

// Who looks at whom most, over all heads: one head alone may look beside it. Of these two words the head that shows it
// best; marks are left out.
function strongest(sentence: Sentence, info: ModelInfo, kind: Kind): Looked {
  const rows = kind === "encoder" ? sentence.pieces : sentence.written;
  const columns = kind === "decoder" ? sentence.heard : sentence.pieces;
  const best = { ...NOBODY };
  const isWord = (piece: string) => !isSpecial(piece) && /\p{L}/u.test(piece);
  const layers = Array.from({ length: s.layersOf(info, kind) }, (_, layer) => ({ layer, weights: sentence.weightsOf(kind, layer) }));
  let most = 0;
  rows.forEach((row, q) =>
    columns.forEach((column, k) => {
      if (!isWord(row) || !isWord(column) || (kind !== "cross" && q === k)) return;
      const together = layers.reduce((sum, { weights }) => sum + (weights?.mean(q, k) ?? 0), 0);
      if (together <= most) return;
      most = together;
      Object.assign(best, { from: bare(row), to: bare(column), weight: 0, row: q, column: k });
      for (const { layer, weights } of layers) {
        for (let head = 0; head < (weights?.heads ?? 0); head++) {
          const weight = weights!.at(head, q, k);
          if (weight > best.weight) Object.assign(best, { weight, layer: layer + 1, head: head + 1 });
        }
      }
    }),
  );
  return best;
}
