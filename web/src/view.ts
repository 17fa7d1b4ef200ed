// A head's weights as they are drawn: rows and columns may be words, and the marks at the ends may be left out.
import { type Group, isSpecial, tokensOf, wordsOf } from "./pieces";
import type { Sentence } from "./recording";
import type { Weights } from "./tensors";
import type { Kind } from "./types";

export const MASKED = -1;

export interface View {
  rows: Group[];
  columns: Group[];
  values: Float32Array; // (rows, columns); MASKED where looking is not allowed
}

export interface Options {
  step: number; // rows of the decoder that are shown
  asWords: boolean;
  hideSpecials: boolean;
}

export function sidesOf(sentence: Sentence, kind: Kind, options: Options): { rows: Group[]; columns: Group[] } {
  const group = (pieces: string[]): Group[] => {
    const groups = options.asWords ? wordsOf(pieces) : tokensOf(pieces);
    return options.hideSpecials ? groups.filter((one) => !isSpecial(pieces[one.from]!)) : groups;
  };
  if (kind === "encoder") return { rows: group(sentence.pieces), columns: group(sentence.pieces) };
  const written = sentence.written.slice(0, options.step);
  const keys = kind === "cross" ? sentence.pieces : sentence.heard.slice(0, options.step);
  return { rows: group(written), columns: group(keys) };
}

// head -1: the mean of all. Over the keys of a word weights add up; of its queries the mean is taken. hides: whether the
// layer has a mask, behind which weights are exactly 0.
export function viewOf(
  weights: Weights,
  hides: boolean,
  head: number,
  sides: { rows: Group[]; columns: Group[] },
): View {
  const { rows, columns } = sides;
  const values = new Float32Array(rows.length * columns.length);
  let at = 0;
  for (const row of rows) {
    const line = head >= 0 && row.to - row.from === 1 ? weights.row(head, row.from) : null;
    for (const column of columns) {
      let sum = 0;
      if (line && column.to - column.from === 1) sum = line[column.from] ?? 0;
      else {
        for (let q = row.from; q < row.to; q++) {
          for (let k = column.from; k < column.to; k++) {
            sum += head < 0 ? weights.mean(q, k) : weights.at(head, q, k);
          }
        }
      }
      values[at++] = hides && sum === 0 ? MASKED : sum / (row.to - row.from);
    }
  }
  return { rows, columns, values };
}

export function highest(values: Float32Array): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most || 1;
}
