"""The report of a study: a table and charts on one HTML page that needs nothing else; and the same as files.

OUT/report.html  results.json  results.csv  charts/*.svg  (and *.png, where matplotlib is installed)
"""

import math
import platform
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from headway import __version__
from headway.compare.axes import format_value
from headway.compare.charts import format_number, line_chart, scatter_chart
from headway.compare.probes import PROBES
from headway.compare.results import Row, pareto_front, quality_measure, to_csv, to_json
from headway.compare.study import Study
from headway.compare.trials import Plan
from headway.device import available_cores
from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.files.notebook_html import render_framed_page

NAMES = {
    "loss": "loss (nats a token)",
    "perplexity": "perplexity",
    "bleu": "BLEU",
    "chrf": "chrF",
    "accuracy": "exact answers, share",
    "train_tokens_per_second": "training, tokens/s",
    "decode_tokens_per_second": "decoding, tokens/s",
    "peak_memory": "peak memory in training, bytes",
    "model_bytes": "model, bytes",
    "state_bytes_per_token": "cache, bytes a token",
    "state_bytes": "cache after 1,024 tokens, bytes",
    "seconds": "training time, s",
    "steps": "steps",
}
COST_CURVES = (  # measure by length, file name, title, unit
    ("seconds", "time-by-length", "Time of one forward and backward pass", "seconds"),
    ("forward_seconds", "forward-by-length", "Time of the forward pass", "seconds"),
    ("backward_seconds", "backward-by-length", "Time of the backward pass", "seconds"),
    ("bytes", "memory-by-length", "Memory of one forward and backward pass", "bytes"),
    ("decode_seconds", "decoding-by-length", "Time of one decoded token after a text", "seconds"),
    ("state_bytes", "state-by-length", "What decoding keeps of a text", "bytes"),
)
FRAME_PIXELS = 700  # in a notebook
COSTS = ("decode_tokens_per_second", "train_tokens_per_second", "peak_memory", "state_bytes", "model_bytes")
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid; }
tr.best td { background: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
.spread, .note { opacity: .7; font-size: .9em; } pre { overflow-x: auto; background: var(--soft); padding: .6rem; }
"""
SORT = """
for (const button of document.querySelectorAll("th button")) button.onclick = () => {
  const head = button.closest("tr"), column = [...head.cells].indexOf(button.closest("th"));
  const body = head.closest("table").tBodies[0], down = button.dataset.down = button.dataset.down ? "" : "1";
  const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  [...body.rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)], order = x - y || String(x).localeCompare(String(y));
    return down ? -order : order;
  }).forEach(row => body.append(row));
};
"""


def write_report(study: Study, plan: Plan, rows: Sequence[Row], out: Path, command: str) -> list[Path]:
    """Everything that a study leaves; returns the files."""
    charts = make_charts(rows)
    folder = out / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (_, chart) in charts.items():
        write_text_atomically(folder / f"{name}.svg", chart)
    facts = {"name": study.name, "command": command, "headway": __version__, "torch": torch.__version__}
    facts |= {"budget": study.budget.describe(), "machine": describe_machine()}
    write_text_atomically(out / "results.json", to_json(rows, **facts, parameters=plan.target))
    write_text_atomically(out / "results.csv", to_csv(rows))
    write_text_atomically(out / "report.html", make_page(study, plan, rows, charts, command))
    files = [out / "report.html", out / "results.json", out / "results.csv"]
    return files + [folder / f"{name}.svg" for name in charts] + draw_pictures(rows, folder)


class StudyReport:
    """The report that a study has left in a folder, for notebooks."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        path = self.folder / "report.html"
        try:
            self.page = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise HeadwayError(
                f"there is no report {path}. A study leaves one: headway compare … --out {self.folder}"
            ) from None

    def __repr__(self) -> str:
        return f"<StudyReport {str(self.folder)!r}>"

    def _repr_html_(self) -> str:
        return render_framed_page(self.page, self.folder.name, FRAME_PIXELS)


