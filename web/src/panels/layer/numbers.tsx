// Vectors as strips, and all their numbers as a table when somebody wants them.
import { useState } from "preact/hooks";
import { layerWords } from "../../words/layer";
import { NumberStrip } from "../number-strip";

// Seven digits that count: what is printed can be computed with.
export function precise(value: number): string {
  return String(Number(value.toPrecision(7))).replace("-", "−");
}

export function lengthOf(values: Float32Array): number {
  return Math.hypot(...values);
}

export interface Vector {
  name: string;
  note?: string; // what it is
  values: Float32Array;
  lit?: boolean;
}

// One below the other, each with its length. A few channels are often much larger than all others, and would leave those
// without a colour: each strip has a scale of its own, beyond which colours stay the same.
export function Vectors({ vectors }: { vectors: Vector[] }) {
  const t = layerWords.value;
  return (
    <div class="strips vectors">
      {vectors.map((one) => (
        <div key={one.name} class="vector">
          <NumberStrip label={one.name} values={one.values} bound={(3 * lengthOf(one.values)) / Math.sqrt(one.values.length) || 1} note={t.lengthIs(lengthOf(one.values).toFixed(2))} lit={one.lit} />
          {one.note && <span class="small faint">{one.note}</span>}
        </div>
      ))}
      <p class="small faint">{t.ownScales}</p>
    </div>
  );
}

interface TableProps {
  id: string;
  title: string;
  columns: { name: string; values: ArrayLike<number> | number }[]; // a number is that of all channels
}

// A row for each channel.
export function AllNumbers({ id, title, columns }: TableProps) {
  const t = layerWords.value;
  const [isOpen, setOpen] = useState(false);
  const rows = Math.max(...columns.map(({ values }) => (typeof values === "number" ? 0 : values.length)));
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary id={`${id}-open`}>{t.numbersOf(title)}</summary>
      {isOpen && (
        <div class="scroll tall" tabIndex={0} role="region" aria-label={t.numbersOf(title)}>
          <table class="numbers" id={id}>
            <thead>
              <tr>
                <th scope="col">{t.channel}</th>
                {columns.map((one) => <th scope="col" class="end" key={one.name}>{one.name}</th>)}
              </tr>
            </thead>
            <tbody>
              {Array.from({ length: rows }, (_, n) => (
                <tr key={n}>
                  <th scope="row">{n + 1}</th>
                  {columns.map((one) => <td key={one.name}>{precise(typeof one.values === "number" ? one.values : one.values[n]!)}</td>)}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
