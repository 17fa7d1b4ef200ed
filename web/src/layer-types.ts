// What /api/layer tells of one token on its way. docs/serving.md describes it.
import type { Tensor } from "./types";

export type SideName = "encoder" | "decoder";
export type OperationKind = "embedding" | "position" | "norm" | "self" | "cross" | "feedforward" | "add";

export interface Said {
  ids: number[][]; // (tokens, 3)
  pieces: string[][];
  logits: number[][];
  probabilities: number[][];
}

export interface Flow {
  ids: number[]; // of all tokens of the side
  first: number; // the token of the first column
  names: string[];
  kinds: OperationKind[];
  lengths: Tensor; // (operations, tokens)
  starts: Tensor; // (operations, tokens, channels)
  said: Said | null;
}

export interface NormNumbers {
  kind: string;
  eps: number;
  x: Tensor;
  y: Tensor;
  mean: Tensor | null; // (groups,)
  variance: Tensor | null;
  gain: Tensor | null;
  bias: Tensor | null;
}

export interface EmbeddingNumbers {
  token: number;
  scale: number;
  row: Tensor;
  segment: Tensor | null;
  position: Tensor | null;
  norm: NormNumbers | null;
  embedded: Tensor;
}

export interface SublayerNumbers {
  kind: string;
  norm_place: "before" | "after" | "replaces" | "none";
  weight: number;
  stream_before: Tensor;
  input: Tensor;
  output: Tensor;
  sum: Tensor;
  stream: Tensor;
  second_stream: Tensor | null;
  norm: NormNumbers | null;
}

export interface Neurons {
  expert: number | null;
  width: number;
  active: number;
  ids: number[];
  values: number[];
  before: number[] | null;
  gates: number[] | null;
  first: number;
  tokens: (number | null)[][]; // (neurons, tokens)
}

export interface Router {
  first: number;
  probabilities: Tensor; // (tokens, experts)
  chosen: number[][];
  shares: number[][];
}

export type SublayerName = "self" | "cross" | "feedforward";

export interface LayerNumbers {
  layer: { sublayers: Partial<Record<SublayerName, SublayerNumbers>>; neurons: Neurons | null; router: Router | null };
}

export interface NeuronNumbers {
  neuron: { neuron: number; expert: number | null; values: (number | null)[] };
}

export interface OutputNumbers {
  x: Tensor;
  ids: number[];
  pieces: string[];
  rows: Tensor; // (5, d)
  bias: number[] | null;
  logits: number[];
  probabilities: number[];
  expected: number | null;
  temperatures: number[];
  normalisers: number[];
  entropies: number[];
  surprise: number | null;
  mean_surprise: number | null;
}

export interface TokenNumbers {
  embedding: EmbeddingNumbers;
  end: { norm: NormNumbers | null; hidden: Tensor };
  output: OutputNumbers | null;
}

export interface LensStage {
  name: string;
  ids: number[][];
  pieces: string[][];
  probabilities: number[][];
  expected: (number | null)[];
  ranks: number[];
}

export interface Lens {
  first: number;
  stages: LensStage[];
}

export interface Tables {
  stream: { names: string[]; first: number; lengths: Tensor }; // (stages, tokens)
  lens: Lens | null;
}
