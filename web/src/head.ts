// One query in one head: everything that leads from what comes in to what goes out.
import { type Matrix, headOf, rowOf } from "./tensors";
import type { Tensor, Tensors } from "./types";

export interface Computed {
  x: Float32Array;
  q: Float32Array;
  keys: Float32Array[];
  values: Float32Array[];
  scores: Float32Array;
  masked: boolean[];
  weights: Float32Array; // empty where a mixer has scores and no weights
  context: Float32Array;
  contexts: Float32Array; // of all heads, side by side
  output: Float32Array;
  dots: Float32Array; // q · k, without the scale
}

// hides: whether there is a mask, behind which weights are exactly 0.
export function computed(tensors: Tensors, head: number, row: number, hides: boolean): Computed | null {
  if (!tensors.q || !tensors.k || !tensors.v || !tensors.scores) return null;
  const heads = tensors.q.shape[0]!;
  const q = rowOf(headOf(tensors.q, head, heads), row);
  const k = headOf(tensors.k, head, heads);
  const keys = rowsOf(k);
  const shares = tensors.weights;
  const weights = shares ? rowOf(headOf(shares, head, heads), row) : new Float32Array();
  const contexts: number[] = [];
  for (let h = 0; shares && h < heads; h++) {
    contexts.push(...sumOf(rowOf(headOf(shares, h, heads), row), headOf(tensors.v, h, heads)));
  }
  const v = headOf(tensors.v, head, heads);
  return {
    x: plainRow(tensors.x, row),
    q,
    keys,
    values: rowsOf(v),
    scores: rowOf(headOf(tensors.scores, head, heads), row),
    masked: Array.from(weights, (weight) => hides && weight === 0),
    weights,
    context: sumOf(weights, v),
    contexts: Float32Array.from(contexts),
    output: plainRow(tensors.output, row),
    dots: Float32Array.from(keys, (key) => key.reduce((sum, value, n) => sum + value * q[n]!, 0)),
  };
}

// A row of a tensor that knows no heads.
function plainRow(tensor: Tensor | undefined, row: number): Float32Array {
  return tensor ? rowOf(headOf({ ...tensor, shape: [1, ...tensor.shape] }, 0, 1), row) : new Float32Array();
}

function rowsOf(matrix: Matrix): Float32Array[] {
  return Array.from({ length: matrix.rows }, (_, n) => rowOf(matrix, n));
}

function sumOf(weights: Float32Array, values: Matrix): Float32Array {
  const sum = new Float32Array(values.columns);
  weights.forEach((weight, j) => rowOf(values, j).forEach((value, n) => (sum[n]! += weight * value)));
  return sum;
}
