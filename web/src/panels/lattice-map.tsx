// The beam as a picture: steps from left to right, ranks from top to bottom. One node has the focus, and arrow keys go on.
import { useRef, useState } from "preact/hooks";
import { signed } from "../format";
import type { Node } from "../lattice";
import { shown } from "../pieces";
import { words } from "../words";

const ACROSS = 116;
const DOWN = 34;
const BOX = { width: 88, height: 24 };
const TOP = 26;

const x = (node: Node): number => node.step * ACROSS + 4;
const y = (node: Node): number => node.rank * DOWN + TOP;

export function Lattice({ nodes }: { nodes: Node[] }) {
  const t = words.value;
  const picture = useRef<SVGSVGElement>(null);
  const [focused, focus] = useState<number | null>(null); // numbers, as nodes are made anew while the search runs
  const [pointed, point] = useState<number | null>(null);
  const [kept, keep] = useState<number | null>(null);
  const steps = Math.max(0, ...nodes.map((one) => one.step)) + 1;
  const ranks = Math.max(0, ...nodes.map((one) => one.rank)) + 1;
  const width = steps * ACROSS;
  const height = ranks * DOWN + TOP + 4;
  const told = nodes.find((one) => one.number === (kept ?? pointed ?? focused)) ?? null;
  const way = wayOf(told);
  const reached = nodes.find((one) => one.number === focused) ?? nodes.find((one) => one.wins) ?? nodes[0];
  const onKey = (event: KeyboardEvent) => {
    if (!reached) return;
    if (event.key === "Enter" || event.key === " ") keep(kept === reached.number ? null : reached.number);
    else if (event.key === "Escape" && kept !== null) keep(null);
    else {
      const next = neighbour(nodes, reached, event.key);
      if (next === undefined) return;
      keep(null);
      point(null);
      if (next) picture.current?.querySelector<SVGElement>(`[data-number="${next.number}"]`)?.focus();
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <>
      <div class="scroll">
        <svg ref={picture} class="lattice" width={width} height={height} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t.beamTitle} onKeyDown={onKey}>
          <rect class="now" x={(steps - 1) * ACROSS} y={0} width={ACROSS - 20} height={height} />
          {Array.from({ length: steps }, (_, n) => (
            <text key={n} x={n * ACROSS + 4} y={14}>{n + 1}</text>
          ))}
          {nodes.map((node) => node.parent && (
            <path key={node.number} class={`edge ${node.wins ? "win" : node.fate}${way.has(node.number) ? " told" : ""}`} d={curve(node.parent, node)} />
          ))}
          {nodes.map((node) => (
            <g
              key={node.number}
              class={`${node.wins ? "win " : ""}${node.fate}${way.has(node.number) ? " told" : ""}`}
              role="button"
              aria-label={`${clipped(shown(node.piece))}, ${tell(node)}`}
              aria-pressed={node.number === kept}
              tabindex={node === reached ? 0 : -1}
              data-number={node.number}
              data-step={node.step}
              data-fate={node.fate}
              data-wins={node.wins ? "" : undefined}
              transform={`translate(${x(node)} ${y(node)})`}
              onFocus={() => focus(node.number)}
              onPointerEnter={() => point(node.number)}
              onPointerLeave={() => point(null)}
              onClick={() => keep(kept === node.number ? null : node.number)}
            >
              <rect width={BOX.width} height={BOX.height} rx={4} />
              <text x={6} y={16} aria-hidden="true">{clipped(shown(node.piece))}</text>
            </g>
          ))}
        </svg>
      </div>
      <output id="node" class={told ? "" : "faint"}>{told ? tell(told) : t.beamHint}</output>
    </>
  );
}

// The node and all that led to it.
function wayOf(node: Node | null): Set<number> {
  const numbers = new Set<number>();
  for (let one = node; one; one = one.parent) numbers.add(one.number);
  return numbers;
}

// undefined: the key means nothing here; null: there is nobody.
function neighbour(nodes: Node[], from: Node, key: string): Node | null | undefined {
  const sought: Record<string, (one: Node) => boolean> = {
    ArrowLeft: (one) => one === from.parent,
    ArrowRight: (one) => one.parent === from,
    ArrowUp: (one) => one.step === from.step && one.rank === from.rank - 1,
    ArrowDown: (one) => one.step === from.step && one.rank === from.rank + 1,
    Home: (one) => one.step === 0,
    End: (one) => one.wins && !nodes.some((other) => other.wins && other.step > one.step),
  };
  const fits = sought[key];
  return fits && (nodes.find(fits) ?? null);
}

function curve(from: Node, to: Node): string {
  const [left, top] = [x(from) + BOX.width, y(from) + BOX.height / 2];
  const [right, bottom] = [x(to), y(to) + BOX.height / 2];
  return `M${left} ${top} C${right - 12} ${top} ${left + 12} ${bottom} ${right} ${bottom}`;
}

function clipped(text: string): string {
  const all = [...text];
  return all.length > 10 ? all.slice(0, 9).join("") + "…" : text;
}

function tell(node: Node): string {
  const t = words.value;
  const fate = node.wins && node.fate === "runs" ? "win" : node.fate;
  return t.beamNode(node.text.trim() || shown(node.text), signed(node.logp), t.beamLegend[fate]);
}
