// Where everything stands in the picture of the whole model: figure 1 of "Attention Is All You Need", by this model's
// own operations. One layer of each side is drawn: that in which the token is.
import type { SideName } from "../../layer-types";
import type { Step, StepKind, Way } from "./flow-steps";

export type Point = [x: number, y: number];

export interface Box {
  step: Step; // in the drawn layer
  x: number; // its middle
  y: number;
  width: number;
  height: number;
}

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Residual {
  from: number; // how high up it leaves the stream
  to: Box;
  outside: number;
}

export interface Column {
  side: SideName;
  x: number; // of the residual stream
  boxes: Map<string, Box>; // by their place, from the bottom to the top
  residuals: Residual[];
  frame: Frame | null; // around the layer
  loop: number; // where it goes back to the bottom of the next layer
  layer: number;
  layers: number;
}

export interface Picture {
  width: number;
  height: number;
  columns: Column[];
  memory: Point[] | null; // from the encoder's end to cross-attention
  boxWidth: number;
}

const HEIGHTS: Record<StepKind, number> = {
  token: 24, embedding: 32, position: 20, norm: 21, self: 34, cross: 34, feedforward: 34, add: 18, memory: 0, scores: 32, softmax: 22, said: 24,
};
const GAP = 10;
const TITLE = 17; // of the line in a layer's frame that says which it is
const FRAME = 8; // between the frame and what is outside
const BESIDE = 13; // of residual connections, from the boxes

// layers: which one is drawn of each side. leavesBehindNorm: where a sub-layer's residual connection begins.
export function layOut(way: Way, layers: Record<SideName, number>, isNarrow: boolean, leavesBehindNorm: (step: Step) => boolean): Picture {
  const column = isNarrow ? 176 : 274;
  const boxWidth = isNarrow ? 118 : 180;
  const between = isNarrow ? 0 : 24;
  const sides = (["encoder", "decoder"] as const).filter((side) => way.flows[side]);
  const columns = sides.map((side, n) => {
    const turn = side === "decoder" && n > 0 ? 1 : -1;
    return layColumn(way, side, layers[side], n * (column + between) + column / 2, boxWidth, turn, leavesBehindNorm);
  });
  const named = sides.length > 1 ? 20 : 0; // below, the names of the sides
  const height = 8 + named + Math.max(...columns.map((one) => -topOf(one)));
  for (const one of columns) lower(one, height - named - 4);
  const width = sides.length * column + (sides.length - 1) * between;
  return { width, height, columns, boxWidth, memory: memoryOf(columns, boxWidth) };
}

// Upwards from 0. turn: at the right (1) or at the left (-1) are its residual connections.
function layColumn(
  way: Way, side: SideName, layer: number, x: number, boxWidth: number, turn: 1 | -1, leavesBehindNorm: (step: Step) => boolean,
): Column {
  const mine = way.steps.filter((step) => step.side === side && step.kind !== "memory");
  const layers = 1 + Math.max(-1, ...mine.map((step) => step.layer ?? -1));
  const beside = boxWidth / 2 + BESIDE;
  const column: Column = { side, x, boxes: new Map(), residuals: [], frame: null, loop: x - turn * beside, layer, layers };
  let edge = 0; // at which the next box begins
  let leaves = 0;
  let previous: Step | null = null;
  for (const step of mine.filter((one) => one.layer === null || one.layer === layer)) {
    if (step.layer !== null && !column.frame) {
      column.frame = { left: x - beside - 9, right: x + beside + 9, top: 0, bottom: edge + GAP - FRAME };
      edge -= FRAME + 4;
    }
    if (step.layer === null && previous && previous.layer !== null) {
      column.frame!.top = edge + GAP - FRAME - TITLE;
      edge = column.frame!.top - FRAME - 4;
    }
    const height = HEIGHTS[step.kind];
    const isRound = step.kind === "add" || step.kind === "position";
    const box: Box = { step, x, y: edge - height / 2, width: isRound ? height : boxWidth, height };
    column.boxes.set(step.place, box);
    if (step.kind === "norm" && leavesBehindNorm(step)) leaves = edge - height - GAP / 2;
    else if (step.layer !== null && subOf(step) !== (previous && subOf(previous))) leaves = edge + GAP / 2;
    if (step.kind === "add") column.residuals.push({ from: leaves, to: box, outside: x + turn * beside });
    edge -= height + GAP;
    previous = step;
  }
  if (previous && previous.layer !== null) column.frame!.top = edge + GAP - FRAME - TITLE;
  return column;
}

