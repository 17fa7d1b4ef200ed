// One layer: each sub-layer with what it reads, what it computes, and how that is joined to the stream.
import { useChoice } from "../../choice";
import type { LayerNumbers, SublayerName, SublayerNumbers } from "../../layer-types";
import { shown } from "../../pieces";
import * as s from "../../state";
import { numbersOf } from "../../tensors";
import { settle } from "../../translate";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { Experts } from "./experts";
import { NeuronsOf } from "./neurons";
import { NormArithmetic } from "./norm";
import { AllNumbers, type Vector, Vectors, precise } from "./numbers";
import type { Chosen } from "./panel";

const ORDER = ["self", "cross", "feedforward"] as const;

interface Props {
  chosen: Chosen;
  layer: number;
  found: LayerNumbers["layer"];
}

export function SublayersView({ chosen, layer, found }: Props) {
  const t = layerWords.value.layer;
  const [wanted, choose] = useChoice("sublayer", 0);
  const names = ORDER.filter((name) => found.sublayers[name]);
  const name = names[Math.min(Math.max(Math.round(wanted), 0), names.length - 1)]!;
  const sublayer = found.sublayers[name]!;
  return (
    <>
      <div class="step-tabs" role="group" aria-label={t.sublayer}>
        {names.map((one, n) => (
          <button type="button" key={one} id={`sublayer-${one}`} aria-current={one === name ? "step" : undefined} onClick={() => choose(n)}>
            {words.value.subs[one]} <span class="small">{found.sublayers[one]!.kind}</span>
          </button>
        ))}
      </div>
      {!found.sublayers.feedforward && <p class="note" data-no-neurons="">{layerWords.value.neurons.noFeedforward}</p>}
      <h3>{words.value.layerN(layer + 1)}, {words.value.subs[name]}: {shown(chosen.pieces[chosen.position] ?? "")}</h3>
      <p>{t.places[sublayer.norm_place]}</p>
      <Sublayer name={name} numbers={sublayer} />
      {name !== "feedforward" && <ToHead chosen={chosen} name={name} />}
      {name === "feedforward" && found.router && <Experts chosen={chosen} router={found.router} />}
      {name === "feedforward" && <NeuronsOf chosen={chosen} layer={layer} neurons={found.neurons} />}
    </>
  );
}

function Sublayer({ name, numbers }: { name: SublayerName; numbers: SublayerNumbers }) {
  const t = layerWords.value.layer;
  const place = numbers.norm_place;
  const one = (called: string, tensor: SublayerNumbers["sum"], note: string, lit = false): Vector => ({ name: called, values: numbersOf(tensor), note, lit });
  const vectors: Vector[] = [
    one(t.vectors.before, numbers.stream_before, t.notes.before),
    one(t.vectors.input, numbers.input, place === "before" || place === "replaces" ? t.notes.norm : t.notes.same),
    one(t.vectors.output, numbers.output, t.notes.output(`${words.value.subs[name]}, ${numbers.kind}`)),
  ];
  const sum = place === "replaces" ? t.notes.sumInput : numbers.weight === 1 ? t.notes.sum : t.notes.sumWeighted(precise(numbers.weight));
  if (place === "after") vectors.push(one(t.vectors.sum, numbers.sum, sum));
  vectors.push(one(t.vectors.stream, numbers.stream, place === "after" ? t.notes.normOfSum : place === "none" ? "" : sum, true));
  if (numbers.second_stream) vectors.push(one(t.vectors.second, numbers.second_stream, t.notes.second));
  return (
    <>
      <Vectors vectors={vectors} />
      {numbers.norm && <NormArithmetic norm={numbers.norm} />}
      <AllNumbers id="sublayer-numbers" title={words.value.subs[name]} columns={vectors.map((vector) => ({ name: vector.name, values: vector.values }))} />
    </>
  );
}

function ToHead({ chosen, name }: { chosen: Chosen; name: SublayerName }) {
  const open = () => {
    s.kind.value = name === "cross" ? "cross" : chosen.side;
    settle();
    s.panel.value = "inside";
  };
  return <p><button type="button" onClick={open}>{words.value.panels.inside} →</button></p>;
}
