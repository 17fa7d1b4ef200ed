// Attention as lines between two columns of tokens, as BertViz draws it: the stronger a weight, the stronger its line. A
// token that is pointed at or focused shows its own lines alone, with their numbers; a click keeps them.
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { weight } from "../format";
import { locked, ownScale, rootScale, threshold } from "../state";
import { type View, highest } from "../view";
import { words } from "../words";

const MAX_LINES = 1500; // that are drawn at once: the strongest
const FAINTEST = 0.02; // of the scale: what is less cannot be seen
const ROW = 26;
const MIDDLE = 220; // between the columns
const TOLD = 5; // weights that are said of a token

interface Line {
  row: number;
  column: number;
  value: number;
}

interface Told {
  isRow: boolean;
  at: number;
}

export function TokenLines({ view, title }: { view: View; title: string }) {
  const t = words.value;
  const box = useRef<HTMLDivElement>(null);
  const told = useSignal<Told | null>(null);
  const kept = useSignal<Told | null>(null);
  const count = view.columns.length;
  const high = ownScale.value ? highest(view.values) : 1;
  const lowest = Math.max(threshold.value, FAINTEST * high);
  const lines = useMemo(() => strongest(view, lowest), [view, lowest]);
  const chosen = told.value ?? kept.value;
  const height = Math.max(view.rows.length, count) * ROW;
  const isOf = (line: Line) => chosen && (chosen.isRow ? line.row : line.column) === chosen.at;
  const own = chosen && ownLines(view, chosen);
  const opacity = (value: number) => (rootScale.value ? Math.sqrt(value / high) : value / high);
  const drawn = own ? own.filter(({ value }) => value >= threshold.value && value > 0) : lines.drawn;
  useLayoutEffect(() => {
    if (!locked.value) kept.value = null;
  }, [locked.value]);

  const onKey = (event: KeyboardEvent) => {
    const button = (event.target as HTMLElement).closest<HTMLElement>("[data-side]");
    if (!button) return;
    const isRow = button.dataset.side === "row";
    const at = Number(button.dataset.at);
    const last = (isRow ? view.rows.length : count) - 1;
    const next = { ArrowDown: Math.min(at + 1, last), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
    const side = { ArrowRight: "column", ArrowLeft: "row" }[event.key] ?? (isRow ? "row" : "column");
    if (next === undefined && side === button.dataset.side) return;
    event.preventDefault();
    event.stopPropagation();
    const place = next ?? Math.min(at, (side === "row" ? view.rows.length : count) - 1);
    box.current!.querySelector<HTMLElement>(`[data-side=${side}][data-at="${place}"]`)?.focus();
  };
  const column = (isRow: boolean, labels: string[]) => (
    <div class={isRow ? "tokens-left" : "tokens-right"}>
      {labels.map((label, at) => {
        const value = own && chosen.isRow !== isRow ? own.find((line) => (isRow ? line.row : line.column) === at)?.value : undefined;
        const isChosen = chosen?.isRow === isRow && chosen.at === at;
        return (
          <button
            type="button"
            key={at}
            data-side={isRow ? "row" : "column"}
            data-at={at}
            title={label}
            class={isChosen ? "here" : ""}
            aria-pressed={kept.value?.isRow === isRow && kept.value.at === at}
            tabIndex={(chosen ? isChosen : isRow && at === 0) ? 0 : -1}
            onPointerEnter={() => (told.value = { isRow, at })}
            onFocus={() => (told.value = { isRow, at })}
            onBlur={() => (told.value = null)}
            onClick={() => {
              const isKept = kept.value?.isRow === isRow && kept.value.at === at;
              kept.value = isKept ? null : { isRow, at };
              locked.value = !isKept;
            }}
          >
            <span>{label}</span>
            {value !== undefined && <small>{value < 0 ? t.masked : weight(value)}</small>}
          </button>
        );
      })}
    </div>
  );
  return (
    <figure class="token-lines" id="token-lines">
      <div class="scroll tall">
        <div class="line-columns" ref={box} role="group" aria-label={title} onKeyDown={onKey} onPointerLeave={() => (told.value = null)}>
          {column(true, view.rows.map(({ label }) => label))}
          <svg width={MIDDLE} height={height} viewBox={`0 0 ${MIDDLE} ${height}`} aria-hidden="true">
            {drawn.map((line) => (
              <line
                key={line.row * count + line.column}
                class={isOf(line) ? "told" : ""}
                x1={0}
                y1={(line.row + 0.5) * ROW}
                x2={MIDDLE}
                y2={(line.column + 0.5) * ROW}
                stroke-opacity={Math.min(opacity(line.value), 1).toFixed(3)}
              />
            ))}
          </svg>
          {column(false, view.columns.map(({ label }) => label))}
        </div>
      </div>
      <figcaption>
        <output id="lines-read" class={own ? "" : "faint"}>
          {own ? readOf(view, chosen, own) : t.lines.hint}
        </output>
        {!own && lines.drawn.length < lines.all && <span class="faint" id="some-lines">{t.lines.some(lines.drawn.length, lines.all)}</span>}
      </figcaption>
    </figure>
  );
}

function strongest({ values, columns }: View, lowest: number): { drawn: Line[]; all: number } {
  const found: Line[] = [];
  values.forEach((value, n) => {
    if (value >= lowest && value > 0) found.push({ row: Math.floor(n / columns.length), column: n % columns.length, value });
  });
  const drawn = found.length > MAX_LINES ? found.sort((a, b) => b.value - a.value).slice(0, MAX_LINES) : found;
  return { drawn, all: found.length };
}

// Of one token: all of them, also what is masked.
function ownLines({ values, rows, columns }: View, { isRow, at }: Told): Line[] {
  if (isRow) return at < rows.length ? columns.map((_, column) => ({ row: at, column, value: values[at * columns.length + column]! })) : [];
  return at < columns.length ? rows.map((_, row) => ({ row, column: at, value: values[row * columns.length + at]! })) : [];
}

function readOf({ rows, columns }: View, { isRow, at }: Told, own: Line[]): string {
  const strong = own.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value).slice(0, TOLD);
  const named = strong.map(({ row, column, value }) => `${(isRow ? columns[column] : rows[row])!.label} ${weight(value)}`);
  return `${(isRow ? rows[at] : columns[at])?.label ?? ""} ${isRow ? "→" : "←"} ${named.join(", ")}`;
}
