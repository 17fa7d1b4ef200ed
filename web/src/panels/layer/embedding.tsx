// A token's number, its row of the embedding matrix, and its position.
import { layerOf } from "../../answers";
import type { EmbeddingNumbers, Flow, SideName } from "../../layer-types";
import { shown } from "../../pieces";
import type { Sentence } from "../../recording";
import { numbersOf } from "../../tensors";
import { layerWords } from "../../words/layer";
import { columnsAround } from "./heat-table";
import { NormArithmetic } from "./norm";
import { AllNumbers, Vectors, precise } from "./numbers";
import type { Chosen } from "./panel";

export function EmbeddingView({ chosen, found }: { chosen: Chosen; found: EmbeddingNumbers }) {
  const t = layerWords.value.tokens;
  const { sentence, side, position, pieces } = chosen;
  const row = numbersOf(found.row);
  const segment = found.segment && numbersOf(found.segment);
  const added = found.position && numbersOf(found.position);
  const embedded = numbersOf(found.embedded);
  const scale = precise(found.scale);
  const name = shown(pieces[position] ?? "");
  const scaled = row.map((value) => value * found.scale);
  return (
    <>
      <p>{t.explain}</p>
      <Ids sentence={sentence} side={side} chosen={chosen} token={found.token} />
      <h3>{position + 1}: {name}</h3>
      <Vectors
        vectors={[
          { name: found.scale === 1 ? t.row : `${t.row} ${t.times(Number(found.scale.toPrecision(4)).toString())}`, values: scaled, note: `${t.id} ${found.token}` },
          ...(segment ? [{ name: t.segment, values: segment }] : []),
          ...(added ? [{ name: t.positionAdded, values: added, note: chosen.info.config[side].position.map((one) => one.kind).join(", ") }] : []),
          { name: t.embedded, values: embedded, note: t.embeddedNote, lit: true },
        ]}
      />
      {!added && <p class="note">{t.noPosition}</p>}
      {!found.norm && <Sum row={row} scale={scale} segment={segment} added={added} embedded={embedded} />}
      {found.norm && <NormArithmetic norm={found.norm} />}
      <AllNumbers
        id="embedding-numbers"
        title={t.embedded}
        columns={[
          { name: t.row, values: row },
          { name: t.times(scale), values: scaled },
          ...(segment ? [{ name: t.segment, values: segment }] : []),
          ...(added ? [{ name: t.positionAdded, values: added }] : []),
          { name: t.embedded, values: embedded },
        ]}
      />
    </>
  );
}

interface SumProps {
  row: Float32Array;
  scale: string;
  segment: Float32Array | null;
  added: Float32Array | null;
  embedded: Float32Array;
}

// The first channel, as it is computed.
function Sum({ row, scale, segment, added, embedded }: SumProps) {
  const t = layerWords.value.tokens;
  const plus = [segment, added].flatMap((one) => (one ? [precise(one[0]!)] : []));
  const terms = [scale === "1" ? precise(row[0]!) : `${precise(row[0]!)} · ${scale}`, ...plus].join(" + ");
  return <p class="arithmetic" id="embedding-sum"><span class="faint">{t.sumOf(1)}</span> {terms} = {precise(embedded[0]!)}</p>;
}

// All tokens of the side, as far as their numbers are known here.
function Ids({ sentence, side, chosen, token }: { sentence: Sentence; side: SideName; chosen: Chosen; token: number }) {
  const t = layerWords.value.tokens;
  const { pieces, position } = chosen;
  const ids = layerOf<{ flow: Flow }>(sentence, `flow ${side} 0`, { side, position: 0, parts: ["flow"] }).value?.flow.ids;
  const { from, to } = columnsAround(position, 0, pieces.length);
  const columns = Array.from({ length: to - from }, (_, n) => from + n);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={t.table}>
        <table class="numbers ids" id="token-ids">
          <caption>{t.table}</caption>
          <tbody>
            <tr>
              <th scope="row">{t.position}</th>
              {columns.map((n) => <td key={n} class={n === position ? "here" : ""}>{n + 1}</td>)}
            </tr>
            <tr>
              <th scope="row">{t.piece}</th>
              {columns.map((n) => (
                <td key={n} class={n === position ? "here" : ""}>
                  <button type="button" class="plain" aria-pressed={n === position} onClick={() => chosen.goTo(n)}>{shown(pieces[n]!)}</button>
                </td>
              ))}
            </tr>
            <tr>
              <th scope="row">{t.id}</th>
              {columns.map((n) => <td key={n} class={n === position ? "here" : ""}>{n === position ? token : (ids?.[n] ?? "")}</td>)}
            </tr>
          </tbody>
        </table>
      </div>
      {pieces.length > columns.length && <p class="faint">{layerWords.value.shownTokens(from + 1, to, pieces.length)}</p>}
    </>
  );
}
