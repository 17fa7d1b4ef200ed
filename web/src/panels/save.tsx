import { saved } from "../api";
import { jsonOf, pngOf, svgOf } from "../export";
import { pageOf } from "../save-page";
import { isExample } from "../state";
import type { View } from "../view";
import { words } from "../words";

export function Save({ view, title }: { view: View; title: string }) {
  const t = words.value;
  const name = "attention";
  const kinds: [string, () => Promise<Blob> | Blob, string][] = [
    ["PNG", () => pngOf(view, title), "png"],
    ["SVG", () => new Blob([svgOf(view, title)], { type: "image/svg+xml" }), "svg"],
    ["JSON", () => new Blob([jsonOf()], { type: "application/json" }), "json"],
  ];
  if (!saved && !isExample.value) kinds.push(["HTML", pageOf, "html"]);
  return (
    <p class="row">
      {t.save}:
      {kinds.map(([label, make, ending]) => (
        <button type="button" key={ending} id={`save-${ending}`} onClick={async () => download(await make(), `${name}.${ending}`)}>
          {label}
        </button>
      ))}
    </p>
  );
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
