// What happened in one translation, put together from the events of the stream.
import { Weights } from "./tensors";
import type { Beam, Iteration, Kind, Likely, Penalty, Prediction, Rows, StreamEvent, Tensors, Tokens } from "./types";

export type PivotEvent = Extract<StreamEvent, { event: "pivot" }>;

export interface Step {
  step: number;
  beam: Beam;
}

export class Sentence {
  target: number[] = [];
  targetPieces: string[] = [];
  steps: Step[] = [];
  likely: { top: Likely; entropy: number }[] = []; // by row, of whatever was likeliest then
  weights = new Map<string, Weights>();
  rows = 0; // of the decoder
  result = "";
  score = 0;
  found = false;
  finished = true; // false: cut before its end
  forced = 0;
  forcedLogps: number[] = []; // of a translation; a language model reads its prompt
  expected: Tokens | null = null; // of a masked language model: the text, before tokens of it were hidden
  second = 0; // where the second of two texts begins; 0: there is one
  prediction: Prediction | null = null; // of an encoder
  input: Tokens | null = null; // what the decoder read, where it writes all tokens at once
  iterations: Iteration[] = []; // in which it did
  events: StreamEvent[] = [];

  constructor(
    readonly text: string,
    readonly ids: number[],
    readonly pieces: string[],
    tensors: Tensors,
  ) {
    this.put(0, tensors);
  }

  put(first: number, tensors: Tensors): void {
    for (const [name, tensor] of Object.entries(tensors)) {
      let weights = this.weights.get(name);
      if (weights === undefined) this.weights.set(name, (weights = new Weights()));
      weights.put(first, tensor);
    }
  }

  take(told: Rows): void {
    this.target = told.ids;
    this.targetPieces = told.pieces;
    this.rows = told.ids.length + (this.input ? 0 : 1);
    this.put(told.first, told.tensors);
    if (told.top) {
      this.likely.length = this.rows;
      this.likely[this.rows - 1] = { top: told.top, entropy: told.entropy ?? 0 };
    }
  }

  // What followed each row: the tokens, then the end, if it came to one.
  get written(): string[] {
    return [...this.targetPieces, this.found && this.finished ? "⟨/s⟩" : "…"].slice(0, Math.max(this.rows, 0));
  }

  get heard(): string[] {
    return this.input?.pieces ?? ["⟨s⟩", ...this.targetPieces];
  }

  get hasDecoder(): boolean {
    return this.rows > 0;
  }

  // As of the iteration that predicted it, where there are some.
  certaintyOf(place: number): number | null {
    const logp = this.iterations.at(-1)?.logps[place];
    return logp === undefined ? null : Math.exp(logp);
  }

  // Whether the decoder saw this token itself in the pass that is shown, and so did not predict it.
  sees(place: number): boolean {
    const shown = this.input && this.iterations.findLast((one) => one.read.every((id, n) => id === this.input!.ids[n]));
    return Boolean(shown && shown.read[place] === shown.ids[place]);
  }

  weightsOf(kind: Kind, layer: number): Weights | undefined {
    return this.weights.get(placeOf(kind, layer) + ".weights");
  }
}

export function placeOf(kind: Kind, layer: number): string {
  const sub = { encoder: "self", decoder: "self", cross: "cross", query: "query.self" }[kind];
  return `${kind === "encoder" ? "encoder" : "decoder"}.${layer}.${sub}`;
}

export class Recording {
  model = "";
  penalty: Penalty | undefined;
  sentences: Sentence[] = [];
  text = "";
  warnings: string[] = [];
  pivot: { language: string; event: PivotEvent | null } | null = null; // the sentences are in this language: another model wrote them
  ended = false;
  asked = ""; // the text, as it was sent
  wishes: Record<string, unknown> = {}; // how it was searched for
  seconds = 0; // from the request to the end

  get current(): Sentence | undefined {
    return this.sentences.at(-1);
  }

  apply(event: StreamEvent): void {
    const sentence = this.current;
    switch (event.event) {
      case "start":
        this.model = event.model;
        this.penalty = event.penalty;
        this.pivot = event.pivot ? { language: event.pivot, event: null } : null;
        break;
      case "pivot":
        if (this.pivot) this.pivot.event = event;
        break;
      case "sentence":
        this.sentences.push(new Sentence(event.text, event.ids, event.pieces, event.tensors));
        this.current!.forced = event.forced ?? 0;
        this.current!.forcedLogps = event.forced_logps ?? [];
        this.current!.expected = event.expected ?? null;
        this.current!.second = event.second ?? 0;
        break;
      case "again":
        sentence!.steps = [];
        break;
      case "step":
        sentence!.steps.push({ step: event.step, beam: event.beam });
        if (event.ids) {
          if (event.step === 0) sentence!.forced = event.ids.length;
          sentence!.take(event as Rows);
        }
        break;
      case "found":
        sentence!.input = event.input ?? null;
        sentence!.iterations = event.iterations ?? [];
        sentence!.prediction = event.prediction ?? null;
        if (event.ids.length || Object.keys(event.tensors).length) sentence!.take(event);
        sentence!.result = event.text;
        sentence!.score = event.score;
        sentence!.found = true;
        sentence!.finished = event.finished ?? true;
        break;
      case "end":
        this.text = event.text;
        this.warnings = [...(this.pivot?.event?.warnings ?? []), ...event.warnings];
        this.ended = true;
    }
    if (["sentence", "again", "step", "found"].includes(event.event)) this.current!.events.push(event);
  }

  // Of the search: the mean over sentences.
  get score(): number | null {
    const scores = this.sentences.filter((one) => one.found).map((one) => one.score);
    return scores.length ? scores.reduce((sum, one) => sum + one, 0) / scores.length : null;
  }

  // As if it had been said in one go.
  get events(): StreamEvent[] {
    const { model, penalty, text, pivot } = this;
    const warnings = this.warnings.slice(pivot?.event?.warnings.length ?? 0);
    const before: StreamEvent[] = [{ event: "start", model, penalty, ...(pivot && { pivot: pivot.language }) }, ...(pivot?.event ? [pivot.event] : [])];
    return [...before, ...this.sentences.flatMap((one) => one.events), { event: "end", text, warnings }];
  }

  // The one sentence of this recording in the place of another in that one. What stands between sentences stays.
  putInto(other: Recording, number: number): void {
    let from = 0;
    let to = 0;
    for (const { result } of other.sentences.slice(0, number + 1)) {
      from = Math.max(other.text.indexOf(result.trim(), to), to);
      to = from + result.trim().length;
    }
    this.text = other.text.slice(0, from) + this.text.trim() + other.text.slice(to);
    this.sentences = other.sentences.with(number, this.sentences[0]!);
  }

  // The text so far, while it is being written.
  get soFar(): string {
    return this.sentences.map((s) => (s.found ? s.result : s.targetPieces.join("").trim())).join(" ");
  }
}
