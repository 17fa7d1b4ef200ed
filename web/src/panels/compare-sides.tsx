// The two versions: their texts, how likely each is, the probability of each token, and where both look.
import { type Signal, batch, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { leave, scoreOf } from "../answers";
import { useTextChoice } from "../choice";
import { signedColours, weightColours } from "../colours";
import { type Word, common, differing } from "../differing";
import { percent, signed, weight } from "../format";
import { Came } from "../parts/came";
import { bare, languageTag } from "../pieces";
import { type Sentence, placeOf } from "../recording";
import { site } from "../site";
import * as s from "../state";
import type { Scored, ScoredToken } from "../types";
import { type Version, backwards, forcedScore, partners, scoreOfVersion, sentenceOf } from "../versions";
import { MASKED, type View, sidesOf, viewOf } from "../view";
import { words } from "../words";
import { comparing } from "../words/comparing";
import { tellModel, tellPart } from "./compare-names";
import { tellWhere } from "../kind-name";
import { HeadPicker } from "./head-picker";
import { type Cell, MatrixMap, Ramp } from "./matrix-map";

interface Both {
  sentence: Sentence;
  version: Version;
  other: Sentence;
  text: string; // of the other version
}

export function Sides({ sentence, version, other, text }: Both) {
  const t = comparing.value.compare;
  const masked = s.readsOnly(s.model.value);
  const canForce = !masked && version.way !== "forced";
  const [same, setSame] = useTextChoice<string>("same", !site && (version.way === "model" || version.way === "part") ? "1" : "");
  const isForced = canForce && same === "1";
  const first = scoreOf(sentence);
  const own = scoreOfVersion(sentence, version, other);
  const place = placeOf(s.kind.value, s.layer.value);
  const forced = isForced ? forcedScore(sentence, version, other, place) : null;
  useEffect(() => () => void (forced && leave(forced)), [forced]);
  const second = forced ?? own;
  const [left, right] = useMemo(() => differing(sentence.result, text), [sentence, text]);
  const names = namesOf(version);
  return (
    <>
      <div class="panes">
        <Said id="this" name={names[0]} read={version.way === "text" ? differing(sentence.text, other.text)[0] : null} marked={left} scored={first.value} />
        <Said id="that" name={names[1]} read={version.way === "text" ? differing(sentence.text, other.text)[1] : null} marked={right} scored={own.value} />
      </div>
      {canForce && (
        <fieldset class="choice">
          <legend class="small faint">{t.of}</legend>
          {["", "1"].map((one) => (
            <label key={one}>
              <input type="radio" name="same" value={one} checked={same === one} onChange={() => setSame(one)} />
              <span>{one ? t.same : t.own}</span>
            </label>
          ))}
        </fieldset>
      )}
      {first.value && second.value ? (
        <>
          {first.value.logp !== null && second.value.logp !== null && (
            <p id="logp-difference">{tellDifference(first.value.logp, second.value.logp, isForced)}</p>
          )}
          {!masked && <Tokens first={first.value} second={second.value} />}
          <Looks one={sentence} other={isForced ? sentenceOf(second.value, other.text) : other} isLeftOut={version.way === "part"} />
        </>
      ) : (
        <Came sentence={sentence} asked={first.value ? second : first} missing={t.needsServer} />
      )}
    </>
  );
}

function tellDifference(one: number, other: number, isForced: boolean): string {
  const t = comparing.value.compare;
  const difference = withSign(other - one, 4);
  return isForced ? t.forcedDifference(signed(one, 4), signed(other, 4), difference) : t.difference(difference);
}

function namesOf(version: Version): [string, string] {
  const t = comparing.value.compare;
  const own = tellModel(s.chosenModel.value);
  if (version.way === "model") return [own, tellModel(version.model)];
  if (version.way === "part") return [own, t.without(tellPart(version.part))];
  return [t.one, version.way === "forced" ? t.before : t.other];
}

function withSign(value: number, digits: number): string {
  const shown = Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value;
  return `${shown > 0 ? "+" : ""}${signed(shown, digits)}`;
}

function Marked({ parts }: { parts: Word[] }) {
  return <>{parts.map((one, n) => (one.differs ? <mark key={n}>{one.text}</mark> : one.text))}</>;
}

function Said({ id, name, read, marked, scored }: { id: string; name: string; read: Word[] | null; marked: Word[]; scored: Scored | null }) {
  const t = comparing.value.compare;
  const [from, to] = s.sentencePair.value;
  return (
    <section class="pane" aria-labelledby={`${id}-name`}>
      <h3 id={`${id}-name`} class="long-word">{name}</h3>
      {read && <p class="faint" id={`${id}-read`} dir="auto" lang={languageTag(from)}><Marked parts={read} /></p>}
      <div class="output" id={`${id}-output`} dir="auto" lang={languageTag(to)}><Marked parts={marked} /></div>
      <p class="faint small count" id={`${id}-facts`}>
        {scored?.logp != null && t.facts(signed(scored.logp, 4), scored.score === null ? "" : signed(scored.score, 4), scored.tokens.length)}
      </p>
    </section>
  );
}

// Equal tokens on one line, the others where they stand in either.
function paired(first: ScoredToken[], second: ScoredToken[]): [ScoredToken | null, ScoredToken | null][] {
  const lines: [ScoredToken | null, ScoredToken | null][] = [];
  let [a, b] = [0, 0];
  for (const [one, other] of [...common(first.map((token) => token.piece), second.map((token) => token.piece)), [first.length, second.length] as const]) {
    while (a < one && b < other) lines.push([first[a++]!, second[b++]!]); // another token in the same place
    while (a < one) lines.push([first[a++]!, null]);
    while (b < other) lines.push([null, second[b++]!]);
    if (one < first.length) lines.push([first[a++]!, second[b++]!]);
  }
  return lines;
}

function Tokens({ first, second }: { first: Scored; second: Scored }) {
  const t = comparing.value.compare;
  const lines = useMemo(() => paired(first.tokens, second.tokens), [first, second]);
  const most = Math.max(0.01, ...lines.map(([one, other]) => (one && other ? Math.abs(other.logp - one.logp) : 0)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.probabilities}>
      <table class="numbers" id="token-probabilities">
        <caption>{t.probabilities}</caption>
        <thead>
          <tr>
            <th scope="col">{t.position}</th>
            <th scope="col">{t.token}</th>
            <th scope="col" class="end">{t.p}</th>
            <th scope="col">{t.otherToken}</th>
            <th scope="col" class="end">{t.otherP}</th>
            <th scope="col" class="end">{t.delta}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map(([one, other], n) => {
            const delta = one && other ? other.logp - one.logp : null;
            const differs = one?.piece !== other?.piece;
            return (
              <tr key={n}>
                <th scope="row">{n + 1}</th>
                <TokenCells token={one} differs={differs} />
                <TokenCells token={other} differs={differs} />
                <td>
                  {delta !== null && (
                    <span class="delta" style={{ "--size": `${(50 * Math.abs(delta)) / most}%` }} data-below={delta < 0 ? "" : undefined}>
                      {withSign(delta, 3)}
                    </span>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function TokenCells({ token, differs }: { token: ScoredToken | null; differs: boolean }) {
  const t = comparing.value.compare;
  if (!token) return <><td class="said">—</td><td /></>;
  const likelier = token.rank > 1 ? token.best.pieces.map((piece, n) => `${bare(piece)} ${percent(Math.exp(token.best.logps[n]!))}`).join(", ") : "";
  return (
    <>
      <td class="said">
        {differs ? <mark>{bare(token.piece)}</mark> : bare(token.piece)}
        {token.rank > 1 && <span class="faint small" title={likelier}> {t.rank(token.rank)}</span>}
      </td>
      <td>{percent(Math.exp(token.logp))}</td>
    </>
  );
}

// ---- Attention

const inOne = signal<Cell | null>(null);
const inOther = signal<Cell | null>(null);

// A cell of one map is pointed at, and its partner in the other.
function linked(own: Signal<Cell | null>, others: Signal<Cell | null>, rows: number[], columns: number[]): Signal<Cell | null> {
  return {
    get value() {
      return own.value;
    },
    set value(cell: Cell | null) {
      const partner = cell && { row: rows[cell.row] ?? -1, column: columns[cell.column] ?? -1 };
      batch(() => {
        own.value = cell;
        others.value = partner && partner.row >= 0 && partner.column >= 0 ? partner : null;
      });
    },
  } as Signal<Cell | null>;
}

function labelled(view: View): { rows: string[]; columns: string[] } {
  return { rows: view.rows.map((one) => one.label), columns: view.columns.map((one) => one.label) };
}

const shownOf = (view: View): Float32Array => view.values.map((value) => (value === MASKED ? NaN : value));

function Looks({ one, other, isLeftOut }: { one: Sentence; other: Sentence; isLeftOut: boolean }) {
  const t = comparing.value.compare;
  const kind = s.kind.value;
  const weights = [one.weightsOf(kind, s.layer.value), other.weightsOf(kind, s.layer.value)] as const;
  const masked = s.hides(s.model.value, kind, s.layer.value);
  const both = useMemo(() => {
    if (!weights[0] || !weights[1]) return null;
    const options = { asWords: s.asWords.value, hideSpecials: s.hideSpecials.value };
    const sides = [one, other].map((made) => sidesOf(made, kind, { step: made.rows, ...options }));
    const rows = partners(sides[0]!.rows, sides[1]!.rows);
    const columns = partners(sides[0]!.columns, sides[1]!.columns);
    return { sides: sides as [typeof sides[0], typeof sides[0]], rows, columns };
  }, [one, other, kind, weights[0], weights[1], s.asWords.value, s.hideSpecials.value]);
  useEffect(() => {
    inOne.value = inOther.value = null;
  }, [one, other, kind]);
  return (
    <section class="looks" aria-labelledby="looks-title">
      <h3 id="looks-title">{t.attention}</h3>
      <HeadPicker heads={weights[0]?.heads ?? 0} />
      <label class="check">
        <input id="compare-words" type="checkbox" checked={s.asWords.value} onChange={(event) => (s.asWords.value = event.currentTarget.checked)} /> {words.value.asWords}
      </label>
      {both && both.sides[0].rows.length && both.sides[1].rows.length ? (
        <Maps sides={both.sides} rows={both.rows} columns={both.columns} weights={[weights[0]!, weights[1]!]} masked={masked} isLeftOut={isLeftOut} />
      ) : (
        <p class="note">{t.noWeights}</p>
      )}
    </section>
  );
}

type Sides = ReturnType<typeof sidesOf>;
type SomeWeights = NonNullable<ReturnType<Sentence["weightsOf"]>>;

interface Mapped {
  sides: [Sides, Sides];
  rows: number[]; // of the other, for each of the first
  columns: number[];
  weights: [SomeWeights, SomeWeights];
  masked: boolean;
  isLeftOut?: boolean; // a part is, in the other
}

function differences(one: View, other: View, rows: number[], columns: number[]): Float32Array {
  const width = one.columns.length;
  const [a, b] = [shownOf(one), shownOf(other)];
  return a.map((value, n) => {
    const [row, column] = [rows[Math.floor(n / width)]!, columns[n % width]!];
    return row < 0 || column < 0 ? NaN : b[row * other.columns.length + column]! - value;
  });
}

function Maps({ sides, rows, columns, weights, masked, isLeftOut }: Mapped) {
  const t = comparing.value.compare;
  const [one, other] = useMemo(() => sides.map((side, n) => viewOf(weights[n]!, masked, Math.min(s.head.value, weights[n]!.heads - 1), side)), [sides, weights[0], weights[1], masked, s.head.value]) as [View, View];
  const difference = useMemo(() => differences(one, other, rows, columns), [one, other, rows, columns]);
  const back = useMemo(() => [backwards(rows, other.rows.length), backwards(columns, other.columns.length)] as const, [rows, columns, other]);
  const most = difference.reduce((high, value) => Math.max(high, Math.abs(value) || 0), 0);
  const ones = linked(inOne, inOther, rows, columns);
  const others = linked(inOther, inOne, back[0], back[1]);
  const told = (value: number | undefined): string => (value === undefined || value === MASKED ? t.masked : weight(value));
  const tell = (cell: Cell, view: View): string => {
    const isOne = view === one;
    const partner = isOne ? { row: rows[cell.row]!, column: columns[cell.column]! } : { row: back[0][cell.row]!, column: back[1][cell.column]! };
    const value = view.values[cell.row * view.columns.length + cell.column];
    const names = [view.rows[cell.row]!.label, view.columns[cell.column]!.label] as const;
    if (partner.row < 0 || partner.column < 0) return t.readsAlone(...names, told(value));
    const partnerView = isOne ? other : one;
    const partnerValue = partnerView.values[partner.row * partnerView.columns.length + partner.column];
    const [mine, theirs] = isOne ? [value, partnerValue] : [partnerValue, value];
    const isBoth = mine !== MASKED && theirs !== MASKED;
    return t.reads(...names, told(mine), told(theirs), isBoth ? withSign(theirs! - mine!, 4) : t.masked);
  };
  const largest = difference.findIndex((value) => most > 0 && Math.abs(value) === most);
  const at = { row: Math.floor(largest / one.columns.length), column: largest % one.columns.length };
  return (
    <>
      <Heads sides={sides} rows={rows} columns={columns} weights={weights} masked={masked} />
      <p id="largest">
        {largest < 0 ? (isLeftOut ? t.noDifferenceHere : t.noDifference) : t.largest(one.rows[at.row]!.label, one.columns[at.column]!.label, withSign(difference[largest]!, 4))}
      </p>
      <div class="maps">
        <div class="map-of">
          <MatrixMap id="map-one" title={t.map.one} matrix={{ ...labelled(one), values: useMemo(() => shownOf(one), [one]), low: 0, high: 1 }} colours={weightColours.value} at={ones} reads={(cell) => tell(cell, one)} />
          <Ramp colours={weightColours.value} low="0" high="1" name="" />
        </div>
        <div class="map-of">
          <MatrixMap id="map-other" title={t.map.other} matrix={{ ...labelled(other), values: useMemo(() => shownOf(other), [other]), low: 0, high: 1 }} colours={weightColours.value} at={others} reads={(cell) => tell(cell, other)} />
          <Ramp colours={weightColours.value} low="0" high="1" name="" />
        </div>
        <div class="map-of">
          <MatrixMap id="map-difference" title={t.map.difference} matrix={{ ...labelled(one), values: difference, low: -(most || 1), high: most || 1 }} colours={signedColours.value} at={ones} reads={(cell) => tell(cell, one)} />
          <Ramp colours={signedColours.value} low={`${t.less} ${withSign(-(most || 1), 2)}`} high={`${withSign(most || 1, 2)} ${t.more}`} name="" />
        </div>
      </div>
      <p class="faint small">{tellWhere()}. {t.unmatched} {words.value.honesty}</p>
    </>
  );
}

// The heads of this layer: where the difference is.
function Heads({ sides, rows, columns, weights, masked }: Mapped) {
  const t = comparing.value.compare;
  const sizes = useMemo(() => {
    const count = Math.min(weights[0].heads, weights[1].heads);
    return Array.from({ length: count }, (_, head) => {
      const [one, other] = sides.map((side, n) => viewOf(weights[n]!, masked, head, side)) as [View, View];
      const found = [...differences(one, other, rows, columns)].filter((value) => !Number.isNaN(value));
      return found.reduce((sum, value) => sum + Math.abs(value), 0) / (found.length || 1);
    });
  }, [sides, weights[0], weights[1], rows, columns, masked]);
  if (sizes.length < 2) return null;
  return (
    <div class="row" role="group" aria-label={t.heads} id="head-differences">
      <span class="small faint">{t.heads}:</span>
      {sizes.map((size, head) => (
        <button type="button" key={head} aria-pressed={s.head.value === head} onClick={() => (s.head.value = head)}>
          {t.headOf(head + 1)} <span class="small faint count">{size.toFixed(3)}</span>
        </button>
      ))}
    </div>
  );
}
