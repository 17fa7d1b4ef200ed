// The neurons of a feed-forward: which fire for this token, and which tokens excite one of them.
import { useState } from "preact/hooks";
import { layerOf } from "../../answers";
import { saved } from "../../api";
import { css, inkOn, signedColours } from "../../colours";
import { signed } from "../../format";
import type { NeuronNumbers, Neurons } from "../../layer-types";
import { Waiting } from "../../parts/waiting";
import { shown } from "../../pieces";
import * as s from "../../state";
import { layerWords } from "../../words/layer";
import { columnsAround } from "./heat-table";
import type { Chosen } from "./panel";

interface Props {
  chosen: Chosen;
  layer: number;
  neurons: Neurons | null;
}

export function NeuronsOf({ chosen, layer, neurons }: Props) {
  const t = layerWords.value.neurons;
  const [wanted, choose] = useState(-1);
  const [typed, type] = useState("");
  if (!neurons) return <p class="note" data-no-neurons="">{t.none}</p>;
  const bound = Math.max(...neurons.values.map(Math.abs)) || 1;
  const isSigned = neurons.values.some((value) => value < 0);
  const before = neurons.before?.some((value, n) => value !== neurons.values[n]) ? neurons.before : null; // ReLU changes none that fire
  const neuron = wanted >= 0 && wanted < neurons.width ? wanted : neurons.ids[0]!;
  const extra = [before && (neurons.gates ? t.beside : t.before), neurons.gates && t.gate].filter(Boolean);
  return (
    <>
      <h4>{neurons.expert === null ? t.title : t.expertTitle(neurons.expert + 1)}</h4>
      <p id="firing">{t.fire(neurons.active, neurons.width)}</p>
      <div class="strips neurons" id="neurons">
        {neurons.ids.map((id, n) => (
          <button
            type="button"
            class="strip-row"
            key={id}
            data-neuron={id}
            aria-pressed={id === neuron}
            aria-label={t.button(id + 1, signed(neurons.values[n]!))}
            onClick={() => choose(id)}
          >
            <span class="label">{t.neuron} {id + 1}</span>
            <Bar share={neurons.values[n]! / bound} isSigned={isSigned} />
            <span class="count small">
              {signed(neurons.values[n]!)}
              {extra.length > 0 && <span class="faint"> ← {[before, neurons.gates].flatMap((one) => (one ? [signed(one[n]!)] : [])).join(", ")}</span>}
            </span>
          </button>
        ))}
      </div>
      {extra.length > 0 && <p class="faint small">← {extra.join(", ")}</p>}
      <Excited chosen={chosen} layer={layer} neurons={neurons} neuron={neuron} />
      {!saved && !s.isExample.value && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            const asked = Math.round(Number(typed)) - 1;
            if (asked >= 0 && asked < neurons.width) choose(asked);
          }}
        >
          <label>
            {t.other}{" "}
            <input id="neuron" type="number" min={1} max={neurons.width} value={typed} onInput={(event) => type(event.currentTarget.value)} />
          </label>
          <button type="submit">{t.show}</button>
        </form>
      )}
    </>
  );
}

// Where there are negative values, from the middle to the right above 0, to the left below.
function Bar({ share, isSigned }: { share: number; isSigned: boolean }) {
  if (!isSigned) return <span class="bars"><span class="bar-line"><span style={{ width: `${100 * share}%` }} /></span></span>;
  const width = 50 * Math.abs(share);
  return <span class="score"><span class={share < 0 ? "below" : ""} style={{ left: `${share < 0 ? 50 - width : 50}%`, width: `${width}%` }} /></span>;
}

function Excited({ chosen, layer, neurons, neuron }: { chosen: Chosen; layer: number; neurons: Neurons; neuron: number }) {
  const t = layerWords.value.neurons;
  const { sentence, side, position, pieces } = chosen;
  const known = neurons.ids.indexOf(neuron);
  const expert = neurons.expert === null ? {} : { expert: neurons.expert };
  const asked = known >= 0 ? null : layerOf<NeuronNumbers>(sentence, `neuron ${side} ${layer} ${neurons.expert ?? ""} ${neuron}`, { side, layer, position, parts: ["neuron"], neuron, ...expert });
  if (asked && !asked.value) return <Waiting sentence={sentence} asked={asked} />;
  const values = known >= 0 ? neurons.tokens[known]! : asked!.value!.neuron.values;
  const first = known >= 0 ? neurons.first : 0;
  const { from, to } = columnsAround(position, first, values.length);
  const bound = Math.max(...values.map((value) => Math.abs(value ?? 0))) || 1;
  return (
    <>
      <h4 id="excited-title">{t.chosen(neuron + 1)}</h4>
      <ul class="excited" id="excited" aria-labelledby="excited-title">
        {Array.from({ length: to - from }, (_, n) => from + n).map((n) => {
          const value = values[n - first] ?? null;
          const colour = signedColours.value[Math.round(127.5 * (1 + (value ?? 0) / bound))]!;
          return (
            <li key={n} class={n === position ? "here" : ""} style={{ background: css(colour), color: inkOn(colour) }}>
              {shown(pieces[n]!)} <span class="small">{value === null ? t.notRouted : signed(value)}</span>
            </li>
          );
        })}
      </ul>
      <p class="faint small">{t.excited}{pieces.length > to - from && ` ${layerWords.value.shownTokens(from + 1, to, pieces.length)}`}</p>
    </>
  );
}
