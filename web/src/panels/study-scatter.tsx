// Quality against cost, one point a variant. One point has the focus, arrow keys go on, Enter opens its model.
import { useRef } from "preact/hooks";
import { placeLabels, placeOn, scaleOf } from "../charts";
import { grouped } from "../format";
import * as s from "../state";
import { type Point, formatP, formatSpread, frontOf, measuresOf, pointsOf } from "../studies";
import { open } from "../translate";
import type { Study } from "../types";
import { words } from "../words";
import { Frame, MARGIN, useWidth } from "./chart-frame";

const HEIGHT = 380;
const RADIUS = 6;
const REACH = 12; // of the pointer
const LETTER = 6.8; // the width of one, about
const LONGEST = 26; // name, in letters
const MANY = 30; // points: only those of the front are named then

export function Scatter({ study, quality, cost }: { study: Study; quality: string; cost: string }) {
  const t = words.value;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, 620);
  const points = pointsOf(study, cost, quality);
  const front = frontOf(points, cost, quality);
  const x = scaleOf(points.map((one) => one.x), MARGIN.left, width - MARGIN.right);
  const ys = points.flatMap((one) => [one.y - one.spread, one.y + one.spread]);
  const y = scaleOf(ys, HEIGHT - MARGIN.bottom, MARGIN.top, false);
  const at = (one: Point) => ({ x: placeOn(x, one.x), y: placeOn(y, one.y) });
  const rise = (one: Point) => placeOn(y, one.y + one.spread) - placeOn(y, one.y);
  const name = (measure: string) => t.study.measures[measure] ?? measure;
  const reached = points.find((one) => one.row === s.toldVariant.value) ?? front.at(-1) ?? points[0];
  const onKey = (event: KeyboardEvent) => {
    if (!reached) return;
    if (event.key === "Enter" || event.key === " ") openRow(study, reached.row);
    else {
      const next = neighbour(points, reached, event.key);
      if (next === undefined) return;
      if (next) box.current?.querySelector<SVGElement>(`[data-row="${next.row}"]`)?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const ranked = [...new Set([...front, ...points])]; // those of the front first
  const named = points.length > MANY ? front : ranked;
  const labels = named.map((one) => clipped(study.rows[one.row]!.name));
  const widths = labels.map((one) => one.length * LETTER);
  const frame = { x: x.start, y: y.end, width: x.end - x.start, height: y.start - y.end };
  const places = placeLabels(ranked.map(at), widths, frame, RADIUS + 2);
  const title = t.study.scatter(name(quality), name(cost));
  return (
    <figure class="chart" ref={box} data-front={front.map((one) => one.row).join(" ")}>
      <svg width={width} height={HEIGHT} id="scatter" role="group" aria-label={title} onKeyDown={onKey}>
        <Frame x={x} y={y} xName={name(cost)} yName={name(quality)}>
          <polyline class="front" points={front.map((one) => `${at(one).x},${at(one).y}`).join(" ")} />
          {named.map((one, n) => places[n] && <text key={one.row} {...places[n]} aria-hidden="true">{labels[n]}</text>)}
          {points.map((one) => (
            <g
              key={one.row}
              class={`point${front.includes(one) ? " best" : ""}${one.row === s.toldVariant.value ? " told" : ""}`}
              role="button"
              aria-label={describe(study, one.row)}
              tabindex={one === reached ? 0 : -1}
              data-row={one.row}
              style={{ "--n": one.row }}
              transform={`translate(${at(one).x} ${at(one).y})`}
              onFocus={() => (s.toldVariant.value = one.row)}
              onPointerEnter={() => (s.toldVariant.value = one.row)}
              onClick={() => openRow(study, one.row)}
            >
              {one.spread > 0 && <line class="spread" y1={rise(one)} y2={-rise(one)} />}
              <circle class="reach" r={REACH} />
              {isUsed(study, one.row) && <circle class="used" r={RADIUS + 4} />}
              <circle r={RADIUS} />
            </g>
          ))}
        </Frame>
      </svg>
      <figcaption class="faint small">{t.study.front} {t.study.pointHint}</figcaption>
    </figure>
  );
}

function openRow(study: Study, row: number): void {
  s.toldVariant.value = row;
  const model = study.rows[row]!.models[0];
  if (model) void open(model.name);
}

// Whether one of its models is open, or beside it.
function isUsed(study: Study, row: number): boolean {
  return study.rows[row]!.models.some(({ name }) => name === s.chosenModel.value || name === s.beside.value);
}

// undefined: the key means nothing here; null: there is nobody.
function neighbour(points: Point[], from: Point, key: string): Point | null | undefined {
  const by = { ArrowRight: 1, ArrowUp: 1, End: Infinity, ArrowLeft: -1, ArrowDown: -1, Home: -Infinity }[key];
  if (!by) return undefined;
  const axis = key === "ArrowUp" || key === "ArrowDown" ? "y" : "x";
  const order = points.toSorted((a, b) => a[axis] - b[axis] || a.row - b.row);
  if (!Number.isFinite(by)) return order.at(by > 0 ? -1 : 0);
  return order[order.indexOf(from) + by] ?? null;
}

function describe(study: Study, number: number): string {
  const t = words.value;
  const row = study.rows[number]!;
  const numbers = measuresOf(study).map((one) => `${t.study.measures[one] ?? one}: ${formatSpread(row, one)}`);
  const size = row.parameters === null ? [] : [`${t.study.measures["parameters"]}: ${grouped(row.parameters)}`];
  const p = number === 0 || row.p_value === null ? [] : [`p: ${formatP(row.p_value)}`];
  return [row.name, ...size, ...numbers, ...p, row.models.length ? t.study.enterOpens : t.study.noModel].join("; ");
}

function clipped(text: string): string {
  const all = [...text];
  return all.length > LONGEST ? all.slice(0, LONGEST - 1).join("") + "…" : text;
}
