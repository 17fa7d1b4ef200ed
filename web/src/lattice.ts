// The tree of a beam search, from what it told step by step.
import type { Step } from "./recording";
import type { Fate, Penalty } from "./types";

export interface Node {
  number: number;
  step: number;
  rank: number;
  parent: Node | null;
  piece: string;
  ids: number[]; // all that was produced, this token last
  text: string;
  logp: number;
  fate: Fate;
  wins: boolean;
}

// found: the output; of the nodes that ended with it, the likeliest won. forced: what every one begins with, as it reads.
export function latticeOf(steps: Step[], found: number[] | null, forced: { ids: number[]; text: string }): Node[] {
  const nodes: Node[] = [];
  let slots: Node[] | null = null;
  for (const { step, beam } of steps) {
    const grown: Node[] = [];
    beam.ids.forEach((id, n) => {
      const parent: Node | null = slots === null ? null : (slots[beam.parents[n]!] ?? null);
      const node: Node = {
        number: nodes.length,
        step,
        rank: n,
        parent,
        piece: beam.pieces[n]!,
        ids: [...(parent?.ids ?? forced.ids), id],
        text: (parent?.text ?? forced.text) + beam.pieces[n]!,
        logp: beam.logps[n] ?? -Infinity,
        fate: beam.fates[n]!,
        wins: false,
      };
      if (node.fate === "runs") grown.push(node);
      nodes.push(node);
    });
    slots = grown;
  }
  const winner = found && winnerOf(nodes, found);
  for (let node: Node | null = winner; node; node = node.parent) node.wins = true;
  return nodes;
}

function winnerOf(nodes: Node[], found: number[]): Node | null {
  const same = (ids: number[]): boolean => found.every((id, n) => ids[n] === id);
  const fits = nodes.filter(
    (one) =>
      (one.fate === "ends" && one.ids.length === found.length + 1 && same(one.ids)) ||
      (one.fate === "cut" && one.ids.length === found.length && same(one.ids)),
  );
  return fits.sort((a, b) => b.logp - a.logp)[0] ?? null;
}

// As headway.config.search has it.
export function penaltyOf([kind, alpha]: Penalty, length: number): number {
  if (kind === "none") return 1;
  return (kind === "paper" ? (5 + length) / 6 : length) ** alpha;
}
