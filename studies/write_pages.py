"""Write docs/claims.md and docs/choosing.md: studies/pages/ has their text, studies/results/ their numbers.

    python studies/write_pages.py

    {{positions: alibi::loss@1024}}                        a measure of a variant; @: at a length, or of a test
    {{yoco: attention::state_bytes / YOCO::state_bytes}}   a ratio
    {{crate: CRATE::coding_rate[3].zeros as .0%}}           a cell of a probe's table, with a format of its own
    {{table norms: loss, perplexity}}                      a table of all variants
    {{norms-h200: none::loss}}                             of results/norms-h200.json, the full edition
    {{probe crate: coding_rate}}                           what a probe found in each variant

A number has its spread over seeds, where there are several. A placeholder that names nothing is an error, and a test
compares the pages with what this script would write."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from headway.compare.charts import format_number
from headway.compare.report import NAMES

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = HERE / "pages"
DOCS = HERE.parent / "docs"
FORMATS = {
    "loss": ".3f",
    "perplexity": ".1f",
    "bleu": ".1f",
    "chrf": ".1f",
    "accuracy": ".0%",
    "exact": ".0%",
    "p": ".3f",
}


@cache
def read_results(study: str) -> dict[str, Any]:
    path = RESULTS / f"{study}.json"
    if not path.exists():
        raise SystemExit(f"{study}: no results. Known: {', '.join(sorted(p.stem for p in RESULTS.glob('*.json')))}.")
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def fill_page(name: str) -> str:
    """A page with its numbers."""
    text = (PAGES / name).read_text(encoding="utf-8")
    text = re.sub(
        r"\{\{table ([\w-]+): ([^}]*)\}\}", lambda m: make_table(m[1], [c.strip() for c in m[2].split(",")]), text
    )
    text = re.sub(r"\{\{probe ([\w-]+): (\w+)\}\}", lambda m: make_probe_table(m[1], m[2]), text)
    return re.sub(r"\{\{([\w-]+): ([^}]*)\}\}", lambda m: fill_placeholder(m[1], m[2]), text)


def fill_placeholder(study: str, text: str) -> str:
    expression, _, form = (part.strip() for part in text.partition(" as "))
    terms = expression.split(" / ")
    values = [find_value(study, term) for term in terms]
    if len(values) == 2:
        ratio = values[0][0] / values[1][0]
        return format(ratio, form or (".2g" if ratio < 1 else ".1f"))
    (value, spread) = values[0]
    measure = terms[0].split("::")[1].split("@")[0].strip()
    form = form or FORMATS.get(measure, "")
    shown = format(value, form) if form else format_number(value)
    if not spread:
        return shown
    return f"{shown} ± {format(spread, form) if form else format_number(spread)}"


def find_value(study: str, term: str) -> tuple[float, float | None]:
    """A number and its spread."""
    variant, _, measure = (part.strip() for part in term.partition("::"))
    rows = {row["name"]: row for row in read_results(study)["rows"]}
    if variant not in rows:
        raise SystemExit(f'{study}: there is no variant "{variant}". Known: {"; ".join(rows)}.')
    row = rows[variant]
    name, _, at = measure.partition("@")
    probe = re.fullmatch(r"(\w+)\[(\d+)\]\.(\w+)", measure)
    try:
        if probe:
            return float(row["probes"][probe[1]][int(probe[2])][probe[3]]), None
        if at:
            return find_at(row, name, at)
        if name in ("parameters", "p_value"):
            return float(row[name]), None
        return row["measures"][name]["mean"], row["measures"][name]["spread"]
    except (KeyError, IndexError, TypeError, ValueError):
        raise SystemExit(f'{study}: {variant} has no "{measure}".') from None


def find_at(row: dict[str, Any], name: str, at: str) -> tuple[float, float | None]:
    if name in ("exact", "tokens"):
        entry = next(entry for entry in row["answers"] if entry["test"] == at)
    else:
        points = row["loss_by_length"] if name == "loss" else row["lengths"]
        entry = next((point for point in points if point["length"] == int(at)), {})
    return float(entry[name]), entry.get("spread") if name in ("loss", "exact") else None


def make_table(study: str, columns: list[str]) -> str:
    rows = read_results(study)["rows"]
    lines = ["| variant | parameters | " + " | ".join(map(title_of, columns)) + " |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    for row in rows:
        name = row["name"].replace("|", "\\|")
        if row["status"] == "refused":
            lines.append(f"| {name} | refused: {row['reason']} " + "| " * len(columns) + "|")
            continue
        cells = [cell_of(study, row["name"], column) for column in columns]
        lines.append(f"| {name} | {row['parameters']:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def make_probe_table(study: str, probe: str) -> str:
    """Without the variants that have nothing to probe."""
    found = [(row["name"], row["probes"].get(probe, [])) for row in read_results(study)["rows"]]
    found = [(name, lines) for name, lines in found if lines and "refused" not in lines[0]]
    if not found:
        raise SystemExit(f'{study}: nothing was found by a probe "{probe}".')
    columns = [
        key for key in dict.fromkeys(key for _, lines in found for line in lines for key in line) if key != "spread"
    ]
    table = ["| " + " | ".join(["variant", *(key.replace("_", " ") for key in columns)]) + " |"]
    table.append("|---" * (len(columns) + 1) + "|")
    for name, lines in found:
        for line in lines:
            values = [line.get(key, "") for key in columns]
            cells = [value if isinstance(value, str) else format_number(value) for value in values]
            table.append("| " + " | ".join([name.replace("|", "\\|"), *(cell or "–" for cell in cells)]) + " |")
    return "\n".join(table)


def title_of(column: str) -> str:
    name, _, at = column.partition("@")
    title = {"p_value": "p"}.get(name, NAMES.get(name, name.replace("_", " ")))
    title = "cache, bytes" if name == "state_bytes" and at else title  # else after a fixed number of tokens
    return f"{title}, {int(at):,} tokens" if at.isdigit() else f"{title} {at}".strip()


def cell_of(study: str, variant: str, column: str) -> str:
    """A number, or a dash where there is none."""
    try:
        return fill_placeholder(study, f"{variant}::{column}")
    except SystemExit:
        return "–"


def main() -> None:
    for path in sorted(PAGES.glob("*.md")):
        (DOCS / path.name).write_text(fill_page(path.name), encoding="utf-8")


if __name__ == "__main__":
    main()
