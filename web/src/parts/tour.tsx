// Eight steps through the sentence that is shown; each opens what it speaks of.
import { useEffect } from "preact/hooks";
import { factsOf } from "../facts";
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
    if (at === 5) [s.layer.value, s.head.value] = [facts.cross.layer - 1, facts.cross.head - 1];
    if (at === 2) [s.layer.value, s.head.value] = [facts.self.layer - 1, facts.self.head - 1];
    if (at === 6) s.goTo(facts.place + 1);
    if (at === 7) s.goTo(s.lastStep.value);
    settle();
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
          <button type="button" onClick={() => (s.tourStep.value = -1)}>{t.tourEnd}</button>
        </p>
      </div>
    </aside>
  );
}
