// A matrix with labels, whatever its numbers say: colours, the number at the pointer, marks in cells and beside rows.
import type { Signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { css } from "../colours";
import { px } from "../format";
import { paint } from "../pixels";
import { narrow } from "../state";
import { words } from "../words";

export interface Cell {
  row: number;
  column: number;
}

export interface Matrix {
  rows: string[];
  columns: string[];
  values: Float32Array; // (rows, columns); NaN: there is none
  low: number;
  high: number;
}

interface Shown {
  id: string;
  title: string;
  matrix: Matrix;
  colours: Uint32Array;
  at: Signal<Cell | null>; // may be shared with other maps of the same cells
  reads: (cell: Cell) => string;
  here?: number; // a row that stands out
  marks?: { cell: Cell; kind: "strongest" | "aligned" }[];
  rowMarks?: ReadonlySet<number>;
  rowMarkTitle?: string;
}

const clamp = (n: number, count: number): number => Math.min(Math.max(n, 0), count - 1);

export function MatrixMap({ id, title, matrix, colours, at, reads, here = -1, marks = [], rowMarks, rowMarkTitle }: Shown) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { rows, columns, values, low, high } = matrix;
  const size = Math.max(rows.length, columns.length) > 30 ? 14 : narrow.value ? 18 : 22;
  useLayoutEffect(() => {
    const tile = { values, rows: rows.length, columns: columns.length, x: 0, y: 0, width: columns.length, height: rows.length, low, high, root: false };
    paint(canvas.current!, columns.length, rows.length, [tile], colours);
  }, [values, low, high, colours]);
  const pointed = (event: PointerEvent | MouseEvent): Cell => {
    const box = canvas.current!.getBoundingClientRect();
    const place = (along: number, count: number) => clamp(Math.floor(along / size), count);
    return { row: place(event.clientY - box.top, rows.length), column: place(event.clientX - box.left, columns.length) };
  };
  const onKey = (event: KeyboardEvent) => {
    const now = at.value ?? { row: 0, column: -1 };
    const moves: Record<string, [number, number]> = {
      ArrowRight: [now.row, now.column + 1],
      ArrowLeft: [now.row, now.column - 1],
      ArrowDown: [now.row + 1, Math.max(now.column, 0)],
      ArrowUp: [now.row - 1, Math.max(now.column, 0)],
      Home: [event.ctrlKey ? 0 : now.row, 0],
      End: [event.ctrlKey ? rows.length - 1 : now.row, columns.length - 1],
    };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    at.value = { row: clamp(move[0], rows.length), column: clamp(move[1], columns.length) };
  };
  const cell = at.value && at.value.row < rows.length && at.value.column < columns.length ? at.value : null;
  const place = ({ row, column }: Cell) => ({ left: px(column * size), top: px(row * size), width: px(size), height: px(size) });
  return (
    <figure class="heatmap matrix">
      <p class="map-title">{title}</p>
      <div class="scroll" tabIndex={-1}>
        <div class="grid" style={{ "--cell": `${size}px` }}>
          <div class="column-labels" aria-hidden="true">
            {columns.map((one, n) => <span key={n}>{one}</span>)}
          </div>
          <div class="row-labels" aria-hidden="true">
            {rows.map((one, n) => (
              <span key={n} class={n === here ? "here" : ""}>
                {rowMarks?.has(n) && <b title={rowMarkTitle}>≠ </b>}
                {one}
              </span>
            ))}
          </div>
          <div
            class="cells hatched"
            id={id}
            role="application"
            aria-roledescription={words.value.heatmap}
            aria-label={words.value.heatmapOf(title, rows.length, columns.length)}
            aria-describedby={`${id}-reads`}
            tabIndex={0}
            style={{ width: px(columns.length * size), height: px(rows.length * size) }}
            onKeyDown={onKey}
            onPointerMove={(event) => (at.value = pointed(event))}
            onClick={(event) => (at.value = pointed(event))}
          >
            <canvas ref={canvas} aria-hidden="true" />
            {marks.map((one, n) => <div key={n} class={one.kind} style={place(one.cell)} />)}
            {cell && <div class="cursor" style={place(cell)} />}
          </div>
        </div>
      </div>
      <figcaption>
        <output id={`${id}-reads`} class={cell ? "reads" : "reads faint"}>{cell ? reads(cell) : words.value.cellHint}</output>
      </figcaption>
    </figure>
  );
}

// What the colours say; low and high as they are to be read.
export function Ramp({ colours, low, high, name }: { colours: Uint32Array; low: string; high: string; name: string }) {
  const stops = [0, 64, 128, 192, 255].map((n) => css(colours[n]!)).join(", ");
  return (
    <span class="legend small">
      <span class="faint">{name}</span>
      <span>{low}</span>
      <span class="ramp" aria-hidden="true" style={{ background: `linear-gradient(to right, ${stops})` }} />
      <span>{high}</span>
    </span>
  );
}
