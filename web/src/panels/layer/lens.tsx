// The logit lens: what every layer would say if it were the last.
import { useChoice } from "../../choice";
import { percent } from "../../format";
import type { Lens, LensStage } from "../../layer-types";
import { shown } from "../../pieces";
import * as s from "../../state";
import { layerWords } from "../../words/layer";
import { type Cell, HeatTable, columnsAround } from "./heat-table";
import type { Chosen } from "./panel";

interface Props {
  chosen: Chosen;
  found: Lens | null;
  open: (layer: number | null, position: number) => void;
}

export function LensView({ chosen, found, open }: Props) {
  const t = layerWords.value.lens;
  const [shows, show] = useChoice("lens", 0);
  if (!found) {
    const isLastSide = chosen.side === (chosen.info.config.decoder.layers ? "decoder" : "encoder");
    return <p class="note" data-no-lens="">{isLastSide ? layerWords.value.output.noScores : t.none}</p>;
  }
  const { pieces, position } = chosen;
  const { from, to } = columnsAround(position, found.first, found.stages[0]!.ranks.length);
  const rows = found.stages.map((stage) => ({ ...nameOf(stage), stage }));
  return (
    <>
      <p>{t.explain}</p>
      <label>
        {t.show}{" "}
        <select id="lens-shows" value={shows} onChange={(event) => show(Number(event.currentTarget.value))}>
          {t.shows.map((name, n) => <option value={n}>{name}</option>)}
        </select>
      </label>
      <HeatTable
        id="lens"
        caption={t.table}
        corner={t.after}
        hasText={shows === 0}
        columns={Array.from({ length: to - from }, (_, n) => ({ label: shown(pieces[from + n]!), go: () => chosen.goTo(from + n), isHere: from + n === position }))}
        rows={rows.map(({ label, layer }) => ({ label, go: () => open(layer, position) }))}
        cell={(row, column) => cellOf(rows[row]!.stage, from + column - found.first, shows)}
        open={(row, column) => open(rows[row]!.layer, from + column)}
      />
      {pieces.length > to - from && <p class="faint">{layerWords.value.shownTokens(from + 1, to, pieces.length)}</p>}
      <p class="faint">{t.hint}</p>
      <Detail stages={found.stages} at={position - found.first} piece={shown(pieces[position] ?? "")} follows={followsAt(chosen)} />
    </>
  );
}

function nameOf(stage: LensStage): { label: string; layer: number | null } {
  const t = layerWords.value.lens;
  const layer = stage.name.split(".")[1]!;
  return layer === "embedded" ? { label: t.embedded, layer: null } : { label: t.layerN(Number(layer) + 1), layer: Number(layer) };
}

function cellOf(stage: LensStage, at: number, shows: number): Cell | null {
  const t = layerWords.value.lens;
  const piece = shown(stage.pieces[at]?.[0] ?? "");
  const likeliest = stage.probabilities[at]?.[0] ?? 0;
  const [expected, rank] = [stage.expected[at] ?? null, stage.ranks[at] ?? 0];
  const title = t.cell(piece, percent(likeliest), rank ? t.rankIs(rank) : "");
  if (shows === 1) return expected === null ? null : { text: percent(expected), share: expected, title };
  if (shows === 2) return rank ? { text: String(rank), share: 1 / (1 + Math.log2(rank)), title } : null;
  return { text: piece, share: likeliest, title };
}

// What then follows, where it is known.
function followsAt({ sentence, position, info }: Chosen): string {
  const piece = s.readsOnly(info) ? undefined : sentence.written[position];
  return piece === undefined || piece === "…" ? "" : shown(piece);
}

function Detail({ stages, at, piece, follows }: { stages: LensStage[]; at: number; piece: string; follows: string }) {
  const t = layerWords.value.lens;
  if (!stages[0]!.ids[at]) return null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.detail(piece)}>
      <table id="lens-detail">
        <caption>{t.detail(piece)} {follows && !s.readsOnly(s.model.value) && <span class="faint"> · {t.writes} {follows}</span>}</caption>
        <tbody>
          {stages.map((stage) => (
            <tr key={stage.name}>
              <th scope="row">{nameOf(stage).label}</th>
              {stage.pieces[at]!.map((one, n) => (
                <td key={n} class={follows && shown(one) === follows ? "here" : ""}>{shown(one)} <span class="faint small">{percent(stage.probabilities[at]![n]!)}</span></td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
