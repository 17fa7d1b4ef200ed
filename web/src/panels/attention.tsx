import { useMemo, useState } from "preact/hooks";
import * as s from "../state";
import { settle } from "../translate";
import { placeOf } from "../recording";
import type { Kind, ModelInfo } from "../types";
import { useChoice } from "../choice";
import { nameOfKind, tellWhere } from "../kind-name";
import { later } from "../parts/later";
import { type View, sidesOf, viewOf } from "../view";
import { words } from "../words";
import { Atlas } from "./atlas";
import { Heatmap } from "./heatmap";
import { Save } from "./save";
import { WeightsTable } from "./weights-table";

const Influence = later(async () => (await import("../panels")).Influence);
const TokenLines = later<{ view: View; title: string }>(async () => (await import("../panels")).TokenLines);

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
  const [asLines, setLines] = useChoice("lines", 0);
  const title = tellWhere(weights?.heads ?? 0);
  const drawn = view !== undefined && view.rows.length > 0 && view.columns.length > 0;
  return (
    <>
      <div class="row head-of-panel">
        {!s.narrow.value && <Kinds />}
        {(drawn || s.running.value) && <Options />}
      </div>
      <p class="faint small wide">
        {kind === "encoder" && masked ? t.someMasked : kind === "decoder" && s.writesAtOnce(info) ? t.atOnceExplained : t.kindsExplained[kind]} {asLines ? t.lines.sides : t.rows}
      </p>
      <div class="beside">
        {info && <Atlas sentence={sentence} info={info} kind={kind} sides={sides} />}
        <div class="detail">
          <HeadChoice heads={weights?.heads ?? 0} asLines={drawn ? asLines > 0 : null} setLines={(on) => setLines(Number(on))} />
          {drawn ? (
            asLines ? (
              <TokenLines view={view} title={title} />
            ) : (
              <Heatmap view={view} title={title} expected={kind === "encoder" ? 0 : sentence.pieces.length + 1} />
            )
          ) : (
            <p class="note" data-unsupported={weights ? undefined : ""}>
              {weights || !info ? t.firstStep : t.noWeights(s.partOf(info, kind, s.layer.value).kind, s.layer.value + 1)}
            </p>
          )}
          {!weights && kind !== "cross" && kind !== "query" && <Influence />}
          {info && kind !== "encoder" && <Kept info={info} />}
        </div>
      </div>
      {drawn && (
        <>
          <p class="faint">{t.honesty}</p>
          {s.asTable.value && <WeightsTable view={view} title={title} />}
          <Save view={view} title={title} />
        </>
      )}
    </>
  );
}

// What decoding keeps of this layer: all keys and values, those of a window, or a state.
function Kept({ info }: { info: ModelInfo }) {
  const t = words.value;
  const block = info.blocks.find((one) => one.name === placeOf(s.kind.value === "query" ? "decoder" : s.kind.value, s.layer.value));
  const [each, once] = [block?.cached_per_token ?? 0, block?.cached_per_text ?? 0];
  if (!each && !once) return null;
  return <p class="faint small" id="kept">{t.kept(each && each.toLocaleString("en"), once && once.toLocaleString("en"), s.kind.value === "cross")}</p>;
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
          <span>{nameOfKind(kind)}</span>
        </label>
      ))}
    </fieldset>
  );
}

function HeadChoice({ heads, asLines, setLines }: { heads: number; asLines: boolean | null; setLines: (on: boolean) => void }) {
  const t = words.value;
  return (
    <div class="row">
      <h3 id="detail-title">{tellWhere(heads)}</h3>
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
      {asLines !== null && (
        <fieldset class="choice" id="shown-as">
          <legend class="unseen">{t.lines.shownAs}</legend>
          {[false, true].map((on) => (
            <label key={String(on)}>
              <input type="radio" name="shown-as" checked={asLines === on} onChange={() => setLines(on)} />
              <span>{on ? t.lines.lines : t.lines.map}</span>
            </label>
          ))}
        </fieldset>
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
