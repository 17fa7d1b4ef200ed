// One matrix with its labels. Hovering moves one element and never repaints.
import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { css, weightColours } from "../colours";
import { px, weight } from "../format";
import { paint } from "../pixels";
import { cell, kind, locked, narrow, ownScale, rootScale, running, shownStep, threshold } from "../state";
import { MASKED, type View, highest } from "../view";
import { words } from "../words";

const TIP = 190; // pixels of the value at the pointer, about
const LABELS = 80; // pixels of the labels above the columns, about

export function cellSize(view: View): number {
  const most = Math.max(view.rows.length, view.columns.length);
  return most > 40 ? 14 : most > 20 || narrow.value ? 20 : 28;
}

// expected: how many rows there will be, about, where more of them come.
export function Heatmap({ view, title, expected }: { view: View; title: string; expected: number }) {
  const t = words.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const figure = useRef<HTMLElement>(null);
  const size = cellSize(view);
  const rows = view.rows.length;
  const columns = view.columns.length;
  const width = columns * size;
  const height = rows * size;
  const high = ownScale.value ? highest(view.values) : 1;

  useLayoutEffect(() => {
    const size = { width: columns, height: rows }; // a pixel a cell, which the style makes larger
    const tile = { values: view.values, rows, columns, x: 0, y: 0, ...size, low: 0, high, root: rootScale.value, from: threshold.value };
    paint(canvas.current!, columns, rows, [tile], weightColours.value);
  }, [view, high, rootScale.value, threshold.value, weightColours.value]);

  const at = (event: PointerEvent | MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.min(Math.max(Math.floor((event.clientX - box.left) / size), 0), columns - 1);
    const row = Math.min(Math.max(Math.floor((event.clientY - box.top) / size), 0), rows - 1);
    return { row, column };
  };
  const onKey = (event: KeyboardEvent) => {
    const here = cell.value ?? { row: 0, column: -1 };
    const moves: Record<string, [number, number]> = {
      ArrowRight: [here.row, here.column + 1],
      ArrowLeft: [here.row, here.column - 1],
      ArrowDown: [here.row + 1, Math.max(here.column, 0)],
      ArrowUp: [here.row - 1, Math.max(here.column, 0)],
      Home: event.ctrlKey ? [0, 0] : [here.row, 0],
      End: event.ctrlKey ? [rows - 1, columns - 1] : [here.row, columns - 1],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    cell.value = { row: clamp(move[0], rows), column: clamp(move[1], columns) };
    requestAnimationFrame(() => canvas.current?.parentElement?.querySelector(".cursor")?.scrollIntoView({ block: "nearest", inline: "nearest" }));
  };
  return (
    <figure class="heatmap" ref={figure}>
      <div class="scroll tall" tabIndex={-1} style={running.value ? { minHeight: px(Math.max(expected, rows) * size + LABELS) } : {}}>
        <div class="grid" style={{ "--cell": `${size}px` }}>
          <div class="column-labels" aria-hidden="true">
            {view.columns.map((one, n) => <span key={n}>{one.label}</span>)}
          </div>
          <div class="row-labels" aria-hidden="true">
            {view.rows.map((one, n) => <span key={n} class={kind.value !== "encoder" && one.to === shownStep.value ? "here" : ""}>{one.label}</span>)}
          </div>
          <div
            class="cells hatched"
            id="heatmap"
            role="application"
            aria-roledescription={t.heatmap}
            aria-label={t.heatmapOf(title, rows, columns)}
            aria-describedby="reads"
            tabIndex={0}
            style={{ width: px(width), height: px(height) }}
            onKeyDown={onKey}
            onPointerMove={(event) => {
              if (!locked.value) cell.value = at(event);
            }}
            onPointerLeave={() => {
              if (!locked.value) cell.value = null;
            }}
            onClick={(event) => {
              locked.value = !locked.value;
              cell.value = at(event);
            }}
          >
            <canvas ref={canvas} aria-hidden="true" />
            <Cursor size={size} />
          </div>
        </div>
      </div>
      <Tip view={view} size={size} figure={figure} />
      <figcaption>
        <Reads view={view} />
        <Legend high={high} />
      </figcaption>
    </figure>
  );
}

function clamp(n: number, count: number): number {
  return Math.min(Math.max(n, 0), count - 1);
}

function Cursor({ size }: { size: number }) {
  const at = cell.value;
  if (!at) return null;
  return (
    <>
      <div class="cross-row" style={{ top: px(at.row * size), height: px(size) }} />
      <div class="cross-column" style={{ left: px(at.column * size), width: px(size) }} />
      <div
        class={`cursor${locked.value ? " locked" : ""}`}
        style={{ left: px(at.column * size), top: px(at.row * size), width: px(size), height: px(size) }}
      />
    </>
  );
}

// The value where the pointer is, beside its cell; #reads says the same to those who listen.
function Tip({ view, size, figure }: { view: View; size: number; figure: RefObject<HTMLElement | null> }) {
  const at = cell.value;
  const told = readingOf(view);
  if (!at || !told || !figure.current) return null;
  const frame = figure.current.getBoundingClientRect();
  const cells = figure.current.querySelector(".cells")!.getBoundingClientRect();
  const left = cells.left - frame.left + (at.column + 1) * size + 6;
  const top = cells.top - frame.top + at.row * size - 4;
  const hasRoom = left + TIP < frame.width;
  const place = hasRoom ? { left: px(left), top: px(top) } : { right: 0, top: px(top - size - 6) }; // else above its row
  return <span class="tip" id="tip" aria-hidden="true" style={place}>{told}</span>;
}

function readingOf(view: View): string {
  const at = cell.value;
  const row = at && view.rows[at.row];
  const column = at && view.columns[at.column];
  if (!at || !row || !column) return "";
  const value = view.values[at.row * view.columns.length + at.column]!;
  return words.value.cellReads(row.label, column.label, value === MASKED ? words.value.masked : weight(value));
}

function Reads({ view }: { view: View }) {
  const t = words.value;
  const told = readingOf(view);
  return <output id="reads" class={told ? "" : "faint"}>{told || t.cellHint}</output>;
}

function Legend({ high }: { high: number }) {
  const colours = weightColours.value;
  const stops = [0, 64, 128, 192, 255].map((n) => css(colours[n]!)).join(", ");
  const shown = high === 1 ? "1" : high.toFixed(2);
  const from = threshold.value ? threshold.value.toFixed(2) : "";
  return (
    <span class="legend">
      <span aria-hidden="true">0</span>
      <span class="ramp" aria-hidden="true" style={{ background: `linear-gradient(to right, ${stops})` }} />
      <span aria-hidden="true">{shown}</span>
      <span class="unseen">{words.value.legend(shown, rootScale.value, from)}</span>
      {rootScale.value && <span class="faint">√</span>}
      {from && <span class="faint" id="drawn-from">{words.value.drawnFrom(from)}</span>}
      <span class="hatched swatch" aria-hidden="true" /> <span class="faint">{words.value.masked}</span>
    </span>
  );
}
