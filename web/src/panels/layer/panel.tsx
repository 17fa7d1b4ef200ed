// Through a layer: everything that happens to one token's vector between its number and the next word.
import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { isUnrecorded, layerOf } from "../../answers";
import { useChoice } from "../../choice";
import type { Flow, LayerNumbers, SideName, Tables, TokenNumbers } from "../../layer-types";
import { Waiting } from "../../parts/waiting";
import { isSpecial, shown } from "../../pieces";
import type { Sentence } from "../../recording";
import * as s from "../../state";
import { settle } from "../../translate";
import type { ModelInfo } from "../../types";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { EmbeddingView } from "./embedding";
import { FlowView } from "./flow";
import { piecesOf } from "./flow-labels";
import { LensView } from "./lens";
import { OutputView } from "./output";
import { StreamView } from "./stream";
import { SublayersView } from "./sublayers";

// What all views of this panel get.
export interface Chosen {
  info: ModelInfo;
  sentence: Sentence;
  side: SideName;
  position: number; // of the token on its side
  pieces: string[]; // of this side
  goTo: (position: number) => void;
}

export function ThroughLayer() {
  const t = layerWords.value;
  const sentence = s.sentence.value!;
  const info = s.model.value!;
  const [wanted, showView] = useChoice("view", 0);
  const [reading, read] = useChoice("token", Math.max(sentence.pieces.findIndex((piece) => !isSpecial(piece)), 0));
  s.beat.value;
  const sides = (["encoder", "decoder"] as const).filter((side) => info.config[side].layers > 0);
  const side = sides.find((one) => one === (s.kind.value === "encoder" ? "encoder" : "decoder")) ?? sides[0]!;
  const tokens = {
    encoder: Math.min(Math.max(Math.round(reading), 0), Math.max(sentence.pieces.length - 1, 0)),
    decoder: Math.max(s.shownStep.value - 1, 0),
  };
  const goToken = (of: SideName, position: number) => (of === "encoder" ? read(position) : s.goTo(position + 1));
  const chosen: Chosen = {
    info, sentence, side, position: tokens[side], pieces: piecesOf(sentence, side), goTo: (position) => goToken(side, position),
  };
  const view = Math.min(Math.max(Math.round(wanted), 0), t.views.length - 1);
  if (!sentence.found) return <p class="faint">{words.value.phases.loading}</p>;
  return (
    <>
      <div class="step-tabs" role="group" aria-label={t.view}>
        {t.views.map((name, n) => (
          <button type="button" key={n} id={`view-${n}`} aria-current={n === view ? "step" : undefined} onClick={() => showView(n)}>
            {n + 1}. {name}
          </button>
        ))}
      </div>
      <div class="row">
        {view > 0 && sides.length > 1 && <Sides side={side} />}
        {(view > 0 ? [side] : sides).map((one) => (
          <TokenChoice key={one} label={view > 0 || sides.length === 1 ? t.token : t.tokenOf[one]} id={`token-${one}`} pieces={piecesOf(sentence, one)} position={tokens[one]} go={(n) => goToken(one, n)} />
        ))}
      </div>
      {side === "decoder" && info.config.decoder.streams === 2 && <p class="note" id="two-streams">{view === 1 ? t.contentHere : t.queryHere}</p>}
      {view === 0 && <Flows info={info} sentence={sentence} sides={sides} tokens={tokens} showView={showView} />}
      {view === 1 && <OfToken chosen={chosen}>{(found) => <EmbeddingView chosen={chosen} found={found.embedding} />}</OfToken>}
      {view === 2 && <StreamTable chosen={chosen} showView={showView} />}
      {view === 3 && <OneLayer chosen={chosen} />}
      {view === 4 && <OfToken chosen={chosen}>{(found) => <OutputView chosen={chosen} found={found} />}</OfToken>}
      {view === 5 && <LensTable chosen={chosen} showView={showView} />}
    </>
  );
}

function Sides({ side }: { side: SideName }) {
  const t = words.value;
  return (
    <fieldset class="choice">
      <legend class="unseen">{t.side}</legend>
      {(["encoder", "decoder"] as const).map((one) => (
        <label key={one}>
          <input
            type="radio"
            name="layer-side"
            value={one}
            checked={side === one}
            onChange={() => {
              s.kind.value = one;
              settle();
            }}
          />
          <span>{t[one]}</span>
        </label>
      ))}
    </fieldset>
  );
}

interface TokenChoiceProps {
  id: string;
  label: string;
  pieces: string[];
  position: number;
  go: (position: number) => void;
}

function TokenChoice({ id, label, pieces, position, go }: TokenChoiceProps) {
  return (
    <label>
      {label}{" "}
      <select id={id} value={position} onChange={(event) => go(Number(event.currentTarget.value))}>
        {pieces.map((piece, n) => <option value={n}>{n + 1}: {shown(piece)}</option>)}
      </select>
    </label>
  );
}

