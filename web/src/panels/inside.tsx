// One head, step by step, on the model's own numbers.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { insideOf } from "../answers";
import { signed, subscript, weight } from "../format";
import { type Computed, computed } from "../head";
import { shown } from "../pieces";
import { placeOf } from "../recording";
import * as s from "../state";
import { words } from "../words";
import { Formula } from "./formulas";
import { NumberStrip, boundOf } from "./number-strip";

export function Inside() {
  const t = words.value;
  const [wanted, go] = useState(0);
  const [asked, ask] = useState(0);
  const sentence = s.sentence.value!;
  const info = s.model.value!;
  const kind = s.kind.value;
  s.beat.value;
  const tensors = insideOf(sentence, placeOf(kind, s.layer.value)).value;
  const queries = kind === "encoder" ? sentence.pieces : sentence.written;
  const keys = (kind === "decoder" ? sentence.heard : sentence.pieces).map(shown);
  const row = kind === "encoder" ? Math.min(asked, queries.length - 1) : Math.max(s.shownStep.value - 1, 0);
  const part = s.partOf(info, kind, s.layer.value) as { heads?: number; d_k?: number; scale?: number; kind: string };
  if (s.head.value < 0) return <p class="note">{t.chooseHead}</p>;
  if (!tensors) return <p class="faint">{sentence.found ? t.phases.loading : t.nothingYet}</p>;
  const found = computed(tensors, s.head.value, row, s.hides(info, kind, s.layer.value));
  const title = t.where(t.kinds[kind], t.layerN(s.layer.value + 1), t.headN(s.head.value + 1));
  if (!found) return <p class="note" data-unsupported="">{t.noWeights(part.kind, s.layer.value + 1)}</p>;
  const whole = found.weights.length > 0;
  const last = whole ? t.insideSteps.length - 1 : 1;
  const at = Math.min(wanted, last);
  const unusual = part.scale !== undefined && Math.abs(part.scale - found.q.length ** -0.5) > 1e-6 ? part.scale : undefined;
  const positions = kind === "cross" ? [] : info.config[kind].position;
  const hears = positions[s.layer.value % Math.max(positions.length, 1)]?.kind === "shaw"; // it speaks beside the values
  return (
    <>
      <h3>{title}</h3>
      <label>
        {t.query}{" "}
        <select
          id="query"
          value={row}
          onChange={(event) => {
            const chosen = Number(event.currentTarget.value);
            if (kind === "encoder") ask(chosen);
            else s.goTo(chosen + 1);
          }}
        >
          {queries.map((piece, n) => <option value={n}>{n + 1}: {shown(piece)}</option>)}
        </select>
      </label>
      {!whole && <p class="note" data-unsupported="">{t.noWeights(part.kind, s.layer.value + 1)}</p>}
      <div class="step-tabs">
        {t.insideSteps.slice(0, last + 1).map((name, n) => (
          <button type="button" key={n} aria-current={n === at ? "step" : undefined} onClick={() => go(n)}>
            {n + 1}. {name}
          </button>
        ))}
      </div>
      <p>{at === 1 && !whole ? t.faded : at === 1 && unusual !== undefined ? t.otherScale : t.insideTexts[at]}</p>
      <div class="scroll"><Formula step={at} width={found.q.length} heads={part.heads ?? 1} scale={unusual} fades={!whole} /></div>
      {at > 3 && hears && <p class="note" id="hears">{t.hears}</p>}
      <div class="strips">
        <Picture step={at} found={found} keys={keys} query={shown(queries[row] ?? "")} scale={whole ? part.scale : undefined} heads={part.heads ?? 1} />
      </div>
      <p class="row">
        <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>{t.previous}</button>
        <button type="button" id="next" disabled={at === last} onClick={() => go(at + 1)}>{t.next}</button>
      </p>
      {whole && <Numbers found={found} keys={keys} />}
    </>
  );
}

interface PictureProps {
  step: number;
  found: Computed;
  keys: string[];
  query: string;
  scale?: number;
  heads: number;
}

