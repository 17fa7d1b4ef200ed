// A vector as a row of colours: blue above 0, red below.
import { useLayoutEffect, useRef } from "preact/hooks";
import { signedColours } from "../colours";
import { paint } from "../pixels";

interface Props {
  label: string;
  values: Float32Array;
  bound: number;
  note?: string;
  lit?: boolean;
}

export function NumberStrip({ label, values, bound, note = "", lit = false }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const columns = values.length;
    const tile = { values, rows: 1, columns, x: 0, y: 0, width: columns, height: 1, low: -bound, high: bound, root: false };
    paint(canvas.current!, columns, 1, [tile], signedColours.value);
  }, [values, bound, signedColours.value]);
  return (
    <div class={`strip-row${lit ? " lit" : ""}`}>
      <span class="label" title={label}>{label}</span>
      <canvas ref={canvas} aria-hidden="true" />
      <span class="count small">{note}</span>
    </div>
  );
}

export function boundOf(...many: Float32Array[]): number {
  let most = 0;
  for (const values of many) for (const value of values) most = Math.max(most, Math.abs(value));
  return most || 1;
}
