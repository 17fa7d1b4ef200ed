// On which words of the input each token of the output depends, by several measures, and where these disagree.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { attributionOf, leave } from "../answers";
import { useTextChoice } from "../choice";
import { signedColours, weightColours } from "../colours";
import { signed, weight } from "../format";
import { Came } from "../parts/came";
import { bare } from "../pieces";
import * as s from "../state";
import type { Attributed } from "../types";
import { comparing } from "../words/comparing";
import { type Cell, type Matrix, MatrixMap, Ramp } from "./matrix-map";

const MEASURES = ["gradient", "left_out", "attention", "aligned"] as const;
type Measure = (typeof MEASURES)[number];
const SIGNED: Measure[] = ["gradient", "left_out"];
const LIMIT = 100; // tokens a side: headway/inspect/attribution.py

const at = signal<Cell | null>(null); // the same in all maps

export function AttributionPanel() {
  const t = comparing.value;
  const sentence = s.sentence.value!;
  s.beat.value;
  if (s.readsOnly(s.model.value)) return <p class="note">{t.attribution.masked}</p>;
  if (s.writesAtOnce(s.model.value)) return <p class="note">{t.attribution.atOnce}</p>;
  const longest = Math.max(sentence.ids.length, sentence.target.length + 1);
  if (longest > LIMIT) return <p class="note" id="too-long">{t.tokenLimit(longest, LIMIT)}</p>;
  return <Found />;
}

function Found() {
  s.beat.value; // a sentence grows, and stays the same object
  const t = comparing.value.attribution;
  const sentence = s.sentence.value!;
  const [units, setUnits] = useTextChoice<string>("units", "words");
  const asked = attributionOf(sentence, units === "tokens" ? "tokens" : "words");
  useEffect(() => {
    at.value = null;
    return () => leave(asked);
  }, [asked]);
  const found = asked.value;
  const causal = s.model.value?.kind === "causal";
  return (
    <>
      <p class="faint">{causal ? t.introCausal : t.intro}</p>
      <fieldset class="choice">
        <legend class="small faint">{t.units}</legend>
        {(["words", "tokens"] as const).map((one) => (
          <label key={one}>
            <input type="radio" name="units" value={one} checked={units === one} onChange={() => setUnits(one)} />
            <span>{t.unitNames[one]}</span>
          </label>
        ))}
      </fieldset>
      {found ? <Measures found={found} wordsAsked={units !== "tokens"} /> : <Came sentence={sentence} asked={asked} />}
    </>
  );
}

function valuesOf(found: Attributed, measure: Measure): (number | null)[][] | null {
  if (measure === "aligned") return found.aligned?.map((row) => row.map(Number)) ?? null;
  return found[measure];
}

function matrixOf(found: Attributed, measure: Measure): Matrix {
  const flat = Float32Array.from(valuesOf(found, measure)!.flat(), (value) => value ?? NaN);
  let most = 0;
  for (const value of flat) if (Math.abs(value) > most) most = Math.abs(value);
  const high = measure === "aligned" ? 1 : most || 1;
  const labels = { rows: found.rows.map(bare), columns: found.columns.map(bare) };
  return { ...labels, values: flat, low: SIGNED.includes(measure) ? -high : 0, high };
}

function Measures({ found, wordsAsked }: { found: Attributed; wordsAsked: boolean }) {
  const t = comparing.value.attribution;
  const [chosen, choose] = useTextChoice<Measure | "all">("measure", "all");
  const offered = MEASURES.filter((one) => valuesOf(found, one) !== null);
  const measure = offered.find((one) => one === chosen) ?? "all";
  const shown = measure === "all" ? offered : [measure];
  return (
    <>
      <fieldset class="choice">
        <legend class="unseen">{t.measure}</legend>
        {(["all", ...offered] as const).map((one) => (
          <label key={one}>
            <input type="radio" name="measure" value={one} checked={measure === one} onChange={() => choose(one)} />
            <span>{t.measures[one]}</span>
          </label>
        ))}
      </fieldset>
      {wordsAsked && found.units === "tokens" && <p class="note">{t.onlyTokens}</p>}
      {!found.attention && <p class="note">{t.noWeights}</p>}
      <p id="disagreements">
        <strong>{t.differ(found.disagreements.length, found.rows.length)}</strong>
      </p>
      <div class="maps">
        {shown.map((one) => <Map key={one} found={found} measure={one} alone={shown.length === 1} />)}
      </div>
      <p class="faint small">
        {t.strongest} {found.aligned && t.dots} {found.gradient.some((row) => row.includes(null)) && t.hatchedLater}
      </p>
      <p class="note" id="caveat">{t.caveat}</p>
      <Strongest found={found} />
      {shown.map((one) => <Numbers key={one} found={found} measure={one} isOpen={s.asTable.value} />)}
    </>
  );
}

