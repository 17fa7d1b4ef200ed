// All heads at a glance: one canvas, and over it a button for each head.
import { useLayoutEffect, useRef } from "preact/hooks";
import { weightColours } from "../colours";
import { px } from "../format";
import type { Group } from "../pieces";
import { type Tile, paint } from "../pixels";
import type { Sentence } from "../recording";
import * as s from "../state";
import type { Kind, ModelInfo } from "../types";
import { highest, viewOf } from "../view";
import { words } from "../words";

const SIZE = 64; // pixels of a head, which is how many tokens are drawn one by one
const GAP = 6;

interface Props {
  sentence: Sentence;
  info: ModelInfo;
  kind: Kind;
  sides: { rows: Group[]; columns: Group[] };
}

export function Atlas({ sentence, info, kind, sides }: Props) {
  const t = words.value;
  const canvas = useRef<HTMLCanvasElement>(null);
  const all = Array.from({ length: s.layersOf(info, kind) }, (_, n) => n);
  const layers = (s.narrow.value ? [s.layer.value] : all).filter((n) => sentence.weightsOf(kind, n));
  const heads = Math.max(0, ...layers.map((n) => sentence.weightsOf(kind, n)!.heads));
  const columns = s.narrow.value ? Math.min(heads, 4) : heads;
  const lines = s.narrow.value ? Math.ceil(heads / Math.max(columns, 1)) : layers.length;
  const cells = layers.flatMap((layer, line) =>
    Array.from({ length: sentence.weightsOf(kind, layer)!.heads }, (_, head) => ({
      layer,
      head,
      column: s.narrow.value ? head % columns : head,
      line: s.narrow.value ? Math.floor(head / columns) : line,
    })),
  );
  const width = columns * (SIZE + GAP) - GAP;
  const height = lines * (SIZE + GAP) - GAP;

  useLayoutEffect(() => {
    if (!canvas.current || !cells.length) return;
    const tiles = cells.map(({ layer, head, column, line }): Tile => {
      const { values } = viewOf(sentence.weightsOf(kind, layer)!, s.hides(info, kind, layer), head, sides);
      return {
        values,
        rows: sides.rows.length,
        columns: sides.columns.length,
        x: column * (SIZE + GAP),
        y: line * (SIZE + GAP),
        width: SIZE,
        height: SIZE,
        low: 0,
        high: s.ownScale.value ? highest(values) : 1,
        root: s.rootScale.value,
        from: s.threshold.value,
      };
    });
    paint(canvas.current, width, height, tiles, weightColours.value);
  }, [sentence, kind, sides, columns, lines, s.layer.value * Number(s.narrow.value), s.ownScale.value, s.rootScale.value, s.threshold.value, weightColours.value]);

  if (!cells.length && s.running.value && !s.narrow.value) return <Reserved info={info} kind={kind} />;
  if (!cells.length) return null;
  const onKey = (event: KeyboardEvent) => {
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
    if (!down && !right) return;
    event.preventDefault();
    const here = cells.find((one) => one.layer === s.layer.value && one.head === s.head.value) ?? cells[0]!;
    const next = cells.find((one) => one.line === here.line + down! && one.column === here.column + right!);
    if (!next) return;
    s.layer.value = next.layer;
    s.head.value = next.head;
    const button = (event.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-head="${next.layer}.${next.head}"]`);
    button?.focus();
  };
  const chosen = cells.findIndex((one) => one.layer === s.layer.value && one.head === s.head.value);
  return (
    <div class="scroll">
      <div class="atlas" role="group" aria-label={t.atlas} style={{ width: px(width), height: px(height) }} onKeyDown={onKey}>
        <canvas ref={canvas} aria-hidden="true" />
        {!s.narrow.value &&
          layers.map((layer, line) => (
            <span key={`layer ${layer}`} class="layer-number" aria-hidden="true" style={{ top: px(line * (SIZE + GAP)), height: px(SIZE) }}>
              {layer + 1}
            </span>
          ))}
        {cells.filter((one) => one.line === 0).map(({ head, column }) => (
          <span key={`head ${head}`} class="head-number" aria-hidden="true" style={{ left: px(column * (SIZE + GAP)), width: px(SIZE) }}>
            {head + 1}
          </span>
        ))}
        {cells.map(({ layer, head, column, line }, n) => (
          <button
            type="button"
            key={`${layer}.${head}`}
            data-head={`${layer}.${head}`}
            aria-pressed={n === chosen}
            aria-label={t.atlasHead(layer + 1, head + 1)}
            title={t.atlasHead(layer + 1, head + 1)}
            tabIndex={n === Math.max(chosen, 0) ? 0 : -1}
            style={{ left: px(column * (SIZE + GAP)), top: px(line * (SIZE + GAP)), width: px(SIZE), height: px(SIZE) }}
            onClick={() => {
              s.layer.value = layer;
              s.head.value = head;
            }}
          />
        ))}
      </div>
    </div>
  );
}

// The room of the heads, before the first of their weights are there.
function Reserved({ info, kind }: { info: ModelInfo; kind: Kind }) {
  const heads = s.partOf(info, kind, 0).heads ?? 1;
  const layers = s.layersOf(info, kind);
  return (
    <div class="scroll">
      <div class="atlas" style={{ width: px(heads * (SIZE + GAP) - GAP), height: px(layers * (SIZE + GAP) - GAP) }} />
    </div>
  );
}
