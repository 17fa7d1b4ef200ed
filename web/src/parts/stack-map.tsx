// A small picture of the model: a click on a block chooses what is looked at. On a small screen two lists do the same.
import { nameOfKind } from "../kind-name";
import * as s from "../state";
import { settle } from "../translate";
import type { Kind, ModelInfo, Part } from "../types";
import { words } from "../words";

export function look(kind: Kind, layer: number): void {
  s.kind.value = kind;
  s.layer.value = layer;
  settle();
}

export function StackMap() {
  const t = words.value;
  const info = s.model.value;
  if (!info) return <nav class="map" aria-label={t.map} />;
  return (
    <nav class="map" aria-label={t.map}>
      {s.narrow.value ? <Lists info={info} /> : <Picture info={info} />}
    </nav>
  );
}

function Picture({ info }: { info: ModelInfo }) {
  const t = words.value;
  return (
    <>
      {info.config.encoder.layers > 0 && <Side info={info} title={t.encoder} kinds={["encoder"]} />}
      {info.config.decoder.layers > 0 && (
        <Side info={info} title={t.decoder} kinds={s.kindsOf(info).filter((kind) => kind !== "encoder")} />
      )}
    </>
  );
}

function Side({ info, title, kinds }: { info: ModelInfo; title: string; kinds: Kind[] }) {
  const t = words.value;
  const stack = info.config[kinds[0] === "encoder" ? "encoder" : "decoder"];
  const layers = Array.from({ length: stack.layers }, (_, n) => stack.layers - 1 - n);
  const kindsIn = (parts: Part[]) => [...new Set(parts.map((one) => one.kind))].join(", ");
  const residual = stack.residual.kind;
  const about = [kindsIn(stack.mixer), kindsIn(stack.position), ["pre", "post"].includes(residual) ? `${residual}-norm` : residual];
  return (
    <div class="side">
      <h2>{title}</h2>
      <ol>
        {layers.map((layer) => (
          <li key={layer}>
            <span class="faint">{layer + 1}</span>
            {kinds.map((kind) => (
              <button
                type="button"
                key={kind}
                aria-pressed={s.kind.value === kind && s.layer.value === layer}
                aria-label={`${nameOf(kind)}, ${title}, ${t.layerN(layer + 1)}`}
                onClick={() => look(kind, layer)}
              >
                {nameOf(kind)}
              </button>
            ))}
          </li>
        ))}
      </ol>
      <p class="faint small">{about.filter(Boolean).join(" · ")}</p>
    </div>
  );
}

function nameOf(kind: Kind): string {
  const { subs } = words.value;
  if (kind === "decoder" && s.model.value?.config.decoder.streams === 2) return words.value.contentStream;
  return kind === "cross" ? subs.cross : kind === "query" ? subs.query : subs.self;
}

function Lists({ info }: { info: ModelInfo }) {
  const t = words.value;
  return (
    <div class="row">
      <label>
        {t.kind}{" "}
        <select value={s.kind.value} onChange={(e) => look(e.currentTarget.value as Kind, s.layer.value)}>
          {s.kindsOf(info).map((kind) => (
            <option value={kind}>{nameOfKind(kind)}</option>
          ))}
        </select>
      </label>
      <label>
        {t.layer}{" "}
        <select value={s.layer.value} onChange={(e) => look(s.kind.value, Number(e.currentTarget.value))}>
          {Array.from({ length: s.layersOf(info, s.kind.value) }, (_, n) => (
            <option value={n}>{n + 1}</option>
          ))}
        </select>
      </label>
    </div>
  );
}
