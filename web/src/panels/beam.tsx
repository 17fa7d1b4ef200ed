import { useState } from "preact/hooks";
import { signed } from "../format";
import { type Node, latticeOf, penaltyOf } from "../lattice";
import { shown } from "../pieces";
import * as s from "../state";
import { words } from "../words";

const ACROSS = 116;
const DOWN = 34;
const BOX = { width: 88, height: 24 };
const TOP = 26;

export function BeamPanel() {
  const t = words.value;
  const sentence = s.sentence.value!;
  s.tick.value;
  if (!sentence.steps.length) return <p class="note">{s.model.value?.kind === "masked" ? t.noDecoder : t.nothingYet}</p>;
  const forced = sentence.target.slice(0, sentence.forced);
  const nodes = latticeOf(sentence.steps, sentence.found ? sentence.target : null, forced);
  const atEnd = s.shownStep.value === s.lastStep.value;
  const until = atEnd ? Infinity : s.shownStep.value - forced.length;
  return (
    <>
      <h3>{t.beamTitle}</h3>
      <Legend />
      <Lattice nodes={nodes.filter((one) => one.step < until)} />
      <Hypotheses nodes={nodes} forced={forced.length} />
    </>
  );
}

function Legend() {
  const t = words.value;
  return (
    <p class="beam-legend faint">
      {(["win", "runs", "ends", "pruned"] as const).map((one) => (
        <span key={one}>
          <svg class="lattice" width={64} height={18} aria-hidden="true">
            <path class={`edge ${one}`} d="M0 9 H30" />
            <g class={one}><rect x={30} y={2} width={32} height={14} rx={3} /></g>
          </svg>
          {t.beamLegend[one]}
        </span>
      ))}
    </p>
  );
}

function fateOf(node: Node): keyof typeof words.value.beamLegend {
  return node.wins && node.fate === "runs" ? "win" : node.fate;
}

function Lattice({ nodes }: { nodes: Node[] }) {
  const t = words.value;
  const [chosen, choose] = useState<Node | null>(null);
  const steps = Math.max(0, ...nodes.map((one) => one.step)) + 1;
  const ranks = Math.max(0, ...nodes.map((one) => one.rank)) + 1;
  const x = (node: Node) => node.step * ACROSS + 4;
  const y = (node: Node) => node.rank * DOWN + TOP;
  const width = steps * ACROSS;
  const height = ranks * DOWN + TOP + 4;
  const told = chosen && nodes.includes(chosen) ? chosen : null;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={t.beamTitle}>
        <svg class="lattice" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t.beamTitle}>
          <rect class="now" x={(steps - 1) * ACROSS} y={0} width={ACROSS - 20} height={height} />
          {Array.from({ length: steps }, (_, n) => (
            <text key={n} x={n * ACROSS + 4} y={14}>{n + 1}</text>
          ))}
          {nodes.map((node) => node.parent && (
            <path
              key={node.number}
              class={`edge ${node.wins ? "win" : node.fate}`}
              d={`M${x(node.parent) + BOX.width} ${y(node.parent) + BOX.height / 2} C${x(node) - 12} ${y(node.parent) + BOX.height / 2} ${x(node.parent) + BOX.width + 12} ${y(node) + BOX.height / 2} ${x(node)} ${y(node) + BOX.height / 2}`}
            />
          ))}
          {nodes.map((node) => (
            <g
              key={node.number}
              class={`${node.wins ? "win " : ""}${node.fate}`}
              data-step={node.step}
              data-fate={node.fate}
              data-wins={node.wins ? "" : undefined}
              transform={`translate(${x(node)} ${y(node)})`}
              onPointerEnter={() => choose(node)}
              onClick={() => choose(node)}
            >
              <title>{tell(node)}</title>
              <rect width={BOX.width} height={BOX.height} rx={4} />
              <text x={6} y={16}>{clipped(shown(node.piece))}</text>
            </g>
          ))}
        </svg>
      </div>
      <output class="count" style={{ whiteSpace: "normal" }}>{told ? tell(told) : " "}</output>
    </>
  );
}

function clipped(text: string): string {
  const all = [...text];
  return all.length > 10 ? all.slice(0, 9).join("") + "…" : text;
}

function tell(node: Node): string {
  const t = words.value;
  return t.beamNode(node.text.trim(), signed(node.logp), t.beamLegend[fateOf(node)]);
}

function Hypotheses({ nodes, forced }: { nodes: Node[]; forced: number }) {
  const t = words.value;
  const penalty = s.model.value!.penalty;
  const ended = nodes
    .filter((one) => one.fate === "ends" || one.fate === "cut")
    .map((node) => ({ node, score: node.logp / penaltyOf(penalty, node.ids.length - forced) }))
    .sort((a, b) => b.score - a.score);
  if (!ended.length) return null;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={t.hypotheses}>
        <table class="numbers" id="hypotheses">
          <caption>{t.hypotheses}</caption>
          <thead>
            <tr>
              <th scope="col">{t.hypothesis}</th>
              <th scope="col">{t.logp}</th>
              <th scope="col">{t.score}</th>
              <th scope="col">{t.fate}</th>
            </tr>
          </thead>
          <tbody>
            {ended.map(({ node, score }) => (
              <tr key={node.number} data-wins={node.wins ? "" : undefined}>
                <th scope="row">{node.text.replace("⟨/s⟩", "").trim()}</th>
                <td>{signed(node.logp, 4)}</td>
                <td>{signed(score, 4)}</td>
                <td>{node.wins ? `✓ ${t.beamLegend.win}` : t.beamLegend[node.fate]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint">{t.scoreExplained}</p>
    </>
  );
}
