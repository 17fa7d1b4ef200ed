// Single keys, only while the focus is in the lower part of the page; Escape everywhere.
import * as s from "./state";
import { settle, stop } from "./translate";
import { play } from "./play";

const KINDS = ["encoder", "decoder", "cross", "query"] as const;

export function changeLayer(by: number): void {
  const layers = s.layersOf(s.model.value, s.kind.value);
  s.layer.value = Math.min(Math.max(s.layer.value + by, 0), layers - 1);
  settle();
}

export function changeHead(by: number): void {
  const info = s.model.value;
  if (!info) return;
  const heads = s.partOf(info, s.kind.value, s.layer.value).heads ?? 1;
  s.head.value = Math.min(Math.max(s.head.value + by, 0), heads - 1);
}

export function endTour(): void {
  const inside = document.getElementById("tour")?.contains(document.activeElement);
  s.tourStep.value = -1;
  if (inside) document.getElementById("tour-start")?.focus(); // whence it was begun: what had the focus is gone
}

export function onPageKey(event: KeyboardEvent): void {
  if (event.key === "F6" && s.tourStep.value >= 0) {
    event.preventDefault();
    void import("./tour/outline").then(({ changeSides }) => changeSides());
    return;
  }
  if (event.key !== "Escape" || s.helpOpen.value) return;
  if (s.running.value) stop();
  else if (s.tourStep.value >= 0) endTour();
}

export function onViewerKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (target.matches("input[type=text], input[type=search], textarea, select")) return;
  const onControl = target.matches("button, input, summary, a");
  const actions: Record<string, () => void> = {
    "[": () => changeLayer(-1),
    "]": () => changeLayer(1),
    ",": () => changeHead(-1),
    ".": () => changeHead(1),
    t: () => (s.asTable.value = !s.asTable.value),
    "?": () => (s.helpOpen.value = true),
    Escape: () => ((s.locked.value = false), (s.cell.value = null)),
  };
  if (!onControl) {
    actions[" "] = play;
    actions["ArrowLeft"] = () => s.goTo(s.shownStep.value - 1);
    actions["ArrowRight"] = () => s.goTo(s.shownStep.value + 1);
  }
  const chosen = KINDS["1234".indexOf(event.key)];
  if (chosen && event.key.length === 1 && s.kindsOf(s.model.value).includes(chosen)) {
    actions[event.key] = () => ((s.kind.value = chosen), settle());
  }
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action();
}
