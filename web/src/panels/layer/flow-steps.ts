// The way of a token as steps, from the operations that the server lists: through the encoder, if there is one, then
// through the decoder, where what the encoder made is heard.
import type { Flow, OperationKind, SideName } from "../../layer-types";
import { numbersOf } from "../../tensors";

export type StepKind = OperationKind | "token" | "memory" | "scores" | "softmax" | "said";

export interface Step {
  side: SideName;
  kind: StepKind;
  place: string; // in the drawn layer: self.norm, feedforward, end.norm …
  layer: number | null; // null: before the first, or behind the last
  operation: number; // its index in the side's flow; that whose result is shown, where the step is none itself
}

export interface Way {
  steps: Step[];
  flows: Partial<Record<SideName, Flow>>;
}

// decoder.3.self.norm: place self.norm, layer 3.
function readName(name: string): { place: string; layer: number | null } {
  const [, layer, ...rest] = name.split(".");
  if (/^\d+$/u.test(layer!)) return { place: rest.join("."), layer: Number(layer) };
  return { place: [layer!, ...rest].join("."), layer: null };
}

export function wayOf(flows: Way["flows"]): Way {
  const steps: Step[] = [];
  for (const side of ["encoder", "decoder"] as const) {
    const flow = flows[side];
    if (!flow) continue;
    const last = flow.names.length - 1;
    steps.push({ side, kind: "token", place: "token", layer: null, operation: 0 });
    flow.names.forEach((name, n) => steps.push({ side, kind: flow.kinds[n]!, ...readName(name), operation: n }));
    if (side === "encoder" && flows.decoder) steps.push({ side, kind: "memory", place: "memory", layer: null, operation: last });
    if (flow.said) {
      for (const kind of ["scores", "softmax", "said"] as const) steps.push({ side, kind, place: kind, layer: null, operation: last });
    }
  }
  return { steps, flows };
}

// The operation whose result a sub-layer adds to: the residual stream.
export function branchOf(flow: Flow, added: number, fromNorm: boolean): number {
  const path = flow.names[added]!.replace(/\.add$/u, "");
  const first = flow.names.findIndex((name) => name === path || name === `${path}.norm`);
  return fromNorm ? first : first - 1;
}

export function lengthAt(flow: Flow, operation: number, token: number): number {
  const [, tokens] = flow.lengths.shape as [number, number];
  return numbersOf(flow.lengths)[operation * tokens + token - flow.first]!;
}

export function startAt(flow: Flow, operation: number, token: number): Float32Array {
  const [, tokens, channels] = flow.starts.shape as [number, number, number];
  const from = (operation * tokens + token - flow.first) * channels;
  return numbersOf(flow.starts).slice(from, from + channels);
}

export function knowsToken(flow: Flow, token: number): boolean {
  return token >= flow.first && token < flow.first + flow.lengths.shape[1]!;
}
