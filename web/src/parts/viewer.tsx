// The panels, as tabs: arrow keys change between them, as tabs do.
import { useEffect, useRef } from "preact/hooks";
import { Attention } from "../panels/attention";
import { Probabilities } from "../panels/probabilities";
import { saved } from "../api";
import { site } from "../site";
import * as s from "../state";
import { translate } from "../translate";
import { words } from "../words";
import { HandOut } from "./hand-out";
import { later } from "./later";

const SHOWN = {
  attention: Attention,
  inside: later(async () => (await import("../panels")).Inside),
  layer: later(async () => (await import("../panels/layer/panel")).ThroughLayer),
  probabilities: Probabilities,
  beam: later(async () => (await import("../panels")).BeamPanel),
  compare: later(async () => (await import("../panels")).ComparePanel),
  attribution: later(async () => (await import("../panels")).AttributionPanel),
  vectors: later(async () => (await import("../panels")).VectorsPanel),
  architecture: later(async () => (await import("../panels")).Architecture),
  variants: later(async () => (await import("../panels")).Variants),
  study: later(async () => (await import("../panels")).StudyPanel),
};
const WITHOUT_SENTENCE: s.Panel[] = ["architecture", "variants", "study"];

function isOffered(panel: s.Panel): boolean {
  if (panel === "variants") return !saved || site !== null; // its pictures are not saved with the page
  return panel !== "study" || s.studies.value.length > 0;
}

export function Viewer() {
  const t = words.value;
  const list = useRef<HTMLDivElement>(null);
  const offered = s.PANELS.filter(isOffered);
  const onKey = (event: KeyboardEvent) => {
    const count = offered.length;
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -count, End: count }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = offered.indexOf(s.panel.value) + by;
    const next = Math.abs(by) > 1 ? (by < 0 ? 0 : count - 1) : (at + count) % count;
    s.panel.value = offered[next]!;
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  useEffect(() => {
    document.getElementById(`tab-${s.panel.value}`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [s.panel.value, offered.length]);
  const Panel = SHOWN[s.panel.value];
  const needsSentence = !WITHOUT_SENTENCE.includes(s.panel.value) && !s.sentence.value;
  return (
    <section class="viewer">
      <div class="tabs" role="tablist" aria-label={t.title} ref={list} onKeyDown={onKey}>
        {offered.map((one) => (
          <button
            type="button"
            role="tab"
            key={one}
            id={`tab-${one}`}
            aria-selected={s.panel.value === one}
            aria-controls="panel"
            tabIndex={s.panel.value === one ? 0 : -1}
            onClick={() => (s.panel.value = one)}
          >
            {t.panels[one]}
          </button>
        ))}
      </div>
      <div class="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${s.panel.value}`} data-panel={s.panel.value} tabIndex={-1}>
        {needsSentence ? <Nothing /> : <Panel />}
      </div>
      <HandOut />
    </section>
  );
}

// Nothing is there to be seen: a click, and there is.
function Nothing() {
  const t = words.value;
  const texts = s.phase.value === "empty" ? (t.exampleTexts[s.pair.value.split(" ")[0] || "en"] ?? []) : [];
  return (
    <>
      <p class="faint">{t.nothingYet}{texts.length > 0 && ` ${t.tryOne}`}</p>
      <div class="tries">
        {texts.map((one) => (
          <button
            type="button"
            key={one}
            onClick={() => {
              s.text.value = one;
              void translate();
            }}
          >
            {one}
          </button>
        ))}
      </div>
    </>
  );
}
