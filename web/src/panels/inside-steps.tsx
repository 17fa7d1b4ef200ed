// The steps of a head. Each prints the equation that holds for its numbers; where a mixer has a way of its own, that.
import type { ComponentChildren } from "preact";
import { isUsual, kindOf, matrixOf, spreadOf } from "../derivation";
import { exact } from "../format";
import { type Head, type Name, holds, inputOf, maskedOf, stagesOf, symbolOf, vectorOf } from "../head";
import { Tex } from "../mathml";
import { kind } from "../state";
import { words } from "../words";
import { insideWords } from "../words/inside";
import type { Chosen } from "./derivation-table";
import { NumberGrid, boundOf } from "./number-grid";

export type StepName = "vectors" | "scores" | "mask" | "softmax" | "sum" | "output";

export interface Shown {
  head: Head;
  row: number; // of the query
  tokens: string[]; // of the queries
  keys: string[];
  chosen: Chosen | null;
  choose: (name: Name, row: number, channel: number) => void;
}

interface Line {
  name: Name;
  row: number;
  label: string;
  note?: string;
  isLit?: boolean;
}

// Vectors below each other, each with colours of its own strength, or all with the same.
function Numbers({ view, title, lines, isCommon = false }: { view: Shown; title: string; lines: Line[]; isCommon?: boolean }) {
  const { head, chosen } = view;
  const values = lines.map(({ name, row }) => vectorOf(head, name, row));
  const common = isCommon ? boundOf(...values) : 0;
  const rows = lines.map(({ name, label, note, isLit }, n) => {
    return { label, symbol: symbolOf(head, name), values: values[n]!, bound: common || boundOf(values[n]!), note, isLit };
  });
  const at = lines.findIndex(({ name, row }) => chosen?.name === name && chosen.row === row);
  return (
    <NumberGrid
      id={`grid-${lines[0]?.name}`}
      title={title}
      rows={rows}
      chosen={at < 0 ? null : { row: at, column: chosen!.channel }}
      choose={({ row, column }) => matrixOf(head, lines[row]!.name) !== null && view.choose(lines[row]!.name, lines[row]!.row, column)}
    />
  );
}

function Block({ title, formulas, children }: { title: string; formulas: string[]; children: ComponentChildren }) {
  return (
    <section class="step-block">
      <h4>{title}</h4>
      {formulas.length > 0 && <div class="scroll formulas">{formulas.map((one) => <Tex key={one} of={one} block />)}</div>}
      {children}
    </section>
  );
}

function Vectors(view: Shown) {
  const { head, row, tokens, keys } = view;
  const t = insideWords.value;
  const token = tokens[row] ?? "";
  const stages = stagesOf(head, "q");
  const input = inputOf(head, "k");
  return (
    <>
      <p>{t.texts.vectors}</p>
      <Input {...view} />
      {stages.length > 0 && (
        <Block title={t.query} formulas={formulasOf(head, "q", "")}>
          <Notes head={head} letter="q" />
          <Numbers view={view} title={t.query} lines={stages.map((name, n) => ({ name, row, label: `${symbolOf(head, name)}: ${token}`, isLit: n === stages.length - 1 }))} />
        </Block>
      )}
      {head.of.k && (
        <Block title={t.keysAndValues} formulas={[...formulasOf(head, "k", "_j"), ...formulasOf(head, "v", "_j")]}>
          <p>{input === "source" ? (kind.value === "query" ? t.fromContent : t.fromEncoder) : t.fromAll(symbolOf(head, input))}</p>
          {head.groups < head.about.heads && <p class="note" id="shared-keys">{groupNote(head)}</p>}
          <Notes head={head} letter="k" />
          {([input, ...stagesOf(head, "k"), "v"] as Name[]).map((name) => (
            <Numbers key={name} view={view} title={symbolOf(head, name)} lines={linesOf(head, name, keys)} isCommon />
          ))}
        </Block>
      )}
    </>
  );
}

