// One head, step by step, on the model's own numbers.
import { useMemo } from "preact/hooks";
import { insideOf } from "../answers";
import { useChoice, useTextChoice } from "../choice";
import { isOfQuery, matrixOf } from "../derivation";
import { type Head, type Name, readHead, stagesOf, vectorOf } from "../head";
import { tellWhere } from "../kind-name";
import { Waiting } from "../parts/waiting";
import { shown } from "../pieces";
import { type Sentence, placeOf } from "../recording";
import * as s from "../state";
import type { Sublayer } from "../types";
import { words } from "../words";
import { insideWords } from "../words/inside";
import { type Chosen, DerivationTable } from "./derivation-table";
import { HeadNumbers } from "./head-numbers";
import { STEPS, type Shown, type StepName } from "./inside-steps";

export function Inside() {
  const t = words.value;
  const sentence = s.sentence.value!;
  s.beat.value;
  const asked = insideOf(sentence, placeOf(s.kind.value, s.layer.value));
  if (s.head.value < 0) return <p class="note">{t.chooseHead}</p>;
  if (!asked.value) return <Waiting sentence={sentence} asked={asked} />;
  return <HeadPanel told={asked.value} sentence={sentence} />;
}

function HeadPanel({ told, sentence }: { told: Sublayer; sentence: Sentence }) {
  const t = words.value;
  const info = s.model.value!;
  const kind = s.kind.value;
  const number = Math.min(s.head.value, told.about.heads - 1);
  const hides = s.hides(info, kind, s.layer.value);
  const head = useMemo(() => readHead(told, number, hides), [told, number, hides]);
  const [wanted, go] = useChoice("inside", 0);
  const [asked, ask] = useChoice("query", 0);
  const [made, make] = useTextChoice<string>("made", "");
  const tokens = (kind === "encoder" ? sentence.pieces : sentence.heard).map(shown);
  const keys = kind === "cross" ? sentence.pieces.map(shown) : tokens;
  const written = kind === "encoder" ? [] : sentence.written.map(shown);
  const rows = head.of.x?.rows ?? tokens.length;
  const row = Math.min(kind === "encoder" ? asked : Math.max(s.shownStep.value - 1, 0), rows - 1);
  const steps = stepsOf(head);
  const at = Math.min(wanted, steps.length - 1);
  const step = steps[at]!;
  const chosen = chosenOf(made, head, step, row);
  const view: Shown = { head, row, tokens, keys, chosen, choose: (name, of, channel) => make(`${name}.${of}.${channel}`) };
  const Step = STEPS[step];
  return (
    <>
      <h3>{tellWhere(told.about.heads)}</h3>
      <label>
        {t.query}{" "}
        <select
          id="query"
          value={row}
          onChange={(event) => {
            const place = Number(event.currentTarget.value);
            if (kind === "encoder") ask(place);
            else s.goTo(place + 1);
          }}
        >
          {tokens.slice(0, rows).map((token, n) => <option value={n}>{n + 1}: {token}{written[n] !== undefined && ` → ${written[n]}`}</option>)}
        </select>
      </label>
      {!head.of.weights && <p class="note" data-unsupported="">{t.noWeights(head.about.kind, s.layer.value + 1)}</p>}
      <div class="step-tabs">
        {steps.map((name, n) => (
          <button type="button" key={name} data-step={name} aria-current={n === at ? "step" : undefined} onClick={() => go(n)}>
            {n + 1}. {insideWords.value.steps[name]}
          </button>
        ))}
      </div>
      <div class="step-columns">
        <div class="strips"><Step {...view} /></div>
        {chosen && <DerivationTable head={head} chosen={chosen} keys={keys} token={tokenOf(view, chosen)} sentence={sentence} place={placeOf(kind, s.layer.value)} />}
      </div>
      <p class="row">
        <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>{t.previous}</button>
        <button type="button" id="next" disabled={at === steps.length - 1} onClick={() => go(at + 1)}>{t.next}</button>
      </p>
      <HeadNumbers head={head} tokens={tokens} keys={keys} name={`head-${placeOf(kind, s.layer.value)}-${number + 1}`} />
    </>
  );
}

// What a mixer computes is shown as far as it is what these steps are about.
function stepsOf({ about, of }: Head): StepName[] {
  const fits: [StepName, unknown][] = [
    ["vectors", true],
    ["scores", of.scores],
    ["mask", of.scores && about.equations.includes("softmax")], // else a weight of 0 need not be masked
    ["softmax", of.weights],
    ["sum", of.context],
    ["output", of.output],
  ];
  return fits.filter(([, has]) => has).map(([name]) => name);
}

// The number whose making is shown: that which was clicked, or the first of the step.
function chosenOf(made: string, head: Head, step: StepName, row: number): Chosen | null {
  const offered: Record<StepName, Name[]> = {
    vectors: [...stagesOf(head, "q"), ...stagesOf(head, "k"), "v", "input"],
    scores: ["scores"],
    mask: [],
    softmax: ["weights"],
    sum: ["context"],
    output: ["output", "joined", "gate"],
  };
  const names = offered[step].filter((name) => matrixOf(head, name) !== null);
  const asked = /^(\w+)\.(\d+)\.(\d+)$/u.exec(made);
  const name = asked?.[1] as Name;
  if (asked && names.includes(name)) {
    const found = { name, row: isOfQuery(name) ? row : Number(asked[2]), channel: Number(asked[3]) };
    if (found.channel < vectorOf(head, name, found.row).length) return found;
  }
  return names.length ? { name: names[0]!, row: isOfQuery(names[0]!) ? row : 0, channel: 0 } : null;
}

function tokenOf({ row, keys, tokens }: Shown, { name, row: of, channel }: Chosen): string {
  if (name === "scores" || name === "weights") return `${tokens[row] ?? ""} → ${keys[channel] ?? channel + 1}`;
  return (isOfQuery(name) ? tokens[row] : name === "input" ? tokens[of] : keys[of]) ?? "";
}
