// The translate bar: what is typed, and what comes of it.
import { useRef } from "preact/hooks";
import { saved } from "../api";
import { textNumber } from "../recorded-texts";
import { site } from "../site";
import { languageTag } from "../pieces";
import * as s from "../state";
import { chooseText, stop, translate } from "../translate";
import { words } from "../words";
import { Direction, Examples, Settings } from "./settings";
import { Result } from "./result";

const PAUSE = 600; // milliseconds without a key, when translating as one types

export function Bar() {
  const t = words.value;
  const area = useRef<HTMLTextAreaElement>(null);
  const timer = useRef(0);
  const typed = (value: string) => {
    s.text.value = value;
    clearTimeout(timer.current);
    if (s.asTyped.value && value.trim()) timer.current = window.setTimeout(() => void translate(), PAUSE);
  };
  const [from] = s.pair.value.split(" ");
  const empty = !s.text.value.trim();
  const loads = s.phase.value === "starting";
  const why = site ? t.handOut.siteNote(site.texts.length) : saved ? t.savedPage : s.keyMissing.value ? t.needKey : loads ? t.modelLoads : empty ? t.needText : "";
  const reading = !loads && s.model.value !== null && s.model.value.kind !== "translation";
  return (
    <section class="bar" aria-label={t.translate}>
      <form
        class="pane"
        onSubmit={(event) => {
          event.preventDefault();
          if (!why) void translate();
        }}
      >
        <div class="pane-head">
          <label for="text">{from ? t.sourceOf(from) : t.source}</label>
          <span class="faint count">
            {s.charLimit.value > 0 && t.characters([...s.text.value].length, s.charLimit.value)}
          </span>
        </div>
        <textarea
          id="text"
          ref={area}
          rows={2}
          dir="auto"
          lang={languageTag(from)}
          readOnly={!!saved}
          placeholder={t.placeholder}
          value={s.text.value}
          onInput={(event) => typed(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            if (!why) void translate();
          }}
        />
        <div class="actions">
          {site ? (
            <RecordedTexts />
          ) : s.running.value ? (
            <button key="stop" type="button" class="main" id="stop" onClick={stop}>
              {t.stop} <kbd>Esc</kbd>
            </button>
          ) : (
            <button key="go" type="submit" class="main" id="go" disabled={!!why || !s.model.value} aria-describedby="why" title="Ctrl + ↵">
              {reading ? t.read : t.translate}
            </button>
          )}
          <Direction />
          <Examples onChoose={typed} />
          <Settings />
          <span id="why" class="faint">{why}</span>
        </div>
      </form>
      <Result />
    </section>
  );
}

function RecordedTexts() {
  const texts = site!.texts.filter((one) => one.model === s.chosenModel.value);
  return (
    <label class="recorded">
      <span class="unseen">{words.value.handOut.recorded}</span>
      <select id="recorded" value={textNumber()} onChange={(event) => void chooseText(site!.texts[Number(event.currentTarget.value)]!)}>
        {texts.map((one) => <option key={one.file} value={site!.texts.indexOf(one)}>{one.text}</option>)}
      </select>
    </label>
  );
}
