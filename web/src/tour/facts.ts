// What the tour says of the sentence that is shown: the model's own numbers, and two words that it follows.
import { placesOf } from "../answers";
import { unsurestPlace } from "../first-look";
import { bare, isSpecial } from "../pieces";
import type { Sentence } from "../recording";
import * as s from "../state";
import type { Weights } from "../tensors";
import type { Kind, ModelInfo } from "../types";

// A token that is followed. row: in the attention map of its side.
export interface Followed {
  piece: string;
  id: number;
  at: number; // among the tokens of the text, or of what was written
}

// One cell of one head, counted from 0.
export interface Looked {
  from: string;
  to: string;
  weight: number;
  layer: number;
  head: number;
  row: number;
  column: number;
}

export interface Facts {
  source: string;
  result: string;
  tokens: { piece: string; id: number }[];
  written: string[];
  vocabulary: number;
  width: number;
  side: "encoder" | "decoder"; // whose self-attention is shown first
  layers: number;
  decoderLayers: number;
  heads: number;
  headWidth: number;
  position: string;
  norm: string;
  isPreNorm: boolean | null; // null: neither before nor after
  feedforward: string;
  hidden: number; // 0: not known
  pair: [Followed, Followed] | null; // the first looks at the second
  self: Looked | null;
  made: [Followed, Followed] | null; // what became of the two
  cross: Looked | null; // from what became of the first to the first
  isForceable: boolean; // whether another word can be chosen
  likely: { after: string; piece: string; probability: number; second: string; secondProbability: number; bits: number } | null;
  beam: { size: number; candidates: number; pruned: number; steps: number };
  place: number; // of the output that is looked at: what became of the first word, or where the model was least sure
  kinds: Kind[];
  looksBack: boolean;
}

const LONG = 3; // letters: shorter words are seldom about anything

export function factsOf(): Facts | null {
  const sentence = s.sentence.value;
  const info = s.model.value;
  if (!sentence?.found || !info) return null;
  const kinds = s.kindsOf(info);
  const side = kinds[0] === "encoder" ? "encoder" : "decoder";
  const stack = info.config[side];
  const followed = kinds.includes("cross") ? followTranslated(sentence, info) : followRead(sentence, info, side);
  const places = placesOf(sentence).value?.places ?? [];
  const place = followed.made?.[0].at ?? unsurestPlace(sentence, places.map((one) => one.entropy));
  const told = places[place];
  const part = s.partOf(info, kinds[0]!, 0) as { heads?: number; d_k?: number };
  const forward = (stack.feedforward[0] ?? { kind: "" }) as { kind: string; hidden?: number };
  const fates = sentence.steps.flatMap((one) => one.beam.fates);
  const isRead = sentence.pieces.length > 0;
  const pieces = isRead ? sentence.pieces : sentence.targetPieces.slice(0, sentence.forced);
  return {
    source: sentence.text,
    result: sentence.result,
    tokens: pieces.map((piece, n) => ({ piece: bare(piece), id: (isRead ? sentence.ids : sentence.target)[n]! })),
    written: sentence.written.map(bare),
    vocabulary: info.config.vocabulary,
    width: info.config.d_model,
    side,
    layers: stack.layers,
    decoderLayers: info.config.decoder.layers,
    heads: part.heads ?? 1,
    headWidth: part.d_k ?? 1,
    position: stack.position[0]?.kind ?? "none",
    norm: info.config.norm.kind,
    isPreNorm: stack.residual.kind === "pre" ? true : stack.residual.kind === "post" ? false : null,
    feedforward: forward.kind,
    hidden: forward.hidden ?? 0,
    ...followed,
    isForceable: info.config.decoder.layers > 0 && !s.writesAtOnce(info),
    likely: told?.pieces[1] === undefined ? null : {
      after: bare(sentence.heard[place] ?? ""),
      piece: bare(told.pieces[0]!),
      probability: told.probabilities[0]!,
      second: bare(told.pieces[1]),
      secondProbability: told.probabilities[1]!,
      bits: told.entropy / Math.LN2,
    },
    beam: {
      size: Math.max(1, ...sentence.steps.map((one) => one.beam.fates.filter((fate) => fate === "runs").length)),
      candidates: fates.length,
      pruned: fates.filter((fate) => fate === "pruned").length,
      steps: sentence.steps.length,
    },
    place,
    kinds,
    looksBack: layersWith(sentence, info, "decoder").length > 0,
  };
}

type Follow = Pick<Facts, "pair" | "self" | "made" | "cross">;
const NOBODY: Follow = { pair: null, self: null, made: null, cross: null };