// Tables are of many tokens; of a long text of those around the chosen one, and then they are asked for again.
function tableOf<T>(sentence: Sentence, name: string, side: SideName, position: number, parts: string[], knows: (found: T) => boolean): Signal<T | null> {
  const asked = layerOf<T>(sentence, `${name} ${side} 0`, { side, position: 0, parts });
  if (!asked.value || knows(asked.value)) return asked;
  return layerOf<T>(sentence, `${name} ${side} ${position}`, { side, position, parts });
}

interface FlowsProps {
  info: ModelInfo;
  sentence: Sentence;
  sides: SideName[];
  tokens: Record<SideName, number>;
  showView: (view: number) => void;
}

function Flows({ info, sentence, sides, tokens, showView }: FlowsProps) {
  const asked = sides.map((side) =>
    tableOf<{ flow: Flow }>(sentence, "flow", side, tokens[side], ["flow"], ({ flow }) => tokens[side] < flow.first + flow.lengths.shape[1]! && tokens[side] >= flow.first),
  );
  const missing = asked.find((one) => !one.value);
  if (missing) return <Waiting sentence={sentence} asked={missing} />;
  const flows = Object.fromEntries(sides.map((side, n) => [side, asked[n]!.value!.flow]));
  return <FlowView info={info} sentence={sentence} flows={flows} tokens={tokens} showView={showView} />;
}

// A page without a server has single tokens of each side only.
function Missing({ chosen, asked }: { chosen: Chosen; asked: Signal<unknown> }) {
  const t = layerWords.value;
  if (!isUnrecorded(asked) || chosen.position === 0) return <Waiting sentence={chosen.sentence} asked={asked} />;
  return (
    <div class="note">
      <p>{t.onlyFirst}</p>
      <button type="button" id="first-token" onClick={() => chosen.goTo(0)}>{t.firstToken}</button>
    </div>
  );
}

function OfToken({ chosen, children }: { chosen: Chosen; children: (found: TokenNumbers) => ComponentChildren }) {
  const { side, position } = chosen;
  const asked = layerOf<TokenNumbers>(chosen.sentence, `token ${side} ${position}`, { side, position, parts: ["embedding", "end", "output"] });
  return <>{asked.value ? children(asked.value) : <Missing chosen={chosen} asked={asked} />}</>;
}

function OneLayer({ chosen }: { chosen: Chosen }) {
  const { side, position, info } = chosen;
  const layer = Math.min(s.layer.value, info.config[side].layers - 1);
  const asked = layerOf<LayerNumbers>(chosen.sentence, `${side} ${layer} ${position}`, { side, position, parts: ["layer"], layer });
  return (
    <>
      <label class="row">
        {layerWords.value.layer.layer}
        <select id="layer-of" value={layer} onChange={(event) => ((s.layer.value = Number(event.currentTarget.value)), settle())}>
          {Array.from({ length: info.config[side].layers }, (_, n) => <option value={n}>{n + 1}</option>)}
        </select>
      </label>
      {asked.value ? <SublayersView chosen={chosen} layer={layer} found={asked.value.layer} /> : <Missing chosen={chosen} asked={asked} />}
    </>
  );
}

function tablesOf({ sentence, side, position }: Chosen): Signal<Tables | null> {
  return tableOf<Tables>(sentence, "table", side, position, ["stream", "lens"], ({ stream, lens }) => {
    const count = lens ? lens.stages[0]!.ranks.length : stream.lengths.shape[1]!;
    const first = lens ? Math.max(lens.first, stream.first) : stream.first;
    return position >= first && position < first + count;
  });
}

function StreamTable({ chosen, showView }: { chosen: Chosen; showView: (view: number) => void }) {
  const asked = tablesOf(chosen);
  if (!asked.value) return <Missing chosen={chosen} asked={asked} />;
  return <StreamView chosen={chosen} found={asked.value.stream} open={(layer, position) => openLayer(chosen, layer, position, showView)} />;
}

function LensTable({ chosen, showView }: { chosen: Chosen; showView: (view: number) => void }) {
  const asked = tablesOf(chosen);
  if (!asked.value) return <Missing chosen={chosen} asked={asked} />;
  return <LensView chosen={chosen} found={asked.value.lens} open={(layer, position) => openLayer(chosen, layer, position, showView)} />;
}

// layer null: what is before the first one.
function openLayer(chosen: Chosen, layer: number | null, position: number, showView: (view: number) => void): void {
  chosen.goTo(position);
  if (layer === null) return showView(1);
  s.layer.value = layer;
  settle();
  showView(3);
}
