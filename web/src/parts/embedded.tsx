// One panel inside another page: what was said, the timeline, the panel, and the way to the whole page.
import { onViewerKey } from "../keys";
import { languageTag } from "../pieces";
import { tellProblem } from "../problems";
import * as s from "../state";
import { tellView } from "../url";
import { words } from "../words";
import { Timeline } from "./timeline";
import { Viewer } from "./viewer";

export function Embedded() {
  const t = words.value;
  s.beat.value;
  const [from, to] = s.pair.value.split(" ");
  const whole = tellView();
  whole.delete("embed");
  const result = s.recording.value?.text ?? "";
  const isFailed = s.phase.value === "error";
  return (
    <main class="embedded">
      <h1 class="unseen">{t.title}</h1>
      <p class="row">
        <span>
          <span dir="auto" lang={languageTag(from)}>{s.text.value}</span>
          {result && result !== s.text.value && <> → <span dir="auto" lang={languageTag(to)}>{result}</span></>}
        </span>
        <span class="faint small">{s.chosenModel.value}</span>
        <a class="small" href={`#${whole}`} target="_blank" rel="noopener">{t.handOut.wholePage}</a>
      </p>
      {isFailed && s.problem.value && <p role="alert" class="alert">{tellProblem(s.problem.value)}</p>}
      <div class="look" onKeyDown={onViewerKey}>
        <Timeline />
        <Viewer />
      </div>
    </main>
  );
}
