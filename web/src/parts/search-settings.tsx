// Two ways to search. The settings of the one that is not taken cannot be changed, and say why.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import * as search from "../searching";
import * as s from "../state";
import type { ModelInfo } from "../types";
import { words } from "../words";

const BEAMS = [1, 2, 3, 4, 5, 6, 8, 10];

export function SearchSettings({ info }: { info: ModelInfo }) {
  const t = words.value;
  if (s.readsOnly(info) || s.writesAtOnce(info)) return null;
  return (
    <>
      <Way sampling={false}>
        <label>
          {t.beamSize}{" "}
          <select id="beam" value={search.beamSize.value} onChange={(e) => (search.beamSize.value = Number(e.currentTarget.value))}>
            <option value={0}>{t.beamOwn(info.kind === "causal" ? 1 : info.beam_size)}</option>
            {BEAMS.map((n) => (
              <option value={n}>{n}</option>
            ))}
          </select>
        </label>
        <LengthPenalty info={info} />
      </Way>
      <Way sampling>
        <Slider id="heat" name={t.temperature} value={search.heat} low={0.1} high={2} step={0.1} />
        <Slider id="top-p" name={t.topP} value={search.topP} low={0.05} high={1} step={0.05} />
        <Whole id="top-k" name={t.topK} value={search.topK} high={1000} />
        <Whole id="seed" name={t.seed} value={search.seed} high={2 ** 31 - 1} />
      </Way>
    </>
  );
}

function Way({ sampling, children }: { sampling: boolean; children: ComponentChildren }) {
  const t = words.value;
  const taken = search.sample.value === sampling;
  const name = sampling ? "sample" : "search";
  return (
    <div class="way" role="group" aria-labelledby={`way-${name}`}>
      <label class="check">
        <input type="radio" name="way" value={name} checked={taken} onChange={() => (search.sample.value = sampling)} />
        <span id={`way-${name}`}>{t.ways[name]}</span>
      </label>
      <fieldset class="row" disabled={!taken} title={taken ? undefined : t.onlyWith(t.ways[name])}>
        {children}
      </fieldset>
    </div>
  );
}

function LengthPenalty({ info }: { info: ModelInfo }) {
  const t = words.value;
  const [kind, own] = info.penalty;
  if (info.kind === "causal") return null;
  const value = search.alpha.value ?? own;
  return (
    <label title={kind === "none" ? t.noPenalty : undefined}>
      {t.lengthPenalty}{" "}
      <input
        id="alpha"
        type="range"
        min={0}
        max={2}
        step={0.1}
        value={value}
        disabled={kind === "none"}
        onInput={(e) => (search.alpha.value = Number(e.currentTarget.value))}
      />{" "}
      <output class="count">{value.toFixed(1)}</output>
    </label>
  );
}

interface NumberProps {
  id: string;
  name: string;
  value: Signal<number>;
  high: number;
}

function Slider({ id, name, value, low, high, step }: NumberProps & { low: number; step: number }) {
  return (
    <label>
      {name}{" "}
      <input id={id} type="range" min={low} max={high} step={step} value={value.value} onInput={(e) => (value.value = Number(e.currentTarget.value))} />{" "}
      <output class="count">{value.value.toFixed(2)}</output>
    </label>
  );
}

function Whole({ id, name, value, high }: NumberProps) {
  const read = (text: string) => Math.min(Math.max(Math.round(Number(text) || 0), 0), high);
  return (
    <label>
      {name}{" "}
      <input id={id} type="number" min={0} max={high} value={value.value} onChange={(e) => (value.value = read(e.currentTarget.value))} />
    </label>
  );
}
