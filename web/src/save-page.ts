// The page as one file that needs nobody: its script, its style, and every answer that its panels would ask for.
import { cameOf, costsOf, insideOf, placesOf, vectorsOf } from "./answers";
import { placeOf } from "./recording";
import * as s from "./state";

export async function pageOf(): Promise<Blob> {
  const answers = await everything();
  const [script, style] = await Promise.all(["static/whole.js", "static/page.css"].map(async (path) => (await fetch(path)).text()));
  const recorded = JSON.stringify({ events: s.recording.value!.events, answers }).replace(/</gu, "\\u003c");
  const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headway</title><link rel="icon" href="data:,"><style>${style}</style></head>
<body><div id="page"></div><script type="application/json" id="recording">${recorded}</script>
<script>${script!.replace(/<\/script/gu, "<\\/script")}</script></body></html>
`;
  return new Blob([page], { type: "text/html" });
}

// Everything that the panels could ask for, by the names under which they ask.
async function everything(): Promise<Record<string, unknown>> {
  const info = s.model.value!;
  const answers: Record<string, unknown> = { model: info };
  for (const [n, sentence] of s.recording.value!.sentences.entries()) {
    // One after another: the server has others to serve.
    const keep = async (what: string, asked: Parameters<typeof cameOf>[0]) => (answers[`${n} ${what}`] = await cameOf(asked));
    await keep("vectors", vectorsOf(sentence));
    await keep("costs", costsOf(sentence));
    if (info.kind !== "masked") await keep("places 1", placesOf(sentence));
    for (const kind of s.kindsOf(info)) {
      for (let layer = 0; layer < s.layersOf(info, kind); layer++) {
        const place = placeOf(kind, layer);
        await keep(`inside ${place}`, insideOf(sentence, place));
      }
    }
  }
  return answers;
}
