// The guided tour: one sentence, and two of its words, through the whole model. A card over the end of the page says what
// happens; what it names is opened and outlined.
import { batch } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { endTour } from "../keys";
import * as s from "../state";
import { settle, translate } from "../translate";
import { words } from "../words";
import { partsOf } from "../words/terms";
import { tourWords } from "../words/tour";
import { type Facts, factsOf } from "./facts";
import { outline } from "./outline";
import { QuizCard } from "./quiz-card";
import { type Stop, stopsOf } from "./stops";

export function Tour() {
  const t = tourWords.value;
  const facts = factsOf();
  useTranslation(facts !== null);
  return (
    <aside class="tour" aria-label={words.value.tour} id="tour">
      {facts ? <Card facts={facts} /> : (
        <div>
          <p role="status">{s.phase.value === "locked" || s.phase.value === "error" ? t.needsSentence : t.waits}</p>
          <p class="row"><button type="button" onClick={endTour}>{t.end} <kbd>Esc</kbd></button></p>
        </div>
      )}
    </aside>
  );
}

// It needs a sentence: what is typed, or the first example.
function useTranslation(isThere: boolean): void {
  useEffect(() => {
    if (isThere || s.phase.value !== "empty") return;
    s.text.value = s.text.value.trim() || (words.value.exampleTexts[s.pair.value.split(" ")[0] || "en"]?.[0] ?? words.value.exampleTexts["en"]![0]!);
    void translate();
  }, [isThere, s.phase.value]);
}

function Card({ facts }: { facts: Facts }) {
  const t = tourWords.value;
  const title = useRef<HTMLHeadingElement>(null);
  const stops = stopsOf(facts);
  const at = Math.min(s.tourStep.value, stops.length - 1);
  const stop = stops[at]!;
  const said = t.stops[stop.name];
  useEffect(() => {
    document.body.classList.add("touring");
    return () => document.body.classList.remove("touring");
  }, []);
  useEffect(() => {
    openStop(stop);
    title.current?.focus({ preventScroll: true });
    title.current?.closest(".tour")?.scrollTo(0, 0);
    return outline(stop.outlined, stop.followed);
  }, [stop.name, facts.source, facts.result]);
  const go = (to: number) => {
    if (to >= 0 && to < stops.length) s.tourStep.value = to;
  };
  const onKey = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    go(at + by);
  };
  return (
    <div onKeyDown={onKey} data-stop={stop.name}>
      <h2 tabIndex={-1} ref={title}>
        {said.title} <span class="faint small">{t.position(at + 1, stops.length)}</span>
      </h2>
      <p class="wide" id="tour-text">
        {partsOf(said.text(facts)).map((part) => (part.isTerm ? <dfn>{part.text}</dfn> : part.text))}
      </p>
      {stop.name === "tokens" && <Ids facts={facts} />}
      <QuizCard stop={stop.name} facts={facts} key={`${stop.name} ${facts.source}`} />
      <p class="row tour-buttons">
        <button type="button" id="tour-back" disabled={at === 0} onClick={() => go(at - 1)}>{words.value.previous}</button>
        <button type="button" class="main" id="tour-next" disabled={at >= stops.length - 1} onClick={() => go(at + 1)}>{words.value.next}</button>
        <button type="button" id="tour-end" onClick={endTour}>{t.end} <kbd>Esc</kbd></button>
        <span class="faint small keys-hint">{t.keys}</span>
      </p>
    </div>
  );
}

function openStop(stop: Stop): void {
  batch(() => {
    s.panel.value = stop.panel;
    if (stop.kind && s.kindsOf(s.model.value).includes(stop.kind)) s.kind.value = stop.kind;
    s.asWords.value = s.hideSpecials.value = false; // rows and columns are tokens here
    const kept = Object.fromEntries(Object.entries(s.choices.value).filter(([name]) => !(name in (stop.choices ?? {}))));
    s.choices.value = { ...kept, ...Object.fromEntries(Object.entries(stop.choices ?? {}).map(([name, value]) => [name, String(value)])) };
    s.goTo(stop.step ?? s.lastStep.value);
    s.cell.value = null;
    s.locked.value = false;
    if (stop.looked) {
      s.layer.value = stop.looked.layer;
      s.head.value = stop.looked.head;
      s.cell.value = { row: stop.looked.row, column: stop.looked.column };
      s.locked.value = true;
    }
    settle();
  });
}

function Ids({ facts }: { facts: Facts }) {
  const isFollowed = (n: number) => facts.pair?.some(({ at }) => at === n);
  return (
    <ol class="ids" id="tour-ids" aria-label={tourWords.value.tokens}>
      {facts.tokens.map(({ piece, id }, n) => (
        <li key={n} class={isFollowed(n) ? "followed" : ""}>
          <span>{piece}</span> <span class="faint small">{id}</span>
        </li>
      ))}
    </ol>
  );
}
