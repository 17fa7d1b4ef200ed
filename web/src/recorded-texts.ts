// The texts of a site of files, in place of what a server would be asked.
import { batch } from "@preact/signals";
import { Failed, type Saved, useRecording } from "./api";
import { type RecordedText, loadFile, site } from "./site";
import * as s from "./state";

export const textNumber = (): number => site!.texts.findIndex((one) => one.text === s.text.value && one.model === s.chosenModel.value);

// That of the address, or the first.
export function wantedText(): RecordedText {
  const model = s.chosenModel.value;
  const ofModel = site!.texts.filter((one) => !model || one.model === model);
  return ofModel.find((one) => one.text === s.text.value) ?? ofModel[0] ?? site!.texts[0]!;
}

export async function loadText(one: RecordedText): Promise<void> {
  const names = new Map(site!.texts.map(({ model, kind }) => [model, kind]));
  batch(() => {
    s.phase.value = "starting";
    s.problem.value = null;
    s.models.value = [...names].map(([name, kind]) => ({ name, kind, pairs: [], sources: [], targets: [], loaded: true }));
    s.recording.value = s.first.value = null;
    s.pair.value = one.pair;
  });
  useRecording(await loadFile<Saved>(one.file, new Failed("missing")));
}
