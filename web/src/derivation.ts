// How one number came about: numbers that are added up, and what is done to their sum.
import { type Head, type Name, holds, inputOf, maskedOf, meanOf, numbered, stagesOf, symbolOf, vectorOf } from "./head";
import { numbersOf } from "./tensors";
import type { Column } from "./types";

export interface Derivation {
  symbol: string;
  facts: [name: string, value: number][]; // that the terms are made of
  columns: string[]; // of each term, in TeX: its factors, and their product, which is what is added up
  terms: { label: string; numbers: number[] }[];
  after: Operation[];
  value: number; // as the model has it
}

// "share": this number divided by what was found so far.
export interface Operation {
  sign: "+" | "×" | "share" | "silu";
  name: string;
  value: number;
}

export interface Labels {
  keys: string[];
}

const OF_QUERY: Name[] = ["unnormed_q", "unrotated_q", "q", "scores", "weights", "context", "gate", "joined", "output"];

// Whether it has a row for each query, so that it is asked about the query that is shown.
export function isOfQuery(name: Name): boolean {
  return OF_QUERY.includes(name);
}

// The letter of the matrix whose column is needed; "": none. null: how this number is made is not known.
export function matrixOf(head: Head, name: Name): string | null {
  const letter = name === "output" ? "o" : name === "gate" ? "g" : name.at(-1)!;
  if (name === "output") return holds(head, "output") ? "o" : null;
  if (name === "gate") return holds(head, "g") ? "g" : null;
  if (name === "v") return holds(head, "v") ? "v" : null;
  if (/^(un\w+_)?[qk]$/u.test(name)) {
    const at = stagesOf(head, letter).indexOf(name);
    if (at === 0) return holds(head, letter) ? letter : null;
    const before = stagesOf(head, letter)[at - 1]!;
    return holds(head, before.startsWith("unnormed") ? "qk_norm" : "rotation") ? "" : null;
  }
  const needed: Partial<Record<Name, string[]>> = {
    input: ["norm"],
    scores: ["product", "decay"],
    weights: ["softmax"],
    context: ["sum"],
    joined: ["concat", "gated", "normed"],
  };
  return needed[name]?.some((equation) => holds(head, equation)) ? "" : null;
}

export function derive(head: Head, name: Name, row: number, channel: number, labels: Labels, column: Column | null): Derivation | null {
  const letter = matrixOf(head, name);
  if (letter === null || (letter && !column)) return null;
  const common = { symbol: numbered(symbolOf(head, name), channel), value: vectorOf(head, name, row)[channel]! };
  const made = letter ? productWithColumn(head, name, letter, row, column!) : makeOf(head, name, row, channel, labels);
  return made && { ...common, ...made };
}

function makeOf(head: Head, name: Name, row: number, channel: number, labels: Labels): Made | null {
  if (name === "input") return normOf(head, "x", "norm", row, channel);
  if (name === "scores") return scoreOf(head, row, channel);
  if (name === "weights") return shareOf(head, row, channel, labels);
  if (name === "context") return sumOf(head, row, channel, labels);
  if (name === "joined") return joinedOf(head, row, channel);
  const stages = stagesOf(head, name.at(-1)!);
  const before = stages[stages.indexOf(name) - 1]!;
  if (before.startsWith("unnormed")) return normOf(head, before, `${name.at(-1)}_norm`, row, channel);
  return turnOf(head, before, name, row, channel);
}

const PRODUCT = "×";
type Made = Pick<Derivation, "facts" | "columns" | "terms" | "after">;

function productWithColumn(head: Head, name: Name, letter: string, row: number, { column, bias }: Column): Made {
  const input = inputOf(head, letter);
  const weights = numbersOf(column);
  const after: Operation[] = head.about.biased.includes(letter) ? [{ sign: "+", name: `b^${letter.toUpperCase()}`, value: bias }] : [];
  if (name === "k" && head.about.key_scale !== 1) after.push({ sign: "×", name: "1/√d_k", value: head.about.key_scale });
  if (name === "gate") after.push({ sign: "silu", name: '"SiLU"', value: 0 });
  return {
    facts: [],
    columns: [symbolOf(head, input), `W^${letter.toUpperCase()}`, PRODUCT],
    terms: Array.from(vectorOf(head, input, row), (value, i) => term(String(i + 1), value, weights[i]!)),
    after,
  };
}

