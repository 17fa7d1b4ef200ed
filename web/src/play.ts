// The timeline by itself: one step after another.
import * as s from "./state";

const INTERVAL = 700; // milliseconds a step
let timer = 0;

export function play(): void {
  if (s.playing.value) return pause();
  if (!s.lastStep.value) return;
  if (s.shownStep.value >= s.lastStep.value) s.goTo(0);
  s.playing.value = true;
  if (s.phase.value === "paused") s.phase.value = "done";
  tickOn();
}

export function pause(): void {
  if (!s.playing.value) return;
  clearTimeout(timer);
  s.playing.value = false;
  if (s.phase.value === "done" && s.shownStep.value < s.lastStep.value) s.phase.value = "paused";
}

function tickOn(): void {
  timer = window.setTimeout(() => {
    s.goTo(s.shownStep.value + 1);
    if (s.shownStep.value >= s.lastStep.value && !s.running.value) pause();
    else tickOn();
  }, INTERVAL / s.pace.value);
}
