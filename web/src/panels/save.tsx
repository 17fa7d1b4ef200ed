import { useState } from "preact/hooks";
import { jsonOf, pngOf, svgOf } from "../export";
import { head, kind, layer } from "../state";
import { download } from "../save-page";
import type { View } from "../view";
import { words } from "../words";

export function Save({ view, title }: { view: View; title: string }) {
  const t = words.value;
  const name = `attention-${kind.value}-${layer.value + 1}-${head.value < 0 ? "mean" : head.value + 1}`;
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
