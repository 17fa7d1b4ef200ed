// How much each token is heard, where a mixer has no attention weights that say so; and what a layer keeps of the past.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { influenceOf, leave } from "../answers";
import { weightColours } from "../colours";
import { weight } from "../format";
import { Came } from "../parts/came";
import { shown } from "../pieces";
import { placeOf } from "../recording";
import * as s from "../state";
import { numbersOf } from "../tensors";
import { words } from "../words";
import { encoderWords } from "../words/encoder";
import { type Cell, MatrixMap, Ramp } from "./matrix-map";

const LIMIT = 128; // tokens: headway/inspect/influence.py

const at = signal<Cell | null>(null);

export function Influence() {
  const t = encoderWords.value;
  const sentence = s.sentence.value!;
  const kind = s.kind.value;
  s.beat.value;
  const tokens = kind === "encoder" ? sentence.pieces : sentence.heard;
  const isLong = tokens.length > LIMIT;
  const asked = isLong || !sentence.found ? null : influenceOf(sentence, placeOf(kind, s.layer.value));
  useEffect(() => {
    at.value = null;
    return () => void (asked && leave(asked));
  }, [asked]);
  const told = asked?.value ?? null;
  const matrix = useMemo(() => {
    if (!told) return null;
    const values = numbersOf(told.values);
    let high = 0;
    for (const value of values) if (value > high) high = value;
    const hidden = (n: number) => kind !== "encoder" && n % tokens.length > Math.floor(n / tokens.length); // not read yet
    values.forEach((_, n) => hidden(n) && (values[n] = NaN));
    const labels = tokens.map(shown);
    return { rows: labels, columns: labels, values, low: 0, high: high || 1 };
  }, [told]);
  if (isLong) return <p class="note">{t.tooLong(tokens.length, LIMIT)}</p>;
  if (!asked) return <p class="faint">{words.value.phases.loading}</p>;
  if (!matrix) return <Came sentence={sentence} asked={asked} />;
  const value = ({ row, column }: Cell) => matrix.values[row * matrix.columns.length + column]!;
  return (
    <div class="map-of">
      <MatrixMap
        id="influence"
        title={t.influence}
        matrix={matrix}
        colours={weightColours.value}
        at={at}
        here={kind === "encoder" ? -1 : s.shownStep.value - 1}
        reads={(cell) => words.value.cellReads(matrix.rows[cell.row]!, matrix.columns[cell.column]!, Number.isNaN(value(cell)) ? words.value.masked : weight(value(cell)))}
      />
      <Ramp colours={weightColours.value} low="0" high={weight(matrix.high)} name="" />
      <p class="faint small">{t.influenceNote}</p>
    </div>
  );
}
