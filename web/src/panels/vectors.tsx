// Where the tokens lie, who is near them, and what their positions add.
import { vectorsOf } from "../answers";
import { useChoice } from "../choice";
import { Waiting } from "../parts/waiting";
import { shown } from "../pieces";
import * as s from "../state";
import type { SideVectors } from "../types";
import { words } from "../words";
import { Positions } from "./positions";

const SIDES = ["encoder", "decoder"] as const;
type SideName = (typeof SIDES)[number];

export function VectorsPanel() {
  const t = words.value;
  const sentence = s.sentence.value!;
  const [number, setSide] = useChoice("side", 0);
  s.beat.value;
  const asked = vectorsOf(sentence);
  const vectors = asked.value;
  if (!vectors) return <Waiting sentence={sentence} asked={asked} />;
  const sides = SIDES.filter((one) => vectors[one]);
  const side = sides[number] ?? sides[0]!;
  const chosen = vectors[side]!;
  const all = side === "encoder" ? sentence.pieces : sentence.heard;
  const count = side === "encoder" ? all.length : Math.max(s.shownStep.value, 1);
  return (
    <>
      {sides.length > 1 && (
        <fieldset class="choice">
          <legend class="unseen">{t.side}</legend>
          {sides.map((one, n) => (
            <label key={one}>
              <input type="radio" name="side" checked={side === one} onChange={() => setSide(n)} />
              <span>{t[one]}</span>
            </label>
          ))}
        </fieldset>
      )}
      <Ways side={side} vectors={chosen} pieces={all.slice(0, count)} />
      <Neighbours vectors={chosen} pieces={all.slice(0, count)} />
      {chosen.positions?.map((table, n) => <Positions key={`${side}${n}`} table={table} />)}
      {chosen.positions?.length === 0 && <p class="faint">{t.noPositions}</p>}
    </>
  );
}

const EDGE = 44;
const LETTER = 7.5; // pixels, about

function Ways({ side, vectors, pieces }: { side: SideName; vectors: SideVectors; pieces: string[] }) {
  const t = words.value;
  const last = vectors.stages.length - 1;
  const [wanted, setStage] = useChoice("stage", last);
  const stage = Math.min(Math.max(wanted, 0), last);
  const points = vectors.places.flat();
  const range = (axis: 0 | 1): [number, number] => {
    const along = points.map((point) => point[axis]);
    return [Math.min(...along), Math.max(...along)];
  };
  const place = (axis: 0 | 1, size: number) => {
    const [low, high] = range(axis);
    return (value: number) => EDGE + ((value - low) / (high - low || 1)) * (size - 2 * EDGE);
  };
  const [width, height] = s.narrow.value ? [320, 340] : [800, 440]; // letters keep their size on a small screen
  const x = place(0, width);
  const y = place(1, height);
  const name = nameOf(vectors.stages[stage]!);
  return (
    <>
      <h3>{t.vectorsTitle}</h3>
      <label class="row">
        {t.stage}
        <input id="stage" type="range" min={0} max={last} value={stage} aria-valuetext={name} onInput={(e) => setStage(Number(e.currentTarget.value))} />
        <output>{name}</output>
      </label>
      <svg class="plane" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${t.vectorsTitle}: ${name}`}>
        {pieces.map((piece, n) => {
          const way = vectors.places.slice(0, stage + 1).map((all) => all[n]!);
          const [left, top] = way.at(-1)!;
          const label = shown(piece);
          const ends = x(left) + 8 + LETTER * label.length > width; // it would leave the picture
          return (
            <g key={n} class={side}>
              <polyline class="trail" points={way.map((point) => `${x(point[0])},${y(point[1])}`).join(" ")} />
              <circle cx={x(left)} cy={y(top)} r={5} />
              <text x={x(left) + (ends ? -8 : 8)} y={y(top) + 4} text-anchor={ends ? "end" : "start"}>{label}</text>
            </g>
          );
        })}
      </svg>
      <p class="faint">{t.plane}</p>
    </>
  );
}

function nameOf(stage: string): string {
  const t = words.value;
  const layer = stage.split(".")[1]!;
  return layer === "embedded" ? t.stageNames.embedded : t.layerN(Number(layer) + 1);
}

function Neighbours({ vectors, pieces }: { vectors: SideVectors; pieces: string[] }) {
  const t = words.value;
  if (!vectors.neighbours.some((row) => row.length)) return null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.neighbours}>
      <table>
        <caption>{t.neighbours}</caption>
        <tbody>
          {pieces.map((piece, n) => (
            <tr key={n}>
              <th scope="row">{shown(piece)}</th>
              {vectors.neighbours[n]!.map(([near, cosine]) => (
                <td key={near}>{shown(near)} <span class="faint">{cosine.toFixed(2)}</span></td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
