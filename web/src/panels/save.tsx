import { useState } from "preact/hooks";
import { saved } from "../api";
import { jsonOf, pngOf, svgOf } from "../export";
import { pageOf } from "../save-page";
import { isExample } from "../state";
import type { View } from "../view";
import { words } from "../words";

export function Save({ view, title }: { view: View; title: string }) {
  const t = words.value;
  const name = "attention";
  const [failed, setFailed] = useState(false);
  const save = async (make: () => Promise<Blob> | Blob, ending: string) => {
    setFailed(false);
    try {
      download(await make(), `${name}.${ending}`);
    } catch {
      setFailed(true); // the server is gone, or the picture is larger than a browser draws
    }
  };
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
        <button type="button" key={ending} id={`save-${ending}`} onClick={() => void save(make, ending)}>
          {label}
        </button>
      ))}
      {failed && <span role="alert" class="alert" id="not-saved">{t.notSaved}</span>}
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
