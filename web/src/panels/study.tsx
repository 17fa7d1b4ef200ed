// A study: quality against cost, learning curves, all numbers; and two of its models side by side.
import { type Signal, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { grouped } from "../format";
import { type Problem, problemOf, tellProblem } from "../problems";
import * as s from "../state";
import { COSTS, QUALITIES, formatP, formatSpread, loadStudy, measured, measuresOf, modelsOf } from "../studies";
import { open } from "../translate";
import type { Study, StudyRow } from "../types";
import { words } from "../words";
import { SideBySide } from "./side-by-side";
import { CurveCharts } from "./study-curves";
import { Scatter } from "./study-scatter";

const known = signal<Study | null>(null);
const problem = signal<Problem | null>(null);

async function load(name: string): Promise<void> {
  problem.value = null;
  if (known.value?.name === name) return;
  known.value = null;
  try {
    const study = await loadStudy(name);
    if (name !== chosen()) return; // another was chosen meanwhile
    known.value = study;
    s.toldVariant.value = study.rows.findIndex((row) => row.models.some((one) => one.name === s.chosenModel.value));
  } catch (error) {
    problem.value = problemOf(error);
  }
}

function chosen(): string {
  return (s.studies.value.find((one) => one.name === s.chosenStudy.value) ?? s.studies.value[0])?.name ?? "";
}

export function StudyPanel() {
  const t = words.value;
  const name = chosen();
  useEffect(() => void (name && load(name)), [name]);
  const study = known.value;
  if (problem.value) return <p class="alert">{tellProblem(problem.value)}</p>;
  return (
    <>
      {s.studies.value.length > 1 && (
        <label>
          {t.study.study}{" "}
          <select id="study" value={name} onChange={(e) => (s.chosenStudy.value = e.currentTarget.value)}>
            {s.studies.value.map((one) => (
              <option value={one.name}>{one.title === one.name ? one.name : `${one.title} (${one.name})`}</option>
            ))}
          </select>
        </label>
      )}
      {study ? <Results study={study} key={study.name} /> : <p class="faint">{t.phases.loading}</p>}
    </>
  );
}

function Results({ study }: { study: Study }) {
  const t = words.value;
  const finished = study.rows.filter((row) => row.status === "finished").length;
  const [qualities, costs] = [measured(study, QUALITIES), measured(study, COSTS)];
  const quality = qualities.includes(s.quality.value) ? s.quality.value : qualities[0];
  const cost = costs.includes(s.cost.value) ? s.cost.value : costs[0];
  return (
    <>
      <div>
        <h3 id="study-title" class="long-word">{study.title}</h3>
        <p class="faint small">
          {t.study.finished(finished, study.rows.length)}
          {study.budget && ` · ${study.budget}`}
        </p>
      </div>
      {quality && cost ? (
        <>
          <div class="row">
            <Choice id="quality" name={t.study.quality} value={quality} values={qualities} chosen={s.quality} />
            <Choice id="cost" name={t.study.against} value={cost} values={costs} chosen={s.cost} />
          </div>
          <div class="beside">
            <Scatter study={study} quality={quality} cost={cost} />
            <Detail study={study} />
          </div>
        </>
      ) : (
        <p class="note" id="no-points">{t.study.noPoints}</p>
      )}
      <SideBySide study={study} />
      <CurveCharts study={study} />
      <VariantTable study={study} />
    </>
  );
}

interface Offered {
  id: string;
  name: string;
  value: string;
  values: string[];
  chosen: Signal<string>;
}

function Choice({ id, name, value, values, chosen }: Offered) {
  const t = words.value;
  return (
    <label>
      {name}{" "}
      <select id={id} value={value} onChange={(e) => (chosen.value = e.currentTarget.value)}>
        {values.map((one) => (
          <option value={one}>{t.study.measures[one] ?? one}</option>
        ))}
      </select>
    </label>
  );
}

// All numbers of the variant that is pointed at, and what can be done with its models.
function Detail({ study }: { study: Study }) {
  const t = words.value;
  const row = study.rows[s.toldVariant.value];
  if (!row) return <p class="detail faint" id="variant">{t.study.hint}</p>;
  return (
    <section class="detail" id="variant" aria-label={t.study.variant}>
      <h4 class="long-word">{row.name}</h4>
      <dl class="facts small">
        {row.parameters !== null && <Fact name={t.study.measures["parameters"]!} value={grouped(row.parameters)} />}
        {measuresOf(study).map((one) => (
          <Fact key={one} name={t.study.measures[one] ?? one} value={formatSpread(row, one)} />
        ))}
        <Fact name="p" value={row === study.rows[0] ? t.study.isFirst : formatP(row.p_value)} />
        {row.how && <Fact name={t.study.how} value={row.how} />}
      </dl>
      {row.reason && <p class="note small long-word">{t.study.statuses[row.status]}: {row.reason}</p>}
      <Models row={row} />
    </section>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd class="count">{value}</dd>
    </>
  );
}

function Models({ row }: { row: StudyRow }) {
  const t = words.value;
  if (!row.models.length) return <p class="faint small">{t.study.noModel}</p>;
  return (
    <ul class="models">
      {modelsOf(row, t.study.seed).map((one) => (
        <li key={one.name} class="row">
          {row.models.length > 1 && <span class="small">{t.study.seed(one.seed)}</span>}
          <ModelButtons name={one.name} of={one.label} />
        </li>
      ))}
    </ul>
  );
}

export function ModelButtons({ name, of }: { name: string; of: string }) {
  const t = words.value;
  return (
    <>
      <button
        type="button"
        aria-pressed={s.chosenModel.value === name}
        aria-label={t.study.openIt(of)}
        onClick={() => void open(name)}
      >
        {t.study.open}
      </button>
      <button
        type="button"
        aria-pressed={s.beside.value === name}
        aria-label={t.study.besideIt(of)}
        onClick={() => (s.beside.value = s.beside.value === name ? "" : name)}
      >
        {t.study.beside}
      </button>
    </>
  );
}

function VariantTable({ study }: { study: Study }) {
  const t = words.value;
  const measures = measuresOf(study);
  const name = (one: string) => t.study.measures[one] ?? one;
  return (
    <>
      <div class="scroll tall" tabIndex={0} role="region" aria-label={t.study.all}>
        <table class="numbers" id="variants">
          <caption>{t.study.all}</caption>
          <thead>
            <tr>
              <th scope="col">{t.study.variant}</th>
              <th scope="col">{t.study.model}</th>
              <th scope="col">{t.study.status}</th>
              <th scope="col" class="end">{name("parameters")}</th>
              {measures.map((one) => (
                <th scope="col" class="end" key={one}>{name(one)}</th>
              ))}
              <th scope="col" class="end">p</th>
            </tr>
          </thead>
          <tbody>
            {study.rows.map((row, n) => (
              <tr key={n} data-row={n}>
                <th scope="row" class="long">
                  <button
                    type="button"
                    class="plain"
                    aria-pressed={s.toldVariant.value === n}
                    onClick={() => (s.toldVariant.value = n)}
                  >
                    {row.name}
                  </button>
                </th>
                <td class="said">{row.models[0] && <ModelButtons name={row.models[0].name} of={row.name} />}</td>
                <td class="said wraps">{t.study.statuses[row.status]}{row.reason && `: ${row.reason}`}</td>
                <td>{row.parameters === null ? "—" : grouped(row.parameters)}</td>
                {measures.map((one) => (
                  <td key={one}>{formatSpread(row, one)}</td>
                ))}
                <td>{n === 0 ? "" : formatP(row.p_value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="faint small">{t.study.explained}</p>
    </>
  );
}