function Picture({ step, found, keys, query, scale, heads }: PictureProps) {
  const t = words.value;
  const wide = (values: Float32Array) => t.ofWidth(values.length);
  if (step === 0) {
    const bound = boundOf(found.q, ...found.keys);
    const loud = boundOf(...found.values);
    return (
      <>
        <NumberStrip label={`x: ${query}`} values={found.x} bound={boundOf(found.x)} note={wide(found.x)} />
        <NumberStrip label={`q: ${query}`} values={found.q} bound={bound} note={wide(found.q)} lit />
        <div class="pair">
          {keys.slice(0, found.keys.length).map((key, n) => (
            <Fragment key={n}>
              <NumberStrip label={`k: ${key}`} values={found.keys[n]!} bound={bound} />
              <NumberStrip label={`v: ${key}`} values={found.values[n]!} bound={loud} />
            </Fragment>
          ))}
        </div>
      </>
    );
  }
  if (step === 1) {
    const bound = boundOf(found.scores);
    const bent = scale !== undefined && found.scores.some((score, n) => Math.abs(score - found.dots[n]! * scale) > 1e-3);
    return (
      <>
        {Array.from(found.scores, (score, n) => (
          <ScoreBar key={n} label={keys[n]!} share={score / bound} note={signed(score)} />
        ))}
        {bent && <p class="note">{t.bent}</p>}
      </>
    );
  }
  if (step === 2) {
    return (
      <>
        {found.masked.map((masked, n) => (
          <div class="strip-row" key={n}>
            <span class="label">{keys[n]}</span>
            <span class={masked ? "hatched" : ""}>{masked ? "−∞" : signed(found.scores[n]!)}</span>
            <span class="small faint">{masked ? t.masked : t.allowed}</span>
          </div>
        ))}
      </>
    );
  }
  if (step === 3) {
    return (
      <>
        {Array.from(found.weights, (share, n) => (
          <div class="strip-row" key={n}>
            <span class="label">{keys[n]}</span>
            <span class="bars"><span class="bar-line"><span style={{ width: `${100 * share}%` }} /></span></span>
            <span class="count small">{weight(share)}</span>
          </div>
        ))}
      </>
    );
  }
  if (step === 4) {
    const bound = boundOf(...found.values);
    return (
      <>
        {found.values.map((one, n) => (
          <NumberStrip
            key={n}
            label={keys[n]!}
            values={one.map((value) => value * found.weights[n]!)}
            bound={bound}
            note={`× ${weight(found.weights[n]!)}`}
          />
        ))}
        <NumberStrip label={`c: ${t.context}`} values={found.context} bound={bound} note={wide(found.context)} lit />
      </>
    );
  }
  return (
    <>
      <NumberStrip label={`[c₁ … c${subscript(heads)}]`} values={found.contexts} bound={boundOf(found.contexts)} note={wide(found.contexts)} />
      <NumberStrip label="o" values={found.output} bound={boundOf(found.output)} note={wide(found.output)} lit />
    </>
  );
}

// From the middle to the right above 0, to the left below.
function ScoreBar({ label, share, note }: { label: string; share: number; note: string }) {
  const width = 50 * Math.abs(share);
  return (
    <div class="strip-row">
      <span class="label" title={label}>{label}</span>
      <span class="score"><span class={share < 0 ? "below" : ""} style={{ left: `${share < 0 ? 50 - width : 50}%`, width: `${width}%` }} /></span>
      <span class="count small">{note}</span>
    </div>
  );
}

function Numbers({ found, keys }: { found: Computed; keys: string[] }) {
  const t = words.value;
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary id="all-numbers">{t.allNumbers}</summary>
      {open && (
        <div class="scroll" tabIndex={0} role="region" aria-label={t.allNumbers}>
          <table class="numbers" id="inside-numbers">
            <thead>
              <tr>
                <th scope="col">{t.key}</th>
                <th scope="col">{t.insideSteps[1]}</th>
                <th scope="col">{t.weight}</th>
                {Array.from(found.context, (_, n) => <th scope="col" key={n}>v{n + 1}</th>)}
              </tr>
            </thead>
            <tbody>
              {found.values.map((values, j) => (
                <tr key={j} data-masked={found.masked[j] ? "" : undefined}>
                  <th scope="row">{keys[j]}</th>
                  <td>{found.scores[j]!.toFixed(5)}</td>
                  <td>{found.weights[j]!.toFixed(5)}</td>
                  {Array.from(values, (value, n) => <td key={n}>{value.toFixed(5)}</td>)}
                </tr>
              ))}
              <tr class="sum">
                <th scope="row">{t.context}</th>
                <td />
                <td>1</td>
                {Array.from(found.context, (value, n) => <td key={n}>{value.toFixed(5)}</td>)}
              </tr>
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
