// The model as its config says, from the bottom to the top.
import { costsOf } from "../answers";
import { short } from "../format";
import { look } from "../parts/stack-map";
import * as s from "../state";
import type { Block, Kind, ModelInfo } from "../types";
import { words } from "../words";

export function Architecture() {
  const t = words.value;
  const sentence = s.sentence.value;
  s.beat.value;
  const info = (sentence && costsOf(sentence).value) ?? s.model.value;
  if (!info) return <p class="faint">{s.phase.value === "locked" ? t.needKey : t.phases.starting}</p>;
  return (
    <>
      <h3>{t.architectureTitle}</h3>
      <div class="stacks">
        {info.config.encoder.layers > 0 && <Tower info={info} side="encoder" />}
        {info.config.decoder.layers > 0 && <Tower info={info} side="decoder" />}
      </div>
      <Costs info={info} />
    </>
  );
}

function Tower({ info, side }: { info: ModelInfo; side: "encoder" | "decoder" }) {
  const t = words.value;
  const { config } = info;
  const length = info.lengths[side === "encoder" ? 0 : 1];
  const shape = `(${length}, ${config.d_model})`;
  const blocks = (name: string) => info.blocks.find((one) => one.name === name);
  const embedding = blocks("embedding")!;
  const isLast = side === "decoder" || !config.decoder.layers;
  const groups = groupsOf(info, side);
  const up = <div class="arrow" aria-hidden="true">↑</div>;
  return (
    <div class="tower">
      <h4>{side === "encoder" ? t.encoder : t.decoder}</h4>
      {isLast && (
        <>
          <Box name={t.output} block={blocks("head")!} info={info} shape={`(${length}, ${config.vocabulary})`} />
          {up}
        </>
      )}
      {blocks(`${side}.end`) && (
        <>
          <Box name={t.subs.end} block={blocks(`${side}.end`)!} info={info} shape={shape} />
          {up}
        </>
      )}
      {groups.toReversed().map(({ from, count }) => (
        <div class="layers" key={from}>
          <span class="times">
            {count > 1 ? t.layersFromTo(from + 1, from + count) : t.layerN(from + 1)} · {t.norms[config[side].residual.kind] ?? config[side].residual.kind}
          </span>
          {(["feedforward", "cross", "self"] as const).map((sub) => {
            const block = blocks(`${side}.${from}.${sub}`);
            if (!block) return null;
            const kind: Kind | null = sub === "feedforward" ? null : sub === "cross" ? "cross" : side;
            return <Box key={sub} name={t.subs[sub]} block={block} info={info} shape={shape} to={kind} layer={from} detail={detailOf(info, side, sub, from)} />;
          })}
        </div>
      ))}
      {up}
      {info.blocks.filter((one) => one.name === `${side}.position` && !actsInside(one)).map((one) => (
        <Box key={one.kind} name={t.subs.position} block={one} info={info} shape={shape} />
      ))}
      <Box name={t.embedding} block={{ ...embedding, kind: `tied: ${embedding.kind}` }} info={info} shape={shape} detail={`${side === "encoder" ? config.source_vocabulary : config.vocabulary} × ${config.d_model}`} />
    </div>
  );
}

// Whether these positions act in attention, not on the input.
function actsInside(position: Block | undefined): boolean {
  return position?.applies_to === "qk" || position?.applies_to === "scores";
}

// Layers one after the other that are the same.
function groupsOf(info: ModelInfo, side: "encoder" | "decoder"): { from: number; count: number }[] {
  const details = (layer: number) => (["self", "cross", "feedforward"] as const).map((sub) => detailOf(info, side, sub, layer));
  const look = (layer: number) =>
    JSON.stringify([details(layer), info.blocks.filter((one) => one.name.startsWith(`${side}.${layer}.`)).map((one) => [one.kind, one.parameters, one.flops])]);
  const groups: { from: number; count: number }[] = [];
  for (let layer = 0; layer < info.config[side].layers; layer++) {
    const last = groups.at(-1);
    if (last && look(last.from) === look(layer)) last.count++;
    else groups.push({ from: layer, count: 1 });
  }
  return groups;
}

export function detailOf(info: ModelInfo, side: "encoder" | "decoder", sub: "self" | "cross" | "feedforward", layer: number): string {
  const stack = info.config[side];
  const parts = (sub === "self" ? stack.mixer : sub === "cross" ? stack.cross : stack.feedforward) ?? [];
  const part = parts[layer % Math.max(parts.length, 1)];
  if (!part) return "";
  if (part["hidden"]) return `${info.config.d_model} → ${part["hidden"]} → ${info.config.d_model}`;
  const heads = part["heads"] ? `${part["heads"]} × ${part["d_k"] ?? "?"}` : "";
  const grouped = part["groups"] && part["groups"] !== part["heads"] ? ` / ${part["groups"]}` : "";
  const mask = sub === "self" ? stack.mask[layer % stack.mask.length]?.kind : "";
  const position = sub === "self" ? stack.position[layer % Math.max(stack.position.length, 1)]?.kind : undefined;
  const placed = info.blocks.find((one) => one.name === `${side}.position` && one.kind === position);
  const acts = actsInside(placed) && words.value.positionActs[placed!.applies_to as "qk" | "scores"](position!);
  return [heads + grouped, mask, acts, sub === "cross" && words.value.fromEncoder].filter(Boolean).join(", ");
}

interface BoxProps {
  name: string;
  block: Block;
  info: ModelInfo;
  shape: string;
  detail?: string;
  to?: Kind | null;
  layer?: number;
}

function Box({ name, block, info, shape, detail, to, layer }: BoxProps) {
  if (!block) return null;
  const inner = (
    <>
      <span class="line">
        <span>{name} <span class="faint small">{block.kind}</span></span>
        <span class="number">{shape}</span>
      </span>
      <span class="line">
        <span class="faint small">{detail}</span>
        <span class="number">
          {[block.parameters && words.value.parameters(short(block.parameters)), block.flops && words.value.operations(short(block.flops))]
            .filter(Boolean)
            .join(", ")}
        </span>
      </span>
      <span class="share" style={{ width: `${(100 * block.parameters) / info.parameters}%` }} />
    </>
  );
  if (!to) return <div class="block">{inner}</div>;
  return (
    <button
      type="button"
      class="block"
      title={words.value.lookAtIt(name)}
      onClick={() => {
        look(to, layer ?? 0);
        s.panel.value = "attention";
      }}
    >
      {inner}
    </button>
  );
}

function Costs({ info }: { info: ModelInfo }) {
  const t = words.value;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.flops}>
      <table class="numbers" id="costs">
        <caption>
          {t.flops} <span class="faint">{t.flopsNote(...info.lengths)}</span>
        </caption>
        <thead>
          <tr>
            <th scope="col">{t.block}</th>
            <th scope="col">{t.type}</th>
            <th scope="col" class="end">{t.parameterColumn}</th>
            <th scope="col" class="end">{t.flops}</th>
          </tr>
        </thead>
        <tbody>
          {info.blocks.map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              <td class="said">{one.kind}</td>
              <td>{one.parameters.toLocaleString("en")}</td>
              <td>{one.flops.toLocaleString("en")}</td>
            </tr>
          ))}
          <tr>
            <th scope="row"><strong>{t.total}</strong></th>
            <td />
            <td id="total"><strong>{info.parameters.toLocaleString("en")}</strong></td>
            <td><strong>{info.flops.toLocaleString("en")}</strong></td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}
