// The picture of the whole model, and the vector that stands in it. It is drawn once for each layer; while a vector
// moves, only its own mark does.
import { useLayoutEffect, useRef } from "preact/hooks";
import { css, signedColours } from "../../colours";
import type { SideName } from "../../layer-types";
import type { Sentence } from "../../recording";
import { narrow } from "../../state";
import type { ModelInfo } from "../../types";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { chipOf, cut, detailIn, hasExperts, nameOf, positionInside } from "./flow-labels";
import { type Box, type Column, type Picture, type Point, alongPath, loopOf, pathBetween, residualPath, residualPoints, standOf } from "./flow-layout";
import { type Step, type Way, branchOf, startAt } from "./flow-steps";

const CELL = 7; // of the mark: a number of the vector
const lines = (points: Point[]): string => points.map(([x, y], n) => `${n ? "L" : "M"}${x} ${y}`).join("");

interface Props {
  info: ModelInfo;
  sentence: Sentence;
  way: Way;
  picture: Picture;
  at: number;
  tokens: Record<SideName, number>;
  milliseconds: number; // that a vector takes from one operation to the next; 0: it is there at once
  go: (step: number) => void;
  label: string;
}

export function FlowPicture({ info, sentence, way, picture, at, tokens, milliseconds, go, label }: Props) {
  const step = way.steps[at]!;
  const open = (box: Box) => {
    const found = way.steps.findIndex((one) => one.side === box.step.side && one.place === box.step.place && one.layer === box.step.layer);
    if (found >= 0) go(found);
  };
  return (
    <svg class="flow" viewBox={`0 0 ${picture.width} ${picture.height}`} style={{ maxWidth: `${picture.width}px` }} role="img" aria-label={label}>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX={7} refY={4} markerUnits="userSpaceOnUse" markerWidth={8} markerHeight={8} orient="auto">
          <path class="arrow-head" d="M0 0.5L8 4L0 7.5z" />
        </marker>
      </defs>
      {picture.columns.map((column) => (
        <g key={column.side} class={column.side === step.side ? "" : "resting"}>
          <Wires column={column} step={step} />
          {picture.columns.length > 1 && <SideLabel column={column} />}
        </g>
      ))}
      {picture.memory && <path class={`wire memory${step.kind === "memory" || step.kind === "cross" ? " lit" : ""}`} d={lines(picture.memory)} marker-end="url(#arrow)" />}
      {picture.memory && (
        <text class="small" x={(picture.memory[1]![0] + picture.memory[2]![0]) / 2} y={picture.memory[1]![1] - 5} text-anchor="middle">{layerWords.value.flow.keysValues}</text>
      )}
      {picture.columns.map((column) =>
        [...column.boxes.values()].map((box) => (
          <g
            key={`${column.side} ${box.step.place}`}
            class={`op ${hasExperts(info, box.step) ? "experts " : ""}${box.step.kind}${isAt(box, step) ? " lit" : ""}`}
            data-place={`${column.side}.${box.step.place}`}
            onClick={() => open(box)}
          >
            <Drawn box={box} info={info} chip={box.step.kind === "token" || box.step.kind === "said" ? chipOf(box.step, sentence, tokens, way) : ""} />
          </g>
        )),
      )}
      <Mark way={way} picture={picture} at={at} tokens={tokens} milliseconds={milliseconds} isFromNorm={info.config[step.side].residual.kind === "crate"} />
    </svg>
  );
}

function isAt(box: Box, step: Step): boolean {
  return box.step.side === step.side && box.step.place === step.place;
}

function SideLabel({ column }: { column: Column }) {
  const token = column.boxes.get("token")!;
  return <text class="side-name" x={column.x} y={token.y + token.height / 2 + 16} text-anchor="middle">{words.value[column.side]}</text>;
}

// The residual stream, what goes around sub-layers, and the frame of the layer.
function Wires({ column, step }: { column: Column; step: Step }) {
  const t = layerWords.value.flow;
  const boxes = [...column.boxes.values()];
  const [first, last] = [boxes[0]!, boxes.at(-1)!];
  const { frame } = column;
  const top = last.y - (last.step.kind === "said" ? 0 : last.height / 2 + 10);
  const isLoopLeft = column.loop < column.x;
  return (
    <>
      {frame && (
        <>
          <rect class="frame" x={frame.left} y={frame.top} width={frame.right - frame.left} height={frame.bottom - frame.top} rx={12} />
          <text class="small" x={isLoopLeft ? frame.right - 10 : frame.left + 10} y={frame.top + 15} text-anchor={isLoopLeft ? "end" : "start"}>
            {t.layerOf(column.layer + 1, column.layers)}
          </text>
          {column.layers > 1 && <path class="wire loop" d={lines(loopOf(column))} />}
        </>
      )}
      <path class="wire" d={lines([[column.x, first.y], [column.x, top]])} />
      {column.residuals.map((one) => (
        <path key={one.to.step.place} class={`wire residual${step.kind === "add" && isAt(one.to, step) ? " lit" : ""}`} d={lines(residualPoints(column, one))} marker-end="url(#arrow)" />
      ))}
    </>
  );
}

