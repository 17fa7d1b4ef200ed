// The whole model as a picture, in which one token's vector goes from operation to operation.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useChoice } from "../../choice";
import { px } from "../../format";
import type { SideName } from "../../layer-types";
import type { Sentence } from "../../recording";
import { narrow } from "../../state";
import type { ModelInfo } from "../../types";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { FlowFacts } from "./flow-facts";
import { nameOf, notesOn, placeOf } from "./flow-labels";
import { type Step, type Way, wayOf } from "./flow-steps";
import { layOut } from "./flow-layout";
import { FlowPicture } from "./flow-picture";

const INTERVAL = 1200; // milliseconds an operation
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const still = matchMedia("(prefers-reduced-motion: reduce)");

interface Props {
  info: ModelInfo;
  sentence: Sentence;
  flows: Way["flows"];
  tokens: Record<SideName, number>;
  showView: (view: number) => void;
}

export function FlowView({ info, sentence, flows, tokens, showView }: Props) {
  const t = layerWords.value.flow;
  const way = useMemo(() => wayOf(flows), [flows.encoder, flows.decoder]);
  const [wanted, keep] = useChoice("flow", 0);
  const [speed, chooseSpeed] = useChoice("flow-speed", 2);
  const [isPlaying, play] = useState(false);
  const last = way.steps.length - 1;
  const at = Math.min(Math.max(Math.round(wanted), 0), last);
  const interval = INTERVAL / (SPEEDS[speed] ?? 1);
  const go = (step: number) => keep(Math.min(Math.max(step, 0), last));
  const stepTo = (step: number) => {
    play(false);
    go(step);
  };
  const toggle = () => {
    if (!isPlaying && at === last) go(0);
    play(!isPlaying);
  };
  useEffect(() => {
    if (!isPlaying) return;
    if (at >= last) return play(false);
    const timer = setTimeout(() => go(at + 1), interval);
    return () => clearTimeout(timer);
  }, [isPlaying, at, interval, last]);
  const step = way.steps[at]!;
  const layers = drawnLayers(way, at);
  const picture = useMemo(
    () => layOut(way, layers, narrow.value, (one) => info.config[one.side].residual.kind === "crate" && one.place === "feedforward.norm"),
    [way, layers.encoder, layers.decoder, narrow.value, info],
  );
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = { ArrowRight: () => stepTo(at + 1), ArrowLeft: () => stepTo(at - 1), " ": toggle }[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    action();
  };
  return (
    <section aria-label={t.player} class="flow-view">
      <Player way={way} at={at} isPlaying={isPlaying} toggle={toggle} stepTo={stepTo} says={saysOf(info, way, step)} speed={speed} chooseSpeed={chooseSpeed} />
      <p class="flow-now" aria-hidden="true">{saysOf(info, way, step)}</p>
      <div class="flow-frame" style={{ width: px(picture.width) }} tabIndex={0} role="group" aria-label={t.player} aria-describedby="flow-hint" id="flow" onKeyDown={onKey}>
        <FlowPicture
          info={info}
          sentence={sentence}
          way={way}
          picture={picture}
          at={at}
          tokens={tokens}
          milliseconds={still.matches ? 0 : interval * 0.62}
          go={stepTo}
          label={describe(info, way, layers)}
        />
      </div>
      <FlowFacts info={info} sentence={sentence} way={way} at={at} tokens={tokens} isQuiet={isPlaying} showView={showView} />
      <p class="faint" id="flow-hint">{[...notesOn(info, way), t.hint].join(" ")}</p>
      <Listed info={info} way={way} at={at} stepTo={stepTo} />
    </section>
  );
}

// The layer that is drawn of each side: that in which the vector is, or was last.
function drawnLayers(way: Way, at: number): Record<SideName, number> {
  const layerOf = (side: SideName) => {
    const passed = way.steps.slice(0, at + 1).findLast((step) => step.side === side && step.layer !== null);
    return passed?.layer ?? 0;
  };
  return { encoder: layerOf("encoder"), decoder: layerOf("decoder") };
}

function saysOf(info: ModelInfo, way: Way, step: Step): string {
  return [nameOf(info, step), placeOf(info, way, step)].filter(Boolean).join(layerWords.value.flow.joint);
}

// The picture in a sentence or two, for those who cannot see it.
function describe(info: ModelInfo, way: Way, layers: Record<SideName, number>): string {
  const t = layerWords.value.flow;
  const sides = (["encoder", "decoder"] as const).filter((side) => way.flows[side]).map((side) => {
    const inLayer = way.steps.filter((step) => step.side === side && step.layer === layers[side]);
    return t.sideSays(words.value[side], info.config[side].layers, inLayer.map((step) => nameOf(info, step)).join(t.joint));
  });
  return t.picture(sides.join(" "));
}

interface PlayerProps {
  way: Way;
  at: number;
  isPlaying: boolean;
  toggle: () => void;
  stepTo: (step: number) => void;
  says: string;
  speed: number;
  chooseSpeed: (speed: number) => void;
}

function Player({ way, at, isPlaying, toggle, stepTo, says, speed, chooseSpeed }: PlayerProps) {
  const t = layerWords.value.flow;
  const last = way.steps.length - 1;
  const buttons: [string, string, string, () => void, boolean][] = [
    ["start", "⇤", t.toStart, () => stepTo(0), at > 0],
    ["back", "←", t.back, () => stepTo(at - 1), at > 0],
    ["play", isPlaying ? "❚❚" : "▶", isPlaying ? t.pause : t.play, toggle, true],
    ["forward", "→", t.forward, () => stepTo(at + 1), at < last],
    ["layer", "↑", t.layerOn, () => stepTo(nextLayer(way, at)), at < last],
  ];
  return (
    <div class="flow-player">
      <span class="row tight">
        {buttons.map(([id, sign, name, act, can]) => (
          <button type="button" key={id} id={`flow-${id}`} aria-label={name} title={name} disabled={!can} onClick={act}>
            <span aria-hidden="true">{sign}</span>
          </button>
        ))}
      </span>
      <input
        id="flow-at"
        type="range"
        min={0}
        max={last}
        value={at}
        aria-label={t.player}
        aria-valuetext={says}
        onInput={(event) => stepTo(Number(event.currentTarget.value))}
      />
      <output class="count" for="flow-at">{t.position(at + 1, last + 1)}</output>
      <label>
        <span class="unseen">{t.speed}</span>
        <select id="flow-speed" value={speed} onChange={(event) => chooseSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((one, n) => <option value={n}>{one} ×</option>)}
        </select>
      </label>
    </div>
  );
}

// The first operation of the next layer, or what comes behind the last.
function nextLayer(way: Way, at: number): number {
  const here = way.steps[at]!;
  const found = way.steps.findIndex((step, n) => n > at && (step.layer !== here.layer || step.side !== here.side) && (step.layer !== null || here.layer !== null));
  return found < 0 ? way.steps.length - 1 : found;
}

// The same as text: every operation is a button.
function Listed({ info, way, at, stepTo }: { info: ModelInfo; way: Way; at: number; stepTo: (step: number) => void }) {
  const t = layerWords.value.flow;
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary id="flow-list">{t.operations}</summary>
      {isOpen && (
        <ol class="operations">
          {way.steps.map((step, n) => (
            <li key={n}>
              <button type="button" class="plain" aria-current={n === at ? "step" : undefined} onClick={() => stepTo(n)}>
                <span class="count faint">{n + 1}</span> {saysOf(info, way, step)}
              </button>
            </li>
          ))}
        </ol>
      )}
    </details>
  );
}
