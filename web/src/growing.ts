// A stream tells faster than a page can draw: new tokens are shown once a frame, and the panels follow a few times a
// second, less often where drawing them takes long.
import { batch } from "@preact/signals";
import * as s from "./state";

const REST = 250; // milliseconds from one drawing of the panels to the next
const SHARE = 4; // and so many times what the last one took

let began = 0; // of the translation
let drawn = 0;
let rest = REST;
let frame = 0;
let timer = 0;
let newest: number | null = null; // a sentence that the panels should go on to

export function beginGrowing(): void {
  began = performance.now();
  newest = null;
}

export function grow(sentence: number | null = null): void {
  newest = sentence ?? newest;
  frame ||= requestAnimationFrame(showTokens);
}

// Whatever waits is shown now: nothing else may come, and a hidden page has no frames.
export function showAll(): void {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  batch(() => {
    showTokens();
    drawPanels();
  });
}

function showTokens(): void {
  frame = 0;
  const wait = drawn + rest - performance.now();
  if (wait > 0) timer ||= window.setTimeout(drawPanels, wait);
  batch(() => {
    const count = s.recording.value?.sentences.reduce((sum, one) => sum + one.target.length, 0) ?? 0;
    s.speed.value = count / Math.max((performance.now() - began) / 1000, 0.001);
    s.tick.value++;
    if (wait <= 0) drawPanels();
  });
}

function drawPanels(): void {
  clearTimeout(timer);
  timer = 0;
  const from = performance.now();
  batch(() => {
    if (newest !== null && s.following.value) s.sentenceNumber.value = newest;
    newest = null;
    s.beat.value++;
  });
  drawn = from;
  setTimeout(() => {
    drawn = performance.now(); // by now they are drawn
    rest = Math.max(REST, SHARE * (drawn - from));
  });
}
