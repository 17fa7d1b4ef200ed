// What the server tells. docs/serving.md describes it.

export interface Tensor {
  shape: number[];
  dtype: "uint16" | "float32";
  data: string;
}

export type Tensors = Record<string, Tensor>;

// One sub-layer: its tensors by name, and which equations lead from one to the next (headway/inspect/sublayers.py).
export interface Sublayer {
  about: SublayerFacts;
  [name: string]: Tensor | SublayerFacts;
}

type NormKind = "" | "none" | "layernorm" | "rmsnorm" | string;

export interface SublayerFacts {
  kind: string; // of the mixer
  norm: NormKind;
  norm_eps: number;
  qk_norm: NormKind;
  qk_norm_eps: number;
  output_norm: NormKind;
  output_norm_eps: number;
  scale: number;
  key_scale: number;
  position: string;
  layout: "interleaved" | "halves";
  gate_eps: number;
  biased: string[]; // letters of the matrices that have a bias
  equations: string[];
  rounds: boolean; // whether a matrix computes with rounded numbers
  heads: number;
  head: number | null;
}

// The weights that lead to one number.
export interface Column {
  column: Tensor;
  bias: number;
}

export interface Beam {
  parents: number[];
  ids: number[];
  pieces: string[];
  logps: (number | null)[];
  fates: Fate[];
}

export type Fate = "runs" | "ends" | "cut" | "pruned" | "forced";

export interface Likely {
  ids: number[];
  pieces: string[];
  probabilities: number[];
}

export interface Place extends Likely {
  entropy: number;
  chosen: number | null;
  probability: number | null;
  rank: number | null;
}

export interface Places {
  temperature: number;
  places: Place[];
}

export type StreamEvent =
  | { event: "start"; model: string; kind?: Objective; penalty?: Penalty; pivot?: string }
  | { event: "pivot"; model: string; source: string; target: string; text: string; warnings: string[] }
  | { event: "sentence"; sentence: number; sentences: number; text: string; ids: number[]; pieces: string[]; tensors: Tensors; forced?: number; forced_logps?: number[]; expected?: Tokens; second?: number }
  | ({ event: "step"; step: number; beam: Beam } & Partial<Rows>)
  | { event: "again"; search: number }
  | ({ event: "found"; text: string; score: number; finished?: boolean; prediction?: Prediction; input?: Tokens; iterations?: Iteration[] } & Rows)
  | { event: "end"; text: string; warnings: string[] }
  | { event: "error"; error: string; reason?: string; values?: Record<string, string | number> };

export interface Tokens {
  ids: number[];
  pieces: string[];
}

// What an encoder says of a text (headway/inspect/encoder_input.py).
export interface Prediction {
  labels?: [label: string, probability: number][]; // best first
  words?: [word: string, tag: string, probability: number][];
  first_tokens?: number[]; // of each word
  score?: number;
  low?: number; // the lowest score, and the highest
  high?: number;
  follows?: number; // the probability that the second text follows the first
  texts?: string[]; // whose vectors are compared
  similarity?: number[][]; // cosines
}

// One pass of a decoder that writes all tokens at once: what it read, with masks, and what it made of it.
export interface Iteration {
  read: number[];
  read_pieces: string[];
  ids: number[];
  pieces: string[];
  logps: number[];
}

// The likeliest output so far, and the rows of the target that are new.
export interface Rows {
  ids: number[];
  pieces: string[];
  first: number;
  tensors: Tensors;
  entropy?: number;
  top?: Likely;
}

// How lengths count, and how much.
export type Penalty = [string, number];

export type Objective = "translation" | "denoising" | "causal" | "masked" | "classify" | "tag" | "match" | "embed";

export interface ModelName {
  name: string;
  kind: Objective;
  pairs: [string, string][]; // all of them, unless they are many
  pivots?: [source: string, pivot: string, target: string][]; // behind another model
  sources: string[];
  targets: string[];
  loaded: boolean;
  checkpoints?: CheckpointName[]; // of its training, oldest first
}

