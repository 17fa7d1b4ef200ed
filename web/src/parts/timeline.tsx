import { shown } from "../pieces";
import { pause, play } from "../play";
import * as s from "../state";
import { words } from "../words";

export function Timeline() {
  const t = words.value;
  s.beat.value;
  if (s.readsOnly(s.model.value)) return null; // it takes no steps
  const last = s.lastStep.value;
  const at = s.shownStep.value;
  const made = s.recording.value;
  const sentence = s.sentence.value;
  const move = (to: number) => {
    pause();
    s.goTo(to);
  };
  const buttons: [string, string, () => void, boolean][] = [
    ["⇤", t.toStart, () => move(0), at > 0],
    ["←", t.back, () => move(at - 1), at > 0],
    [s.playing.value ? "❚❚" : "▶", s.playing.value ? t.pause : t.play, play, last > 0],
    ["→", t.forward, () => move(at + 1), at < last],
    ["⇥", t.toEnd, () => move(last), at < last],
  ];
  return (
    <section class="timeline" aria-label={t.timeline}>
      <span class="row tight">
        {buttons.map(([sign, name, act, can], n) => (
          <button type="button" key={n} aria-label={name} title={name} disabled={!can} onClick={act}>
            <span aria-hidden="true">{sign}</span>
          </button>
        ))}
      </span>
      <input
        id="step"
        type="range"
        min={0}
        max={last}
        value={at}
        disabled={!last}
        aria-label={t.timeline}
        aria-valuetext={says(at)}
        onInput={(event) => move(Number(event.currentTarget.value))}
      />
      <output class="count" for="step">{t.atStep(at, last)}</output>
      <span class="says">{sentence && says(at)}</span>
      {!s.following.value && s.running.value && (
        <button type="button" onClick={() => move(last)}>{t.latest}</button>
      )}
      {made && made.sentences.length > 1 && (
        <label>
          <span class="unseen">{t.sentences}</span>
          <select
            id="sentence"
            value={s.sentenceNumber.value}
            onChange={(event) => {
              s.sentenceNumber.value = Number(event.currentTarget.value);
              s.following.value = true;
              s.stepChosen.value = false;
            }}
          >
            {made.sentences.map((_, n) => (
              <option value={n}>{t.sentenceOf(n + 1, made.sentences.length)}</option>
            ))}
          </select>
        </label>
      )}
      {!s.narrow.value && <label>
        <span class="unseen">{t.speed}</span>
        <select value={s.pace.value} onChange={(event) => (s.pace.value = Number(event.currentTarget.value))}>
          {[0.5, 1, 2, 4].map((n) => (
            <option value={n}>{n} ×</option>
          ))}
        </select>
      </label>}
    </section>
  );
}

function says(at: number): string {
  const piece = s.sentence.value?.written[at - 1];
  return piece === undefined ? words.value.encoderOnly : words.value.predicting(shown(piece));
}
