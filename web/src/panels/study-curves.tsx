// Learning curves, and what depends on the length of a text: a line for each variant and seed.
import { useRef, useState } from "preact/hooks";
import { placeOn, scaleOf } from "../charts";
import { brief } from "../format";
import * as s from "../state";
import { formatMeasure } from "../studies";
import type { LengthPoint, Study } from "../types";
import { words } from "../words";
import { Frame, MARGIN, useWidth } from "./chart-frame";

const HEIGHT = 300;
const MANY = 20; // lines: all but one are faint then
const NOWHERE = { line: -1, point: 0 };

interface Line {
  row: number;
  seed: number; // 0: of all seeds
  points: { x: number; y: number }[];
}

interface Kind {
  id: string;
  name: string;
  xName: string;
  yName: string;
  measure: string;
  lines: Line[];
}

export function CurveCharts({ study }: { study: Study }) {
  const t = words.value;
  const byProgress = (["step", "seconds"] as const).map((x) => ({
    id: x,
    name: t.study.curvesBy[x],
    xName: t.study.axes[x],
    yName: t.study.axes.loss,
    measure: "loss",
    lines: linesOf(study, (row) => row.curves.map((curve) => curve.map((one) => [one[x], one.loss]))),
  }));
  const byLength = (["loss", "seconds", "bytes"] as const).map((y) => {
    const points = (given: LengthPoint[]) => [given.map((one): Pair => [one.length, one[y]])];
    return {
      id: y,
      name: t.study.lengthBy[y],
      xName: t.study.axes.tokens,
      yName: t.study.axes[y],
      measure: { loss: "loss", seconds: "", bytes: "peak_memory" }[y],
      lines: linesOf(study, (row) => points(y === "loss" ? row.loss_by_length : row.lengths), 0),
    };
  });
  return (
    <div class="charts">
      <LineChart study={study} id="curves" title={t.study.curves} kinds={byProgress} />
      <LineChart study={study} id="by-length" title={t.study.byLength} kinds={byLength} />
    </div>
  );
}

type Pair = [number | null, number | null];

// Without what was not measured or is not finite. seed: of all lines, if they are not those of one seed each.
function linesOf(study: Study, read: (row: Study["rows"][number]) => Pair[][], seed?: number): Line[] {
  return study.rows.flatMap((row, n) =>
    read(row).flatMap((pairs, index) => {
      const points = pairs.flatMap(([x, y]) => (x === null || y === null ? [] : [{ x, y }]));
      return points.length ? [{ row: n, seed: seed ?? row.seeds[index] ?? index + 1, points }] : [];
    }),
  );
}

function LineChart({ study, id, title, kinds }: { study: Study; id: string; title: string; kinds: Kind[] }) {
  const t = words.value;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 480);
  const [wanted, want] = useState("");
  const [at, go] = useState(NOWHERE);
  const offered = kinds.filter((one) => one.lines.length);
  const shown = offered.find((one) => one.id === wanted) ?? offered[0];
  if (!shown) return <div ref={box} hidden />;
  const { lines } = shown;
  const all = lines.flatMap((one) => one.points);
  const x = scaleOf(all.map((one) => one.x), MARGIN.left, width - MARGIN.right, id === "by-length");
  const y = scaleOf(all.map((one) => one.y), HEIGHT - MARGIN.bottom, MARGIN.top, shown.id !== "loss");
  const line = lines[at.line];
  const point = line?.points[Math.min(at.point, line.points.length - 1)];
  const isTold = (one: Line) => one.row === s.toldVariant.value;
  const move = (to: { line: number; point: number }) => {
    go(to);
    s.toldVariant.value = lines[to.line]!.row;
  };
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!by) return;
    const [down, along] = at.line < 0 ? [1, 0] : by; // the first key goes to the first line
    const next = clamp(at.line + down!, lines.length);
    const count = lines[next]!.points.length;
    move({ line: next, point: clamp(clamp(at.point, count) + along!, count) });
    event.preventDefault();
    event.stopPropagation();
  };
  const onPoint = (event: PointerEvent) => {
    const frame = box.current!.querySelector("svg")!.getBoundingClientRect();
    const [left, top] = [event.clientX - frame.left, event.clientY - frame.top];
    let nearest = Infinity;
    let found = { line: 0, point: 0 };
    lines.forEach((one, n) =>
      one.points.forEach((each, k) => {
        const far = (placeOn(x, each.x) - left) ** 2 + (placeOn(y, each.y) - top) ** 2;
        if (far < nearest) [nearest, found] = [far, { line: n, point: k }];
      }),
    );
    if (found.line !== at.line || found.point !== at.point) move(found);
  };
  return (
    <figure class={lines.length > MANY ? "chart crowded" : "chart"} ref={box}>
      <div class="row">
        <h4 id={`${id}-title`}>{title}</h4>
        {offered.length > 1 && (
          <select
            id={`${id}-kind`}
            aria-labelledby={`${id}-title`}
            value={shown.id}
            onChange={(e) => {
              want(e.currentTarget.value);
              go(NOWHERE);
            }}
          >
            {offered.map((one) => (
              <option value={one.id}>{one.name}</option>
            ))}
          </select>
        )}
      </div>
      <svg
        width={width}
        height={HEIGHT}
        id={id}
        role="application"
        aria-roledescription={t.study.lineChart}
        aria-label={`${title}: ${shown.name}`}
        aria-describedby={`${id}-reads`}
        tabindex={0}
        onKeyDown={onKey}
        onPointerMove={onPoint}
      >
        <Frame x={x} y={y} xName={shown.xName} yName={shown.yName}>
          {[...lines].sort((a, b) => Number(isTold(a)) - Number(isTold(b))).map((one) => (
            <g
              key={`${one.row} ${one.seed}`}
              class={isTold(one) ? "line told" : "line"}
              style={{ "--n": one.row }}
              data-row={one.row}
            >
              <polyline points={one.points.map((each) => `${placeOn(x, each.x)},${placeOn(y, each.y)}`).join(" ")} />
              {one.points.length === 1 && (
                <circle cx={placeOn(x, one.points[0]!.x)} cy={placeOn(y, one.points[0]!.y)} r={4} />
              )}
            </g>
          ))}
          {line && point && (
            <circle class="here" style={{ "--n": line.row }} cx={placeOn(x, point.x)} cy={placeOn(y, point.y)} r={5} />
          )}
        </Frame>
      </svg>
      <figcaption>
        <output id={`${id}-reads`} class={`small ${point ? "" : "faint"}`}>
          {line && point ? reading(study, shown, line, point) : t.study.curveHint}
        </output>
      </figcaption>
    </figure>
  );
}

function reading(study: Study, kind: Kind, line: Line, point: { x: number; y: number }): string {
  const t = words.value;
  const many = kind.lines.filter((one) => one.row === line.row).length > 1;
  const value = kind.measure ? formatMeasure(kind.measure, point.y) : brief(point.y);
  const seed = many ? t.study.seed(line.seed) : "";
  return t.study.reads(study.rows[line.row]!.name, seed, `${kind.xName} ${brief(point.x)}`, `${kind.yName} ${value}`);
}

function clamp(n: number, count: number): number {
  return Math.min(Math.max(n, 0), count - 1);
}
