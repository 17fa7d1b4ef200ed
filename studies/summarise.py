"""Reduce the folders of finished studies to what the docs need: studies/results/NAME.json.

    python studies/summarise.py RESULTS [NAME ...]
    python studies/summarise.py RESULTS --suffix h200 --reached --without-speeds    # NAME-h200.json

RESULTS holds one folder for each study, as `headway compare studies/NAME.toml --out RESULTS/NAME` writes it. Learning
curves, models and paths are left out."""

import argparse
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
SPEEDS = ("train_tokens_per_second", "decode_tokens_per_second", "seconds", "tokens_per_second", "speed_up")
PLACES = ("--out", "--data", "--jobs", "--device")  # flags of a command that say where it ran, not what


def summarise(
    results: dict[str, Any], study: str, reached: bool = False, without_speeds: bool = False
) -> dict[str, Any]:
    """`reached`: without the rows that an interrupted study never came to; `without_speeds`: of trials that ran side by
    side on one device, whose speeds tell of each other. Costs by length stay: they are measured one trial at a time."""
    rows = []
    for row in results["rows"]:
        if reached and not is_reached(row):
            continue
        if without_speeds:
            row = {**row, "measures": drop_speeds(row["measures"]), "probes": drop_probe_speeds(row["probes"])}
        measures = {name: {key: found[key] for key in ("mean", "spread")} for name, found in row["measures"].items()}
        rows.append({**{key: row[key] for key in ROW_KEYS if row[key] not in ([], {}, "")}, "measures": measures})
    command = " ".join(["headway compare", f"studies/{study}.toml", *kept_flags(results["command"])])
    return {**{key: results[key] for key in FACTS}, "command": command, "rows": [complete(row) for row in rows]}


def kept_flags(command: str) -> list[str]:
    """Those that decide what is measured."""
    words = command.split()[3:]
    return [
        word
        for before, word in zip(["", *words], words)
        if word.split("=")[0] not in PLACES and not (before in PLACES and not word.startswith("-"))
    ]


def is_reached(row: dict[str, Any]) -> bool:
    """Whether a variant was refused, or measured: its quality, or what it costs by length."""
    has_result = row["status"] == "finished" and ("loss" in row["measures"] or bool(row["lengths"]))
    return row["status"] == "refused" or has_result


def drop_speeds(table: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in SPEEDS}


def drop_probe_speeds(probes: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [drop_speeds(line) for line in lines] for name, lines in probes.items()}


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
    parser = argparse.ArgumentParser(description="Reduce the folders of finished studies to what the docs need.")
    parser.add_argument("folder", type=Path, metavar="RESULTS")
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies; without any, all of them")
    parser.add_argument("--suffix", default="", help="write NAME-SUFFIX.json, beside the results of the short edition")
    parser.add_argument("--reached", action="store_true", help="without variants that the study never came to")
    parser.add_argument("--without-speeds", action="store_true", help="without those of trials that ran side by side")
    given = parser.parse_args(arguments)
    for path in sorted(given.folder.glob("*/results.json")):
        study = path.parent.name
        if given.names and study not in given.names:
            continue
        if not (HERE / f"{study}.toml").exists():
            print(f"{study}: there is no studies/{study}.toml; left out", file=sys.stderr)
            continue
        results = json.loads(path.read_text(encoding="utf-8"))
        table = summarise(results, study, given.reached, given.without_speeds)
        target = HERE / "results" / f"{'-'.join(filter(None, (study, given.suffix)))}.json"
        target.write_text(json.dumps(shorten_numbers(table), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{target.name}: {len(table['rows'])} of {len(results['rows'])} variants")


if __name__ == "__main__":
    main(sys.argv[1:])
