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

// What every hypothesis begins with. logps: empty for a prompt, which is read and not part of the tree.
export interface Forced {
  ids: number[];
  pieces: string[];
  logps: number[];
}

export function forcedLogp({ logps }: Forced): number {
  return logps.reduce((sum, one) => sum + one, 0);
}

// found: the output; of the nodes that ended with it, the likeliest won.
export function latticeOf(steps: Step[], found: number[] | null, forced: Forced): Node[] {
  const nodes = forcedNodes(forced);
  const first = nodes.length;
  const before = forcedLogp(forced);
  let slots: Node[] | null = first ? [nodes.at(-1)!] : null;
  for (const { step, beam } of steps) {
    const grown: Node[] = [];
    beam.ids.forEach((id, n) => {
      const parent: Node | null = slots === null ? null : (slots[beam.parents[n]!] ?? null);
      const node: Node = {
        number: nodes.length,
        step: first + step,
        rank: n,
        parent,
        piece: beam.pieces[n]!,
        ids: [...(parent?.ids ?? forced.ids), id],
        text: (parent?.text ?? forced.pieces.join("")) + beam.pieces[n]!,
        logp: before + (beam.logps[n] ?? -Infinity),
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

function forcedNodes({ ids, pieces, logps }: Forced): Node[] {
  const nodes: Node[] = [];
  logps.forEach((logp, step) => {
    const parent = nodes.at(-1) ?? null;
    const text = (parent?.text ?? "") + pieces[step]!;
    const so = { ids: ids.slice(0, step + 1), text, logp: (parent?.logp ?? 0) + logp };
    nodes.push({ number: step, step, rank: 0, parent, piece: pieces[step]!, fate: "forced", wins: false, ...so });
  });
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