export function layersWith(sentence: Sentence, info: ModelInfo, kind: Kind): { layer: number; weights: Weights }[] {
  const all = Array.from({ length: s.layersOf(info, kind) }, (_, layer) => ({ layer, weights: sentence.weightsOf(kind, layer) }));
  return all.filter((one): one is { layer: number; weights: Weights } => one.weights !== undefined);
}

// Words of one token each, the longer ones where there are enough of them.
function wordsAmong(pieces: string[]): number[] {
  const isWhole = (n: number) => {
    const next = pieces[n + 1];
    return /\p{L}/u.test(pieces[n]!) && !isSpecial(pieces[n]!) && (next === undefined || !/^\p{L}/u.test(next) || /\p{Script=Han}/u.test(next));
  };
  const isLong = (n: number) => (pieces[n]!.match(/\p{L}/gu)?.length ?? 0) >= LONG || /\p{Script=Han}/u.test(pieces[n]!);
  const whole = [...pieces.keys()].filter(isWhole);
  const long = whole.filter(isLong);
  return long.length > 1 ? long : whole;
}

const together = (layers: { weights: Weights }[], q: number, k: number): number =>
  layers.reduce((sum, { weights }) => sum + weights.mean(q, k), 0);

// The head in which one looks at the other most.
function lookOf(layers: { layer: number; weights: Weights }[], q: number, k: number, from: string, to: string): Looked {
  const best = { from: bare(from), to: bare(to), weight: 0, layer: 0, head: 0, row: q, column: k };
  for (const { layer, weights } of layers) {
    for (let head = 0; head < weights.heads; head++) {
      const weight = weights.at(head, q, k);
      if (weight > best.weight) Object.assign(best, { weight, layer, head });
    }
  }
  return best;
}

// Two words of the text that look at each other, each with the token of the output that looks at it most.
function followTranslated(sentence: Sentence, info: ModelInfo): Follow {
  const encoder = layersWith(sentence, info, "encoder");
  const cross = layersWith(sentence, info, "cross");
  const sources = wordsAmong(sentence.pieces);
  const rows = [...sentence.written.keys()].filter((n) => n >= sentence.forced && /\p{L}/u.test(sentence.written[n]!) && !isSpecial(sentence.written[n]!));
  const found = sources.map((k) => {
    const shares = rows.map((q) => together(cross, q, k));
    const most = Math.max(0, ...shares);
    return { k, q: rows[shares.indexOf(most)] ?? -1, most };
  });
  let best = NOBODY;
  let strongest = 0;
  for (const one of found) {
    for (const other of found) {
      if (one.k === other.k || (one.q === other.q && cross.length)) continue;
      const links = (encoder.length ? together(encoder, one.k, other.k) : 1) * (cross.length ? Math.min(one.most, other.most) : 1);
      if (links <= strongest) continue;
      strongest = links;
      const read = ({ k }: typeof one) => ({ piece: bare(sentence.pieces[k]!), id: sentence.ids[k]!, at: k });
      const wrote = ({ q }: typeof one) => ({ piece: bare(sentence.written[q]!), id: sentence.target[q] ?? -1, at: q });
      best = {
        pair: [read(one), read(other)],
        self: encoder.length ? lookOf(encoder, one.k, other.k, sentence.pieces[one.k]!, sentence.pieces[other.k]!) : null,
        made: cross.length ? [wrote(one), wrote(other)] : null,
        cross: cross.length ? lookOf(cross, one.q, one.k, sentence.written[one.q]!, sentence.pieces[one.k]!) : null,
      };
    }
  }
  return best;
}

// Two words of what a language model reads.
function followRead(sentence: Sentence, info: ModelInfo, side: "encoder" | "decoder"): Follow {
  const layers = layersWith(sentence, info, side);
  const [rows, columns] = side === "encoder" ? [sentence.pieces, sentence.pieces] : [sentence.written, sentence.heard];
  const ids = side === "encoder" ? sentence.ids : sentence.target;
  const before = side === "encoder" ? 0 : 1; // the start mark is heard before the first token
  let best = NOBODY;
  let strongest = 0;
  for (const q of wordsAmong(rows)) {
    for (const k of wordsAmong(columns)) {
      const links = q === k ? 0 : together(layers, q, k);
      if (links <= strongest) continue;
      strongest = links;
      best = {
        ...NOBODY,
        pair: [{ piece: bare(rows[q]!), id: ids[q]!, at: q }, { piece: bare(columns[k]!), id: ids[k - before]!, at: k - before }],
        self: lookOf(layers, q, k, rows[q]!, columns[k]!),
      };
    }
  }
  return best;
}
