// A model may take a while to load. Until it is there, what another one did can be looked at.
import { batch } from "@preact/signals";
import { loadExample, useExample } from "./api";
import { tellingHead } from "./first-look";
import { showAll } from "./growing";
import { Recording } from "./recording";
import * as s from "./state";
import { settle } from "./translate";
import type { ModelInfo } from "./types";

const SOON = 400; // milliseconds in which a model that is loaded already answers

// Returns what takes the example away again.
export function exampleMeanwhile(): () => void {
  let wanted = true;
  const asked = [s.kind.value, s.layer.value, s.head.value] as const; // the example may have fewer layers
  const timer = setTimeout(async () => {
    const example = await loadExample().catch(() => null);
    if (!wanted || !example || s.recording.value) return;
    const made = new Recording();
    for (const event of example.events) made.apply(event);
    useExample(example);
    batch(() => {
      s.isExample.value = true;
      s.model.value = example.answers["model"] as ModelInfo;
      s.recording.value = made;
      settle();
      const first = tellingHead(made.sentences[0]!, s.model.value, s.kind.value);
      if (first) [s.layer.value, s.head.value] = [first.layer, first.head];
      showAll();
    });
  }, SOON);
  return () => {
    wanted = false;
    clearTimeout(timer);
    useExample(null);
    if (!s.isExample.value) return;
    batch(() => {
      s.isExample.value = false;
      s.model.value = null;
      s.recording.value = null;
      [s.kind.value, s.layer.value, s.head.value] = asked;
    });
  };
}