function normOf(head: Head, before: Name, norm: string, row: number, channel: number): Made {
  const x = vectorOf(head, before, row);
  const eps = epsOf(head, norm);
  const isCentred = kindOf(head, norm) === "layernorm";
  const { centre, variance, divisor } = spreadOf(x, kindOf(head, norm), eps);
  const gain = vectorOf(head, `${norm}_gain` as Name);
  const bias = vectorOf(head, `${norm}_bias` as Name);
  const own = gain.length ? [gain[channel]!] : [];
  const symbol = symbolOf(head, before);
  const facts: Made["facts"] = isCentred ? [["μ", centre], ["σ²", variance], ["ε", eps]] : [["σ²", variance], ["ε", eps]];
  return {
    facts,
    columns: [isCentred ? `${symbol}−μ` : symbol, "1/√{σ^2+ε}", ...own.map(() => "g"), PRODUCT],
    terms: [term(String(channel + 1), x[channel]! - centre, 1 / divisor, ...own)],
    after: bias.length ? [{ sign: "+", name: "b", value: bias[channel]! }] : [],
  };
}

export function kindOf(head: Head, norm: string): string {
  const { about } = head;
  return norm === "norm" ? about.norm : norm === "output_norm" ? about.output_norm : about.qk_norm;
}

function epsOf(head: Head, norm: string): number {
  const { about } = head;
  return norm === "norm" ? about.norm_eps : norm === "output_norm" ? about.output_norm_eps : about.qk_norm_eps;
}

// What a norm takes off every number, and what it divides them by.
export function spreadOf(x: Float32Array, kind: string, eps: number): { centre: number; variance: number; divisor: number } {
  const centre = kind === "layernorm" ? meanOf(x) : 0;
  const variance = meanOf(x, (value) => (value - centre) ** 2);
  return { centre, variance, divisor: Math.sqrt(variance + eps) };
}

function turnOf(head: Head, before: Name, name: Name, row: number, channel: number): Made {
  const x = vectorOf(head, before, row);
  const rates = vectorOf(head, "rotation_rates");
  const inHalves = head.about.layout === "halves";
  const pair = inHalves ? channel % rates.length : Math.floor(channel / 2);
  const isFirst = inHalves ? channel < rates.length : channel % 2 === 0;
  const [first, second] = inHalves ? [pair, pair + rates.length] : [2 * pair, 2 * pair + 1];
  const angle = row * rates[pair]!;
  const amplitude = vectorOf(head, "rotation_amplitude")[0] ?? 1;
  const [cos, sin] = [amplitude * Math.cos(angle), amplitude * Math.sin(angle)];
  const terms = isFirst
    ? [term(String(first + 1), x[first]!, cos), term(String(second + 1), x[second]!, -sin)]
    : [term(String(second + 1), x[second]!, cos), term(String(first + 1), x[first]!, sin)];
  const scaled = name === "k" && head.about.key_scale !== 1;
  const facts: Made["facts"] = [["p", row], [numbered("ω", pair), rates[pair]!], ["θ", angle]];
  if (amplitude !== 1) facts.push(["A", amplitude]);
  return {
    facts,
    columns: [symbolOf(head, before), `${amplitude === 1 ? "" : "A "}("cos"θ, ${isFirst ? "−" : ""}"sin"θ)`, PRODUCT],
    terms,
    after: scaled ? [{ sign: "×", name: "1/√d_k", value: head.about.key_scale }] : [],
  };
}