function Drawn({ box, info, chip }: { box: Box; info: ModelInfo; chip: string }) {
  const { step, x, y, width, height } = box;
  const characters = Math.floor(width / 6.3);
  if (step.kind === "add" || step.kind === "position") {
    const r = height / 2;
    const detail = step.kind === "position" ? cut(detailIn(info, step), narrow.value ? 11 : 16) : "";
    return (
      <>
        <circle cx={x} cy={y} r={r} />
        <path class="sign" d={`M${x - 5} ${y}h10M${x} ${y - 5}v10`} />
        {step.kind === "position" && (
          <>
            <path class="wire" d={`M${x - r - 12} ${y}h12`} />
            <Wave x={x - r - 21} y={y} />
            <text class="small" x={x + r + 7} y={y + 4}>{detail}</text>
          </>
        )}
      </>
    );
  }
  const isChip = step.kind === "token" || step.kind === "said";
  const name = isChip ? cut(chip, characters) : nameOf(info, step);
  const detail = isChip || step.kind === "norm" || step.kind === "softmax" ? "" : cut(detailIn(info, step), characters);
  return (
    <>
      <rect x={x - width / 2} y={y - height / 2} width={width} height={height} rx={isChip ? height / 2 : 5} />
      <text x={x} y={detail ? y - 2 : y + 4} text-anchor="middle">{name}</text>
      {positionInside(info, step) && <Wave x={x - width / 2} y={y} />}
      {detail && <text class="small" x={x} y={y + 11} text-anchor="middle">{detail}</text>}
    </>
  );
}

// Where positions act.
function Wave({ x, y }: { x: number; y: number }) {
  return (
    <>
      <circle class="wave" cx={x} cy={y} r={9} />
      <path class="sign" d={`M${x - 6} ${y}q3 -7 6 0t6 0`} />
    </>
  );
}

interface MarkProps {
  way: Way;
  picture: Picture;
  at: number;
  tokens: Record<SideName, number>;
  milliseconds: number;
  isFromNorm: boolean;
}

// The first numbers of the vector as colours. It moves from the operation before; where something is added, the residual
// stream comes from its own side.
function Mark({ way, picture, at, tokens, milliseconds, isFromNorm }: MarkProps) {
  const mark = useRef<SVGGElement>(null);
  const beside = useRef<SVGGElement>(null);
  const before = useRef(at);
  const step = way.steps[at]!;
  const flow = way.flows[step.side]!;
  const token = tokens[step.side];
  const cells = step.kind === "token" ? [] : colourCells(startAt(flow, step.operation, token));
  const fromStream = step.kind === "add" ? branchOf(flow, step.operation, isFromNorm && step.place === "feedforward.add") : -1;
  const stream = fromStream >= 0 ? colourCells(startAt(flow, fromStream, token)) : [];
  useLayoutEffect(() => {
    const previous = way.steps[before.current];
    const moves = milliseconds > 0 && at === before.current + 1 && previous;
    before.current = at;
    const put = (element: SVGGElement | null, [x, y]: Point) => element?.setAttribute("transform", `translate(${x} ${y})`);
    put(mark.current, standOf(picture, step));
    beside.current?.setAttribute("visibility", "hidden");
    if (!moves) return;
    const path = pathBetween(picture, previous, step);
    const around = step.kind === "add" ? residualPath(picture, step) : null;
    let frame = 0;
    let began = 0;
    const draw = (now: number) => {
      began ||= now;
      const share = Math.min((now - began) / milliseconds, 1);
      const eased = share * share * (3 - 2 * share);
      put(mark.current, alongPath(path, eased));
      if (around && beside.current) {
        put(beside.current, alongPath(around, eased));
        beside.current.setAttribute("visibility", share < 1 ? "visible" : "hidden");
      }
      if (share < 1) frame = requestAnimationFrame(draw);
    };
    draw(performance.now());
    return () => cancelAnimationFrame(frame);
  }, [at, way, picture]);
  return (
    <>
      <g ref={beside} class="mark" visibility="hidden"><Cells colours={stream} /></g>
      <g ref={mark} class="mark" id="flow-mark"><Cells colours={cells} /></g>
    </>
  );
}

function colourCells(values: Float32Array): string[] {
  const most = Math.max(...Array.from(values, Math.abs)) || 1;
  return Array.from(values, (value) => css(signedColours.value[Math.round(127.5 * (1 + value / most))]!));
}

function Cells({ colours }: { colours: string[] }) {
  const width = colours.length * CELL;
  if (!colours.length) return <circle r={5} />;
  return (
    <>
      <rect class="around" x={-width / 2 - 2} y={-6.5} width={width + 4} height={13} rx={3} />
      {colours.map((colour, n) => <rect key={n} x={n * CELL - width / 2} y={-4.5} width={CELL} height={9} fill={colour} />)}
    </>
  );
}
