// What the buttons of the translate bar do.
import { batch } from "@preact/signals";
import { Failed, ask, saved, stream, useKey } from "./api";
import { exampleMeanwhile } from "./example";
import { lookFirst } from "./first-look";
import { beginGrowing, grow, showAll } from "./growing";
import { isSpecial } from "./pieces";
import { sayPrediction } from "./prediction";
import { problemOf } from "./problems";
import { Recording, type Sentence } from "./recording";
import { wishes } from "./searching";
import { loadText, wantedText } from "./recorded-texts";
import { type RecordedText, site } from "./site";
import * as s from "./state";
import type { ModelInfo, ModelName, StreamEvent, StudyName } from "./types";
import { words } from "./words";

let abort: AbortController | null = null;
type Pair = readonly [source: string, target: string];
const LENGTH = 20; // tokens that a language model writes at a time
export const DRAWN = 64; // tokens that the overview draws one by one

export async function start(): Promise<void> {
  try {
    if (site) return await openText(wantedText());
    if (saved) return showSaved();
    s.phase.value = "starting";
    const settings = await ask<{ charLimit: number; keyRequired: boolean }>("settings", "frontend/settings");
    s.charLimit.value = settings.charLimit;
    s.needsKey.value = settings.keyRequired;
    if (s.keyMissing.value) return lock();
    const asked = [ask<ModelName[]>("models", "api/models"), ask<StudyName[]>("studies", "api/studies")] as const;
    [s.models.value, s.studies.value] = await Promise.all(asked);
    if (!s.models.value.some((one) => one.name === s.beside.value)) s.beside.value = "";
    if (s.panel.value === "study" && !s.studies.value.length) s.panel.value = "attention";
    const names = s.models.value.flatMap((one) => [one, ...(one.checkpoints ?? [])]);
    const wanted = names.find((one) => one.name === s.chosenModel.value) ?? names[0];
    if (!wanted) {
      s.phase.value = "unsupported";
      return;
    }
    await choose(wanted.name);
    const step = s.following.value ? undefined : s.step.value;
    if (s.text.value.trim()) await run(s.text.value.trim(), [], step);
    await forceAgain();
  } catch (error) {
    fail(error);
  }
}

// The words that an address has.
async function forceAgain(): Promise<void> {
  const wanted = s.forcedWords.value;
  const step = s.following.value ? undefined : s.step.value;
  s.forcedWords.value = [];
  for (const { sentence, place, id } of wanted) {
    if (s.phase.value !== "done" && s.phase.value !== "truncated") return;
    await force(sentence, place, id);
  }
  if (wanted.length && step !== undefined) s.goTo(step);
}

function lock(): void {
  batch(() => {
    s.phase.value = "locked";
    s.problem.value = null;
    s.announcement.value = words.value.phases.locked;
  });
}

export async function giveKey(key: string): Promise<void> {
  stop();
  useKey(key);
  s.keyGiven.value = key.trim() !== "";
  if (s.keyMissing.value) lock();
  else await retry();
}

// A text of a site, which was recorded.
async function openText(one: RecordedText): Promise<void> {
  await loadText(one);
  showSaved();
}

export async function chooseText(one: RecordedText): Promise<void> {
  s.sentenceNumber.value = 0;
  s.following.value = true;
  s.stepChosen.value = false;
  await openText(one).catch(fail);
}

function showSaved(): void {
  const asked = s.sentenceNumber.value;
  for (const event of saved!.events) take(event);
  s.model.value = (saved!.answers["model"] as ModelInfo) ?? null;
  s.chosenModel.value = s.model.value?.name ?? "";
  s.text.value = s.recording.value?.sentences.map((one) => one.text).join(" ") ?? "";
  settle();
  lookFirst();
  showAll();
  s.sentenceNumber.value = Math.min(asked, (s.recording.value?.sentences.length ?? 1) - 1);
  s.phase.value = "done";
}

// A model is chosen, and what is typed is translated with it.
export async function open(name: string): Promise<void> {
  if (name !== s.model.value?.name) await change(name);
  await translate();
}

export async function change(name: string): Promise<void> {
  if (site) return chooseText(site.texts.find((one) => one.model === name)!);
  stop();
  batch(() => {
    s.recording.value = s.first.value = s.model.value = null; // what another model did
    s.forcedWords.value = [];
    forget();
    s.problem.value = null;
  });
  await choose(name).catch(fail);
}

