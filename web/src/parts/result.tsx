// The translation: a text that can be read, marked and copied. A click on a token goes to its step, as the timeline does.
import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import { percent } from "../format";
import { type Laid, laidOut } from "../laid-out";
import { bare, languageTag } from "../pieces";
import { placesOf } from "../answers";
import { isGone } from "../health";
import { tellProblem } from "../problems";
import type { Sentence } from "../recording";
import * as s from "../state";
import { DRAWN, retry, undo } from "../translate";
import { words } from "../words";

const UNSURE = 0.6;

export function Result() {
  const t = words.value;
  const made = s.recording.value;
  s.beat.value;
  const [, to] = s.pair.value.split(" ");
  const kind = s.model.value?.kind;
  const title = kind === "causal" || kind === "masked" ? t.continued : to ? t.resultOf(to) : t.result;
  return (
    <div class="pane" id="result">
      <div class="pane-head">
        <h2>{title}</h2>
        <Speed />
      </div>
      <Output language={languageTag(to)} />
      <div class="under">
        <span class="faint" id="phase">{t.phases[s.phase.value]}</span>
        {s.isExample.value && <span id="example">{t.exampleShown(made?.sentences[0]?.text ?? "")}</span>}
        {made?.sentences.some(isUnsure) && <span class="faint small">{t.unsure}</span>}
        {made?.ended && made.text && <Copy text={made.text} />}
      </div>
      <Notes />
      <First />
    </div>
  );
}

function Speed() {
  const shown = s.speed.value > 0 && s.running.value;
  return <span class="faint count">{shown && words.value.perSecond(s.speed.value.toFixed(0))}</span>;
}

// Once it has ended, the translation as it is: the tokens are that text, or stand beneath it.
function Output({ language }: { language: string | undefined }) {
  const t = words.value;
  const made = s.recording.value;
  s.tick.value;
  const text = made?.ended ? made.text : "";
  const laid = useMemo(() => (text ? laidOut(text, made!.sentences.map((one) => one.targetPieces)) : null), [made, text]);
  const isOther = text !== "" && !laid;
  const tokens = made?.sentences.map((one, n) => <Tokens sentence={one} number={n} laid={laid?.[n]} key={n} />);
  return (
    <>
      <div class="output" dir="auto" lang={language} aria-busy={s.running.value}>{isOther ? text : tokens}</div>
      {isOther && made!.sentences.some((one) => one.targetPieces.length) && (
        <div id="raw">
          <p class="faint small">{t.asModelSays}</p>
          <div dir="auto" lang={language}>{tokens}</div>
        </div>
      )}
    </>
  );
}

function isUnsure(sentence: Sentence): boolean {
  return placesOf(sentence).value?.places.some((one) => (one.probability ?? 1) < UNSURE) ?? false;
}

function Tokens({ sentence, number, laid }: { sentence: Sentence; number: number; laid: Laid[] | undefined }) {
  if (!sentence.found) s.tick.value; // it grows, and stays the same object
  const places = placesOf(sentence).value?.places;
  const at = !s.following.value && s.sentenceNumber.value === number ? s.shownStep.value - 1 : -1;
  return (
    <span class="tokens">
      {sentence.targetPieces.map((piece, n) => {
        const probability = places?.[n]?.probability ?? null;
        const unsure = (probability ?? 1) < UNSURE;
        return (
          <Fragment key={n}>
            {laid ? laid[n]!.space : n > 0 && piece.startsWith(" ") && " "}
            <span
              class={`token${unsure ? " unsure" : ""}${at === n ? " here" : ""}`}
              title={probability === null ? undefined : percent(probability)}
              onClick={() => {
                s.sentenceNumber.value = number;
                s.goTo(n + 1);
              }}
            >
              {laid ? laid[n]!.text : piece === " " ? "" : bare(piece)}
            </span>
          </Fragment>
        );
      })}
      {!laid && " "}
    </span>
  );
}

function Copy({ text }: { text: string }) {
  const t = words.value;
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}
    >
      {copied ? t.copied : t.copy}
    </button>
  );
}

function Notes() {
  const t = words.value;
  const made = s.recording.value;
  const longest = Math.max(0, ...(made?.sentences.map((one) => Math.max(one.ids.length, one.rows)) ?? []));
  return (
    <>
      {s.phase.value !== "error" && isGone.value && <p role="alert" class="alert" id="gone">{t.serverGone}</p>}
      {s.phase.value === "error" && s.problem.value && (
        <p role="alert" class="alert">
          {tellProblem(s.problem.value)}{" "}
          <button type="button" id="again" onClick={() => void retry()}>{t.tryAgain}</button>
        </p>
      )}
      {s.phase.value === "truncated" && <p class="note" id="long">{t.longText(longest, DRAWN)}</p>}
      {made?.ended && made.warnings.map((one) => <p class="note">{t.warnings}: {one}</p>)}
      {s.model.value?.kind === "masked" && <p class="note">{t.onlyRead}</p>}
    </>
  );
}

function First() {
  const t = words.value;
  const before = s.first.value;
  const forced = s.forcedWords.value;
  if (!before || !forced.length) return null;
  return (
    <div class="first note">
      <ul id="forced">
        {forced.map((one) => (
          <li key={`${one.sentence} ${one.place}`}>
            {t.forcedNote(bare(one.before), bare(one.piece))}{" "}
            <button type="button" disabled={s.running.value} aria-label={t.undoForced(bare(one.piece))} onClick={() => void undo(one)}>{t.undo}</button>
          </li>
        ))}
      </ul>
      <p>
        <strong>{t.firstVersion}:</strong> <span id="first" dir="auto">{before.text}</span>
      </p>
    </div>
  );
}
