import { weight } from "../format";
import { MASKED, type View } from "../view";
import { words } from "../words";

export function WeightsTable({ view, title }: { view: View; title: string }) {
  const columns = view.columns.length;
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={title}>
      <table class="numbers" id="weights">
        <caption>{title}</caption>
        <thead>
          <tr>
            <td />
            {view.columns.map((one, n) => <th scope="col" key={n}>{one.label}</th>)}
          </tr>
        </thead>
        <tbody>
          {view.rows.map((row, r) => (
            <tr key={r}>
              <th scope="row">{row.label}</th>
              {view.columns.map((_, c) => {
                const value = view.values[r * columns + c]!;
                return <td key={c}>{value === MASKED ? <span class="faint">{words.value.masked}</span> : weight(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
