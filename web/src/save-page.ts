// The page as one file that needs nobody: its script, its style, and every answer that its panels would ask for.
import { cameOf, recordedOf } from "./answers";
import { Failed, type Saved } from "./api";
import * as s from "./state";
import { tellView } from "./url";
import { TONGUES, tongue } from "./words";

export async function pageOf(): Promise<Blob> {
  const answers = await everything();
  const [script, style] = await Promise.all(["static/whole.js", "static/page.css"].map(async (path) => (await fetch(path)).text()));
  const saved: Saved = { events: s.recording.value!.events, answers, view: tellView().toString(), tongue: tongue.value };
  const recorded = JSON.stringify(saved).replace(/</gu, "\\u003c");
  const page = `<!doctype html>
<html lang="${TONGUES[tongue.value].tag}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headway</title><link rel="icon" href="data:,"><style>${style}</style></head>
<body><div id="page"></div><script type="application/json" id="recording">${recorded}</script>
<script>${script!.replace(/<\/script/gu, "<\\/script")}</script></body></html>
`;
  return new Blob([page], { type: "text/html" });
}

// Everything that the panels could ask for, by the names under which they ask.
async function everything(): Promise<Record<string, unknown>> {
  const answers: Record<string, unknown> = { model: s.model.value! };
  for (const [n, sentence] of s.recording.value!.sentences.entries()) {
    // One after another: the server has others to serve.
    for (const [name, asked] of recordedOf(sentence)) {
      try {
        answers[`${n} ${name}`] = await cameOf(asked());
      } catch (error) {
        if (!(error instanceof Failed && error.status === 400)) throw error; // what a text has none of, such as a long one
      }
    }
  }
  return answers;
}

export function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
