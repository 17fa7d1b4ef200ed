// In place of a panel whose answer is not there: it comes, or a page without a server was never given it.
import type { Signal } from "@preact/signals";
import { isUnrecorded } from "../answers";
import type { Sentence } from "../recording";
import { words } from "../words";

export function Waiting({ sentence, asked }: { sentence: Sentence; asked: Signal<unknown> }) {
  const t = words.value;
  if (isUnrecorded(asked)) return <p class="note" data-unrecorded="">{t.savedOnly}</p>;
  return <p class="faint">{sentence.found ? t.phases.loading : t.nothingYet}</p>;
}
