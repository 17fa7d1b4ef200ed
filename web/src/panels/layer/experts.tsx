// The router of a mixture of experts: how likely each expert is for this token, and which of them work for it.
import { percent } from "../../format";
import type { Router } from "../../layer-types";
import { shown } from "../../pieces";
import { numbersOf } from "../../tensors";
import { layerWords } from "../../words/layer";
import { HeatTable, columnsAround } from "./heat-table";
import type { Chosen } from "./panel";

export function Experts({ chosen, router }: { chosen: Chosen; router: Router }) {
  const t = layerWords.value.experts;
  const { pieces, position } = chosen;
  const [tokens, experts] = router.probabilities.shape as [number, number];
  const probabilities = numbersOf(router.probabilities);
  const { from, to } = columnsAround(position, router.first, tokens);
  const at = (token: number, expert: number) => probabilities[(token - router.first) * experts + expert]!;
  const shareOf = (token: number, expert: number) => {
    const found = router.chosen[token - router.first]!.indexOf(expert);
    return found < 0 ? null : router.shares[token - router.first]![found]!;
  };
  return (
    <>
      <h4>{t.title}</h4>
      <p>{t.explain(router.chosen[0]?.length ?? 1, experts)}</p>
      <div class="strips" id="router">
        {Array.from({ length: experts }, (_, n) => {
          const share = shareOf(position, n);
          return (
            <div class={`strip-row${share === null ? "" : " lit"}`} key={n}>
              <span class="label">{t.expert(n + 1)}</span>
              <span class="bars"><span class="bar-line"><span style={{ width: `${100 * at(position, n)}%` }} /></span></span>
              <span class="count small">{percent(at(position, n))} <span class="faint">{share === null ? t.notChosen : t.shareIs(share.toFixed(4))}</span></span>
            </div>
          );
        })}
      </div>
      <HeatTable
        id="routes"
        caption={t.table}
        corner=""
        columns={Array.from({ length: to - from }, (_, n) => ({ label: shown(pieces[from + n]!), go: () => chosen.goTo(from + n), isHere: from + n === position }))}
        rows={Array.from({ length: experts }, (_, n) => ({ label: t.expert(n + 1) }))}
        cell={(row, column) => {
          const share = shareOf(from + column, row);
          return { text: `${(100 * at(from + column, row)).toFixed(0)}${share === null ? "" : " ✓"}`, share: at(from + column, row), title: share === null ? t.notChosen : t.shareIs(share.toFixed(4)) };
        }}
        open={(_, column) => chosen.goTo(from + column)}
      />
    </>
  );
}
