// The six formulas of a head, in MathML, which browsers draw themselves.

const Sub = ({ of, n }: { of: string; n: string }) => (
  <msub>
    <mi>{of}</mi>
    <mi>{n}</mi>
  </msub>
);

const Projected = ({ from, name }: { from: string; name: string }) => (
  <>
    <mi>{from}</mi>
    <mo>=</mo>
    <mi>x</mi>
    <msup>
      <mi>W</mi>
      <mi>{name}</mi>
    </msup>
  </>
);

interface Props {
  step: number;
  width: number;
  heads: number;
  scale?: number; // where it is not 1 / √width
  fades?: boolean; // scores without a softmax: the past fades
}

export function Formula({ step, width, heads, scale, fades }: Props) {
  if (step === 1 && (fades || scale !== undefined)) return <math display="block">{fades ? FADES : scaled(scale!)}</math>;
  return <math display="block">{FORMULAS[step]!(width, heads)}</math>;
}

const Product = () => (
  <>
    <Sub of="s" n="j" />
    <mo>=</mo>
    <mi>q</mi>
    <mo>·</mo>
    <Sub of="k" n="j" />
  </>
);

const scaled = (scale: number) => (
  <mrow>
    <Product />
    {scale !== 1 && <mo>·</mo>}
    {scale !== 1 && <mn>{Number(scale.toPrecision(4))}</mn>}
  </mrow>
);

// i is where the query stands.
const FADES = (
  <mrow>
    <Product />
    <mo>·</mo>
    <munderover>
      <mo>∏</mo>
      <mrow>
        <mi>n</mi>
        <mo>=</mo>
        <mi>j</mi>
        <mo>+</mo>
        <mn>1</mn>
      </mrow>
      <mi>i</mi>
    </munderover>
    <Sub of="γ" n="n" />
  </mrow>
);

const FORMULAS = [
  () => (
    <mrow>
      <Projected from="q" name="Q" />
      <mo separator>,</mo>
      <mspace width="1em" />
      <Projected from="k" name="K" />
      <mo separator>,</mo>
      <mspace width="1em" />
      <Projected from="v" name="V" />
    </mrow>
  ),
  (width: number) => (
    <mrow>
      <Sub of="s" n="j" />
      <mo>=</mo>
      <mfrac>
        <mrow>
          <mi>q</mi>
          <mo>·</mo>
          <Sub of="k" n="j" />
        </mrow>
        <msqrt>
          <mn>{width}</mn>
        </msqrt>
      </mfrac>
    </mrow>
  ),
  () => (
    <mrow>
      <Sub of="s" n="j" />
      <mo>=</mo>
      <mo>−</mo>
      <mi>∞</mi>
      <mspace width="0.6em" />
      <mo>⇐</mo>
      <mspace width="0.6em" />
      <mi>j</mi>
      <mo>∉</mo>
      <mi>M</mi>
    </mrow>
  ),
  () => (
    <mrow>
      <Sub of="a" n="j" />
      <mo>=</mo>
      <mfrac>
        <msup>
          <mi>e</mi>
          <Sub of="s" n="j" />
        </msup>
        <mrow>
          <munder>
            <mo>∑</mo>
            <mi>i</mi>
          </munder>
          <msup>
            <mi>e</mi>
            <Sub of="s" n="i" />
          </msup>
        </mrow>
      </mfrac>
    </mrow>
  ),
  () => (
    <mrow>
      <mi>c</mi>
      <mo>=</mo>
      <munder>
        <mo>∑</mo>
        <mi>j</mi>
      </munder>
      <Sub of="a" n="j" />
      <Sub of="v" n="j" />
    </mrow>
  ),
  (_: number, heads: number) => (
    <mrow>
      <mi>o</mi>
      <mo>=</mo>
      <mo>[</mo>
      <Sub of="c" n="1" />
      <mo>…</mo>
      <Sub of="c" n={String(heads)} />
      <mo>]</mo>
      <msup>
        <mi>W</mi>
        <mi>O</mi>
      </msup>
    </mrow>
  ),
];