async function choose(name: string): Promise<void> {
  s.chosenModel.value = name;
  s.phase.value = "starting";
  const isThere = exampleMeanwhile();
  const info = await loadModel(name).finally(isThere);
  if (name !== s.chosenModel.value) return; // another was chosen meanwhile
  batch(() => {
    s.model.value = info;
    const [from = "", to = ""] = s.pair.value.split(" ");
    const isPivoted = info.pivots?.some(([source, , target]) => source === from && target === to) ?? false;
    const isKnown = isPivoted || (from !== to && info.sources.includes(from) && info.targets.includes(to));
    if (!isKnown) s.pair.value = info.pairs[0]?.join(" ") ?? "";
    settle();
    s.phase.value = "empty";
  });
}

// The server loads it, if it is not loaded yet.
export function loadModel(name: string): Promise<ModelInfo> {
  return ask<ModelInfo>(`model ${name}`, `api/models/${encodeURIComponent(name)}`);
}

// What is chosen must be there.
export function settle(): void {
  const info = s.model.value;
  const kinds = s.kindsOf(info);
  if (!kinds.includes(s.kind.value)) s.kind.value = kinds[0]!;
  s.layer.value = Math.min(s.layer.value, Math.max(s.layersOf(info, s.kind.value) - 1, 0));
  if (info) s.head.value = Math.min(s.head.value, (s.partOf(info, s.kind.value, s.layer.value).heads ?? 1) - 1);
}

export async function translate(): Promise<void> {
  const text = s.text.value.trim();
  if (!text || !s.model.value || s.keyMissing.value) return;
  s.first.value = null;
  s.forcedWords.value = [];
  forget();
  await run(text, []);
}

// What was asked of the text before.
function forget(): void {
  s.hidden.value = [];
  s.more.value = 0;
  s.iteration.value = null;
}

// The numbers of another pass of a decoder that writes all tokens at once.
export async function showIteration(number: number): Promise<void> {
  const step = s.stepChosen.value ? s.step.value : undefined;
  s.iteration.value = number;
  await run(s.text.value.trim(), [], step);
}

// A language model writes more of the same text.
export async function writeOn(): Promise<void> {
  const sentence = s.recording.value!.sentences[0]!;
  const forced = s.forcedWords.value.at(-1);
  s.more.value++;
  await run(sentence.text, forced ? sentence.target.slice(0, forced.place + 1) : []);
}

// A masked language model is to guess a token, or sees it again.
export async function hide(place: number): Promise<void> {
  const sentence = s.recording.value!.sentences[0]!;
  const others = s.hidden.value.filter((one) => one !== place);
  s.hidden.value = others.length < s.hidden.value.length ? others : [...others, place].sort((a, b) => a - b);
  await run(sentence.text, []);
}

// Another word at a place of a sentence: it is forced, and what follows is found anew.
export async function force(number: number, place: number, id: number): Promise<void> {
  const old = s.recording.value!;
  const sentence = old.sentences[number];
  if (!sentence || place > sentence.target.length) return; // an address may say anything
  s.first.value ??= old;
  const kept = s.forcedWords.value.filter((one) => one.sentence !== number || one.place < place);
  const word = { sentence: number, place, id, before: sentence.written[place] ?? "", piece: "" };
  s.forcedWords.value = [...kept, word];
  await writeAgain(number, [...sentence.target.slice(0, place), id], place + 1);
  const piece = s.recording.value?.sentences[number]?.targetPieces[place] ?? "";
  s.forcedWords.value = s.forcedWords.value.map((one) => (one === word ? { ...word, piece } : one));
}

// Without this word, and those behind it in its sentence.
export async function undo(word: s.ForcedWord): Promise<void> {
  const isKept = (one: s.ForcedWord) => one.sentence !== word.sentence || one.place < word.place;
  const kept = s.forcedWords.value.filter(isKept);
  s.forcedWords.value = kept;
  if (!kept.length && s.first.value) {
    stop();
    batch(() => {
      s.recording.value = s.first.value;
      s.first.value = null;
      s.sentenceNumber.value = word.sentence;
      finish();
      s.goTo(word.place + 1);
    });
    return;
  }
  const last = kept.filter((one) => one.sentence === word.sentence).at(-1);
  const written = s.recording.value!.sentences[word.sentence]!.target;
  await writeAgain(word.sentence, last ? written.slice(0, last.place + 1) : [], word.place + 1);
}

