// The numbers of one operation, beside the picture of the flow.
import type { ComponentChildren } from "preact";
import { css, inkOn, signedColours } from "../../colours";
import { percent, signed } from "../../format";
import type { Flow, SideName } from "../../layer-types";
import { shown } from "../../pieces";
import type { Sentence } from "../../recording";
import * as s from "../../state";
import { settle } from "../../translate";
import type { ModelInfo } from "../../types";
import { layerWords } from "../../words/layer";
import { hasExperts, nameOf, piecesOf, placeOf } from "./flow-labels";
import { type Step, type Way, branchOf, lengthAt, startAt } from "./flow-steps";

interface Props {
  info: ModelInfo;
  sentence: Sentence;
  way: Way;
  at: number;
  tokens: Record<SideName, number>;
  isQuiet: boolean; // while it plays, nobody is told of every operation
  showView: (view: number) => void;
}

export function FlowFacts({ info, sentence, way, at, tokens, isQuiet, showView }: Props) {
  const t = layerWords.value.flow;
  const step = way.steps[at]!;
  const flow = way.flows[step.side]!;
  const token = tokens[step.side];
  const piece = shown(piecesOf(sentence, step.side)[token] ?? "");
  const length = (operation: number) => lengthAt(flow, operation, token).toFixed(2);
  const isVector = !["token", "scores", "softmax", "said"].includes(step.kind);
  return (
    <div class="flow-facts">
      <div aria-live={isQuiet ? "off" : "polite"}>
        <h3 id="flow-name">{nameOf(info, step)}</h3>
        <p class="faint">{[placeOf(info, way, step), `“${piece}”`].filter(Boolean).join(" · ")}</p>
        <p id="flow-explained">{explain(info, sentence, way, step, token)}</p>
      </div>
      <dl class="facts">
        <dt>{t.shape}</dt>
        <dd id="flow-shape">{shapeOf(info, flow, step, token)}</dd>
        {isVector && (
          <>
            <dt>{t.vectorLength}</dt>
            <dd>
              {step.operation > 0 && step.kind !== "memory" && <span class="faint">{length(step.operation - 1)} → </span>}
              <span id="flow-length">{length(step.operation)}</span>
            </dd>
          </>
        )}
      </dl>
      {isVector && <Vectors info={info} flow={flow} step={step} token={token} />}
      {(step.kind === "scores" || step.kind === "softmax") && <Likely flow={flow} token={token} isSoftmax={step.kind === "softmax"} />}
      <More step={step} showView={showView} />
    </div>
  );
}

function explain(info: ModelInfo, sentence: Sentence, way: Way, step: Step, token: number): string {
  const t = layerWords.value.flow.explain;
  const flow = way.flows[step.side]!;
  if (step.kind === "token") return t.token(flow.ids[token] ?? 0);
  if (step.kind === "said") {
    const said = step.side === "decoder" ? sentence.written[token] : flow.said?.pieces[token - flow.first]?.[0];
    if (s.readsOnly(info)) return t.guess(shown(said ?? ""));
    return said === undefined || said === "…" ? t.saidOpen : t.said(shown(said));
  }
  if (hasExperts(info, step)) return t.experts;
  if (step.kind === "add" && info.config[step.side].residual.kind === "deepnorm") return t.addWeighted;
  return t[step.kind];
}

function shapeOf(info: ModelInfo, flow: Flow, step: Step, token: number): string {
  const t = layerWords.value.flow;
  const rows = flow.ids.length;
  const width = step.kind === "scores" || step.kind === "softmax" ? info.config.vocabulary : info.config.d_model;
  if (step.kind === "token" || step.kind === "said") return "1";
  return `(${rows}, ${width.toLocaleString("en")}): ${t.rowOf(token + 1, rows)}`;
}

// What comes in and what goes out; of a sum what is added.
function Vectors({ info, flow, step, token }: { info: ModelInfo; flow: Flow; step: Step; token: number }) {
  const t = layerWords.value.flow;
  const rows: [string, number][] = [];
  if (step.kind === "add") {
    const isFromNorm = info.config[step.side].residual.kind === "crate" && step.place === "feedforward.add";
    rows.push([t.stream, branchOf(flow, step.operation, isFromNorm)], [t.added, step.operation - 1], [t.sum, step.operation]);
  } else {
    if (step.operation > 0 && step.kind !== "memory") rows.push([t.before, step.operation - 1]);
    rows.push([t.after, step.operation]);
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.firstNumbers(info.config.d_model)}>
      <table class="numbers" id="flow-numbers">
        <caption>{t.firstNumbers(info.config.d_model)}</caption>
        <tbody>
          {rows.map(([name, operation]) => {
            const values = startAt(flow, operation, token);
            const most = Math.max(...Array.from(values, Math.abs)) || 1;
            return (
              <tr key={name}>
                <th scope="row">{name}</th>
                {Array.from(values, (value, n) => {
                  const colour = signedColours.value[Math.round(127.5 * (1 + value / most))]!;
                  return <td key={n} style={{ background: css(colour), color: inkOn(colour) }}>{short(value)}</td>;
                })}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

// In few characters.
function short(value: number): string {
  return signed(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
}

function Likely({ flow, token, isSoftmax }: { flow: Flow; token: number; isSoftmax: boolean }) {
  const said = flow.said!;
  const row = token - flow.first;
  const shares = said.probabilities[row] ?? [];
  return (
    <div class="strips" id="flow-likely">
      {(said.pieces[row] ?? []).map((piece, n) => (
        <div class="strip-row" key={n}>
          <span class="label">{shown(piece)}</span>
          <span class="bars"><span class="bar-line"><span style={{ width: `${100 * (isSoftmax ? shares[n]! : said.logits[row]![n]! / Math.max(said.logits[row]![0]!, 1e-9))}%` }} /></span></span>
          <span class="count small">{isSoftmax ? percent(shares[n]!) : signed(said.logits[row]![n]!, 2)}</span>
        </div>
      ))}
    </div>
  );
}

// To where all numbers of this operation are.
function More({ step, showView }: { step: Step; showView: (view: number) => void }) {
  const t = layerWords.value.flow;
  const views: Partial<Record<Step["kind"], number>> = {
    token: 1, embedding: 1, position: 1, norm: 3, self: 3, cross: 3, feedforward: 3, add: 3, scores: 4, softmax: 4, said: 5,
  };
  const view = step.place === "embedding.norm" ? 1 : step.place === "end.norm" ? 4 : views[step.kind];
  const links: [string, ComponentChildren, () => void][] = [];
  const settleOn = () => {
    if (step.kind === "self" || step.kind === "cross" || step.kind === "memory") s.kind.value = step.kind === "cross" ? "cross" : step.side;
    else if (step.side === "encoder" || s.kind.value === "encoder") s.kind.value = step.side;
    if (step.layer !== null) s.layer.value = step.layer;
    settle();
  };
  if (view !== undefined) links.push(["more", t.more, () => (settleOn(), showView(view))]);
  if (step.kind === "self" || step.kind === "cross") links.push(["head", t.inHead, () => (settleOn(), (s.panel.value = "inside"))]);
  if (step.kind === "softmax") links.push(["probabilities", t.inProbabilities, () => (s.panel.value = "probabilities")]);
  if (!links.length) return null;
  return (
    <p class="row">
      {links.map(([id, name, act]) => <button type="button" key={id} id={`flow-to-${id}`} onClick={act}>{name} →</button>)}
    </p>
  );
}
