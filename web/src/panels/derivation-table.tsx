// How one number was made: every product that was added up, and what was done to their sum.
import { isUnrecorded, columnOf } from "../answers";
import { derive, isOfQuery, matrixOf, resultOf } from "../derivation";
import { exact } from "../format";
import { type Head, type Name, numbered, symbolOf, vectorOf } from "../head";
import { Tex } from "../mathml";
import type { Sentence } from "../recording";
import { words } from "../words";
import { insideWords } from "../words/inside";

const DIGITS = 6;

export interface Chosen {
  name: Name;
  row: number;
  channel: number;
}

interface Props {
  head: Head;
  chosen: Chosen;
  keys: string[];
  token: string; // whose number it is
  sentence: Sentence;
  place: string;
}

export function DerivationTable({ head, chosen, keys, token, sentence, place }: Props) {
  const t = insideWords.value;
  const { name, row, channel } = chosen;
  const letter = matrixOf(head, name);
  const asked = letter ? columnOf(sentence, place, letter, head.number, channel) : null;
  const found = derive(head, name, row, channel, { keys }, asked?.value ?? null);
  const value = vectorOf(head, name, row)[channel];
  const title = (
    <h4>
      {t.made} <span id="made-symbol">{numbered(symbolOf(head, name), channel)}</span>
      {token && <span class="faint"> · {token}</span>}
    </h4>
  );
  if (!found) {
    const isMissing = asked && isUnrecorded(asked);
    return (
      <section class="made">
        {title}
        {value !== undefined && <p class="count">{exact(value, DIGITS)}</p>}
        <p class={isMissing ? "note" : "faint"}>{isMissing ? t.needsServer : letter ? words.value.phases.loading : t.otherHead}</p>
      </section>
    );
  }
  const { sum, result } = resultOf(found);
  const width = found.columns.length;
  return (
    <section class="made">
      {title}
      {found.facts.length > 0 && (
        <p class="facts-line">
          {found.facts.map(([fact, number]) => <span key={fact} data-fact={fact}>{fact} = {exact(number, DIGITS)}</span>)}
        </p>
      )}
      {name === "weights" && <p class="small">{t.shift}</p>}
      <div class="scroll tall" tabIndex={0} role="region" aria-label={`${t.made} ${found.symbol}`}>
        <table class="numbers" id="made" data-name={name} data-row={isOfQuery(name) ? undefined : row} data-channel={channel}>
          <thead>
            <tr>
              <td />
              {found.columns.map((column) => <th scope="col" key={column}>{column === "×" ? t.product : <Said of={column} />}</th>)}
            </tr>
          </thead>
          <tbody>
            {found.terms.map(({ label, numbers }, n) => (
              <tr key={n}>
                <th scope="row">{label}</th>
                {numbers.map((number, c) => <td key={c}>{exact(number, DIGITS)}</td>)}
              </tr>
            ))}
          </tbody>
          <tfoot>
            {(found.terms.length > 1 || found.after.length > 0) && <Row name="∑" value={sum} width={width} data="sum" />}
            {found.after.map(({ sign, name: of, value: number }) => (
              <Row key={sign + of} name={sign === "share" ? `${of}÷∑` : sign === "silu" ? of : `${sign}${of}`} value={sign === "silu" ? result : number} width={width} data={sign} />
            ))}
            <Row name={`= "${found.symbol}"`} value={result} width={width} data="result" />
            <Row name={`"${t.inModel}"`} value={found.value} width={width} data="value" />
          </tfoot>
        </table>
      </div>
      {head.about.rounds && letter && <p class="note">{t.rounds}</p>}
    </section>
  );
}

function Row({ name, value, width, data }: { name: string; value: number; width: number; data: string }) {
  return (
    <tr data-made={data}>
      <th scope="row" colSpan={width}><Said of={name} /></th>
      <td>{exact(value, DIGITS)}</td>
    </tr>
  );
}

// A header is read as text: not every reader of screens reads formulas.
function Said({ of }: { of: string }) {
  return (
    <>
      <span class="unseen">{of.replace(/[{}"]/gu, "")}</span>
      <span aria-hidden="true"><Tex of={of} /></span>
    </>
  );
}
