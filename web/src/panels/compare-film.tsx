// How attention came to be: one head under every checkpoint of a training, forced to write the same output.
import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { failureOf, isUnrecorded, leave } from "../answers";
import { useChoice } from "../choice";
import { weightColours } from "../colours";
import { grouped, signed, weight } from "../format";
import { Came } from "../parts/came";
import { type Sentence, placeOf } from "../recording";
import * as s from "../state";
import type { Scored } from "../types";
import { frameOf, modelCalled, sentenceOf } from "../versions";
import { MASKED, type View, sidesOf, viewOf } from "../view";
import { comparing } from "../words/comparing";
import { tellWhere } from "../kind-name";
import { HeadPicker } from "./head-picker";
import { type Cell, MatrixMap, Ramp } from "./matrix-map";

const MOST = 24; // frames: each loads a checkpoint
const FEW = 8;
const INTERVAL = 700; // milliseconds a frame
const stillness = matchMedia("(prefers-reduced-motion: reduce)");
const at = signal<Cell | null>(null);

interface Frame {
  model: string;
  step: number | null; // null: the finished model
  loss: number | null;
}

export function Film({ sentence }: { sentence: Sentence }) {
  const t = comparing.value.film;
  const base = modelCalled(s.chosenModel.value)?.of ?? s.chosenModel.value;
  const all = modelCalled(base)?.checkpoints ?? s.model.value?.checkpoints ?? [];
  if (!all.length) return <p class="note" id="no-checkpoints">{t.none(base)}</p>;
  const count = Math.min(all.length, MOST - 1);
  const chosen = Array.from({ length: count }, (_, n) => all[count > 1 ? Math.round((n * (all.length - 1)) / (count - 1)) : 0]!);
  const frames: Frame[] = [...chosen.map(({ name, step, loss }) => ({ model: name, step, loss })), { model: base, step: null, loss: null }];
  return (
    <>
      <p class="faint">{t.intro}</p>
      {count < all.length && <p class="faint small">{t.some(count, all.length)}</p>}
      <Frames sentence={sentence} frames={frames} key={base} />
      {all.length < FEW && <p class="note" id="few-checkpoints">{t.few(all.length)}</p>}
    </>
  );
}

function Frames({ sentence, frames }: { sentence: Sentence; frames: Frame[] }) {
  const t = comparing.value.film;
  const place = placeOf(s.kind.value, s.layer.value);
  const names = frames.map((one) => one.model).join("\n");
  // One after another: each takes the place of one before it in the server's memory.
  const [asked, next] = useMemo(() => {
    const signals = [];
    for (const frame of frames) {
      const one = frameOf(sentence, frame.model, place);
      signals.push(one);
      if (!one.value) break;
    }
    return [signals, signals.at(-1)!];
  }, [sentence, names, place, useCame(sentence, frames, place)]);
  useEffect(() => () => leave(next), [next]);
  const found = asked.flatMap((one) => (one.value ? [one.value] : []));
  const isWhole = found.length === frames.length;
  const [chosen, choose] = useChoice("frame", frames.length);
  const frame = Math.min(Math.max(Math.round(chosen), 1), Math.max(found.length, 1)) - 1;
  return (
    <>
      <HeadPicker heads={found[0] ? (sentenceOf(found[0]).weightsOf(s.kind.value, s.layer.value)?.heads ?? 0) : 0} />
      {!isWhole && (failureOf(next) || isUnrecorded(next) ? <Came sentence={sentence} asked={next} missing={comparing.value.compare.needsServer} /> : <p class="faint" role="status" id="film-loading">{t.loading(found.length + 1, frames.length)}</p>)}
      {found.length > 0 && (
        <>
          <Player count={found.length} frame={frame} choose={(n) => choose(n + 1)} tell={(n) => tellFrame(frames[n]!)} />
          <Picture frames={frames} found={found} frame={frame} />
        </>
      )}
    </>
  );
}

// Reads every answer that is there, so that the next is asked for once it came.
function useCame(sentence: Sentence, frames: Frame[], place: string): number {
  let count = 0;
  for (const frame of frames) {
    const one = frameOf(sentence, frame.model, place);
    failureOf(one);
    if (!one.value) break;
    count++;
  }
  return count;
}

function tellFrame(frame: Frame): string {
  const t = comparing.value.film;
  return frame.step === null ? t.final(frame.model) : t.at(grouped(frame.step), frame.loss?.toFixed(3) ?? "");
}

