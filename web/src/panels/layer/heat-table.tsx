// A table whose cells are coloured by their values. Its headings lead to rows and columns by keyboard; a click on a cell
// does both.
import { css, inkOn, weightColours } from "../../colours";

export interface Heading {
  label: string;
  go?: () => void;
  isHere?: boolean;
  title?: string;
}

export interface Cell {
  text: string;
  share: number; // 0 to 1: how strong its colour is
  title?: string;
}

interface Props {
  id: string;
  caption: string;
  corner: string;
  columns: Heading[];
  rows: Heading[];
  cell: (row: number, column: number) => Cell | null;
  open?: (row: number, column: number) => void;
  hasText?: boolean; // cells are words, not numbers
}

export function HeatTable({ id, caption, corner, columns, rows, cell, open, hasText = false }: Props) {
  const colours = weightColours.value;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table class={`heat${hasText ? " said" : ""}${open ? " opens" : ""}`} id={id}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">{corner}</th>
            {columns.map((one, n) => <th scope="col" key={n} class={one.isHere ? "here" : ""}><Title heading={one} /></th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, r) => (
            <tr key={r}>
              <th scope="row" class={row.isHere ? "here" : ""}><Title heading={row} /></th>
              {columns.map((column, c) => {
                const found = cell(r, c);
                if (!found) return <td key={c} class="faint">–</td>;
                const colour = colours[Math.round(255 * Math.min(Math.max(found.share, 0), 1))]!;
                return (
                  <td
                    key={c}
                    class={column.isHere ? "here" : ""}
                    title={found.title}
                    style={{ background: css(colour), color: inkOn(colour) }}
                    onClick={open && (() => open(r, c))}
                  >
                    {found.text}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Title({ heading }: { heading: Heading }) {
  if (!heading.go) return <>{heading.label}</>;
  return <button type="button" class="plain" title={heading.title} onClick={heading.go}>{heading.label}</button>;
}

const MOST_COLUMNS = 32;

// Those around the chosen token: a table of a long text would be slow, and nobody could find anything in it.
export function columnsAround(position: number, first: number, count: number): { from: number; to: number } {
  const shown = Math.min(count, MOST_COLUMNS);
  const from = Math.min(Math.max(position - Math.floor(shown / 2), first), first + count - shown);
  return { from, to: from + shown };
}
