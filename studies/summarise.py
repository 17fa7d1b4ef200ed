"""Reduce the folders of finished studies to what the docs need: studies/results/NAME.json.

    python studies/summarise.py RESULTS [NAME ...]

RESULTS holds one folder for each study, as `headway compare studies/NAME.toml --out RESULTS/NAME` writes it. Learning
curves, models and paths are left out."""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROW_KEYS = (
    "name", "status", "reason", "parameters", "how", "seeds", "p_value", "loss_by_length", "lengths", "answers",
    "probes",
)  # fmt: skip
FACTS = ("name", "budget", "machine", "headway", "torch", "parameters")


def summarise(results: dict[str, Any], study: str) -> dict[str, Any]:
    quick = " --quick" if "--quick" in results["command"].split() else ""
    rows = []
    for row in results["rows"]:
        measures = {name: {key: found[key] for key in ("mean", "spread")} for name, found in row["measures"].items()}
        rows.append({**{key: row[key] for key in ROW_KEYS if row[key] not in ([], {}, "")}, "measures": measures})
    command = f"headway compare studies/{study}.toml{quick}"
    return {**{key: results[key] for key in FACTS}, "command": command, "rows": [complete(row) for row in rows]}


def complete(row: dict[str, Any]) -> dict[str, Any]:
    """With all keys, empty ones too, so that readers need no defaults."""
    empty: dict[str, Any] = {"reason": "", "loss_by_length": [], "lengths": [], "answers": [], "probes": {}}
    return {**empty, **row}


def shorten_numbers(value: Any) -> Any:
    """Five digits: more are noise, and would change with every machine."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: shorten_numbers(entry) for key, entry in value.items()}
    return [shorten_numbers(entry) for entry in value] if isinstance(value, list) else value


def main(arguments: list[str]) -> None:
    folder = Path(arguments[0])
    for path in sorted(folder.glob("*/results.json")):
        study = path.parent.name
        if arguments[1:] and study not in arguments[1:]:
            continue
        if not (HERE / f"{study}.toml").exists():
            print(f"{study}: there is no studies/{study}.toml; left out", file=sys.stderr)
            continue
        table = summarise(json.loads(path.read_text(encoding="utf-8")), study)
        target = HERE / "results" / f"{study}.json"
        target.write_text(json.dumps(shorten_numbers(table), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{target.name}: {len(table['rows'])} variants")


if __name__ == "__main__":
    main(sys.argv[1:])
