import { saved } from "../api";
import * as s from "../state";
import { words } from "../words";
import { SearchSettings } from "./search-settings";

export function Settings() {
  const t = words.value;
  const info = s.model.value;
  if (saved || !info || s.isExample.value) return null;
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

/** From what to what, where the model knows several ways. */
export function Direction() {
  const t = words.value;
  const info = s.model.value;
  if (saved || !info || s.isExample.value || info.pairs.length < 2) return null;
  return (
    <label>
      <span class="unseen">{t.direction}</span>
      <select id="direction" value={s.pair.value} onChange={(e) => (s.pair.value = e.currentTarget.value)}>
        {info.pairs.map((one) => (
          <option value={one.join(" ")}>{one.join(" → ")}</option>
        ))}
      </select>
    </label>
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
