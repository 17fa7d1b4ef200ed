import { chooseTheme, theme, type Theme } from "../colours";
import { short } from "../format";
import { change, giveKey } from "../translate";
import * as s from "../state";
import { TONGUES, choose, tongue, words, type Tongue } from "../words";

export function Header() {
  const t = words.value;
  const info = s.model.value;
  return (
    <header class="top">
      <span class="name">Headway</span>
      <h1>{t.whatItIs}</h1>
      <span class="about">
        {s.models.value.length > 1 ? (
          <label>
            <span class="unseen">{t.model}</span>
            <select value={s.chosenModel.value} onChange={(e) => void change(e.currentTarget.value)}>
              {!s.models.value.some((one) => one.name === s.chosenModel.value) && <option value={s.chosenModel.value}>{s.chosenModel.value}</option>}
              {s.models.value.map((one) => (
                <option value={one.name}>{one.name}</option>
              ))}
            </select>
          </label>
        ) : (
          <strong>{s.chosenModel.value}</strong>
        )}
        {info && !s.isExample.value && <span class="faint">{t.parameters(short(info.parameters))}</span>}
      </span>
      {s.needsKey.value && (
        <label>
          {t.apiKey}{" "}
          <input
            id="key"
            type="password"
            autocomplete="off"
            onChange={(event) => void giveKey(event.currentTarget.value)}
          />
        </label>
      )}
      <span class="buttons">
        <button type="button" id="tour-start" onClick={() => (s.tourStep.value = 0)} aria-pressed={s.tourStep.value >= 0}>
          {s.narrow.value ? t.tourShort : t.tour}
        </button>
        <label>
          <span class="unseen">{t.interfaceLanguage}</span>
          <select id="tongue" value={tongue.value} onChange={(e) => void choose(e.currentTarget.value as Tongue)}>
            {Object.entries(TONGUES).map(([one, { name, tag }]) => (
              <option value={one} lang={tag} key={one}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          <span class="unseen">{t.theme}</span>
          <select id="theme" value={theme.value} onChange={(e) => chooseTheme(e.currentTarget.value as Theme)}>
            {(["system", "light", "dark"] as const).map((one) => (
              <option value={one}>{t.themes[one]}</option>
            ))}
          </select>
        </label>
        <button type="button" onClick={() => (s.helpOpen.value = true)} aria-label={t.help} title={t.help}>
          ?
        </button>
      </span>
    </header>
  );
}
