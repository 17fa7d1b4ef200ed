// Everything that the page shows depends on these.
import { computed, signal } from "@preact/signals";
import type { Problem } from "./problems";
import type { Recording, Sentence } from "./recording";
import type { Kind, ModelInfo, ModelName, StudyName } from "./types";

export type Phase =
  | "locked"
  | "starting"
  | "empty"
  | "loading"
  | "streaming"
  | "paused"
  | "done"
  | "stopped"
  | "truncated"
  | "unread"
  | "error"
  | "expired"
  | "unsupported";

export const PANELS = ["attention", "inside", "layer", "probabilities", "beam", "compare", "attribution", "vectors", "architecture", "variants", "study"] as const;
export type Panel = (typeof PANELS)[number];

export const phase = signal<Phase>("starting");
export const problem = signal<Problem | null>(null);

export const models = signal<ModelName[]>([]);
export const chosenModel = signal("");
export const model = signal<ModelInfo | null>(null);
export const pair = signal(""); // "en de"
export const text = signal("");
export const asTyped = signal(false);
export const charLimit = signal(0);
export const needsKey = signal(false);
export const keyGiven = signal(false);
export const keyMissing = computed(() => needsKey.value && !keyGiven.value); // whatever is asked would be refused
export const isExample = signal(false); // what is shown was recorded with another model

// The recording is no signal: it grows with every event. `tick` says that there are new tokens, `beat` that the panels
// are drawn again (growing.ts).
export const recording = signal<Recording | null>(null);
export const first = signal<Recording | null>(null); // the version before a word was forced

// A word that was put in the place of another, in the order in which it was done.
export interface ForcedWord {
  sentence: number;
  place: number;
  id: number;
  before: string;
  piece: string;
}
export const forcedWords = signal<ForcedWord[]>([]);
export const hidden = signal<number[]>([]); // tokens of the text that a masked language model is to guess
export const iteration = signal<number | null>(null); // of mask-predict, whose numbers are shown; null: the last with a mask
export const MOST_MORE = 9;
export const more = signal(0); // how often a language model was told to write on
export const tick = signal(0);
export const beat = signal(0);
export const speed = signal(0); // tokens a second
export const sentenceNumber = signal(0);
export const step = signal(0);
export const following = signal(true); // the timeline goes along with the stream
export const stepChosen = signal(false); // by somebody
export const unsurestStep = signal(0); // the step of which the model was least sure; 0: not known
export const playing = signal(false);
export const pace = signal(1);

export const panel = signal<Panel>("attention");
export const kind = signal<Kind>("cross");
export const layer = signal(0);
export const head = signal(0); // -1: the mean of all
export const cell = signal<{ row: number; column: number } | null>(null);
export const locked = signal(false);

export const asWords = signal(false);
export const hideSpecials = signal(false);
export const ownScale = signal(false);
export const rootScale = signal(false);
export const threshold = signal(0); // weights below it are drawn as 0
export const asTable = signal(false);
export const choices = signal<Record<string, string>>({}); // made inside panels: see choice.ts

export const wanted = signal(""); // what is searched for among the variants

export const studies = signal<StudyName[]>([]);
export const chosenStudy = signal("");
export const toldVariant = signal(-1); // of the study, whose numbers are shown: pointed at, or focused
export const beside = signal(""); // the model that translates the same text
export const quality = signal(""); // the measures that points are drawn by; "": the first that the study has
export const cost = signal("");

export const isEmbedded = signal(false); // in another page: one panel, and no more
export const tourStep = signal(-1); // -1: no tour
export const helpOpen = signal(false);
export const announcement = signal("");
export const narrow = signal(false);

export const sentence = computed<Sentence | undefined>(() => {
  beat.value;
  const made = recording.value;
  return made?.sentences[Math.min(sentenceNumber.value, made.sentences.length - 1)];
});

export const chosenPair = computed(() => {
  const [from = "", to = ""] = pair.value.split(" ");
  return [from, to] as const;
});

// From what to what the sentences of the recording are translated: behind a language in between, from that.
export const sentencePair = computed(() => {
  beat.value;
  const [from, to] = chosenPair.value;
  return [recording.value?.pivot?.language ?? from, to] as const;
});

// How far the timeline goes: so many rows the decoder has.
export const lastStep = computed(() => {
  beat.value;
  return sentence.value?.rows ?? 0;
});

const ONE_STEP: Panel[] = ["inside", "probabilities"]; // panels that show one step alone, not all up to it

export const shownStep = computed(() => {
  if (!following.value) return Math.min(step.value, lastStep.value);
  const isFree = !stepChosen.value && ONE_STEP.includes(panel.value);
  return (isFree && unsurestStep.value) || lastStep.value;
});

export const running = computed(() => phase.value === "loading" || phase.value === "streaming");

export function goTo(place: number): void {
  const wanted = Math.min(Math.max(place, 0), lastStep.value);
  step.value = wanted;
  stepChosen.value = true;
  following.value = wanted === lastStep.value;
}

export function kindsOf(info: ModelInfo | null): Kind[] {
  if (info === null) return ["encoder", "decoder", "cross"];
  const { encoder, decoder } = info.config;
  const there: [Kind, unknown][] = [
    ["encoder", encoder.layers],
    ["decoder", decoder.layers],
    ["query", decoder.layers && decoder.streams === 2],
    ["cross", encoder.layers && decoder.layers],
  ];
  return there.filter(([, is]) => is).map(([kind]) => kind);
}

// An encoder alone: it writes nothing.
export function readsOnly(info: ModelInfo | null): boolean {
  return info !== null && !info.config.decoder.layers;
}

// Whether it was trained on pairs of texts.
export function readsPairs(info: ModelInfo | null): boolean {
  return info !== null && (info.kind === "match" || info.config.head["next_sentence"] === true);
}

// Whether all tokens are written at once, in several iterations.
export function writesAtOnce(info: ModelInfo | null): boolean {
  return info?.config.predicted_length != null;
}

export function layersOf(info: ModelInfo | null, of: Kind): number {
  return info?.config[of === "encoder" ? "encoder" : "decoder"].layers ?? 0;
}

// Whether a layer may not look everywhere.
export function hides(info: ModelInfo | null, of: Kind, at: number): boolean {
  const masks = of === "cross" ? [] : (info?.config[of === "query" ? "decoder" : of].mask ?? []);
  return masks.length > 0 && masks[at % masks.length]!.kind !== "full";
}

export function partOf(info: ModelInfo, of: Kind, at: number): { kind: string; heads?: number } {
  const stack = info.config[of === "encoder" ? "encoder" : "decoder"];
  const parts = (of === "cross" ? stack.cross : stack.mixer) ?? [];
  return (parts[at % Math.max(parts.length, 1)] as { kind: string; heads?: number }) ?? { kind: "none" };
}