// The sub-layer of a step: self, cross or feedforward.
function subOf(step: Step): string {
  return step.layer === null ? "" : step.place.split(".")[0]!;
}

function topOf(column: Column): number {
  return Math.min(...[...column.boxes.values()].map((box) => box.y - box.height / 2), column.frame?.top ?? 0);
}

function lower(column: Column, by: number): void {
  for (const box of column.boxes.values()) box.y += by;
  for (const one of column.residuals) one.from += by;
  if (column.frame) {
    column.frame.top += by;
    column.frame.bottom += by;
  }
}

function memoryOf(columns: Column[], boxWidth: number): Point[] | null {
  const [encoder, decoder] = columns;
  const cross = decoder?.boxes.get("cross");
  if (!encoder || !cross) return null;
  const top = topOf(encoder) - 18;
  const between = (encoder.x + decoder.x) / 2;
  return [[encoder.x, top + 18], [encoder.x, top], [between, top], [between, cross.y + 6], [cross.x - boxWidth / 2, cross.y + 6]];
}

// The way from one step to the next: up the residual stream, back to the bottom for the next layer, or over to cross-attention.
export function pathBetween(picture: Picture, from: Step, to: Step): Point[] {
  const column = picture.columns.find((one) => one.side === to.side)!;
  const start = standOf(picture, from);
  const end = standOf(picture, to);
  if (to.kind === "memory") return picture.memory ?? [start, end];
  if (from.side !== to.side) return [end];
  if (from.layer !== null && to.layer !== null && from.layer !== to.layer && column.frame) {
    return [start, ...loopOf(column), end];
  }
  return [start, end];
}

// From the top of a layer to the bottom of the next.
export function loopOf({ frame, loop, x }: Column): Point[] {
  if (!frame) return [];
  const [top, bottom] = [frame.top + 11, frame.bottom - 4];
  return [[x, top], [loop, top], [loop, bottom], [x, bottom]];
}

// Along which the residual stream comes to where it is added.
export function residualPath(picture: Picture, to: Step): Point[] | null {
  const column = picture.columns.find((one) => one.side === to.side)!;
  const found = column.residuals.find((one) => one.to.step.place === to.place);
  return found ? residualPoints(column, found) : null;
}

export function residualPoints(column: Column, one: Residual): Point[] {
  const near = column.x + Math.sign(one.outside - column.x) * (one.to.width / 2);
  return [[column.x, one.from], [one.outside, one.from], [one.outside, one.to.y], [near, one.to.y]];
}

// Where the vector stands after a step: on top of its box.
export function standOf(picture: Picture, step: Step): Point {
  if (step.kind === "memory") return picture.memory?.at(-1) ?? [0, 0];
  const column = picture.columns.find((one) => one.side === step.side)!;
  const box = column.boxes.get(step.place);
  return box ? [box.x, box.y - box.height / 2 - GAP / 2] : [column.x, 0];
}

export function alongPath(points: Point[], share: number): Point {
  const lengths = points.slice(1).map(([x, y], n) => Math.hypot(x - points[n]![0], y - points[n]![1]));
  let left = share * lengths.reduce((sum, one) => sum + one, 0);
  for (const [n, length] of lengths.entries()) {
    if (left <= length && length > 0) {
      const [from, to] = [points[n]!, points[n + 1]!];
      return [from[0] + ((to[0] - from[0]) * left) / length, from[1] + ((to[1] - from[1]) * left) / length];
    }
    left -= length;
  }
  return points.at(-1)!;
}
