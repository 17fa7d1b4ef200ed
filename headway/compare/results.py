"""The results of a study: one row for each variant, with means and spreads over seeds and a paired bootstrap."""

import csv
import io
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headway.compare.trial_worker import HYPOTHESES_FILE, REFERENCES_FILE
from headway.compare.trials import Plan, Trial
from headway.text.metrics import paired_bootstrap

MEASURES = (
    "loss", "perplexity", "bleu", "chrf", "accuracy", "train_tokens_per_second", "decode_tokens_per_second",
    "peak_memory", "model_bytes", "state_bytes_per_token", "state_bytes", "seconds", "steps",
)  # fmt: skip
RESAMPLES = 1000
BOOTSTRAP_SEED = 12345


@dataclass(frozen=True)
class Spread:
    """Over seeds. `spread`: the standard deviation of one seed's number; None for a single seed."""

    mean: float
    spread: float | None
    values: tuple[float, ...]


@dataclass(frozen=True)
class Row:
    """One variant."""

    name: str
    choices: dict[str, Any]
    status: str  # "finished", "refused", "failed", "open"
    reason: str = ""  # of a refusal or failure
    parameters: int | None = None
    how: str = ""  # it reached the parameter budget
    notes: tuple[str, ...] = ()
    seeds: int = 0  # finished
    measures: dict[str, Spread] = field(default_factory=dict)
    p_value: float | None = None  # paired bootstrap against the first row
    curves: list[list[dict[str, float]]] = field(default_factory=list)  # of each seed
    lengths: list[dict[str, Any]] = field(default_factory=list)  # seconds and bytes by length
    loss_by_length: list[dict[str, Any]] = field(default_factory=list)  # means over seeds, of other test lengths
    models: list[str] = field(default_factory=list)  # directories in the study's folder, of each seed
    answers: list[dict[str, Any]] = field(default_factory=list)  # means over seeds, of each file of prompts
    probes: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # means over seeds, row by row

    def mean(self, name: str) -> float | None:
        measure = self.measures.get(name)
        return None if measure is None else measure.mean


def collect_rows(plan: Plan) -> list[Row]:
    by_variant = {id(variant): [t for t in plan.trials if t.variant is variant] for variant in plan.variants}
    rows: list[Row] = []
    first: list[Trial] = []
    for variant in plan.variants:
        trials = by_variant[id(variant)]
        finished = [trial for trial in trials if trial.result is not None]
        rows.append(_make_row(variant.name, variant.choices, variant.refusal, variant.notes, trials, finished, first))
        first = first or finished
    return rows


def _make_row(
    name: str,
    choices: dict[str, Any],
    refusal: str,
    notes: tuple[str, ...],
    trials: list[Trial],
    finished: list[Trial],
    first: list[Trial],
) -> Row:
    if refusal:
        return Row(name, choices, "refused", refusal, notes=notes)
    failures = [trial.failure for trial in trials if trial.result is None and trial.failure]
    status = "finished" if len(finished) == len(trials) else "failed" if failures else "open"
    results = [result for trial in finished if (result := trial.result) is not None]
    measures = {}
    for measure in MEASURES:
        values = tuple(float(result[measure]) for result in results if result.get(measure) is not None)
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else None
            measures[measure] = Spread(statistics.fmean(values), spread, values)
    return Row(
        name, choices, status, failures[0] if failures else "", trials[0].fit.parameters, trials[0].fit.how, notes,
        len(finished), measures,
        compare_trials(first, finished) if first and finished else None,
        [result["curve"] for result in results if "curve" in result],
        read_lengths(trials),
        mean_tables([result.get("loss_by_length", []) for result in results]),
        [str(Path(*trial.folder.parts[-2:], "model")) for trial in finished],
        mean_tables([result.get("answers", []) for result in results]),
        mean_probes([result.get("probes", {}) for result in results]),
    )  # fmt: skip


