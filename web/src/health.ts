// Whether the server is still there. It is asked now and then, and only while somebody can see the page.
import { signal } from "@preact/signals";
import { saved } from "./api";
import * as s from "./state";
import { start } from "./translate";
import { words } from "./words";

const PAUSE = 10_000; // milliseconds from one question to the next
const PAUSE_WHILE_GONE = 2_000;

export const isGone = signal(false);
let timer = 0;

export function watchServer(): void {
  if (saved) return;
  document.addEventListener("visibilitychange", () => void ask());
  addEventListener("focus", () => void ask());
  timer = window.setTimeout(ask, PAUSE);
}

async function ask(): Promise<void> {
  clearTimeout(timer);
  if (document.hidden) return; // asked again when it can be seen
  if (!s.running.value) note(await answers());
  clearTimeout(timer); // another question may have come between
  timer = window.setTimeout(ask, isGone.value ? PAUSE_WHILE_GONE : PAUSE);
}

async function answers(): Promise<boolean> {
  try {
    await fetch("health", { cache: "no-store", signal: AbortSignal.timeout(PAUSE) });
    return true;
  } catch {
    return false;
  }
}

function note(isThere: boolean): void {
  const cameBack = isThere && isGone.value;
  isGone.value = !isThere;
  if (!cameBack) return;
  s.announcement.value = words.value.serverBack;
  if (!s.model.value && s.phase.value === "error") void start();
}
