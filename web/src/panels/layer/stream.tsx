// How long each token's vector is in the residual stream, after every sub-layer.
import { brief } from "../../format";
import type { Tables } from "../../layer-types";
import { shown } from "../../pieces";
import { layer as shownLayer } from "../../state";
import { numbersOf } from "../../tensors";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { HeatTable, columnsAround } from "./heat-table";
import type { Chosen } from "./panel";

interface Props {
  chosen: Chosen;
  found: Tables["stream"];
  open: (layer: number | null, position: number) => void;
}

export function StreamView({ chosen, found, open }: Props) {
  const t = layerWords.value.stream;
  const { pieces, position } = chosen;
  const [stages, tokens] = found.lengths.shape as [number, number];
  const lengths = numbersOf(found.lengths);
  const most = Math.max(...lengths) || 1;
  const { from, to } = columnsAround(position, found.first, tokens);
  const at = (stage: number, token: number) => lengths[stage * tokens + token - found.first]!;
  const rows = found.names.map((name) => {
    const [, layer, sub] = name.split(".");
    if (sub === undefined) return { label: t.embedded, layer: null };
    return { label: `${Number(layer) + 1} ${words.value.subs[sub as "self" | "cross" | "feedforward"]}`, layer: Number(layer) };
  });
  return (
    <>
      <p>{t.explain}</p>
      <HeatTable
        id="stream"
        caption={t.table}
        corner={t.after}
        columns={Array.from({ length: to - from }, (_, n) => ({ label: shown(pieces[from + n]!), go: () => chosen.goTo(from + n), isHere: from + n === position }))}
        rows={rows.map(({ label, layer }) => ({ label, go: () => open(layer, position), isHere: layer === shownLayer.value }))}
        cell={(row, column) => ({ text: brief(at(row, from + column)), share: at(row, from + column) / most, title: at(row, from + column).toFixed(4) })}
        open={(row, column) => open(rows[row]!.layer, from + column)}
      />
      {pieces.length > to - from && <p class="faint">{layerWords.value.shownTokens(from + 1, to, pieces.length)}</p>}
      <p class="faint">{t.hint}</p>
      <p>{t.grows(at(0, position).toFixed(2), at(stages - 1, position).toFixed(2), shown(pieces[position] ?? ""))}</p>
    </>
  );
}
