import { useMemo, useState } from "preact/hooks";
import * as s from "../state";
import { settle } from "../translate";
import type { Kind } from "../types";
import { sidesOf, viewOf } from "../view";
import { words } from "../words";
import { Atlas } from "./atlas";
import { Heatmap } from "./heatmap";
import { Save } from "./save";
import { WeightsTable } from "./weights-table";

export function Attention() {
  const t = words.value;
  const sentence = s.sentence.value!;
  const info = s.model.value;
  const kind = s.kind.value;
  s.beat.value;
  const options = { step: s.shownStep.value, asWords: s.asWords.value, hideSpecials: s.hideSpecials.value };
  const weights = sentence.weightsOf(kind, s.layer.value);
  const masked = s.hides(info, kind, s.layer.value);
  const grows = kind === "encoder" ? "" : `${options.step} ${s.beat.value}`; // the encoder has read once and for all
  const sides = useMemo(() => sidesOf(sentence, kind, options), [sentence, kind, grows, options.asWords, options.hideSpecials]);
  const view = useMemo(() => weights && viewOf(weights, masked, s.head.value, sides), [weights, masked, s.head.value, sides]);
  const drawn = view !== undefined && view.rows.length > 0 && view.columns.length > 0;
  return (
    <>
      <div class="row head-of-panel">
        {!s.narrow.value && <Kinds />}
        {(drawn || s.running.value) && <Options />}
      </div>
      <p class="faint small wide">
        {kind === "encoder" && masked ? t.someMasked : t.kindsExplained[kind]} {t.rows}
      </p>
      <div class="beside">
        {info && <Atlas sentence={sentence} info={info} kind={kind} sides={sides} />}
        <div class="detail">
          <HeadChoice heads={weights?.heads ?? 0} />
          {drawn ? (
            <Heatmap view={view} title={title(t)} expected={kind === "encoder" ? 0 : sentence.pieces.length + 1} />
          ) : (
            <p class="note" data-unsupported={weights ? undefined : ""}>
              {weights || !info ? t.firstStep : t.noWeights(s.partOf(info, kind, s.layer.value).kind, s.layer.value + 1)}
            </p>
          )}
        </div>
      </div>
      {drawn && (
        <>
          <p class="faint">{t.honesty}</p>
          {s.asTable.value && <WeightsTable view={view} title={title(t)} />}
          <Save view={view} title={title(t)} />
        </>
      )}
    </>
  );
}

function title(t: typeof words.value): string {
  const head = s.head.value < 0 ? t.meanOfHeads : t.headN(s.head.value + 1);
  return t.where(t.kinds[s.kind.value], t.layerN(s.layer.value + 1), head);
}

function Kinds() {
  const t = words.value;
  return (
    <fieldset class="choice">
      <legend class="unseen">{t.kind}</legend>
      {s.kindsOf(s.model.value).map((kind: Kind) => (
        <label key={kind}>
          <input
            type="radio"
            name="kind"
            value={kind}
            checked={s.kind.value === kind}
            onChange={() => {
              s.kind.value = kind;
              settle();
            }}
          />
          <span>{t.kinds[kind]}</span>
        </label>
      ))}
    </fieldset>
  );
}

function HeadChoice({ heads }: { heads: number }) {
  const t = words.value;
  return (
    <div class="row">
      <h3 id="detail-title">{title(t)}</h3>
      {heads > 1 && (
        <label>
          {t.head}{" "}
          <select id="head" value={s.head.value} onChange={(event) => (s.head.value = Number(event.currentTarget.value))}>
            <option value={-1}>{t.mean}</option>
            {Array.from({ length: heads }, (_, n) => (
              <option value={n}>{n + 1}</option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}

function Options() {
  const t = words.value;
  const boxes = [
    ["words", t.asWords, s.asWords],
    ["plain", t.hideSpecials, s.hideSpecials],
    ["own", t.ownScale, s.ownScale],
    ["root", t.rootScale, s.rootScale],
    ["table", t.asTable, s.asTable],
  ] as const;
  const changed = boxes.filter(([, , signal]) => signal.value).length + Number(s.threshold.value > 0);
  const [wasChanged] = useState(changed > 0); // by the address: then they are shown
  return (
    <details class="options" open={wasChanged}>
      <summary id="options">{t.options}{changed > 0 && ` (${changed})`}</summary>
    <fieldset class="choice">
      <legend class="unseen">{t.options}</legend>
      {boxes.map(([id, name, signal]) => (
        <label key={id} class="check">
          <input id={`show-${id}`} type="checkbox" checked={signal.value} onChange={(e) => (signal.value = e.currentTarget.checked)} />{" "}
          {name}
        </label>
      ))}
      <label>
        {t.threshold}{" "}
        <input id="threshold" type="range" min={0} max={0.95} step={0.05} value={s.threshold.value} onInput={(e) => (s.threshold.value = Number(e.currentTarget.value))} />{" "}
        <output class="count">{s.threshold.value.toFixed(2)}</output>
      </label>
    </fieldset>
    </details>
  );
}
