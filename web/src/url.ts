// What is shown stands in the address, so that it can be sent to somebody. It replaces itself: Back leaves the page.
import { effect } from "@preact/signals";
import { saved } from "./api";
import { offerChoice } from "./first-look";
import { site } from "./site";
import * as s from "./state";
import { readFrom, tellAddress } from "./searching";
import type { Kind } from "./types";

const MAX_FORCED = 16; // words of an address: each is a translation
const CHOICE = "at-"; // before the name of a choice inside a panel

export function readAddress(): void {
  const asked = new URLSearchParams(location.hash.slice(1));
  s.isEmbedded.value = asked.has("embed");
  const given = saved?.view && !asked.has("panel") ? new URLSearchParams(saved.view) : asked;
  const number = (name: string): number => Math.max(parseInt(given.get(name) ?? "0", 10) || 0, 0);
  s.text.value = given.get("text") ?? "";
  s.chosenModel.value = given.get("model") ?? "";
  s.pair.value = readPair(given.get("pair") ?? "");
  readFrom(given);
  const panel = given.get("panel") as s.Panel;
  if (s.PANELS.includes(panel)) s.panel.value = panel;
  const kind = given.get("kind") as Kind;
  if (["encoder", "decoder", "cross", "query"].includes(kind)) s.kind.value = kind;
  s.layer.value = Math.max(number("layer") - 1, 0);
  s.head.value = given.get("head") === "mean" ? -1 : Math.max(number("head") - 1, 0);
  if (!given.has("layer") && !given.has("head")) offerChoice();
  if (given.has("step")) {
    s.following.value = false;
    s.stepChosen.value = true;
    s.step.value = number("step");
  }
  s.forcedWords.value = readForced(given.get("forced") ?? "");
  s.hidden.value = readHidden(given.get("hidden") ?? "");
  s.iteration.value = given.has("iteration") ? Math.max(number("iteration") - 1, 0) : null;
  s.more.value = Math.min(number("more"), s.MOST_MORE);
  s.asWords.value = given.has("words");
  s.hideSpecials.value = given.has("plain");
  s.asTable.value = given.has("table");
  s.ownScale.value = given.has("own");
  s.rootScale.value = given.has("root");
  s.sentenceNumber.value = Math.max(number("sentence") - 1, 0);
  s.cell.value = readCell(given.get("cell") ?? "");
  s.locked.value = s.cell.value !== null;
  s.choices.value = Object.fromEntries([...given].filter(([name]) => name.startsWith(CHOICE)).map(([name, value]) => [name.slice(CHOICE.length), value]));
  s.threshold.value = Math.min(number("from"), 95) / 100;
  s.wanted.value = given.get("find") ?? "";
  s.chosenStudy.value = given.get("study") ?? "";
  s.beside.value = given.get("beside") ?? "";
  s.quality.value = given.get("quality") ?? "";
  s.cost.value = given.get("cost") ?? "";
  s.tourStep.value = s.isEmbedded.value ? -1 : number("tour") - 1;
}

export function keepAddress(): void {
  if (saved && !site) return;
  effect(() => history.replaceState(null, "", "#" + tellView().toString()));
}

// What is looked at, and how.
export function tellView(): URLSearchParams {
  const told = new URLSearchParams();
  if (s.text.value) told.set("text", s.text.value);
  if (s.chosenModel.value && s.models.value.length && (s.models.value.length > 1 || s.chosenModel.value !== s.models.value[0]!.name)) told.set("model", s.chosenModel.value);
  if (s.pair.value) told.set("pair", writePair(s.pair.value));
  tellAddress(told);
  if (s.isEmbedded.value) told.set("embed", "1");
  told.set("panel", s.panel.value);
  told.set("kind", s.kind.value);
  told.set("layer", String(s.layer.value + 1));
  told.set("head", s.head.value < 0 ? "mean" : String(s.head.value + 1));
  const forced = s.forcedWords.value.map((one) => [one.sentence + 1, one.place + 1, one.id].join("."));
  if (forced.length) told.set("forced", forced.join("_"));
  if (s.hidden.value.length) told.set("hidden", s.hidden.value.map((place) => place + 1).join("."));
  if (s.iteration.value !== null) told.set("iteration", String(s.iteration.value + 1));
  if (s.more.value) told.set("more", String(s.more.value));
  if (s.stepChosen.value) told.set("step", String(s.shownStep.value));
  if (s.asWords.value) told.set("words", "1");
  if (s.hideSpecials.value) told.set("plain", "1");
  if (s.asTable.value) told.set("table", "1");
  if (s.ownScale.value) told.set("own", "1");
  if (s.rootScale.value) told.set("root", "1");
  if (s.sentenceNumber.value) told.set("sentence", String(s.sentenceNumber.value + 1));
  if (s.locked.value && s.cell.value) told.set("cell", `${s.cell.value.row + 1}.${s.cell.value.column + 1}`);
  for (const [name, value] of Object.entries(s.choices.value)) told.set(CHOICE + name, value);
  if (s.threshold.value) told.set("from", String(Math.round(100 * s.threshold.value)));
  if (s.wanted.value) told.set("find", s.wanted.value);
  if (s.chosenStudy.value) told.set("study", s.chosenStudy.value);
  if (s.beside.value) told.set("beside", s.beside.value);
  if (s.quality.value) told.set("quality", s.quality.value);
  if (s.cost.value) told.set("cost", s.cost.value);
  if (s.tourStep.value >= 0) told.set("tour", String(s.tourStep.value + 1));
  return told;
}

// 3.5: the fifth column of the third row.
function readCell(given: string): { row: number; column: number } | null {
  const found = /^([1-9]\d{0,3})\.([1-9]\d{0,3})$/u.exec(given);
  return found && { row: Number(found[1]) - 1, column: Number(found[2]) - 1 };
}

// 1.3.485_1.5.620: in the first sentence token 485 in the third place, then token 620 in the fifth.
function readForced(given: string): s.ForcedWord[] {
  const words = given.split("_").slice(0, MAX_FORCED).map((one) => /^([1-9]\d{0,3})\.([1-9]\d{0,3})\.(\d{1,7})$/u.exec(one));
  const numbers = words.map((found) => found?.slice(1).map(Number) ?? []);
  return numbers.flatMap(([sentence, place, id]) =>
    id === undefined ? [] : [{ sentence: sentence! - 1, place: place! - 1, id, before: "", piece: "" }],
  );
}

// 2.5: the second token and the fifth.
function readHidden(given: string): number[] {
  return /^[1-9]\d{0,3}(\.[1-9]\d{0,3}){0,63}$/u.test(given) ? given.split(".").map((place) => Number(place) - 1) : [];
}

// en-de; where a language has a hyphen itself, "zh-Hans en".
function readPair(given: string): string {
  return given.includes(" ") ? given : given.replace("-", " ");
}

function writePair(pair: string): string {
  return pair.includes("-") ? pair : pair.replace(" ", "-");
}
