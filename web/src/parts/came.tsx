// In place of an answer that is not there: it comes, or it failed and can be asked for again, or was never recorded.
import type { Signal } from "@preact/signals";
import { askAgain, failureOf, isUnrecorded } from "../answers";
import { tellProblem } from "../problems";
import type { Sentence } from "../recording";
import { comparing } from "../words/comparing";
import { Waiting } from "./waiting";

// missing: what to say where it was not recorded.
export function Came({ sentence, asked, missing }: { sentence: Sentence; asked: Signal<unknown>; missing?: string }) {
  const failure = failureOf(asked);
  if (missing && isUnrecorded(asked)) return <p class="note" data-unrecorded="">{missing}</p>;
  if (!failure) return <Waiting sentence={sentence} asked={asked} />;
  return (
    <p role="alert" class="alert" data-failed="">
      {tellProblem(failure)}{" "}
      <button type="button" onClick={() => askAgain(asked)}>{comparing.value.failed}</button>
    </p>
  );
}