function linesOf(head: Head, name: Name, labels: string[]): Line[] {
  const symbol = symbolOf(head, name);
  return Array.from({ length: head.of[name]?.rows ?? 0 }, (_, row) => ({ name, row, label: `${symbol}: ${labels[row] ?? row + 1}` }));
}

// The residual stream, and what the norm in front of this sub-layer makes of it.
function Input(view: Shown) {
  const { head, row, tokens } = view;
  const t = insideWords.value;
  const x = vectorOf(head, "x", row);
  if (!x.length) return null;
  const isNormed = holds(head, "norm");
  const lines: Line[] = [{ name: "x", row, label: `x: ${tokens[row] ?? ""}`, note: words.value.ofWidth(x.length) }];
  if (isNormed && head.of.norm_gain) lines.push({ name: "norm_gain", row: 0, label: "g" });
  if (isNormed && head.of.norm_bias) lines.push({ name: "norm_bias", row: 0, label: "b" });
  if (head.of.input) lines.push({ name: "input", row, label: `x̂: ${tokens[row] ?? ""}`, isLit: true });
  const { centre, divisor } = spreadOf(x, head.about.norm, head.about.norm_eps);
  return (
    <Block title={t.input} formulas={isNormed ? [normFormula(head, "norm", "x̂", "x")] : []}>
      <p>
        {isNormed ? t.normed : head.of.input ? t.ownNorm(head.about.norm) : t.notNormed}{" "}
        {isNormed && <span class="count">{head.about.norm === "layernorm" && `μ = ${exact(centre)}, `}√(σ² + ε) = {exact(divisor)}</span>}
      </p>
      <Numbers view={view} title={t.input} lines={lines} />
    </Block>
  );
}

function normFormula(head: Head, norm: string, to: string, from: string): string {
  const learned = (head.of[`${norm}_gain` as Name] ? " ⊙ g" : "") + (head.of[`${norm}_bias` as Name] ? " + b" : "");
  if (kindOf(head, norm) === "layernorm") return `${to} = \\frac{${from} − μ}{√{σ^2 + ε}}${learned}`;
  return `${to} = \\frac{${from}}{√{\\over{${from}^2} + ε}}${learned}`;
}

// From what comes in to q, k or v, as far as that is known. index: "_j" where there is one for each key.
function formulasOf(head: Head, letter: string, index: string): string[] {
  const stages = letter === "v" ? (["v"] as Name[]) : stagesOf(head, letter);
  const symbols = stages.map((name) => symbolOf(head, name) + index);
  const scale = letter === "k" && head.about.key_scale !== 1 ? ` · \\frac{1}{√{${head.of.k!.columns}}}` : "";
  const last = stages.length - 1;
  return stages.flatMap((name, n) => {
    if (matrixOf(head, name) === null) return [];
    const end = n === last ? scale : "";
    if (n === 0) {
      const made = `${symbolOf(head, inputOf(head, letter))}${index} W^${letter.toUpperCase()}${head.about.biased.includes(letter) ? ` + b^${letter.toUpperCase()}` : ""}`;
      return [`${symbols[n]} = ${end && head.about.biased.includes(letter) ? `(${made})` : made}${end}`];
    }
    if (stages[n - 1]!.startsWith("unnormed")) return [normFormula(head, `${letter}_norm`, symbols[n]!, symbols[n - 1]!)];
    return [`${symbols[n]} = R${index || "_p"} ${symbols[n - 1]}${end}`];
  });
}

// What a formula leaves open, and what has none.
function Notes({ head, letter }: { head: Head; letter: string }) {
  const t = insideWords.value;
  const stages = stagesOf(head, letter);
  const unknown = stages.filter((name) => matrixOf(head, name) === null).map((name) => symbolOf(head, name));
  const turned = stages.includes(`unrotated_${letter}` as Name) && holds(head, "rotation");
  return (
    <>
      {turned && letter === "q" && <p class="rotated">{t.rotated(head.about.position, head.about.layout === "halves")}</p>}
      {unknown.length > 0 && <p class="note own-way">{t.ownWay(unknown.join(", "), turned ? head.about.kind : ownerOf(head, stages))}</p>}
    </>
  );
}

