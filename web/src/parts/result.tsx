// The translation: a text that can be read, marked and copied. A click on a token goes to its step, as the timeline does.
import { Fragment } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { percent, px } from "../format";
import { type Laid, laidOut } from "../laid-out";
import { bare, languageTag } from "../pieces";
import { placesOf } from "../answers";
import { saved } from "../api";
import { isGone } from "../health";
import { tellProblem } from "../problems";
import { sayPrediction } from "../prediction";
import type { PivotEvent, Sentence } from "../recording";
import * as s from "../state";
import { DRAWN, retry, undo, writeOn } from "../translate";
import { TONGUES, tongue, words } from "../words";

const UNSURE = 0.6;
const MOST_LINES = 40; // that are reserved

export function Result() {
  const t = words.value;
  const made = s.recording.value;
  s.beat.value;
  const [, to] = s.pair.value.split(" ");
  const info = s.model.value;
  const title = s.readsOnly(info) ? t.predicted : info && info.kind !== "translation" ? t.continued : to ? t.resultOf(to) : t.result;
  return (
    <div class="pane" id="result">
      <div class="pane-head">
        <h2>{title}</h2>
        <span class="row">
          <Speed />
          <Copy text={made?.ended ? made.text : ""} />
        </span>
      </div>
      <Output language={languageTag(to)} />
      <div class="under">
        <span class={s.isExample.value ? "unseen" : "faint"} id="phase">{t.phases[s.phase.value]}</span>
        {s.isExample.value && <span id="example" class="small">{t.exampleShown(made?.sentences[0]?.text ?? "")}</span>}
        {s.text.value && !s.isExample.value && !s.readsOnly(s.model.value) && <span class={`faint small${made?.sentences.some(isUnsure) ? "" : " kept"}`}>{t.unsure}</span>}
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
  const prediction = made?.ended ? made.sentences[0]?.prediction : null;
  const laid = useMemo(() => (text ? laidOut(text, made!.sentences.map((one) => one.targetPieces)) : null), [made, text]);
  const isOther = text !== "" && !laid;
  const pane = useRef<HTMLDivElement>(null);
  const [reserved, reserve] = useState(0);
  useLayoutEffect(() => {
    if (["starting", "loading"].includes(s.phase.value) && pane.current) reserve(heightFor(s.text.value, pane.current));
  }, [s.phase.value]);
  const tokens = made?.sentences.map((one, n) => <Tokens sentence={one} number={n} laid={laid?.[n]} key={n} />);
  return (
    <>
      <div class="output" ref={pane} dir="auto" lang={language} aria-busy={s.running.value} style={{ minHeight: `max(4.1rem, ${px(reserved)})` }}>
        {prediction ? sayPrediction(prediction) : isOther ? text : tokens}
      </div>
      {isOther && made!.sentences.some((one) => one.targetPieces.length) && (
        <div id="raw">
          <p class="faint small">{t.asModelSays}</p>
          <div dir="auto" lang={language}>{tokens}</div>
        </div>
      )}
    </>
  );
}

const LONGER = 1.2; // what is written may be, than what is read
const LETTERS = 1.9; // a line of so many times its height

// About what a text of this length needs, so that what is below stays where it is while the text grows.
function heightFor(text: string, pane: HTMLElement): number {
  const style = getComputedStyle(pane);
  const line = parseFloat(style.lineHeight);
  const wide = [...text].reduce((sum, letter) => sum + (letter.charCodeAt(0) > 0x2e7f ? 2 : 1), 0);
  const lines = Math.ceil((LONGER * wide * line) / LETTERS / 2 / pane.clientWidth) + text.split("\n").length - 1;
  return Math.min(lines, MOST_LINES) * line + parseFloat(style.paddingTop) + parseFloat(style.paddingBottom) + 2;
}

function isUnsure(sentence: Sentence): boolean {
  const places = placesOf(sentence).value?.places ?? [];
  return places.some((one, n) => (sentence.certaintyOf(n) ?? one.probability ?? 1) < UNSURE);
}

function Tokens({ sentence, number, laid }: { sentence: Sentence; number: number; laid: Laid[] | undefined }) {
  if (!sentence.found) s.tick.value; // it grows, and stays the same object
  const places = placesOf(sentence).value?.places;
  const at = !s.following.value && s.sentenceNumber.value === number ? s.shownStep.value - 1 : -1;
  return (
    <span class="tokens">
      {!laid && number > 0 && " "}
      {sentence.targetPieces.map((piece, n) => {
        const probability = sentence.certaintyOf(n) ?? places?.[n]?.probability ?? null;
        const unsure = (probability ?? 1) < UNSURE;
        return (
          <Fragment key={`${n} ${piece}`}>
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
    </span>
  );
}

function Copy({ text }: { text: string }) {
  const t = words.value;
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      class={text ? "" : "kept"}
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
      {made?.pivot?.event && <Pivot event={made.pivot.event} />}
      {s.phase.value === "truncated" && <p class="note" id="long">{t.longText(longest, DRAWN)}</p>}
      {made?.ended && made.warnings.map((one) => <p class="note">{t.warnings}: {one}</p>)}
      {s.readsOnly(s.model.value) && (
        <p class="faint small" id="reads-only">
          {s.model.value!.kind === "masked" ? t.onlyRead : t.onlyReads} {s.readsPairs(s.model.value) && t.twoTexts}
        </p>
      )}
      {canWriteOn() && <p><button type="button" id="write-on" onClick={() => void writeOn()}>{t.writeOn}</button></p>}
    </>
  );
}

/** What another model has made of the text: the one whose steps are shown has read that. */
function Pivot({ event }: { event: PivotEvent }) {
  const language = languageTag(event.target);
  const name = language && new Intl.DisplayNames([TONGUES[tongue.value].tag], { type: "language" }).of(language);
  return (
    <p class="note" id="pivot">
      {words.value.through(name ?? event.target)}: <span dir="auto" lang={language}>{event.text}</span>
    </p>
  );
}

function canWriteOn(): boolean {
  const sentence = s.recording.value?.sentences[0];
  const isWritten = s.phase.value === "done" || s.phase.value === "truncated";
  return s.model.value?.kind === "causal" && !saved && !s.isExample.value && isWritten && !sentence!.finished && s.more.value < s.MOST_MORE;
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