function scoreOf(head: Head, row: number, key: number): Made {
  const k = vectorOf(head, "k", key);
  const after: Operation[] = [];
  if (holds(head, "decay")) {
    const decay = head.of.decay!.values;
    let faded = key > row ? 0 : 1;
    for (let n = key + 1; n <= row; n++) faded *= decay[n]!;
    after.push({ sign: "×", name: "∏ γ", value: faded });
  } else {
    if (head.about.scale !== 1) after.push({ sign: "×", name: isUsual(head) ? `1/√${k.length}` : "", value: head.about.scale });
    if (head.of.score_bias) after.push({ sign: "+", name: "β", value: vectorOf(head, "score_bias", row)[key]! });
  }
  return { facts: [], columns: ["q", "k", PRODUCT], terms: Array.from(vectorOf(head, "q", row), (value, n) => term(String(n + 1), value, k[n]!)), after };
}

export function isUsual(head: Head): boolean {
  return Math.abs(head.about.scale - (head.of.q?.columns ?? 1) ** -0.5) < 1e-6;
}

function shareOf(head: Head, row: number, key: number, labels: Labels): Made {
  const masked = maskedOf(head, row);
  const scores = vectorOf(head, "scores", row);
  const shift = scores.reduce((most, score, j) => (masked[j] ? most : Math.max(most, score)), -Infinity);
  const power = (j: number) => (masked[j] ? 0 : Math.exp(scores[j]! - shift));
  return {
    facts: [["m", shift]],
    columns: ["s", "e^{s−m}"],
    terms: Array.from(scores, (score, j) => ({ label: labels.keys[j] ?? String(j + 1), numbers: [masked[j] ? -Infinity : score, power(j)] })),
    after: [{ sign: "share", name: `e^{s_{${key + 1}}−m}`, value: power(key) }],
  };
}

function sumOf(head: Head, row: number, channel: number, labels: Labels): Made {
  const by = head.of.weights ? "weights" : "scores";
  const shares = vectorOf(head, by, row);
  const bias = vectorOf(head, "value_bias", row);
  return {
    facts: [],
    columns: [symbolOf(head, by), `v_{${channel + 1}}`, PRODUCT],
    terms: Array.from(shares, (share, j) => term(labels.keys[j] ?? String(j + 1), share, vectorOf(head, "v", j)[channel]!)),
    after: bias.length ? [{ sign: "+", name: "r", value: bias[channel]! }] : [],
  };
}

// Of this head: what other heads have heard is not among its numbers, unless a norm needs them.
function joinedOf(head: Head, row: number, channel: number): Made | null {
  if (holds(head, "normed")) return normOf(head, "contexts", "output_norm", row, channel);
  const c = vectorOf(head, "context", row);
  const own = channel - head.number * c.length;
  if (own < 0 || own >= c.length) return null;
  if (holds(head, "concat")) return { facts: [], columns: ["c"], terms: [term(String(own + 1), c[own]!)], after: [] };
  const { variance, divisor } = spreadOf(c, "rmsnorm", head.about.gate_eps);
  const factors = [c[own]!, 1 / divisor, vectorOf(head, "gate", row)[channel]!];
  const facts: Made["facts"] = [["σ²", variance], ["ε", head.about.gate_eps]];
  return { facts, columns: ["c", "1/√{σ^2+ε}", "u", PRODUCT], terms: [term(String(own + 1), ...factors)], after: [] };
}

// What the operations make of the sum.
export function resultOf({ terms, after }: Derivation): { sum: number; result: number } {
  const sum = terms.reduce((total, { numbers }) => total + numbers.at(-1)!, 0);
  const apply = (found: number, { sign, value }: Operation) =>
    sign === "+" ? found + value : sign === "×" ? found * value : sign === "share" ? value / found : found / (1 + Math.exp(-found));
  return { sum, result: after.reduce(apply, sum) };
}

function term(label: string, ...factors: number[]): Derivation["terms"][number] {
  return { label, numbers: factors.length > 1 ? [...factors, factors.reduce((product, factor) => product * factor, 1)] : factors };
}
