// The panels, as tabs: arrow keys change between them, as tabs do.
import { useEffect, useRef } from "preact/hooks";
import { Architecture } from "../panels/architecture";
import { Attention } from "../panels/attention";
import { BeamPanel } from "../panels/beam";
import { Inside } from "../panels/inside";
import { Probabilities } from "../panels/probabilities";
import { VectorsPanel } from "../panels/vectors";
import * as s from "../state";
import { words } from "../words";

const SHOWN = {
  attention: Attention,
  inside: Inside,
  probabilities: Probabilities,
  beam: BeamPanel,
  vectors: VectorsPanel,
  architecture: Architecture,
};

export function Viewer() {
  const t = words.value;
  const list = useRef<HTMLDivElement>(null);
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -s.PANELS.length, End: s.PANELS.length }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = s.PANELS.indexOf(s.panel.value) + by;
    const next = Math.abs(by) > 1 ? (by < 0 ? 0 : s.PANELS.length - 1) : (at + s.PANELS.length) % s.PANELS.length;
    s.panel.value = s.PANELS[next]!;
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  useEffect(() => {
    document.getElementById(`tab-${s.panel.value}`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [s.panel.value]);
  const Panel = SHOWN[s.panel.value];
  const needsSentence = s.panel.value !== "architecture" && !s.sentence.value;
  return (
    <section class="viewer">
      <div class="tabs" role="tablist" aria-label={t.title} ref={list} onKeyDown={onKey}>
        {s.PANELS.map((one) => (
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
        {needsSentence ? <p class="faint">{t.nothingYet}</p> : <Panel />}
      </div>
    </section>
  );
}