function ownerOf(head: Head, stages: Name[]): string {
  return stages.length > 1 && head.about.position !== "none" ? head.about.position : head.about.kind;
}

function groupNote(head: Head): string {
  const size = head.about.heads / head.groups;
  return insideWords.value.shared(head.group * size + 1, (head.group + 1) * size, head.group + 1, head.groups);
}

function Scores(view: Shown) {
  const { head, row } = view;
  const t = insideWords.value;
  const scores = vectorOf(head, "scores", row);
  const bound = boundOf(scores.filter(Number.isFinite));
  const isKnown = matrixOf(head, "scores") !== null;
  const fades = holds(head, "decay");
  const bias = head.of.score_bias && isKnown && !fades;
  return (
    <>
      <Block title={t.steps.scores} formulas={isKnown ? [fades ? "s_j = q · k_j · ∏_{n=j+1}^{i} γ_n" : scoreFormula(head)] : []}>
        <p>{!isKnown ? t.ownWay("s", head.about.kind) : fades ? t.texts.faded : isUsual(head) ? t.texts.scores : t.texts.otherScale}</p>
        {bias && <p class="note" id="score-bias">{t.scoreBias(head.about.position)}</p>}
        <Bars view={view} name="scores" values={scores} bound={bound} />
      </Block>
      {bias && (
        <Block title={`β: ${head.about.position}`} formulas={[]}>
          <Numbers view={view} title="β" lines={[{ name: "score_bias", row, label: `β: ${view.tokens[row] ?? ""}` }]} />
        </Block>
      )}
    </>
  );
}

function scoreFormula(head: Head): string {
  const { scale } = head.about;
  const bias = head.of.score_bias ? " + β_j" : "";
  if (isUsual(head)) return `s_j = \\frac{q · k_j}{√{${head.of.q!.columns}}}${bias}`;
  return `s_j = q · k_j${scale === 1 ? "" : ` · ${exact(scale)}`}${bias}`;
}

// A number for each key, from the middle to the right above 0, to the left below.
function Bars({ view, name, values, bound, isShare = false }: { view: Shown; name: Name; values: Float32Array; bound: number; isShare?: boolean }) {
  const { head, row, keys, chosen, choose } = view;
  const isKnown = matrixOf(head, name) !== null;
  return (
    <div class="bars-list">
      {Array.from(values, (value, j) => {
        const width = (isShare ? 100 : 50) * Math.min(Math.abs(value) / bound || 0, 1);
        const left = isShare ? 0 : value < 0 ? 50 - width : 50;
        return (
          <button
            type="button"
            class="strip-row"
            key={j}
            disabled={!isKnown}
            aria-pressed={chosen?.name === name && chosen.channel === j}
            onClick={() => choose(name, row, j)}
          >
            <span class="label" title={keys[j]}>{keys[j] ?? j + 1}</span>
            <span class={isShare ? "score from-left" : "score"}>
              <span class={value < 0 ? "below" : ""} style={{ left: `${left}%`, width: `${width}%` }} />
            </span>
            <span class="count small" data-value={name}>{exact(value)}</span>
          </button>
        );
      })}
    </div>
  );
}

function Masked({ head, row, keys }: Shown) {
  const t = insideWords.value;
  const scores = vectorOf(head, "scores", row);
  return (
    <Block title={t.steps.mask} formulas={head.hides ? ["s_j = −∞   ⇐   j ∉ M"] : []}>
      <p>{head.hides ? t.texts.mask : t.texts.noMask}</p>
      {maskedOf(head, row).map((masked, j) => (
        <div class="strip-row" key={j}>
          <span class="label">{keys[j] ?? j + 1}</span>
          <span class={masked ? "hatched" : ""} data-value="masked">{masked ? "−∞" : exact(scores[j]!)}</span>
          <span class="small faint">{masked ? words.value.masked : t.allowed}</span>
        </div>
      ))}
    </Block>
  );
}

