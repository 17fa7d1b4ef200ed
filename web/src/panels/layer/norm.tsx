// A norm, channel by channel: every factor is there, so the result can be computed again.
import { useChoice } from "../../choice";
import type { NormNumbers } from "../../layer-types";
import { numbersOf } from "../../tensors";
import { layerWords } from "../../words/layer";
import { AllNumbers, precise } from "./numbers";

export function NormArithmetic({ norm, isLast = false }: { norm: NormNumbers; isLast?: boolean }) {
  const t = layerWords.value.layer;
  const [wanted, choose] = useChoice("channel", 1);
  const [x, y] = [numbersOf(norm.x), numbersOf(norm.y)];
  const kind = t.normKinds[norm.kind] ?? norm.kind;
  const title = isLast ? t.lastNorm : t.norm;
  const heading = <h4>{title}: {kind} <span class="faint small">{t.normExplained[norm.kind]}</span></h4>;
  if (!norm.variance || !norm.gain) {
    return (
      <>
        {heading}
        {norm.kind !== "none" && <p class="note">{t.normIsOwn}</p>}
      </>
    );
  }
  const spread = (groups: Float32Array) => Float32Array.from(x, (_, n) => groups[Math.floor((n * groups.length) / x.length)]!);
  const variance = spread(numbersOf(norm.variance));
  const mean = norm.mean && spread(numbersOf(norm.mean));
  const gain = numbersOf(norm.gain);
  const bias = norm.bias && numbersOf(norm.bias);
  const n = Math.min(Math.max(Math.round(wanted), 1), x.length) - 1;
  return (
    <>
      {heading}
      <p class="arithmetic" data-norm={norm.kind}>
        <label class="faint">
          {layerWords.value.channel}{" "}
          <input type="number" min={1} max={x.length} value={n + 1} onChange={(event) => choose(Number(event.currentTarget.value) || 1)} />
        </label>{" "}
        <Formula x={x[n]!} mean={mean?.[n]} variance={variance[n]!} eps={norm.eps} gain={gain[n]!} bias={bias?.[n]} y={y[n]!} />
      </p>
      <p class="faint small">
        x, {mean && `${t.mean} = ${precise(mean[n]!)}, `}{t.variance} = {precise(variance[n]!)}, {t.eps} = {precise(norm.eps)}, {t.gain}{bias && `, ${t.bias}`}
      </p>
      <AllNumbers
        id="norm-numbers"
        title={title}
        columns={[
          { name: "x", values: x },
          ...(mean ? [{ name: t.mean, values: mean }] : []),
          { name: t.variance, values: variance },
          { name: t.eps, values: norm.eps },
          { name: t.gain, values: gain },
          ...(bias ? [{ name: t.bias, values: bias }] : []),
          { name: t.result, values: y },
        ]}
      />
    </>
  );
}

interface FormulaProps {
  x: number;
  mean?: number;
  variance: number;
  eps: number;
  gain: number;
  bias?: number;
  y: number;
}

// (x − μ) / √(σ² + ε) · γ + β, in numbers.
function Formula({ x, mean, variance, eps, gain, bias, y }: FormulaProps) {
  return (
    <math displaystyle>
      <mrow>
        <mfrac>
          <mrow>
            <mn>{precise(x)}</mn>
            {mean !== undefined && <><mo>−</mo><mn>{mean < 0 ? `(${precise(mean)})` : precise(mean)}</mn></>}
          </mrow>
          <msqrt>
            <mn>{precise(variance)}</mn><mo>+</mo><mn>{precise(eps)}</mn>
          </msqrt>
        </mfrac>
        <mo>·</mo>
        <mn>{gain < 0 ? `(${precise(gain)})` : precise(gain)}</mn>
        {bias !== undefined && <><mo>+</mo><mn>{bias < 0 ? `(${precise(bias)})` : precise(bias)}</mn></>}
        <mo>=</mo>
        <mn>{precise(y)}</mn>
      </mrow>
    </math>
  );
}
