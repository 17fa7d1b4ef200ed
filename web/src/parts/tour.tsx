// Eight steps through the sentence that is shown; each opens what it speaks of.
import { useEffect } from "preact/hooks";
import { factsOf } from "../facts";
import { endTour } from "../keys";
import * as s from "../state";
import type { Panel } from "../state";
import type { Kind } from "../types";
import { words } from "../words";
import { settle } from "../translate";

const STAGES: { panel: Panel; kind?: Kind }[] = [
  { panel: "attention", kind: "encoder" },
  { panel: "vectors" },
  { panel: "attention", kind: "encoder" },
  { panel: "inside", kind: "encoder" },
  { panel: "attention", kind: "decoder" },
  { panel: "attention", kind: "cross" },
  { panel: "probabilities" },
  { panel: "beam" },
];

export function Tour() {
  const t = words.value;
  const at = s.tourStep.value;
  const facts = at >= 0 ? factsOf() : null;
  useEffect(() => {
    document.body.classList.toggle("touring", at >= 0);
    const stage = STAGES[at];
    if (!stage || !facts) return;
    s.panel.value = stage.panel;
    if (stage.kind && s.kindsOf(s.model.value).includes(stage.kind)) s.kind.value = stage.kind;
    const seen = at === 2 ? facts.self : at === 5 ? facts.cross : null;
    s.goTo(at === 5 ? facts.cross.row + 1 : at === 6 ? facts.place + 1 : s.lastStep.value);
    s.cell.value = null;
    s.locked.value = false;
    if (seen) {
      [s.layer.value, s.head.value, s.asWords.value, s.hideSpecials.value] = [seen.layer - 1, seen.head - 1, false, false];
      s.cell.value = { row: seen.row, column: seen.column };
      s.locked.value = true;
    }
    settle();
    // What it speaks of stands above it.
    requestAnimationFrame(() => (document.querySelector(".beside") ?? document.getElementById("panel"))?.scrollIntoView({ block: "start" }));
  }, [at]);
  if (at < 0) return null;
  const steps = t.tourSteps;
  const step = steps[at]!;
  return (
    <aside class="tour" aria-label={t.tour} id="tour">
      <div>
        {facts ? (
          <>
            <h2>{step.title} <span class="faint small">{t.tourOf(at + 1, steps.length)}</span></h2>
            <p aria-live="polite">{step.text(facts)}</p>
          </>
        ) : (
          <p>{t.tourNeeds}</p>
        )}
        <p class="row">
          <button type="button" disabled={at === 0} onClick={() => (s.tourStep.value = at - 1)}>{t.previous}</button>
          <button type="button" class="main" id="tour-next" disabled={!facts || at === steps.length - 1} onClick={() => (s.tourStep.value = at + 1)}>
            {t.next}
          </button>
          <button type="button" onClick={endTour}>{t.tourEnd} <kbd>Esc</kbd></button>
        </p>
      </div>
    </aside>
  );
}