function Player({ count, frame, choose, tell }: { count: number; frame: number; choose: (frame: number) => void; tell: (frame: number) => string }) {
  const t = comparing.value.film;
  const [playing, setPlaying] = useState(false);
  const [still, setStill] = useState(stillness.matches);
  useEffect(() => {
    const change = () => setStill(stillness.matches);
    stillness.addEventListener("change", change);
    return () => stillness.removeEventListener("change", change);
  }, []);
  useEffect(() => {
    if (!playing || still) return;
    if (frame >= count - 1) return setPlaying(false);
    const timer = setTimeout(() => choose(frame + 1), INTERVAL / s.pace.value);
    return () => clearTimeout(timer);
  }, [playing, still, frame, count]);
  const play = () => {
    if (!playing && frame >= count - 1) choose(0);
    setPlaying(!playing);
  };
  return (
    <>
      <div class="row film">
        {!still && (
          <button type="button" id="film-play" disabled={count < 2} onClick={play}>
            <span aria-hidden="true">{playing ? "❚❚" : "▶"}</span> {playing ? t.pause : t.play}
          </button>
        )}
        <input
          id="film-frame"
          type="range"
          min={0}
          max={count - 1}
          value={frame}
          aria-label={t.frame}
          aria-valuetext={tell(frame)}
          onInput={(event) => {
            setPlaying(false);
            choose(Number(event.currentTarget.value));
          }}
        />
        <output class="count" for="film-frame">{frame + 1} / {count}</output>
      </div>
      {still && <p class="faint small" id="film-still">{t.still}</p>}
      <p id="film-at"><strong>{tell(frame)}</strong></p>
    </>
  );
}

function Picture({ frames, found, frame }: { frames: Frame[]; found: Scored[]; frame: number }) {
  const t = comparing.value.film;
  const kind = s.kind.value;
  const views = useMemo(() => found.map((one): View | null => {
    const made = sentenceOf(one);
    const weights = made.weightsOf(kind, s.layer.value);
    if (!weights) return null;
    const sides = sidesOf(made, kind, { step: made.rows, asWords: s.asWords.value, hideSpecials: s.hideSpecials.value });
    return viewOf(weights, s.hides(s.model.value, kind, s.layer.value), Math.min(s.head.value, weights.heads - 1), sides);
  }), [found.length, found[0], kind, s.layer.value, s.head.value, s.asWords.value, s.hideSpecials.value]);
  const view = views[frame];
  const matrix = useMemo(() => view && {
    rows: view.rows.map((one) => one.label),
    columns: view.columns.map((one) => one.label),
    values: view.values.map((value) => (value === MASKED ? NaN : value)),
    low: 0,
    high: 1,
  }, [view]);
  if (!view || !matrix) return <p class="note">{comparing.value.compare.noWeights}</p>;
  const cell = at.value && at.value.row < view.rows.length && at.value.column < view.columns.length ? at.value : null;
  const valueIn = (one: View | null | undefined, { row, column }: Cell): string => {
    const value = one?.values[row * one.columns.length + column];
    return value === undefined ? "—" : value === MASKED ? comparing.value.compare.masked : weight(value);
  };
  return (
    <>
      <div class="beside">
        <div class="map-of">
          <MatrixMap id="film" title={t.title(tellWhere())} matrix={matrix} colours={weightColours.value} at={at} reads={(one) => t.reads(matrix.rows[one.row]!, matrix.columns[one.column]!, valueIn(view, one))} />
          <Ramp colours={weightColours.value} low="0" high="1" name="" />
        </div>
        <div class="scroll" tabIndex={0} role="region" aria-label={t.table}>
          <table class="numbers" id="frames">
            <caption>{cell ? t.overTime(matrix.rows[cell.row]!, matrix.columns[cell.column]!) : t.table}</caption>
            <thead>
              <tr>
                <th scope="col">{t.step}</th>
                <th scope="col" class="end">{t.loss}</th>
                <th scope="col" class="end">{t.logp}</th>
                {cell && <th scope="col" class="end">{t.cellValue}</th>}
              </tr>
            </thead>
            <tbody>
              {found.map((one, n) => (
                <tr key={n} class={n === frame ? "now" : ""}>
                  <th scope="row">{frames[n]!.step === null ? comparing.value.compare.finalModel : grouped(frames[n]!.step!)}</th>
                  <td>{frames[n]!.loss?.toFixed(3) ?? "—"}</td>
                  <td>{one.logp === null ? "—" : signed(one.logp, 4)}</td>
                  {cell && <td>{valueIn(views[n], cell)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </div>
      <p class="faint small">{t.unlikely}</p>
    </>
  );
}
