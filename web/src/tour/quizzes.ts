// One question a stop, answered by the model's real numbers.
import { placesOf, vectorsOf } from "../answers";
import { bare, isSpecial } from "../pieces";
import type { Sentence } from "../recording";
import * as s from "../state";
import type { ModelInfo } from "../types";
import { type Facts, layersWith } from "./facts";
import type { StopName } from "./stops";

export interface Quiz {
  options: string[];
  right: number; // which of them
  values: number[]; // what an explanation says: a share, a place …
}

export const MUCH = 0.2; // of a token's attention

// yes, no: in the language of the page.
export function quizOf(stop: StopName, facts: Facts, yes: string, no: string): Quiz | null {
  const sentence = s.sentence.value!;
  const info = s.model.value!;
  switch (stop) {
    case "vectors":
      return nearest(sentence, facts);
    case "head":
      return facts.self && facts.pair && lookedAt(sentence, facts, "self", facts.side === "encoder" ? facts.pair[1].at : facts.self.row - 1);
    case "heads":
      return facts.self && manyHeads(sentence, info, facts);
    case "masked":
      return seenBefore(facts);
    case "cross":
      return facts.cross && lookedAt(sentence, facts, "cross", facts.made![1].at);
    case "residual":
      return additions(info, facts);
    case "feedforward":
      return sharesOfParameters(info);
    case "output":
      return unsurest(sentence);
    case "beam":
      return isGreedy(sentence, yes, no);
    default:
      return null;
  }
}

// In the order of the alphabet: the right one may stand anywhere.
function asked(right: string, others: string[], values: number[]): Quiz | null {
  const options = [...new Set([right, ...others])].slice(0, 3).sort((one, other) => (one < other ? -1 : 1));
  return options.length < 2 ? null : { options, right: options.indexOf(right), values };
}

function counted(right: number, others: number[], tell: (count: number) => string = String): Quiz | null {
  const counts = [...new Set([right, ...others])].slice(0, 3).sort((one, other) => one - other);
  return counts.length < 2 ? null : { options: counts.map(tell), right: counts.indexOf(right), values: [right] };
}

function nearest(sentence: Sentence, facts: Facts): Quiz | null {
  const neighbours = vectorsOf(sentence).value?.[facts.side]?.neighbours;
  const [one, other] = facts.pair ?? [];
  if (!neighbours || !one || !other) return null;
  const before = facts.side === "encoder" ? 0 : 1;
  const [first] = neighbours[one.at + before] ?? [];
  if (!first) return null;
  const others = [other.at + before, ...neighbours.keys()].flatMap((n) => neighbours[n]?.slice(0, 1).map(([piece]) => bare(piece)) ?? []);
  return asked(bare(first[0]), others, [first[1]]);
}

// Where a row of the same head looks most: against its weakest two.
function lookedAt(sentence: Sentence, facts: Facts, which: "self" | "cross", row: number): Quiz | null {
  const looked = facts[which]!;
  const kind = which === "cross" ? "cross" : facts.side;
  const weights = sentence.weightsOf(kind, looked.layer);
  const columns = kind === "decoder" ? sentence.heard.slice(0, row + 1) : sentence.pieces;
  if (!weights || row < 0) return null;
  const shares = columns.map((_, k) => weights.at(looked.head, row, k));
  const most = shares.indexOf(Math.max(...shares));
  const order = [...columns.keys()].filter((k) => !isSpecial(columns[k]!)).sort((a, b) => shares[a]! - shares[b]!);
  return asked(bare(columns[most]!), order.map((k) => bare(columns[k]!)), [shares[most]!, row]);
}

function manyHeads(sentence: Sentence, info: ModelInfo, facts: Facts): Quiz | null {
  const { row, column } = facts.self!;
  let total = 0;
  let much = 0;
  for (const { weights } of layersWith(sentence, info, facts.side)) {
    for (let head = 0; head < weights.heads; head++) {
      total++;
      if (weights.at(head, row, column) > MUCH) much++;
    }
  }
  const quiz = counted(much, [much + Math.max(2, Math.floor(total / 6)), Math.floor(total / 2), total].filter((n) => n <= total));
  return quiz && { ...quiz, values: [much, total] };
}

function seenBefore(facts: Facts): Quiz | null {
  return counted(facts.place + 1, [facts.place, facts.written.length]);
}

function additions(info: ModelInfo, facts: Facts): Quiz | null {
  const own = info.blocks.filter((one) => new RegExp(`^${facts.side}\\.\\d+\\.(self|cross|feedforward)$`, "u").test(one.name));
  const quiz = counted(own.length, [facts.layers, facts.layers * facts.heads]);
  return quiz && { ...quiz, values: [own.length, facts.layers] };
}

const SPREAD = 25; // percent points between one option and the next

function sharesOfParameters(info: ModelInfo): Quiz | null {
  const of = (sub: RegExp) => info.blocks.filter((one) => sub.test(one.name)).reduce((sum, one) => sum + one.parameters, 0) / info.parameters;
  const share = Math.round(100 * of(/\.feedforward$/u));
  const others = [share + SPREAD, share - SPREAD, share + 2 * SPREAD, share - 2 * SPREAD].filter((one) => one > 0 && one < 100);
  const quiz = counted(share, others, (percent) => `${percent} %`);
  return quiz && { ...quiz, values: [share, Math.round(100 * of(/\.(self|cross)$/u))] };
}

function unsurest(sentence: Sentence): Quiz | null {
  const places = (placesOf(sentence).value?.places ?? []).map((one, n) => ({ n, bits: one.entropy / Math.LN2 })).slice(sentence.forced);
  const order = places.sort((one, other) => other.bits - one.bits);
  if (order.length < 2) return null;
  const label = (n: number) => `${n + 1}: ${bare(sentence.written[n] ?? "")}`;
  const others = [order.at(-1)!, order[Math.floor(order.length / 2)]!];
  return asked(label(order[0]!.n), others.map(({ n }) => label(n)), [order[0]!.bits, order[0]!.n]);
}

function isGreedy(sentence: Sentence, yes: string, no: string): Quiz | null {
  const places = placesOf(sentence).value?.places;
  if (!places) return null;
  const other = places.findIndex((one, n) => n >= sentence.forced && (one.rank ?? 1) > 1);
  const values = other < 0 ? [] : [other, places[other]!.rank!, places[other]!.probability ?? 0];
  return { options: [yes, no], right: other < 0 ? 0 : 1, values };
}
