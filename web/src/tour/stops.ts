// Where the tour stops: what each opens, and what of the page it outlines.
import { type Panel, PANELS } from "../state";
import type { Kind } from "../types";
import type { Facts, Looked } from "./facts";

export interface Stop {
  name: StopName;
  panel: Panel;
  kind?: Kind;
  looked?: Looked | null; // the cell that it speaks of
  step?: number; // of the decoder; without: the last
  choices?: Record<string, number>; // inside the panel
  outlined: string; // the selector of what it names; of several the first that is there
  followed: string[]; // selectors of the two words
}

export const NAMES = ["tokens", "vectors", "head", "heads", "masked", "cross", "residual", "feedforward", "output", "beam"] as const;
export type StopName = (typeof NAMES)[number];

const hasLayer = (PANELS as readonly string[]).includes("layer");
const row = (n: number) => `.row-labels span:nth-child(${n + 1})`;
const column = (n: number) => `.column-labels span:nth-child(${n + 1})`;

// As many stops as this model has something to show for.
export function stopsOf(facts: Facts): Stop[] {
  const { side, self, cross, pair, made, place } = facts;
  const before = side === "encoder" ? 0 : 1; // the start mark stands before the first token
  const of = (make: (at: number) => string) => pair?.map(({ at }) => make(at + before)) ?? [];
  const read = pair ? pair[0].at + before : 0;
  const layer = (choices: Record<string, number>, outlined: string, otherwise: string): Omit<Stop, "name" | "followed"> =>
    hasLayer
      ? { panel: "layer" as Panel, choices: { ...choices, token: read }, outlined: `${outlined}, #panel`, step: side === "decoder" ? read + 1 : undefined }
      : { panel: "architecture", outlined: otherwise };
  const stops: (Stop | false | null | undefined)[] = [
    { name: "tokens", panel: "attention", kind: side, outlined: ".heatmap .row-labels, #text", followed: of((at) => row(at - before)) },
    { name: "vectors", panel: "vectors", choices: { side: 0 }, outlined: ".plane", followed: of((at) => `.plane g:nth-of-type(${at + 1})`) },
    self && {
      name: "head", panel: "inside", kind: side, looked: self, step: side === "decoder" ? self.row + 1 : undefined,
      choices: { inside: 1, query: self.row }, outlined: "#panel math, #panel .strips, #panel", followed: [],
    },
    self && { name: "heads", panel: "attention", kind: side, looked: self, outlined: ".atlas", followed: [row(self.row), column(self.column)] },
    facts.looksBack && { name: "masked", panel: "attention", kind: "decoder", outlined: "#heatmap", followed: made?.map(({ at }) => row(at)) ?? [] },
    cross && { name: "cross", panel: "attention", kind: "cross", looked: cross, outlined: "#heatmap", followed: [row(cross.row), column(cross.column)] },
    { name: "residual", ...layer({ view: 2 }, "#panel .scroll", ".tower .layers"), followed: [] },
    { name: "feedforward", ...layer({ view: 3, sublayer: 1 }, "#panel .strips", ".tower .layers .block"), followed: [] },
    facts.kinds.includes("decoder") && { name: "output", panel: "probabilities", step: place + 1, outlined: "#bars", followed: (made ?? []).map(({ at }) => `.strip button:nth-child(${at + 1})`) },
    facts.beam.size > 1 && { name: "beam", panel: "beam", outlined: ".scroll .lattice", followed: [] },
  ];
  return stops.filter((one): one is Stop => Boolean(one));
}