def describe_machine() -> str:
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        return f"{count} × {torch.cuda.get_device_name()}" if count > 1 else torch.cuda.get_device_name()
    cores = available_cores()
    return f"CPU, {cores} {'cores' if cores > 1 else 'core'} ({platform.machine()})"


def draw_pictures(rows: Sequence[Row], folder: Path) -> list[Path]:
    """The learning curves as a PNG; none where matplotlib is not installed."""
    from headway.inspect.plots import draw_curves

    curves = {row.name: [point["loss"] for point in row.curves[0]] for row in rows if row.curves and row.curves[0]}
    if not curves:
        return []
    path = folder / "learning-curves.png"
    try:
        draw_curves(curves, path, title="Validation loss", xlabel="validation", ylabel="loss", first=1)
    except HeadwayError:
        return []
    return [path]


def make_charts(rows: Sequence[Row]) -> dict[str, tuple[str, str]]:
    """Titles and charts, by file name. What nothing was measured of is left out."""
    charts: dict[str, tuple[str, str]] = {}
    for x, name, label in (("step", "curves-by-step", "step"), ("seconds", "curves-by-time", "seconds of training")):
        series = {row.name: [(p[x], p["loss"]) for p in row.curves[0]] for row in rows if row.curves}
        charts[name] = (f"Validation loss by {label}", line_chart(series, xlabel=label, ylabel="loss"))
    for y, name, title, unit in COST_CURVES:
        series = {row.name: [(p["length"], p[y]) for p in row.lengths if y in p] for row in rows}
        charts[name] = (title, line_chart(series, xlabel="tokens", ylabel=unit, log_x=True, log_y=True))
    series = {row.name: [(p["length"], p["loss"]) for p in row.loss_by_length if "loss" in p] for row in rows}
    chart = line_chart(series, xlabel="tokens read at once", ylabel="loss", log_x=True)
    charts["loss-by-length"] = ("Validation loss by the length of the text", chart)
    series = {row.name: list(enumerate((p.get("exact", math.nan) for p in row.answers), 1)) for row in rows}
    tests = ", ".join(dict.fromkeys(point["test"] for row in rows for point in row.answers))
    charts["exact-answers"] = ("Exact answers", line_chart(series, xlabel=f"test: {tests}", ylabel="share"))
    measure, higher = quality_measure(rows)
    for cost in COSTS:
        known = [row for row in rows if row.mean(measure) is not None and row.mean(cost)]
        points = {row.name: (float(row.mean(cost) or 0), float(row.mean(measure) or 0)) for row in known}
        expensive_is_high = not cost.endswith("per_second")
        ranked = [(a if expensive_is_high else -a, b if higher else -b) for a, b in points.values()]
        front = [list(points)[index] for index in pareto_front(ranked)]
        chart = scatter_chart(points, front, xlabel=NAMES[cost], ylabel=NAMES[measure], log_x=True)
        charts[f"{measure}-by-{cost.replace('_', '-')}"] = (f"{NAMES[measure]} against {NAMES[cost]}", chart)
    return {name: (title, chart) for name, (title, chart) in charts.items() if chart}


def table_columns(rows: Sequence[Row]) -> list[str]:
    """Measures that some row has, quality first."""
    return [name for name in NAMES if any(name in row.measures for row in rows)]


