// The page as one file that needs nobody: its script, its style, and every answer that its panels would ask for.
import { insideOf, placesOf, vectorsOf, costsOf } from "./answers";
import { keptAnswers } from "./api";
import { placeOf } from "./recording";
import * as s from "./state";
import type { Kind } from "./types";

export async function pageOf(): Promise<Blob> {
  await askEverything();
  const [script, style] = await Promise.all(["static/page.js", "static/page.css"].map(async (path) => (await fetch(path)).text()));
  const answers = { ...keptAnswers(), model: s.model.value };
  const recorded = JSON.stringify({ events: s.recording.value!.events, answers }).replace(/</gu, "\\u003c");
  const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headway</title><link rel="icon" href="data:,"><style>${style}</style></head>
<body><div id="page"></div><script type="application/json" id="recording">${recorded}</script>
<script>${script!.replace(/<\/script/gu, "<\\/script")}</script></body></html>
`;
  return new Blob([page], { type: "text/html" });
}

async function askEverything(): Promise<void> {
  const info = s.model.value!;
  const kinds: Kind[] = s.kindsOf(info);
  for (const sentence of s.recording.value!.sentences) {
    const asked: { value: unknown }[] = [placesOf(sentence), vectorsOf(sentence), costsOf(sentence)];
    for (const kind of kinds) {
      for (let layer = 0; layer < s.layersOf(info, kind); layer++) {
        if (sentence.weightsOf(kind, layer)) asked.push(insideOf(sentence, placeOf(kind, layer)));
      }
      await until(() => asked.every((one) => one.value !== null || info.kind === "masked"));
    }
  }
}

async function until(ready: () => boolean): Promise<void> {
  for (let n = 0; n < 200 && !ready(); n++) await new Promise((done) => setTimeout(done, 50));
}
