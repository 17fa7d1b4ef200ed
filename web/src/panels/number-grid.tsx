// Vectors as rows of colours, blue above 0 and red below, one canvas for all of them. Pointing at a number, or moving to
// it with the arrow keys, shows it; a click or Enter chooses it.
import { type Signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { signedColours } from "../colours";
import { exact, px } from "../format";
import { numbered } from "../head";
import { paint } from "../pixels";
import { insideWords } from "../words/inside";

export interface GridRow {
  label: string;
  symbol: string;
  values: Float32Array;
  bound: number; // the number whose colour is the strongest
  note?: string;
  isLit?: boolean;
}

interface Place {
  row: number;
  column: number;
}

interface Props {
  title: string; // for those who hear it
  rows: GridRow[];
  chosen?: Place | null;
  choose?: (place: Place) => void;
  id?: string;
}

export const ROW = 24; // pixels

export function NumberGrid({ title, rows, chosen, choose, id }: Props) {
  const t = insideWords.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const at = useSignal<Place | null>(null);
  const columns = Math.max(...rows.map(({ values }) => values.length), 1);
  useLayoutEffect(() => {
    const tiles = rows.map(({ values, bound }, y) => {
      const size = { rows: 1, columns: values.length, x: 0, y, width: values.length, height: 1 };
      return { values, ...size, low: -bound, high: bound, root: false };
    });
    paint(canvas.current!, columns, rows.length, tiles, signedColours.value);
  }, [rows, columns, signedColours.value]);

  const placeOf = (event: MouseEvent): Place => {
    const box = canvas.current!.getBoundingClientRect();
    const row = clamp(Math.floor((event.clientY - box.top) / ROW), rows.length);
    return { row, column: clamp(Math.floor(((event.clientX - box.left) / box.width) * columns), rows[row]!.values.length) };
  };
  const onKey = (event: KeyboardEvent) => {
    const here = at.value ?? chosen ?? { row: 0, column: -1 };
    if (event.key === "Enter" || event.key === " ") {
      if (here.column >= 0) choose?.(here);
    } else {
      const moves: Record<string, [number, number]> = {
        ArrowRight: [0, 1],
        ArrowLeft: [0, -1],
        ArrowDown: [1, 0],
        ArrowUp: [-1, 0],
        PageDown: [0, 16],
        PageUp: [0, -16],
        Home: [0, -Infinity],
        End: [0, Infinity],
      };
      const move = moves[event.key];
      if (!move) return;
      const row = clamp(here.row + move[0], rows.length);
      at.value = { row, column: clamp(here.column + move[1], rows[row]!.values.length) };
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="scroll tall">
      <div class="number-grid">
        <div class="labels" aria-hidden="true">
          {rows.map(({ label, isLit }, n) => <span key={n} class={isLit ? "lit" : ""} title={label}>{label}</span>)}
        </div>
        <div
          class="colours"
          id={id}
          role="application"
          aria-roledescription={t.grid}
          aria-label={`${title}: ${t.gridOf(rows.length, columns)}`}
          tabIndex={0}
          onKeyDown={onKey}
          onPointerMove={(event) => (at.value = placeOf(event))}
          onPointerLeave={() => (at.value = null)}
          onBlur={() => (at.value = null)}
          onClick={(event) => {
            at.value = placeOf(event);
            choose?.(at.value);
          }}
        >
          <canvas ref={canvas} aria-hidden="true" style={{ height: px(rows.length * ROW) }} />
          {chosen && chosen.row < rows.length && <Mark place={chosen} columns={columns} name="mark" />}
          <Cursor at={at} columns={columns} />
        </div>
        <div class="notes">
          {rows.map(({ note }, n) => <span key={n}>{note}</span>)}
          <Told at={at} rows={rows} />
        </div>
      </div>
    </div>
  );
}

function clamp(n: number, count: number): number {
  return Math.min(Math.max(n, 0), count - 1);
}

function Mark({ place, columns, name }: { place: Place; columns: number; name: string }) {
  const style = { top: px(place.row * ROW), left: `${(100 * place.column) / columns}%`, width: `${100 / columns}%`, height: px(ROW) };
  return <span class={name} style={style} />;
}

function Cursor({ at, columns }: { at: Signal<Place | null>; columns: number }) {
  return at.value && <Mark place={at.value} columns={columns} name="cursor" />;
}

function Told({ at, rows }: { at: Signal<Place | null>; rows: GridRow[] }) {
  const place = at.value;
  const row = place && rows[place.row];
  if (!place || !row) return <output class="unseen" />;
  return (
    <output style={{ top: px(place.row * ROW) }}>
      {numbered(row.symbol, place.column)} = {exact(row.values[place.column]!)}
    </output>
  );
}

export function boundOf(...many: Float32Array[]): number {
  let most = 0;
  for (const values of many) for (const value of values) most = Math.max(most, Math.abs(value));
  return most || 1;
}
