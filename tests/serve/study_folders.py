"""Folders as `headway compare --out` writes them, made of models that are there and of invented numbers."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
FINGERPRINT = "0123456789ab"


def spread(mean: float, deviation: float | None = None) -> dict[str, Any]:
    return {"mean": mean, "spread": deviation, "values": [mean]}


def make_row(name: str, bleu: float, speed: float, *models: Path | None, **changes: Any) -> Row:
    """A finished variant with a seed for each model; None: its directory is gone."""
    measures = {
        "loss": spread(6 - bleu / 10, 0.0625),
        "bleu": spread(bleu, 1.25),
        "decode_tokens_per_second": spread(speed, 40.0),
        "train_tokens_per_second": spread(2 * speed),
        "peak_memory": spread(900e6 - speed, 0.0),
        "state_bytes": spread(4194304.0 / speed),
        "seconds": spread(12.34),
    }
    curve = [{"step": n, "seconds": n / 2, "loss": 6 - bleu / 10 * n / 3} for n in (1, 2, 3)]
    row: Row = {
        "name": name,
        "choices": {"mixer": name},
        "status": "finished",
        "reason": "",
        "parameters": 123456,
        "how": "feed-forward hidden 96",
        "notes": [],
        "seeds": len(models),
        "measures": measures,
        "p_value": 0.0125,
        "curves": [curve for _ in models],
        "lengths": [{"length": n, "seconds": n / 1e4, "bytes": n * 1e3} for n in (128, 512)],
        "loss_by_length": [{"length": n, "loss": 6 - bleu / 10 + n / 1e4} for n in (128, 512)],
        "models": [f"/elsewhere/runs/{run_name(name, seed)}/model" for seed in range(1, len(models) + 1)],
    }
    return row | changes


def unfinished(name: str, status: str, reason: str) -> Row:
    nothing = {"measures": {}, "p_value": None, "curves": [], "lengths": [], "loss_by_length": []}
    return make_row(name, 0, 1, seeds=0, status=status, reason=reason, parameters=None, how="", **nothing)


def run_name(name: str, seed: int) -> str:
    slug = "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
    return f"{slug[:40]}-{seed}-{FINGERPRINT}"


def write_study(
    folder: Path, rows: Sequence[Row], models: dict[tuple[str, int], Path] | None = None, title: str = "Two mixers"
) -> Path:
    """models: by variant and seed, the directories to copy."""
    for (name, seed), model in (models or {}).items():
        ignored = shutil.ignore_patterns("checkpoints")
        shutil.copytree(model, folder / "runs" / run_name(name, seed) / "model", ignore=ignored)
    folder.mkdir(parents=True, exist_ok=True)
    facts = {"name": title, "command": "headway compare …", "budget": "3 steps each", "parameters": 123456}
    (folder / "results.json").write_text(json.dumps({**facts, "rows": rows}, indent=1))
    return folder


def write_two_mixers(folder: Path, translator: Path, other: Path) -> Path:
    """Two finished variants, the first with two seeds, of one of which the model is gone; one failed, one refused."""
    rows = [
        make_row("attention(4)", 40.25, 800, translator, None, p_value=None),
        make_row("retention(4)", 31.5, 1600, other),
        unfinished("minGRU", "failed", "/home/anna/text/train.en: line 3 is no text"),
        unfinished("hard <b>", "refused", "a head needs a width."),
    ]
    return write_study(folder, rows, {("attention(4)", 1): translator, ("retention(4)", 1): other})