def read_lengths(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Measured for the first seed only."""
    return next((trial.cost_curve or [] for trial in trials if trial.table["lengths"]), [])


def mean_tables(seeds: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Over seeds, row by row: numbers are averaged, `spread` says by how much the first of them varies; a row that one
    seed refused keeps its reason."""
    found: list[dict[str, Any]] = []
    for entries in zip(*seeds):
        refused = [entry for entry in entries if "refused" in entry]
        found.append(refused[0] if refused else _mean_row(entries))
    return found


def _mean_row(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in entries[0].items():
        values = [entry[key] for entry in entries]
        if any(isinstance(value, str) for value in values):
            row[key] = value
            continue
        row[key] = value if len(set(values)) == 1 else statistics.fmean(values)
        if len(values) > 1 and len(set(values)) > 1 and "spread" not in row:
            row["spread"] = statistics.stdev(values)
    return row


def mean_probes(seeds: Sequence[dict[str, list[dict[str, Any]]]]) -> dict[str, list[dict[str, Any]]]:
    names = dict.fromkeys(name for probes in seeds for name in probes)
    return {name: mean_tables([probes[name] for probes in seeds if name in probes]) for name in names}


def compare_trials(first: Sequence[Trial], other: Sequence[Trial]) -> float | None:
    """The p-value of the difference between two variants on the same text, over the seeds that both have: BLEU of
    translations, else the loss of pieces of the validation text."""
    seeds = {trial.seed: trial for trial in first}
    pairs = [(seeds[trial.seed], trial) for trial in other if trial.seed in seeds]
    if not pairs:
        return None
    if all((trial.folder / HYPOTHESES_FILE).exists() for pair in pairs for trial in pair):
        references = [line for a, _ in pairs for line in read_lines(a.folder / REFERENCES_FILE)]
        ours, theirs = (
            [line for pair in pairs for line in read_lines(pair[side].folder / HYPOTHESES_FILE)] for side in (0, 1)
        )
        if len(ours) != len(theirs) or len(ours) != len(references):
            return None
        return paired_bootstrap(ours, theirs, references).p_value
    pieces = [[r["pieces"] for pair in pairs if (r := pair[side].result) and "pieces" in r] for side in (0, 1)]
    if not all(pieces):
        return None
    ours_array, theirs_array = (np.array([piece for seed in one for piece in seed]) for one in pieces)
    if ours_array.shape != theirs_array.shape:
        return None
    return bootstrap_losses(ours_array, theirs_array)


def bootstrap_losses(one: np.ndarray, other: np.ndarray, resamples: int = RESAMPLES) -> float:
    """Two-sided p-value of the difference of mean losses, from [nats, tokens] of the same pieces (N, 2)."""
    chance = np.random.default_rng(BOOTSTRAP_SEED)
    drawn = chance.integers(len(one), size=(resamples, len(one)))
    means = [pieces[drawn, 0].sum(1) / pieces[drawn, 1].sum(1) for pieces in (one, other)]
    differences = means[1] - means[0]
    observed = other[:, 0].sum() / other[:, 1].sum() - one[:, 0].sum() / one[:, 1].sum()
    # As sacreBLEU does it: how often a difference, centred on 0, is as large as the one observed.
    return float((np.sum(np.abs(differences - differences.mean()) >= abs(observed)) + 1) / (resamples + 1))


def read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (cost, quality) that no other beats in both, by growing cost."""
    order = sorted(range(len(points)), key=lambda index: (points[index][0], -points[index][1]))
    front: list[int] = []
    best = -np.inf
    for index in order:
        if points[index][1] > best:
            front.append(index)
            best = points[index][1]
    return front


def quality_measure(rows: Sequence[Row]) -> tuple[str, bool]:
    """The measure that rows are ranked by, and whether higher is better."""
    for name in ("bleu", "accuracy"):
        if any(name in row.measures for row in rows):
            return name, True
    return "loss", False


def to_json(rows: Sequence[Row], **facts: Any) -> str:
    return json.dumps({**facts, "rows": [asdict(row) for row in rows]}, indent=1, ensure_ascii=False) + "\n"


def to_csv(rows: Sequence[Row]) -> str:
    """One line for each variant; spreads in columns of their own."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    axes = list(dict.fromkeys(axis for row in rows for axis in row.choices))
    columns = [name for measure in MEASURES for name in (measure, f"{measure}_spread")]
    writer.writerow(["variant", *axes, "status", "reason", "seeds", "parameters", "how", "p_value", *columns])
    for row in rows:
        numbers: list[Any] = []
        for measure in MEASURES:
            found = row.measures.get(measure)
            numbers += ["", ""] if found is None else [found.mean, "" if found.spread is None else found.spread]
        chosen = [row.choices.get(axis, "") for axis in axes]
        p_value = "" if row.p_value is None else row.p_value
        writer.writerow(
            [row.name, *chosen, row.status, row.reason, row.seeds, row.parameters, row.how, p_value, *numbers]
        )
    return output.getvalue()
