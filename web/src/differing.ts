// Which words of two texts differ: what is left over of the longest common subsequence.

export interface Word {
  text: string;
  differs: boolean;
}

// A word, a sign, a character of a script without spaces, or the space between them.
const PARTS = /\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{M}\p{N}]+|./gsu;
const MOST = 4_000_000; // pairs of words that are compared; beyond that all of them differ

export function differing(one: string, other: string): [Word[], Word[]] {
  const [a, b] = [one.match(PARTS) ?? [], other.match(PARTS) ?? []];
  const [x, y] = [a, b].map((words) => words.flatMap((word, n) => (word.trim() ? [n] : []))) as [number[], number[]];
  const same = common(x.map((n) => a[n]!), y.map((n) => b[n]!));
  const kept = [new Set(same.map(([n]) => x[n])), new Set(same.map(([, n]) => y[n]))] as const;
  const marked = (words: string[], ours: Set<number | undefined>) =>
    words.map((text, n) => ({ text, differs: text.trim() !== "" && !ours.has(n) }));
  return [marked(a, kept[0]), marked(b, kept[1])];
}

// Pairs of places with the same word, in order. Equal beginnings and ends need no table.
export function common(a: string[], b: string[]): [number, number][] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let ends = 0;
  while (ends < a.length - start && ends < b.length - start && a.at(-1 - ends) === b.at(-1 - ends)) ends++;
  const pairs: [number, number][] = Array.from({ length: start }, (_, n) => [n, n]);
  const [rows, columns] = [a.length - start - ends, b.length - start - ends];
  if (rows * columns <= MOST) {
    const lengths = new Uint16Array((rows + 1) * (columns + 1)); // of what the rest has in common
    const at = (row: number, column: number) => row * (columns + 1) + column;
    for (let row = rows - 1; row >= 0; row--) {
      for (let column = columns - 1; column >= 0; column--) {
        lengths[at(row, column)] =
          a[start + row] === b[start + column]
            ? lengths[at(row + 1, column + 1)]! + 1
            : Math.max(lengths[at(row + 1, column)]!, lengths[at(row, column + 1)]!);
      }
    }
    for (let row = 0, column = 0; row < rows && column < columns; ) {
      if (a[start + row] === b[start + column]) pairs.push([start + row++, start + column++]);
      else if (lengths[at(row + 1, column)]! >= lengths[at(row, column + 1)]!) row++;
      else column++;
    }
  }
  for (let n = ends; n > 0; n--) pairs.push([a.length - n, b.length - n]);
  return pairs;
}
