// All numbers of a head, a matrix at a time, with a row a token; and all of them in one file for a spreadsheet.
import { useChoice, useTextChoice } from "../choice";
import { exact } from "../format";
import { FLAT, type Head, type Name, PER_HEAD, PLAIN, symbolOf, vectorOf } from "../head";
import { download } from "../save-page";
import { words } from "../words";
import { insideWords } from "../words/inside";

const MAX_CELLS = 20_000; // that are drawn; the file has all
const OF_KEYS: Name[] = ["source", "unnormed_k", "unrotated_k", "k", "v"];
const ORDER: Name[] = ["x", ...FLAT, "input", ...PLAIN.slice(2, 3), ...PER_HEAD, "decay", "context", "contexts", "gate", "joined", "output"];

interface Props {
  head: Head;
  tokens: string[];
  keys: string[];
  name: string; // of the file
}

export function HeadNumbers({ head, tokens, keys, name }: Props) {
  const t = words.value;
  const [open, setOpen] = useChoice("all", 0);
  const [wanted, choose] = useTextChoice<string>("numbers", "q");
  const names = [...new Set(ORDER)].filter((one) => head.of[one]);
  const chosen = names.includes(wanted as Name) ? (wanted as Name) : names[0]!;
  const labelsOf = (one: Name) => (OF_KEYS.includes(one) ? keys : FLAT.includes(one as never) ? [] : tokens);
  const titleOf = (one: Name) => `${symbolOf(head, one)}: ${insideWords.value.names[one] ?? one}`;
  return (
    <details open={open > 0} onToggle={(event) => event.currentTarget.open !== open > 0 && setOpen(Number(event.currentTarget.open))}>
      <summary id="all-numbers">{t.allNumbers}</summary>
      {open > 0 && (
        <>
          <p class="row">
            <label>
              {insideWords.value.matrix}{" "}
              <select id="numbers-of" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
                {names.map((one) => <option key={one} value={one}>{titleOf(one)}</option>)}
              </select>
            </label>
            <button type="button" id="save-csv" onClick={() => download(new Blob([csvOf(head, names, labelsOf)], { type: "text/csv" }), `${name}.csv`)}>
              {insideWords.value.saveCsv}
            </button>
          </p>
          <MatrixTable head={head} name={chosen} title={titleOf(chosen)} labels={labelsOf(chosen)} columnLabels={hasKeysAcross(chosen) ? keys : null} />
        </>
      )}
    </details>
  );
}

function hasKeysAcross(name: Name): boolean {
  return ["scores", "score_bias", "weights"].includes(name);
}

function MatrixTable({ head, name, title, labels, columnLabels }: { head: Head; name: Name; title: string; labels: string[]; columnLabels: string[] | null }) {
  const { rows, columns } = head.of[name]!;
  const drawn = Math.min(rows, Math.max(Math.floor(MAX_CELLS / columns), 1));
  return (
    <>
      {drawn < rows && <p class="note">{insideWords.value.someRows(drawn, rows)}</p>}
      <div class="scroll tall" tabIndex={0} role="region" aria-label={title}>
        <table class="numbers" id="inside-numbers" data-name={name}>
          <thead>
            <tr>
              <td />
              {Array.from({ length: columns }, (_, n) => <th scope="col" key={n}>{columnLabels?.[n] ?? n + 1}</th>)}
            </tr>
          </thead>
          <tbody>
            {Array.from({ length: drawn }, (_, row) => (
              <tr key={row}>
                <th scope="row">{labels[row] ?? ""}</th>
                {Array.from(vectorOf(head, name, row), (value, n) => <td key={n}>{exact(value, 7)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

// matrix,row,token,1,2,…: each matrix below the other, in float32 that is read back as it was.
function csvOf(head: Head, names: Name[], labelsOf: (name: Name) => string[]): string {
  const widest = Math.max(...names.map((name) => head.of[name]!.columns));
  const lines = [["matrix", "row", "token", ...Array.from({ length: widest }, (_, n) => n + 1)].join(",")];
  for (const name of names) {
    for (let row = 0; row < head.of[name]!.rows; row++) {
      const numbers = Array.from(vectorOf(head, name, row), (value) => (Number.isFinite(value) ? String(Number(value.toPrecision(9))) : value < 0 ? "-inf" : "inf"));
      lines.push([name, row + 1, quoted(labelsOf(name)[row] ?? ""), ...numbers].join(","));
    }
  }
  return lines.join("\r\n") + "\r\n";
}

// A cell that begins like a formula is none: a spreadsheet would compute it.
function quoted(text: string): string {
  return `"${(/^[=+\-@\t\r]/u.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
}
