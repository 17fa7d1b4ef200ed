// One vector as a row of colours, with its numbers where it is pointed at or focused.
import { useMemo } from "preact/hooks";
import { NumberGrid } from "./number-grid";

interface Props {
  label: string;
  values: Float32Array;
  bound: number;
  note?: string;
  lit?: boolean;
}

export function NumberStrip({ label, values, bound, note, lit }: Props) {
  const rows = useMemo(() => [{ label, symbol: label, values, bound, note, isLit: lit }], [label, values, bound, note, lit]);
  return <NumberGrid title={label} rows={rows} />;
}
