import { signed } from "../format";
import { type Forced, type Node, forcedLogp, latticeOf, penaltyOf } from "../lattice";
import * as s from "../state";
import { words } from "../words";
import { Iterations } from "./iterations";
import { Lattice } from "./lattice-map";

export function BeamPanel() {
  const t = words.value;
  const sentence = s.sentence.value!;
  s.beat.value;
  if (sentence.iterations.length) return <Iterations />;
  if (!sentence.steps.length) return <p class="note">{s.readsOnly(s.model.value) ? t.noDecoder : t.nothingYet}</p>;
  const forced: Forced = {
    ids: sentence.target.slice(0, sentence.forced),
    pieces: sentence.targetPieces.slice(0, sentence.forced),
    logps: sentence.forcedLogps,
  };
  const nodes = latticeOf(sentence.steps, sentence.found ? sentence.target : null, forced);
  const atEnd = s.shownStep.value === s.lastStep.value;
  const until = atEnd ? Infinity : s.shownStep.value - forced.ids.length + forced.logps.length;
  return (
    <>
      <h3>{t.beamTitle}</h3>
      <Legend isForced={forced.logps.length > 0} />
      <Lattice nodes={nodes.filter((one) => one.step < until)} />
      <Hypotheses nodes={nodes} forced={forced} />
    </>
  );
}

function Legend({ isForced }: { isForced: boolean }) {
  const t = words.value;
  const fates = ["win", "runs", "ends", "pruned"] as const;
  return (
    <p class="beam-legend faint">
      {[...fates, ...(isForced ? (["forced"] as const) : [])].map((one) => (
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

function Hypotheses({ nodes, forced }: { nodes: Node[]; forced: Forced }) {
  const t = words.value;
  const penalty = s.recording.value?.penalty ?? s.model.value!.penalty;
  const before = forcedLogp(forced);
  const ended = nodes
    .filter((one) => one.fate === "ends" || one.fate === "cut")
    .map((node) => ({ node, score: (node.logp - before) / penaltyOf(penalty, node.ids.length - forced.ids.length) }))
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
              <th scope="col" class="end">{t.logp}</th>
              <th scope="col" class="end">{t.score}</th>
              <th scope="col">{t.fate}</th>
            </tr>
          </thead>
          <tbody>
            {ended.map(({ node, score }) => (
              <tr key={node.number} data-wins={node.wins ? "" : undefined}>
                <th scope="row" class="long">{node.text.replace("⟨/s⟩", "").trim()}</th>
                <td>{signed(node.logp, 4)}</td>
                <td>{signed(score, 4)}</td>
                <td class="said">{node.wins ? `✓ ${t.beamLegend.win}` : t.beamLegend[node.fate]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint" id="score-note">
        {t.scoreExplained}
        {forced.logps.length > 0 && ` ${t.scoreForced(signed(before, 4))}`}
      </p>
    </>
  );
}
