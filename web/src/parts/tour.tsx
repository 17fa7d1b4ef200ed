// Eight steps through the sentence that is shown, or as many of them as the model has something to show for; each opens
// what it speaks of.
import { useEffect } from "preact/hooks";
import { type Facts, factsOf } from "../facts";
import { endTour } from "../keys";
import * as s from "../state";
import type { Panel } from "../state";
import type { Kind } from "../types";
import { words } from "../words";
import { settle } from "../translate";

const STAGES: { panel: Panel; kind?: Kind; fits?: (facts: Facts) => boolean }[] = [
  { panel: "attention", kind: "encoder" },
  { panel: "vectors" },
  { panel: "attention", kind: "encoder", fits: (facts) => facts.kinds.includes("encoder") && facts.self.weight > 0 },
  { panel: "inside", kind: "encoder", fits: (facts) => facts.self.weight > 0 },
  { panel: "attention", kind: "decoder", fits: (facts) => facts.looksBack },
  { panel: "attention", kind: "cross", fits: (facts) => facts.cross.weight > 0 },
  { panel: "probabilities", fits: (facts) => facts.kinds.includes("decoder") },
  { panel: "beam", fits: (facts) => facts.beam.size > 1 },
];

// The numbers of the steps that this model has.
function stagesOf(facts: Facts | null): number[] {
  return STAGES.map((_, n) => n).filter((n) => facts === null || (STAGES[n]!.fits?.(facts) ?? true));
}

export function Tour() {
  const t = words.value;
  const at = s.tourStep.value;
  const facts = at >= 0 ? factsOf() : null;
  const stages = stagesOf(facts);
  const number = stages[Math.min(at, stages.length - 1)] ?? 0; // of the step, among all that there are
  useEffect(() => {
    document.body.classList.toggle("touring", at >= 0);
    const stage = STAGES[number];
    if (at < 0 || !stage || !facts) return;
    s.panel.value = stage.panel;
    if (stage.kind && s.kindsOf(s.model.value).includes(stage.kind)) s.kind.value = stage.kind;
    const seen = number === 2 ? facts.self : number === 5 ? facts.cross : null;
    s.goTo(number === 5 ? facts.cross.row + 1 : number === 6 ? facts.place + 1 : s.lastStep.value);
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
  }, [at, number]);
  if (at < 0) return null;
  const step = t.tourSteps[number]!;
  return (
    <aside class="tour" aria-label={t.tour} id="tour">
      <div>
        {facts ? (
          <>
            <h2>{step.title} <span class="faint small">{t.tourOf(stages.indexOf(number) + 1, stages.length)}</span></h2>
            <p aria-live="polite">{step.text(facts)}</p>
          </>
        ) : (
          <p>{t.tourNeeds}</p>
        )}
        <p class="row">
          <button type="button" disabled={at === 0} onClick={() => (s.tourStep.value = at - 1)}>{t.previous}</button>
          <button type="button" class="main" id="tour-next" disabled={!facts || at >= stages.length - 1} onClick={() => (s.tourStep.value = at + 1)}>
            {t.next}
          </button>
          <button type="button" onClick={endTour}>{t.tourEnd} <kbd>Esc</kbd></button>
        </p>
      </div>
    </aside>
  );
}
