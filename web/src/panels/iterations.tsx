// Mask-predict: what each iteration masked, what it put there, and how sure it was.
import { saved } from "../api";
import { percent } from "../format";
import { shown } from "../pieces";
import * as s from "../state";
import { showIteration } from "../translate";
import { encoderWords } from "../words/encoder";
import { HeatTable } from "./layer/heat-table";

export function Iterations() {
  const t = encoderWords.value.iterations;
  const { iterations } = s.sentence.value!;
  const isFixed = saved !== null || s.isExample.value || s.running.value;
  const input = s.sentence.value!.input!;
  const shownAt = iterations.findLastIndex((one) => one.read.every((id, n) => id === input.ids[n]));
  const count = iterations[0]?.ids.length ?? 0;
  return (
    <>
      <h3>{t.title(iterations.length)}</h3>
      <p class="faint">{t.intro}</p>
      <HeatTable
        id="iterations"
        caption={t.table}
        corner={t.iteration}
        hasText
        columns={Array.from({ length: count }, (_, n) => ({ label: String(n + 1), go: () => s.goTo(n + 1), isHere: n === s.shownStep.value - 1 }))}
        rows={iterations.map((_, n) => ({ label: String(n + 1), go: isFixed ? undefined : () => void showIteration(n), isHere: n === shownAt }))}
        cell={(row, column) => {
          const { ids, read, pieces, logps } = iterations[row]!;
          const isNew = row === 0 || read[column] !== iterations[row - 1]!.ids[column];
          const sure = Math.exp(logps[column]!);
          const piece = shown(pieces[column]!);
          const before = row ? iterations[row - 1]!.ids[column] : -1;
          const title = isNew ? (ids[column] === before ? t.again(piece, percent(sure)) : t.predicted(piece, percent(sure))) : t.kept(piece, percent(sure));
          return { text: isNew ? `${piece} ↻` : piece, share: 0.45 * sure, title };
        }}
      />
      <p class="faint small">{t.legend(shownAt + 1)} {!isFixed && t.choose}</p>
    </>
  );
}