def make_page(study: Study, plan: Plan, rows: Sequence[Row], charts: dict[str, tuple[str, str]], command: str) -> str:
    finished = sum(row.status == "finished" for row in rows)
    size = f"{plan.target:,} parameters each (within 2 %)" if plan.target else "parameters as they come"
    varied = [f"{axis.name} = {', '.join(map(format_value, axis.values))}" for axis in study.axes]
    facts = [
        f"{finished} of {len(rows)} variants finished; {study.budget.describe()}, {size}, "
        f"{study.budget.seeds} seed{'s' * (study.budget.seeds > 1)}.",
        f"Varied: {'; '.join(varied)}.",
        f"Headway {__version__}, torch {torch.__version__}, {describe_machine()}.",
        *plan.notes,
    ]
    figures = "".join(f"<figure><figcaption>{escape(t)}</figcaption>{chart}</figure>" for t, chart in charts.values())
    notes = [note for row in rows for note in row_notes(row)]
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(study.name)}</title><style>{STYLE}</style></head><body>
<h1>{escape(study.name)}</h1>
{"".join(f"<p class=note>{escape(fact)}</p>" for fact in facts)}
<div class="wide">{make_table(rows)}</div>
<p class="note">± is the standard deviation over seeds. p: paired bootstrap against the first variant, on the same text;
below 0.05 a difference is hardly due to chance. Click a heading to sort.</p>
{make_probe_tables(rows)}
{"<h2>Notes</h2><ul>" + "".join(f"<li>{escape(note)}</li>" for note in dict.fromkeys(notes)) + "</ul>" if notes else ""}
<h2>Charts</h2><div class="charts">{figures}</div>
<h2>How it was made</h2><pre>{escape(command)}</pre>
<script>{SORT}</script></body></html>
"""


def make_probe_tables(rows: Sequence[Row]) -> str:
    """What probes and tests found, one table for each."""
    tables = {name: PROBES.get(name, name) for row in rows for name in row.probes}
    found = [
        (f"{name}: {about}", [(row.name, row.probes.get(name, [])) for row in rows]) for name, about in tables.items()
    ]
    if any(row.answers for row in rows):
        found.append(("Answers", [(row.name, row.answers) for row in rows]))
    return "".join(f"<h2>{escape(title)}</h2><div class=wide>{_plain_table(parts)}</div>" for title, parts in found)


def _plain_table(parts: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> str:
    columns = list(dict.fromkeys(key for _, lines in parts for line in lines for key in line))
    head = "".join(f"<th scope=col>{escape(name.replace('_', ' '))}</th>" for name in ("variant", *columns))
    body = []
    for name, lines in parts:
        for line in lines:
            values = [line.get(key, "") for key in columns]
            shown = [value if isinstance(value, str) else format_number(value) for value in values]
            body.append(f"<tr><td>{escape(name)}</td>{''.join(f'<td>{escape(cell)}</td>' for cell in shown)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def row_notes(row: Row) -> list[str]:
    """Everything about a row that its numbers do not say."""
    reasons = [f"{row.name}: {row.reason}"] if row.reason else []
    limits = [
        f"{row.name}, {point['length']:,} tokens: {point['refused']}"
        for point in (*row.lengths, *row.loss_by_length)  # answers that were refused stand in their table
        if "refused" in point
    ]
    return [*row.notes, *reasons, *limits]


def make_table(rows: Sequence[Row]) -> str:
    columns = table_columns(rows)
    measure, higher = quality_measure(rows)
    means = [mean for row in rows if (mean := row.mean(measure)) is not None]
    best = (max(means) if higher else min(means)) if means else None
    head = ["variant", "status", "parameters", "how", *(NAMES[name] for name in columns), "p"]
    cells = "".join(f"<th scope=col><button>{escape(name)}</button></th>" for name in head)
    body = "".join(_table_row(row, columns, row.mean(measure) == best and best is not None) for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _table_row(row: Row, columns: Sequence[str], is_best: bool) -> str:
    cells = [f"<td>{escape(row.name)}</td>", f"<td>{row.status}</td>"]
    cells.append(f'<td data-value="{row.parameters or ""}">{f"{row.parameters:,}" if row.parameters else ""}</td>')
    cells.append(f"<td>{escape(row.how)}</td>")
    for name in columns:
        found = row.measures.get(name)
        if found is None:
            cells.append('<td data-value=""></td>')
            continue
        spread = "" if found.spread is None else f' <span class="spread">± {format_number(found.spread)}</span>'
        values = ", ".join(map(format_number, found.values))
        cells.append(f'<td data-value="{found.mean}" title="{values}">{format_number(found.mean)}{spread}</td>')
    p_value = "" if row.p_value is None else f"{row.p_value:.3f}"
    cells.append(f'<td data-value="{p_value}">{p_value}</td>')
    return f"<tr{' class=best' if is_best else ''}>{''.join(cells)}</tr>"
