// A study of `headway compare`: what its variants reached, what they cost, and which of them no other beats.
import { ask } from "./api";
import { grouped, short } from "./format";
import type { Study, StudyModel, StudyRow } from "./types";

const RATES = ["decode_tokens_per_second", "train_tokens_per_second"];
const BYTES = ["peak_memory", "model_bytes", "state_bytes", "state_bytes_per_token"];
const COUNTS = ["parameters", "steps"];
export const QUALITIES = ["bleu", "accuracy", "chrf", "loss", "perplexity"];
export const COSTS = [...RATES, "peak_memory", "model_bytes", "state_bytes", "parameters"];
const HIGH_IS_GOOD = ["bleu", "accuracy", "chrf", ...RATES];
const DIGITS: Record<string, number> = { loss: 4, bleu: 2, chrf: 2, perplexity: 2, accuracy: 4, seconds: 1 };

export interface Point {
  row: number; // of the study
  x: number;
  y: number;
  spread: number; // of y; 0: not known
}

export async function loadStudy(name: string): Promise<Study> {
  return ask<Study>(`study ${name}`, `api/studies/${encodeURIComponent(name)}`);
}

export function valueOf(row: StudyRow, measure: string): number | null {
  return measure === "parameters" ? row.parameters : (row.measures[measure]?.mean ?? null);
}

// Of these measures, those that some variant has.
export function measured(study: Study, names: string[]): string[] {
  return names.filter((name) => study.rows.some((row) => valueOf(row, name) !== null));
}

// All that is shown of a variant, the known measures first.
export function measuresOf(study: Study): string[] {
  const known = [...QUALITIES, ...COSTS];
  const others = study.rows.flatMap((row) => Object.keys(row.measures)).filter((name) => !known.includes(name));
  return measured(study, [...known, ...new Set(others)]).filter((name) => name !== "parameters");
}

export function pointsOf(study: Study, cost: string, quality: string): Point[] {
  return study.rows.flatMap((row, n) => {
    const [x, y] = [valueOf(row, cost), valueOf(row, quality)];
    return x === null || y === null ? [] : [{ row: n, x, y, spread: row.measures[quality]?.spread ?? 0 }];
  });
}

// The Pareto front, by growing cost.
export function frontOf(points: Point[], cost: string, quality: string): Point[] {
  const expense = (one: Point) => (HIGH_IS_GOOD.includes(cost) ? -one.x : one.x);
  const worth = (one: Point) => (HIGH_IS_GOOD.includes(quality) ? one.y : -one.y);
  let best = -Infinity;
  return points
    .toSorted((a, b) => expense(a) - expense(b) || worth(b) - worth(a))
    .filter((one) => worth(one) > best && ((best = worth(one)), true));
}

export function formatMeasure(measure: string, value: number): string {
  if (BYTES.includes(measure)) return `${short(value)}B`.replace(/(\d)B$/u, "$1 B");
  if (COUNTS.includes(measure) || RATES.includes(measure)) return grouped(Math.round(value));
  return value.toFixed(DIGITS[measure] ?? 4);
}

export function formatSpread(row: StudyRow, measure: string): string {
  const { mean, spread } = row.measures[measure] ?? { mean: null, spread: null };
  if (mean === null) return "—";
  return formatMeasure(measure, mean) + (spread === null ? "" : ` ± ${formatMeasure(measure, spread)}`);
}

// The models of a variant, with a name that says which: its own, and the seed where there are several.
export function modelsOf(row: StudyRow, seedName: (seed: number) => string): (StudyModel & { label: string })[] {
  const label = (seed: number) => (row.models.length > 1 ? `${row.name}, ${seedName(seed)}` : row.name);
  return row.models.map((one) => ({ ...one, label: label(one.seed) }));
}

export function formatP(value: number | null): string {
  return value === null ? "—" : value.toFixed(3);
}