// One of the sentences once more, beginning with these tokens.
async function writeAgain(number: number, prefix: number[], place: number): Promise<void> {
  const old = s.recording.value!;
  const sentence = old.sentences[number]!;
  await run(sentence.text, prefix, place, old);
  const made = s.recording.value!;
  [made.asked, made.wishes] = [old.asked, old.wishes]; // what another model would be asked
  if (!made.ended || old.sentences.length === 1) return;
  batch(() => {
    made.putInto(old, number);
    s.sentenceNumber.value = number;
    s.announcement.value = made.text;
    showAll();
  });
}

// old: the recording that the text is a sentence of.
async function run(text: string, prefix: number[], place?: number, old?: Recording): Promise<void> {
  const pair = old ? s.sentencePair.value : s.chosenPair.value;
  stop();
  const mine = (abort = new AbortController());
  beginGrowing();
  batch(() => {
    s.problem.value = null;
    s.phase.value = "loading";
    s.announcement.value = words.value.translating;
    s.following.value = place === undefined;
    s.stepChosen.value = place !== undefined;
    s.step.value = place ?? 0;
    s.sentenceNumber.value = 0;
    s.speed.value = 0;
  });
  try {
    const searched = wishes();
    const began = performance.now();
    for await (const event of eventsOf(s.model.value!, text, searched, prefix, mine.signal, pair)) {
      if (mine !== abort) return;
      take(event);
      s.recording.value!.pivot ??= old?.pivot ?? null;
    }
    const made = s.recording.value;
    if (!made?.ended) throw new Failed("unreachable");
    Object.assign(made, { asked: text, wishes: searched, seconds: (performance.now() - began) / 1000 });
    finish();
  } catch (error) {
    if (mine === abort && !mine.signal.aborted) fail(error);
  }
}

// What a model does with a text, event by event. searched: search settings, as requests have them.
export async function* eventsOf(
  info: Pick<ModelInfo, "kind" | "name">,
  text: string,
  searched: Record<string, unknown>,
  prefix: number[],
  signal: AbortSignal,
  [source, target]: Pair = s.chosenPair.value,
): AsyncGenerator<StreamEvent> {
  if (info.kind === "translation") {
    const body = { ...searched, q: text, source, target, model: info.name, prefix: prefix.length ? prefix : "", iteration: s.iteration.value };
    yield* stream("api/translate", body, signal);
    return;
  }
  const length = info.kind === "causal" ? LENGTH * (1 + s.more.value) : 0;
  const { ablate } = searched;
  const isSearched = info.kind === "causal" || info.kind === "denoising";
  const hidden = info.kind === "masked" && text === s.text.value.trim() ? s.hidden.value : [];
  const body = { ...(isSearched ? searched : { ablate }), q: text, model: info.name, length, prefix, hidden };
  yield* await ask<StreamEvent[]>("read", "api/read", body, signal);
}

function take(event: StreamEvent): void {
  batch(() => {
    if (event.event === "start") s.recording.value = new Recording();
    if (event.event === "error") throw new Failed(event.error, 0, event.reason, event.values);
    if (event.event === "sentence" && s.phase.value === "loading") s.phase.value = "streaming";
    const made = s.recording.value!;
    made.apply(event);
    grow(event.event === "sentence" ? made.sentences.length - 1 : null);
  });
}

function finish(): void {
  const made = s.recording.value!;
  const longest = Math.max(...made.sentences.map((one) => Math.max(one.ids.length, one.rows)), 0);
  batch(() => {
    lookFirst();
    showAll();
    s.phase.value = isUnread(made) ? "unread" : longest > DRAWN ? "truncated" : "done";
    const said = made.sentences[0]?.prediction;
    s.announcement.value = made.text || (said && sayPrediction(said)) || words.value.readDone;
    if (!made.sentences.length && !made.text) s.phase.value = "empty";
  });
}

// Whether the model had nothing to say to any sentence, and all of them stayed as they were.
function isUnread(made: Recording): boolean {
  const isKept = (one: Sentence) => one.found && one.targetPieces.every(isSpecial) && one.result.trim() === one.text.trim();
  return s.model.value?.kind === "translation" && made.sentences.length > 0 && made.sentences.every(isKept);
}

export function stop(): void {
  if (!abort) return;
  const was = s.running.value;
  abort.abort();
  abort = null;
  if (!was) return;
  showAll();
  s.phase.value = "stopped";
}

function fail(error: unknown): void {
  batch(() => {
    showAll();
    s.phase.value = "error";
    s.problem.value = problemOf(error);
  });
}

export async function retry(): Promise<void> {
  if (s.model.value && s.text.value.trim()) await translate();
  else await start();
}
