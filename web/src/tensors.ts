// Tensors as they travel: base64 of little-endian numbers, which is what every machine with a browser has.
import type { Tensor } from "./types";

function bytesOf(text: string): ArrayBuffer {
  const plain = atob(text);
  const bytes = new Uint8Array(plain.length);
  for (let n = 0; n < plain.length; n++) bytes[n] = plain.charCodeAt(n);
  return bytes.buffer;
}

export function numbersOf(tensor: Tensor): Float32Array {
  if (tensor.dtype === "float32") return new Float32Array(bytesOf(tensor.data));
  const whole = new Uint16Array(bytesOf(tensor.data));
  return Float32Array.from(whole, (n) => n / 65535);
}

// Weights (heads, queries, keys) that grow by rows; a row of a decoder may know fewer keys than later ones.
export class Weights {
  heads = 0;
  private rows: { keys: number; values: Float32Array }[] = []; // values (heads, keys)

  get queries(): number {
    return this.rows.length;
  }

  // New rows from `first` on take the place of what was there.
  put(first: number, tensor: Tensor): void {
    const [heads, count, keys] = tensor.shape as [number, number, number];
    const numbers = numbersOf(tensor);
    this.heads = heads;
    this.rows.length = Math.min(this.rows.length, first);
    for (let r = 0; r < count; r++) {
      const values = new Float32Array(heads * keys);
      for (let h = 0; h < heads; h++) {
        const from = (h * count + r) * keys;
        values.set(numbers.subarray(from, from + keys), h * keys);
      }
      this.rows.push({ keys, values });
    }
  }

  at(head: number, query: number, key: number): number {
    const row = this.rows[query];
    return row === undefined || key >= row.keys ? 0 : row.values[head * row.keys + key]!;
  }

  // What at() says of all keys that it knows.
  row(head: number, query: number): Float32Array {
    const { keys, values } = this.rows[query] ?? { keys: 0, values: new Float32Array(0) };
    return values.subarray(head * keys, (head + 1) * keys);
  }

  mean(query: number, key: number): number {
    let sum = 0;
    for (let h = 0; h < this.heads; h++) sum += this.at(h, query, key);
    return sum / this.heads;
  }
}

export interface Matrix {
  rows: number;
  columns: number;
  values: Float32Array;
}

// One head of (heads, rows, columns); keys and values may have fewer heads, each of which serves several queries'.
export function headOf(tensor: Tensor, head: number, heads: number): Matrix {
  const [groups, rows, columns] = tensor.shape as [number, number, number];
  const group = Math.floor((head * groups) / heads);
  const values = numbersOf(tensor).subarray(group * rows * columns, (group + 1) * rows * columns);
  return { rows, columns, values };
}

export function rowOf(matrix: Matrix, row: number): Float32Array {
  return matrix.values.subarray(row * matrix.columns, (row + 1) * matrix.columns);
}
