// One head of a sub-layer: its numbers as matrices with a row a token, and what they are called. Which equations hold
// between them the server has checked on these numbers.
import { subscript } from "./format";
import { type Matrix, headOf, numbersOf, rowOf } from "./tensors";
import type { Sublayer, SublayerFacts, Tensor } from "./types";

export const PER_HEAD = ["unnormed_q", "unrotated_q", "q", "unnormed_k", "unrotated_k", "k", "v", "score_bias", "scores", "weights", "value_bias"] as const;
export const PLAIN = ["x", "input", "source", "gate", "joined", "output"] as const;
export const FLAT = [
  "norm_gain",
  "norm_bias",
  "q_norm_gain",
  "q_norm_bias",
  "k_norm_gain",
  "k_norm_bias",
  "output_norm_gain",
  "output_norm_bias",
  "rotation_rates",
  "rotation_amplitude",
] as const;
export type Name = (typeof PER_HEAD)[number] | (typeof PLAIN)[number] | (typeof FLAT)[number] | "decay" | "context" | "contexts";

const UNDERFLOW = 80; // a score so far below the highest has a weight of 0 in float32, without any mask

export interface Head {
  about: SublayerFacts;
  number: number;
  groups: number; // of heads that share their keys and values
  group: number;
  hides: boolean; // whether there is a mask, behind which weights are exactly 0
  of: Partial<Record<Name, Matrix>>;
}

export function readHead(told: Sublayer, number: number, hides: boolean): Head {
  const { about } = told;
  const of: Head["of"] = {};
  const tensor = (name: string) => told[name] as Tensor | undefined;
  for (const name of [...PER_HEAD, "decay"] as const) {
    const found = tensor(name);
    // (H, T, D) or, of decays, (H, T)
    if (found) of[name] = headOf(found.shape.length === 2 ? { ...found, shape: [...found.shape, 1] } : found, number, about.heads);
  }
  for (const name of PLAIN) {
    const found = tensor(name);
    if (found) of[name] = { rows: found.shape[0]!, columns: found.shape[1]!, values: numbersOf(found) };
  }
  for (const name of FLAT) {
    const found = tensor(name);
    if (found) of[name] = { rows: 1, columns: found.shape[0]!, values: numbersOf(found) };
  }
  if (about.equations.includes("sum")) of.context = sumsOf(of);
  if (about.equations.includes("normed")) of.contexts = allSumsOf(told, of.context!);
  const groups = tensor("k")?.shape[0] ?? about.heads;
  return { about, number, groups, group: Math.floor((number * groups) / about.heads), hides, of };
}

// Σ weight · v, or, where a mixer has scores and no weights, Σ score · v; and what positions add.
function sumsOf(of: Head["of"]): Matrix {
  const shares = (of.weights ?? of.scores)!;
  const v = of.v!;
  const values = new Float32Array(shares.rows * v.columns);
  const sum = new Float64Array(v.columns);
  for (let row = 0; row < shares.rows; row++) {
    sum.set(of.value_bias ? rowOf(of.value_bias, row) : new Float64Array(v.columns));
    for (let j = 0; j < v.rows; j++) {
      const share = shares.values[row * shares.columns + j]!;
      if (share) for (let n = 0; n < v.columns; n++) sum[n]! += share * v.values[j * v.columns + n]!;
    }
    values.set(sum, row * v.columns);
  }
  return { rows: shares.rows, columns: v.columns, values };
}

// Of all heads, side by side.
function allSumsOf(told: Sublayer, one: Matrix): Matrix {
  const { heads } = told.about;
  const values = new Float32Array(one.rows * heads * one.columns);
  for (let head = 0; head < heads; head++) {
    const of: Head["of"] = {};
    for (const name of ["weights", "v", "value_bias"] as const) if (told[name]) of[name] = headOf(told[name] as Tensor, head, heads);
    const sums = sumsOf(of);
    for (let row = 0; row < one.rows; row++) values.set(rowOf(sums, row), (row * heads + head) * one.columns);
  }
  return { rows: one.rows, columns: heads * one.columns, values };
}

export function holds(head: Head, equation: string): boolean {
  return head.about.equations.includes(equation);
}

export function vectorOf(head: Head, name: Name, row = 0): Float32Array {
  const found = head.of[name];
  return found && row < found.rows ? rowOf(found, row) : new Float32Array();
}

// What q or k was before its norm and before its rotation, as far as there are any, and what it is.
export function stagesOf(head: Head, letter: string): Name[] {
  return ([`unnormed_${letter}`, `unrotated_${letter}`, letter] as Name[]).filter((name) => head.of[name]);
}

// What a matrix is multiplied with.
export function inputOf(head: Head, letter: string): Name {
  if (letter === "o") return "joined";
  if ((letter === "k" || letter === "v") && head.of.source) return "source";
  return head.of.input ? "input" : "x";
}

const SYMBOLS: Partial<Record<Name, string>> = {
  input: "x̂",
  source: "h",
  score_bias: "β",
  scores: "s",
  weights: "a",
  value_bias: "r",
  context: "c",
  contexts: "c",
  decay: "γ",
  gate: "u",
  joined: "z",
  output: "o",
  rotation_rates: "ω",
  rotation_amplitude: "A",
};

export function symbolOf(head: Head, name: Name): string {
  const letter = name.at(-1)!;
  const stages = "qk".includes(letter) && /^(un\w+_)?[qk]$/u.test(name) ? stagesOf(head, letter) : [];
  const after = stages.length - 1 - stages.indexOf(name);
  if (stages.length) return letter + (after === 0 ? "" : stages.indexOf(name) === 0 ? "°" : "′");
  return SYMBOLS[name] ?? (name.endsWith("_gain") ? "g" : name.endsWith("_bias") ? "b" : name);
}

// q₃: the third number of q.
export function numbered(symbol: string, channel: number): string {
  return symbol + subscript(channel + 1);
}

// Which keys this query may not look at.
export function maskedOf(head: Head, row: number): boolean[] {
  const weights = vectorOf(head, "weights", row);
  const scores = vectorOf(head, "scores", row);
  let highest = -Infinity;
  weights.forEach((weight, j) => weight > 0 && (highest = Math.max(highest, scores[j] ?? 0)));
  return Array.from(weights, (weight, j) => head.hides && weight === 0 && !((scores[j] ?? 0) < highest - UNDERFLOW));
}

export function meanOf(values: Float32Array, by: (value: number) => number = (value) => value): number {
  return values.reduce((sum, value) => sum + by(value), 0) / values.length;
}
