// What is written on the boxes of the flow, from the model's config.
import type { SideName } from "../../layer-types";
import { shown } from "../../pieces";
import type { Sentence } from "../../recording";
import { readsOnly } from "../../state";
import type { ModelInfo, Part } from "../../types";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { detailOf } from "../architecture";
import type { Step, Way } from "./flow-steps";

export function piecesOf(sentence: Sentence, side: SideName): string[] {
  return side === "encoder" ? sentence.pieces : sentence.heard.slice(0, Math.max(sentence.rows, 1));
}

function partsOf(info: ModelInfo, step: Step): Part[] {
  const stack = info.config[step.side];
  return (step.kind === "self" ? stack.mixer : step.kind === "cross" ? stack.cross : stack.feedforward) ?? [];
}

export function partOf(info: ModelInfo, step: Step): Part | undefined {
  const parts = partsOf(info, step);
  return parts[(step.layer ?? 0) % Math.max(parts.length, 1)];
}

export function hasExperts(info: ModelInfo, step: Step): boolean {
  return step.kind === "feedforward" && Number(partOf(info, step)?.["experts"]) > 0;
}

// In full: Self-attention, Norm …
export function nameOf(info: ModelInfo, step: Step): string {
  const t = layerWords.value.flow;
  if (step.place === "end.norm") return t.endNorm;
  if (hasExperts(info, step)) return t.experts;
  if (step.kind === "said" && readsOnly(info)) return t.guess;
  return t.kinds[step.kind];
}

export function placeOf(info: ModelInfo, way: Way, step: Step): string {
  const t = layerWords.value.flow;
  const side = words.value[step.side];
  const layers = info.config[step.side].layers;
  const isAlone = Object.keys(way.flows).length === 1;
  return [isAlone ? "" : side, step.layer === null ? "" : t.layerOf(step.layer + 1, layers)].filter(Boolean).join(t.joint);
}

// The small line in a box.
export function detailIn(info: ModelInfo, step: Step): string {
  const { config } = info;
  const thousands = (count: number) => count.toLocaleString("en");
  const vocabulary = step.side === "encoder" ? config.source_vocabulary : config.vocabulary;
  if (step.kind === "embedding") return `${thousands(vocabulary)} × ${config.d_model}`;
  if (step.kind === "position") return config[step.side].position.map((one) => one.kind).join(", ");
  if (step.kind === "scores") return `${config.d_model} → ${thousands(config.vocabulary)}`;
  if (step.kind === "norm") return config.norm.kind;
  const part = partOf(info, step);
  if (!part || !(step.kind === "self" || step.kind === "cross" || step.kind === "feedforward")) return "";
  const kind = part.kind === "attention" ? "" : part.kind;
  if (step.kind === "self") {
    const stack = config[step.side];
    const mask = stack.mask[(step.layer ?? 0) % Math.max(stack.mask.length, 1)]?.kind;
    const heads = part["heads"] ? `${part["heads"]} × ${part["d_k"] ?? "?"}` : "";
    return [kind, heads, mask, positionInside(info, step)].filter(Boolean).join(", ");
  }
  if (hasExperts(info, step)) return `${part["top_k"]} / ${part["experts"]}, ${(part["expert"] as Part | undefined)?.kind ?? ""}`;
  return [kind, detailOf(info, step.side, step.kind, step.layer ?? 0)].filter(Boolean).join(", ");
}

// Positions that act in attention, on q and k or on the scores, not on the input.
export function positionInside(info: ModelInfo, step: Step): string {
  const positions = info.config[step.side].position;
  const kind = positions[(step.layer ?? 0) % Math.max(positions.length, 1)]?.kind;
  const placed = info.blocks.find((one) => one.name === `${step.side}.position` && one.kind === kind);
  return step.kind === "self" && (placed?.applies_to === "qk" || placed?.applies_to === "scores") ? (kind ?? "") : "";
}

// What the picture cannot show.
export function notesOn(info: ModelInfo, way: Way): string[] {
  const t = layerWords.value.flow;
  const notes: string[] = [];
  for (const side of ["encoder", "decoder"] as const) {
    const { layers, distinct_layers: distinct } = info.config[side];
    if (!way.flows[side] || !distinct || distinct >= layers) continue;
    notes.push(distinct === 1 ? t.sharedOne(words.value[side]) : t.sharedMany(words.value[side], distinct));
  }
  if (info.config.linear.kind !== "dense") notes.push(t.linear(info.config.linear.kind));
  const dual = (["encoder", "decoder"] as const).some((side) => way.flows[side] && info.config[side].residual.kind === "residual_dual");
  if (dual) notes.push(t.secondStream);
  return notes;
}

export function chipOf(step: Step, sentence: Sentence, tokens: Record<SideName, number>, way: Way): string {
  if (step.kind === "token") return shown(piecesOf(sentence, step.side)[tokens[step.side]] ?? "");
  const said = way.flows[step.side]?.said;
  return shown(sentence.written[tokens.decoder] ?? said?.pieces[tokens[step.side] - (way.flows[step.side]?.first ?? 0)]?.[0] ?? "");
}

export function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
