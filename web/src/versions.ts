// The two sides of the panel Compare: what the page shows, and another version of it.
import { besideOf, eventsBeside, scoreOf } from "./answers";
import { Failed, type Saved } from "./api";
import { common } from "./differing";
import type { Group } from "./pieces";
import { Recording, Sentence } from "./recording";
import { type RecordedText, loadFile, site } from "./site";
import * as s from "./state";
import { eventsOf } from "./translate";
import type { CheckpointName, ModelName, Scored, StreamEvent } from "./types";
import type { Signal } from "@preact/signals";

export const WAYS = ["text", "forced", "model", "part", "film"] as const;
export type Way = (typeof WAYS)[number];

// What the other side is.
export interface Version {
  way: Way;
  text: string;
  model: string;
  part: string; // that is left out, as in a trace; "": none
}

export type NamedModel = ModelName & { of?: string; checkpoint?: CheckpointName };

// Models and, behind each, the checkpoints of its training.
export function allModels(): NamedModel[] {
  return s.models.value.flatMap((one) => [
    one,
    ...(one.checkpoints ?? []).map((checkpoint) => ({ ...one, name: checkpoint.name, checkpoints: [], of: one.name, checkpoint })),
  ]);
}

export function modelCalled(name: string): NamedModel | undefined {
  return allModels().find((one) => one.name === name);
}

// That could do what the shown one does; of a site those that were recorded on the same text.
export function comparableModels(): NamedModel[] {
  if (site) return allModels().filter((one) => site!.texts.some((recorded) => recorded.model === one.name && recorded.text === s.text.value));
  const own = s.model.value;
  const [from, to] = s.sentencePair.value;
  const does = (one: NamedModel) => one.kind === own?.kind && (one.kind !== "translation" || (one.sources.includes(from) && one.targets.includes(to)));
  return allModels().filter(does);
}

function keyOf(version: Version): string {
  const { way, text, model, part } = version;
  return `beside ${JSON.stringify([way, way === "text" ? text : "", way === "model" ? model : "", way === "part" ? part : ""])}`;
}

const modelOf = (version: Version): string => (version.way === "model" ? version.model : s.chosenModel.value);
const ablated = (version: Version): object => (version.way === "part" ? { ablate: [version.part] } : {});

// On a site the other version is another of its texts.
function recordedOf(sentence: Sentence, { way, text, model }: Version): RecordedText | undefined {
  if (way === "text") return site?.texts.find((one) => one.model === s.chosenModel.value && one.text === text);
  return way === "model" ? site?.texts.find((one) => one.model === model && one.text === sentence.text) : undefined;
}

const missing = () => new Failed("missing");

async function recordedScore(recorded: RecordedText): Promise<Scored> {
  const { answers, files } = await loadFile<Saved>(recorded.file, missing());
  const file = files?.["0 score"];
  if (file) return loadFile<Scored>(file, missing());
  if (!answers["0 score"]) throw new Failed("saved");
  return answers["0 score"] as Scored;
}

// What the other version makes of the sentence, or of its own text.
export function eventsOfVersion(sentence: Sentence, version: Version): Signal<StreamEvent[] | null> {
  const recorded = recordedOf(sentence, version);
  if (recorded) return besideOf(sentence, `${keyOf(version)} events`, async () => (await loadFile<Saved>(recorded.file, missing())).events);
  const info = { kind: s.model.value!.kind, name: modelOf(version) };
  const text = version.way === "text" ? version.text : sentence.text;
  const wished = { ...s.recording.value!.wishes, ...ablated(version) };
  return eventsBeside(sentence, keyOf(version), (leave) => eventsOf(info, text, wished, [], leave, s.sentencePair.value));
}

const made = new WeakMap<StreamEvent[], Recording>();

export function recordingOf(events: StreamEvent[]): Recording {
  const known = made.get(events);
  if (known) return known;
  const recording = new Recording();
  for (const event of events) recording.apply(event);
  made.set(events, recording);
  return recording;
}