function Softmax(view: Shown) {
  const { head, row } = view;
  const t = insideWords.value;
  const isKnown = holds(head, "softmax");
  return (
    <Block title={t.steps.softmax} formulas={isKnown ? ["a_j = \\frac{e^{s_j}}{∑_i e^{s_i}}"] : []}>
      <p>{isKnown ? t.texts.softmax : t.ownWay("a", head.about.kind)}</p>
      <Bars view={view} name="weights" values={vectorOf(head, "weights", row)} bound={1} isShare />
    </Block>
  );
}

function Sum(view: Shown) {
  const { head, row, keys } = view;
  const t = insideWords.value;
  const by = head.of.weights ? "weights" : "scores";
  const shares = vectorOf(head, by, row);
  const lines: Line[] = Array.from({ length: head.of.v!.rows }, (_, j) => ({ name: "v", row: j, label: `v: ${keys[j] ?? j + 1}`, note: `× ${exact(shares[j] ?? 0)}` }));
  const sum: Line[] = [{ name: "context", row, label: `c: ${view.tokens[row] ?? ""}`, isLit: true }];
  if (head.of.value_bias) sum.unshift({ name: "value_bias", row, label: "r" });
  return (
    <Block title={t.steps.sum} formulas={[`c = ∑_j ${symbolOf(head, by)}_j v_j${head.of.value_bias ? " + r" : ""}`]}>
      <p>{by === "weights" ? t.texts.sum : t.texts.sumOfScores}</p>
      {head.of.value_bias && <p class="note" id="hears">{t.valueBias}</p>}
      <Numbers view={view} title="v" lines={lines} isCommon />
      <Numbers view={view} title="c" lines={sum} />
    </Block>
  );
}

function Output(view: Shown) {
  const { head, row, tokens } = view;
  const t = insideWords.value;
  const { heads, biased } = head.about;
  const joined = `[c_1 … c_{${heads}}]`;
  const isMade = holds(head, "output");
  const isSideBySide = holds(head, "concat");
  const formulas: string[] = [];
  if (holds(head, "gated")) {
    const biasOf = biased.includes("g") ? " + b^G" : "";
    if (holds(head, "g")) formulas.push(`u = "SiLU"(${symbolOf(head, inputOf(head, "g"))} W^G${biasOf})`);
    formulas.push("z = u ⊙ \\frac{c}{√{\\over{c^2} + ε}}");
  } else if (holds(head, "normed")) formulas.push(normFormula(head, "output_norm", "z", "c"), `c = ${joined}`);
  else if (isSideBySide) formulas.push(`z = ${joined}`);
  if (isMade) formulas.push(`o = z W^O${biased.includes("o") ? " + b^O" : ""}`);
  const lines: Line[] = [
    ...(head.of.gate ? [{ name: "gate" as Name, row, label: "u" }] : []),
    ...(head.of.joined ? [{ name: "joined" as Name, row, label: "z", note: words.value.ofWidth(head.of.joined.columns) }] : []),
    { name: "output", row, label: `o: ${tokens[row] ?? ""}`, isLit: true },
  ];
  const isExplained = isMade && (isSideBySide || holds(head, "gated") || holds(head, "normed"));
  return (
    <Block title={t.steps.output} formulas={formulas}>
      <p>{isExplained ? (isSideBySide ? t.texts.output : t.texts.outputOfZ) : t.ownWay(isMade ? "z" : "o", head.about.kind)}</p>
      <Numbers view={view} title={t.steps.output} lines={lines} />
    </Block>
  );
}

export const STEPS: Record<StepName, (view: Shown) => preact.JSX.Element> = {
  vectors: Vectors,
  scores: Scores,
  mask: Masked,
  softmax: Softmax,
  sum: Sum,
  output: Output,
};
