// Two models of a study and one text: what each makes of it, and where they differ.
import { useEffect, useMemo } from "preact/hooks";
import { type Word, differing } from "../differing";
import { signed } from "../format";
import { languageTag } from "../pieces";
import type { Recording } from "../recording";
import { type Problem, tellProblem } from "../problems";
import { keyOf, other, translateBeside } from "../side-by-side";
import * as s from "../state";
import { modelsOf } from "../studies";
import { open, translate } from "../translate";
import type { Study } from "../types";
import { words } from "../words";

export function SideBySide({ study }: { study: Study }) {
  const t = words.value;
  s.beat.value;
  const first = s.recording.value;
  const key = keyOf(first);
  useEffect(() => void (key && translateBeside(first!, key)), [key]);
  const models = study.rows.flatMap((row) => modelsOf(row, t.study.seed));
  const second = key && other.value?.key === key ? other.value : null;
  const texts = [first?.text ?? "", second?.made?.text ?? ""] as const;
  const [left, right] = useMemo(() => differing(...texts), texts);
  if (!models.length) return null;
  const isForeign = (name: string) => name !== "" && !models.some((one) => one.name === name);
  const reads = s.model.value !== null && s.model.value.kind !== "translation";
  const waits = !s.text.value.trim() || !s.model.value || s.running.value || s.keyMissing.value;
  return (
    <section class="pair-of-models" aria-labelledby="both-title">
      <h4 id="both-title">{t.study.both}</h4>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (!waits) void translate();
        }}
      >
        <label class="grows">
          <span class="unseen">{t.source}</span>
          <textarea
            id="both-text"
            rows={2}
            dir="auto"
            placeholder={t.placeholder}
            value={s.text.value}
            onInput={(event) => (s.text.value = event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
              event.preventDefault();
              if (!waits) void translate();
            }}
          />
        </label>
        <button type="submit" class="main" id="both-go" disabled={waits}>
          {s.beside.value ? (reads ? t.study.readBoth : t.study.translateBoth) : reads ? t.read : t.translate}
        </button>
      </form>
      <div class="panes">
        <div class="pane">
          <label>
            <span class="unseen">{t.study.firstModel}</span>
            <select id="left-model" value={s.chosenModel.value} onChange={(e) => void open(e.currentTarget.value)}>
              {isForeign(s.chosenModel.value) && <option value={s.chosenModel.value}>{s.chosenModel.value}</option>}
              {models.map((one) => (
                <option value={one.name}>{one.label}</option>
              ))}
            </select>
          </label>
          <Output
            id="left"
            made={first?.ended ? first : null}
            marked={second?.made ? left : null}
            waits={s.running.value}
          />
        </div>
        <div class="pane">
          <label>
            <span class="unseen">{t.study.secondModel}</span>
            <select id="right-model" value={s.beside.value} onChange={(e) => (s.beside.value = e.currentTarget.value)}>
              <option value="">{t.study.nobody}</option>
              {isForeign(s.beside.value) && <option value={s.beside.value}>{s.beside.value}</option>}
              {models.map((one) => (
                <option value={one.name}>{one.label}</option>
              ))}
            </select>
          </label>
          <Output
            id="right"
            made={second?.made ?? null}
            marked={second?.made ? right : null}
            waits={!!second && !second.made && !second.problem}
            problem={second?.problem}
          />
        </div>
      </div>
      <p class="faint small">{t.study.bothNote}</p>
    </section>
  );
}

interface Shown {
  id: string;
  made: Recording | null;
  marked: Word[] | null;
  waits: boolean;
  problem?: Problem | null;
}

function Output({ id, made, marked, waits, problem }: Shown) {
  const t = words.value;
  const language = languageTag(s.pair.value.split(" ")[1]);
  return (
    <>
      <div class="output" id={`${id}-output`} dir="auto" lang={language} aria-busy={waits}>
        {marked
          ? marked.map((one, n) => (one.differs ? <mark key={n}>{one.text}</mark> : one.text))
          : (made?.text ?? (waits ? t.phases.loading : ""))}
      </div>
      {problem && <p role="alert" class="alert small">{tellProblem(problem)}</p>}
      <p class="faint small count" id={`${id}-facts`}>
        {!!made?.seconds && t.study.took(made.seconds.toFixed(2))}
        {!!made?.seconds && made.score !== null && ` · ${t.study.scored(signed(made.score))}`}
      </p>
    </>
  );
}