function Map({ found, measure, alone }: { found: Attributed; measure: Measure; alone: boolean }) {
  const t = comparing.value.attribution;
  const matrix = useMemo(() => matrixOf(found, measure), [found, measure]);
  const isSigned = SIGNED.includes(measure);
  const colours = isSigned ? signedColours.value : weightColours.value;
  const marks = useMemo(() => {
    const strongest = measure === "aligned" ? [] : found.strongest[measure];
    const aligned = measure === "aligned" ? [] : (found.aligned ?? []);
    return [
      ...strongest.flatMap((column, row) => (column === null ? [] : [{ cell: { row, column }, kind: "strongest" as const }])),
      ...aligned.flatMap((line, row) => line.flatMap((is, column) => (is ? [{ cell: { row, column }, kind: "aligned" as const }] : []))),
    ];
  }, [found, measure]);
  const reads = ({ row, column }: Cell): string => {
    const told = (alone ? MEASURES.filter((one) => valuesOf(found, one)) : [measure]).map((one) => {
      const value = valuesOf(found, one)![row]![column] ?? null;
      if (one === "aligned") return value ? t.is.aligned : t.is.notAligned;
      return `${alone ? `${t.measures[one]} ` : ""}${format(value, one)}`;
    });
    return `${t.reads(matrix.rows[row]!, matrix.columns[column]!)}: ${told.join(" · ")}`;
  };
  return (
    <div class="map-of">
      <MatrixMap
        id={`map-${measure}`}
        title={t.measures[measure]}
        matrix={matrix}
        colours={colours}
        at={at}
        reads={reads}
        here={s.shownStep.value - 1}
        marks={marks}
        rowMarks={new Set(found.disagreements)}
        rowMarkTitle={t.differRow}
      />
      <Ramp
        colours={colours}
        low={isSigned ? signed(matrix.low, 2) : "0"}
        high={measure === "aligned" ? "1" : signed(matrix.high, 2)}
        name=""
      />
      <p class="faint small">{t.explained[measure]}</p>
    </div>
  );
}

function format(value: number | null, measure: Measure): string {
  if (value === null) return comparing.value.attribution.later;
  if (measure === "aligned") return value ? "1" : "0";
  return measure === "attention" ? weight(value) : signed(value, 4);
}

// Where the measures disagree, in words.
function Strongest({ found }: { found: Attributed }) {
  const t = comparing.value.attribution;
  const measures = (["gradient", "left_out", "attention"] as const).filter((one) => found[one]);
  const name = (column: number | null | undefined) => (column == null ? t.nothing : bare(found.columns[column]!));
  const differ = new Set(found.disagreements);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={t.table}>
      <table id="strongest">
        <caption>{t.table}</caption>
        <thead>
          <tr>
            <th scope="col">{t.token}</th>
            {measures.map((one) => <th scope="col" key={one}>{t.measures[one]}</th>)}
            {found.aligned && <th scope="col">{t.measures.aligned}</th>}
            <th scope="col">{t.agreement}</th>
          </tr>
        </thead>
        <tbody>
          {found.rows.map((row, n) => (
            <tr key={n} class={differ.has(n) ? "differs" : ""}>
              <th scope="row">{bare(row)}</th>
              {measures.map((one) => <td key={one}>{name(found.strongest[one][n])}</td>)}
              {found.aligned && <td>{found.aligned[n]!.flatMap((is, c) => (is ? [bare(found.columns[c]!)] : [])).join(", ") || t.nothing}</td>}
              <td>{differ.has(n) ? t.disagrees : t.agrees}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Numbers({ found, measure, isOpen }: { found: Attributed; measure: Measure; isOpen: boolean }) {
  const t = comparing.value.attribution;
  const title = t.numbers(t.measures[measure]);
  return (
    <details open={isOpen}>
      <summary>{title}</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="numbers" id={`numbers-${measure}`}>
          <caption>{t.title(t.measures[measure])}</caption>
          <thead>
            <tr>
              <td />
              {found.columns.map((one, n) => <th scope="col" key={n}>{bare(one)}</th>)}
            </tr>
          </thead>
          <tbody>
            {valuesOf(found, measure)!.map((row, r) => (
              <tr key={r}>
                <th scope="row">{bare(found.rows[r]!)}</th>
                {row.map((value, c) => <td key={c}>{format(value, measure)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
