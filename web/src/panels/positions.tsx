// The model's own positions, as a picture and as a curve.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { css, signedColours } from "../colours";
import { signed } from "../format";
import { paint } from "../pixels";
import type { PositionTable } from "../types";
import { words } from "../words";
import { boundOf } from "./number-grid";

export function Positions({ table }: { table: PositionTable }) {
  const t = words.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [cell, setCell] = useState<[number, number] | null>(null);
  const rows = table.values.length;
  const columns = table.values[0]?.length ?? 0;
  const [channel, setChannel] = useState(Math.min(8, columns - 1));
  const values = useMemo(() => Float32Array.from(table.values.flat(), (value) => value ?? NaN), [table]);
  const most = useMemo(() => boundOf(values.filter((value) => !Number.isNaN(value))), [values]);
  const stops = [0, 64, 128, 192, 255].map((n) => css(signedColours.value[n]!)).join(", ");
  useLayoutEffect(() => {
    const tile = { values, rows, columns, x: 0, y: 0, width: columns, height: rows, low: -most, high: most, root: false };
    paint(canvas.current!, columns, rows, [tile], signedColours.value);
  }, [table, signedColours.value]);
  const over = (event: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    setCell([Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)]);
  };
  const curve = table.values.map((row) => row[Math.min(channel, columns - 1)]!);
  const bound = Math.max(...curve.map((value) => Math.abs(value ?? 0))) || 1;
  const at = (value: number, n: number) => `${curve[n - 1] == null ? "M" : "L"}${(100 * n) / Math.max(rows - 1, 1)} ${50 - (46 * value) / bound}`;
  const path = curve.map((value, n) => (value === null ? "" : at(value, n))).join(" ");
  const reads = (row: number, column: number) => {
    const value = table.values[row]![column]!;
    return t.cellReads(String(row), String(column), value === null ? t.masked : signed(value, 4));
  };
  return (
    <>
      <h3>{t.positionTitle(table.kind)}</h3>
      <p class="faint">{table.columns === "channel" ? t.positionAdded : t.positionScores}</p>
      <canvas ref={canvas} class="table-canvas hatched" data-table={table.kind} role="img" aria-label={t.positionTitle(table.kind)} onPointerMove={over} onPointerLeave={() => setCell(null)} />
      <p class="ends faint small" aria-hidden="true">
        <span>{t.axes[table.columns === "channel" ? "channel" : "key"]} 0</span>
        <span class="legend">
          {signed(-most, 2)} <span class="ramp" style={{ background: `linear-gradient(to right, ${stops})` }} /> {signed(most, 2)}
        </span>
        <span>{columns - 1}</span>
      </p>
      <output id="position-reads" class="count">
        {cell ? reads(...cell) : " "}
      </output>
      <label class="row">
        {table.columns === "channel" ? t.channel : t.key}
        <input type="range" min={0} max={columns - 1} value={channel} onInput={(e) => setChannel(Number(e.currentTarget.value))} />
        <output class="count">{channel}</output>
      </label>
      <svg class="curve" viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={`${table.columns === "channel" ? t.channel : t.key} ${channel}`}>
        <line x1={0} x2={100} y1={50} y2={50} />
        <path d={path} />
      </svg>
      <p class="ends faint small" aria-hidden="true">
        <span>{t.axes[table.columns === "channel" ? "position" : "query"]} 0</span>
        <span>{rows - 1}</span>
      </p>
    </>
  );
}