export interface CheckpointName {
  name: string;
  step: number;
  loss: number | null;
}

export interface Part {
  kind: string;
  [setting: string]: unknown;
}

export interface StackConfig {
  layers: number;
  position: Part[];
  mask: Part[];
  mixer: Part[];
  cross?: Part[] | null;
  feedforward: Part[];
  residual: Part;
  distinct_layers?: number | null; // fewer than layers: weights are shared
  streams?: number | null; // 2: XLNet's, of content and of queries
}

export interface ModelConfig {
  d_model: number;
  vocabulary: number;
  source_vocabulary: number;
  norm: Part;
  linear: Part;
  embedding: { tied: string };
  encoder: StackConfig;
  decoder: StackConfig;
  head: Part;
  predicted_length?: number | null; // of an output that is written all at once
}

export interface Block {
  name: string;
  kind: string;
  parameters: number;
  flops: number;
  applies_to?: "" | "nothing" | "input" | "qk" | "scores"; // of positions
  cached_per_token?: number; // numbers that decoding keeps for each token,
  cached_per_text?: number; // and however long the text is
}

export interface ModelInfo extends ModelName {
  config: ModelConfig;
  parameters: number;
  flops: number;
  lengths: [number, number];
  blocks: Block[];
  beam_size: number;
  penalty: Penalty;
  longest: number;
  label_smoothing?: number; // of its training, where that is known
  recorded: [name: string, path: string, body: object][]; // what a page that is saved asks about each sentence
}

export interface PositionTable {
  kind: string;
  rows: string;
  columns: string;
  values: (number | null)[][]; // null: masked
}

export interface SideVectors {
  stages: string[];
  places: [number, number][][];
  neighbours: [string, number][][];
  positions: PositionTable[] | null; // null: not known here
}

export type Vectors = Partial<Record<"encoder" | "decoder", SideVectors>>;

export interface StudyName {
  name: string;
  title: string;
  variants: number;
}

export interface Measure {
  mean: number | null; // null: not finite
  spread: number | null;
}

export interface CurvePoint {
  step: number | null;
  seconds: number | null;
  loss: number | null;
}

export interface LengthPoint {
  length: number;
  seconds: number | null;
  bytes: number | null;
  loss: number | null;
  refused: string;
}

export interface StudyModel {
  seed: number;
  name: string;
}

// One variant of a study.
export interface StudyRow {
  name: string;
  status: "finished" | "refused" | "failed" | "open";
  reason: string;
  parameters: number | null;
  how: string;
  measures: Record<string, Measure>;
  p_value: number | null;
  seeds: number[]; // that finished
  curves: CurvePoint[][]; // of each seed
  lengths: LengthPoint[];
  loss_by_length: LengthPoint[];
  models: StudyModel[];
}

export interface Study {
  name: string;
  title: string;
  budget: string;
  rows: StudyRow[];
}

// query: the second stream of XLNet's decoder, which predicts; its decoder is the first, which reads.
export type Kind = "encoder" | "decoder" | "cross" | "query";

// On which words of the input each token of an output depends: (rows, columns).
export interface Attributed {
  rows: string[];
  columns: string[];
  units: "words" | "tokens";
  logps: number[];
  gradient: (number | null)[][];
  left_out: (number | null)[][];
  attention: (number | null)[][] | null;
  aligned: boolean[][] | null;
  strongest: Record<"gradient" | "left_out" | "attention", (number | null)[]>;
  disagreements: number[];
}

export interface ScoredToken {
  id: number;
  piece: string;
  logp: number;
  counts: boolean; // false: it only names the language
  rank: number;
  best: { ids: number[]; pieces: string[]; logps: number[] };
}

// How likely an output is.
export interface Scored {
  read: { ids: number[]; pieces: string[] };
  written: { ids: number[]; pieces: string[] };
  finished: boolean;
  tokens: ScoredToken[];
  logp: number | null; // null: this model writes nothing
  score: number | null;
  tensors: Tensors;
}
