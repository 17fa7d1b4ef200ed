import { saved } from "../api";
import * as s from "../state";
import { words } from "../words";
import { SearchSettings } from "./search-settings";

export function Settings() {
  const t = words.value;
  const info = s.model.value;
  if (saved) return null;
  if (!info || s.isExample.value) return <details class="settings kept"><summary>{t.settings}</summary></details>;
  return (
    <details class="settings">
      <summary>{t.settings}</summary>
      <div class="row">
        <label class="check">
          <input type="checkbox" checked={s.asTyped.value} onChange={(e) => (s.asTyped.value = e.currentTarget.checked)} />{" "}
          {t.asTyped}
        </label>
      </div>
      <SearchSettings info={info} />
    </details>
  );
}

const MANY = 24; // directions: more are chosen by their two languages

/** From what to what, where the model knows several ways. */
export function Direction() {
  const t = words.value;
  const info = s.model.value;
  const pivots = info?.pivots ?? [];
  if (saved || !info || s.isExample.value || info.pairs.length + pivots.length < 2) return null;
  if (info.pairs.length > MANY) return <TwoLanguages sources={info.sources} targets={info.targets} />;
  return (
    <label>
      <span class="unseen">{t.direction}</span>
      <select id="direction" value={s.pair.value} onChange={(e) => (s.pair.value = e.currentTarget.value)}>
        {info.pairs.map((one) => (
          <option value={one.join(" ")}>{one.join(" → ")}</option>
        ))}
        {pivots.map(([from, pivot, to]) => (
          <option value={`${from} ${to}`}>{[from, pivot, to].join(" → ")}</option>
        ))}
      </select>
    </label>
  );
}

function TwoLanguages({ sources, targets }: { sources: string[]; targets: string[] }) {
  const t = words.value;
  const [from = "", to = ""] = s.pair.value.split(" ");
  const choose = (source: string, target: string) => {
    s.pair.value = source === target ? `${to} ${from}` : `${source} ${target}`; // the same twice: the other way round
  };
  return (
    <>
      <label>
        <span class="unseen">{t.source}</span>
        <select id="from" value={from} onChange={(e) => choose(e.currentTarget.value, to)}>
          {sources.map((one) => (
            <option value={one}>{one}</option>
          ))}
        </select>
      </label>
      <label>
        <span class="unseen">{t.result}</span>
        <select id="to" value={to} onChange={(e) => choose(from, e.currentTarget.value)}>
          {targets.map((one) => (
            <option value={one}>{one}</option>
          ))}
        </select>
      </label>
    </>
  );
}

export function Examples({ onChoose }: { onChoose: (text: string) => void }) {
  const t = words.value;
  const from = s.pair.value.split(" ")[0] || "en";
  const texts = t.exampleTexts[from];
  if (saved || !texts) return null;
  return (
    <label>
      <span class="unseen">{t.examples}</span>
      <select
        id="examples"
        value=""
        onChange={(event) => {
          if (event.currentTarget.value) onChoose(event.currentTarget.value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">{t.examples}</option>
        {texts.map((one) => (
          <option value={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}
