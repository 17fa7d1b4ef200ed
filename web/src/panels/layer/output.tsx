// From the last vector to the next token: the output product, the softmax at a temperature, and what training asks for.
import { useChoice } from "../../choice";
import { percent } from "../../format";
import type { OutputNumbers, TokenNumbers } from "../../layer-types";
import { shown } from "../../pieces";
import type { ModelInfo } from "../../types";
import { numbersOf } from "../../tensors";
import { words } from "../../words";
import { layerWords } from "../../words/layer";
import { NormArithmetic } from "./norm";
import { AllNumbers, Vectors, precise } from "./numbers";
import type { Chosen } from "./panel";

export function OutputView({ chosen, found }: { chosen: Chosen; found: TokenNumbers }) {
  const t = layerWords.value.output;
  const { end, output } = found;
  const isLastSide = chosen.side === (chosen.info.config.decoder.layers ? "decoder" : "encoder");
  return (
    <>
      <h3>{t.title}</h3>
      {end.norm && <NormArithmetic norm={end.norm} isLast />}
      {!output && <p class="note" data-no-output="">{isLastSide ? t.noScores : t.none}</p>}
      {output && (
        <>
          <p>{t.explain}</p>
          <Product output={output} />
          <Softmax output={output} />
          <Smoothing output={output} info={chosen.info} />
        </>
      )}
    </>
  );
}

// logit = x · row + bias, for one of the likeliest tokens.
function Product({ output }: { output: OutputNumbers }) {
  const t = layerWords.value.output;
  const [wanted, choose] = useChoice("product", 0);
  const [count, width] = output.rows.shape as [number, number];
  const n = Math.min(Math.max(Math.round(wanted), 0), count - 1);
  const x = numbersOf(output.x);
  const row = numbersOf(output.rows).subarray(n * width, (n + 1) * width);
  const products = x.map((value, channel) => value * row[channel]!);
  const dot = products.reduce((sum, value) => sum + value, 0);
  const bias = output.bias?.[n];
  return (
    <>
      <h3>{t.product}</h3>
      <label>
        {t.productFor}{" "}
        <select id="product-of" value={n} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {output.pieces.slice(0, count).map((piece, at) => <option value={at}>{shown(piece)}</option>)}
        </select>
      </label>
      <Vectors vectors={[{ name: "x", values: x }, { name: t.rowOf(shown(output.pieces[n]!)), values: row }, { name: t.products, values: products, lit: true }]} />
      <p class="arithmetic" id="product">{t.dot(precise(dot), bias === undefined ? "" : t.plusBias(precise(bias)), precise(output.logits[n]!))}</p>
      <AllNumbers id="product-numbers" title={t.product} columns={[{ name: "x", values: x }, { name: t.rowOf(shown(output.pieces[n]!)), values: row }, { name: t.products, values: products }]} />
    </>
  );
}

function Softmax({ output }: { output: OutputNumbers }) {
  const t = layerWords.value.output;
  const [tenths, choose] = useChoice("tau", 10);
  const at = Math.min(Math.max(Math.round(tenths), 1), output.temperatures.length) - 1;
  const temperature = output.temperatures[at]!;
  const normaliser = output.normalisers[at]!;
  const bits = output.entropies[at]! / Math.LN2;
  return (
    <>
      <h3>{t.scores}</h3>
      <label class="row">
        {t.temperature}
        <input id="tau" type="range" min={1} max={output.temperatures.length} step={1} value={at + 1} aria-valuetext={temperature.toFixed(1)} onInput={(event) => choose(Number(event.currentTarget.value))} />
        <output class="count" for="tau">{temperature.toFixed(1)}</output>
      </label>
      <p class="arithmetic" id="softmax-formula" data-normaliser={normaliser}>
        {t.formula(temperature.toFixed(1), precise(normaliser))} <span class="faint small">{t.normaliser}</span>
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label={t.scores}>
        <table class="numbers" id="scores">
          <thead>
            <tr>
              <th scope="col">{t.piece}</th>
              <th scope="col" class="end">{t.logit}</th>
              <th scope="col" class="end">{t.probability}</th>
              <td class="wide" />
              <td />
            </tr>
          </thead>
          <tbody>
            {output.ids.map((id, n) => {
              const share = Math.exp(output.logits[n]! / temperature - normaliser);
              return (
                <tr key={id}>
                  <th scope="row">{shown(output.pieces[n]!)}</th>
                  <td>{precise(output.logits[n]!)}</td>
                  <td>{share.toFixed(6)}</td>
                  <td class="wide"><span class="bars"><span class="bar-line"><span style={{ width: `${100 * share}%` }} /></span></span></td>
                  <td class="said faint">{id === output.expected ? `✓ ${t.right}` : ""}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p id="tau-entropy">{t.entropy(bits.toFixed(2), (2 ** bits).toFixed(1))}</p>
    </>
  );
}

function Smoothing({ output, info }: { output: OutputNumbers; info: ModelInfo }) {
  const t = layerWords.value.output;
  const own = info.label_smoothing;
  const [hundredths, choose] = useChoice("smoothing", Math.round(100 * (own ?? 0.1)));
  if (output.expected === null || output.surprise === null) return <p class="note">{t.noRight}</p>;
  const epsilon = Math.min(Math.max(Math.round(hundredths), 0), 50) / 100;
  const share = epsilon / info.config.vocabulary;
  const mean = output.mean_surprise!;
  const loss = (1 - epsilon) * output.surprise + epsilon * mean;
  const n = output.ids.indexOf(output.expected);
  const rows: [string, number, number | null][] = [
    [t.rightToken(shown(output.pieces[n] ?? "")), 1 - epsilon + share, output.probabilities[n] ?? null],
    [t.otherTokens, share, null],
  ];
  return (
    <>
      <h3>{t.smoothing}</h3>
      <p>{t.smoothingExplained}{own !== undefined && ` ${t.smoothingOwn(precise(own))}`}</p>
      <label class="row">
        {t.epsilon}
        <input id="epsilon" type="range" min={0} max={50} value={Math.round(100 * epsilon)} aria-valuetext={epsilon.toFixed(2)} onInput={(event) => choose(Number(event.currentTarget.value))} />
        <output class="count" for="epsilon">{epsilon.toFixed(2)}</output>
      </label>
      <div class="scroll" tabIndex={0} role="region" aria-label={t.smoothing}>
        <table class="numbers" id="smoothed">
          <thead>
            <tr>
              <th scope="col">{t.piece}</th>
              <th scope="col" class="end">{t.target}</th>
              <th scope="col" class="end">{words.value.model}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(([name, target, given]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{precise(target)}</td>
                <td>{given === null ? "" : percent(given)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="arithmetic" id="loss">{t.loss(epsilon.toFixed(2), precise(output.surprise), precise(mean), precise(loss))}</p>
      <p class="faint small">{t.lossParts}</p>
    </>
  );
}