// How likely the other version's own output is to it.
export function scoreOfVersion(sentence: Sentence, version: Version, other: Sentence): Signal<Scored | null> {
  const recorded = recordedOf(sentence, version);
  if (recorded) return besideOf(sentence, `${keyOf(version)} score`, () => recordedScore(recorded));
  const tokens = { read: other.ids, written: other.target, finished: other.finished };
  return scoreOf(sentence, keyOf(version), { model: modelOf(version), ...ablated(version), ...tokens });
}

// How likely the first's output is to the other version, which is forced to write it. Another model cuts the texts into
// tokens of its own.
export function forcedScore(sentence: Sentence, version: Version, other: Sentence | undefined, place: string): Signal<Scored | null> {
  const name = `${keyOf(version)} forced ${place}`;
  const more = { model: modelOf(version), ...ablated(version), weights: place };
  if (version.way === "text") return scoreOf(sentence, name, { ...more, read: other!.ids });
  const isOther = version.way === "model" && modelCalled(version.model)?.of !== (modelCalled(s.chosenModel.value)?.of ?? s.chosenModel.value);
  if (!isOther) return scoreOf(sentence, name, more);
  const [source, target] = s.sentencePair.value;
  const kind = s.model.value!.kind;
  const texts = kind === "translation" ? { q: sentence.text, output: sentence.result, source, target } : { q: kind === "causal" ? sentence.result : sentence.text };
  return scoreOf(sentence, name, { ...more, ...texts, read: [], written: [], finished: kind === "translation" });
}

// A frame of the film: the shown sentence's output under a checkpoint.
export function frameOf(sentence: Sentence, model: string, place: string): Signal<Scored | null> {
  return scoreOf(sentence, `film ${model} ${place}`, { model, weights: place });
}

const sentences = new WeakMap<Scored, Sentence>();

// What was scored, as a sentence whose attention can be drawn.
export function sentenceOf(scored: Scored, text = ""): Sentence {
  const known = sentences.get(scored);
  if (known) return known;
  const encoder = Object.entries(scored.tensors).filter(([name]) => name.startsWith("encoder."));
  const decoder = Object.entries(scored.tensors).filter(([name]) => !name.startsWith("encoder."));
  const found = new Sentence(text, scored.read.ids, scored.read.pieces, Object.fromEntries(encoder));
  found.found = true;
  found.finished = scored.finished;
  if (scored.tokens.length) found.take({ ...scored.written, first: 0, tensors: Object.fromEntries(decoder) });
  sentences.set(scored, found);
  return found;
}

// Which of the second labels stands for each of the first; -1: none.
export function partners(first: Group[], second: Group[]): number[] {
  const found = new Array<number>(first.length).fill(-1);
  for (const [one, other] of common(first.map((group) => group.label), second.map((group) => group.label))) found[one] = other;
  return found;
}

export function backwards(pairs: number[], count: number): number[] {
  const found = new Array<number>(count).fill(-1);
  pairs.forEach((other, one) => other >= 0 && (found[other] = one));
  return found;
}

// The parts that can be left out: decoder.2.cross.head 3.
export interface PartChoice {
  side: "encoder" | "decoder";
  layer: number;
  sub: "" | "self" | "cross" | "feedforward";
  head: number; // -1: all
}

export function readPart(name: string): PartChoice | null {
  const found = /^(encoder|decoder)\.(\d{1,4})(?:\.(self|cross|feedforward)(?:\.head (\d{1,4}))?)?$/u.exec(name);
  if (!found) return null;
  const [, side, layer, sub, head] = found;
  return { side: side as PartChoice["side"], layer: Number(layer), sub: (sub ?? "") as PartChoice["sub"], head: head === undefined ? -1 : Number(head) };
}

export function writePart({ side, layer, sub, head }: PartChoice): string {
  return `${side}.${layer}${sub && `.${sub}`}${sub && sub !== "feedforward" && head >= 0 ? `.head ${head}` : ""}`;
}
