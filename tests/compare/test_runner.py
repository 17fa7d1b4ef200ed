"""In what order trials run, and when costs by length are measured."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headway.compare.axes import Variant
from headway.compare.parameter_budget import Fit
from headway.compare.runner import Runner
from headway.compare.trials import LENGTHS_FILE, RESULT_FILE, Trial

WORKER = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[3])
if folder.name.startswith("broken") and "lengths" not in sys.argv:
    raise SystemExit(3)
if "lengths" in sys.argv:
    results = [path for path in folder.parent.glob("*/result.json")]
    content = {"lengths": [8], "points": [], "results": len(results)}
    (folder / "lengths.json").write_text(json.dumps(content))
else:
    (folder / "result.json").write_text("{}")
"""


class Listener:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, bool]] = []
        self.numbers: list[tuple[int, int]] = []

    def on_start(self, trial: Trial, number: int, total: int, measures_lengths: bool) -> None:
        self.events.append(("start", trial.name, measures_lengths))
        self.numbers.append((number, total))

    def on_progress(self, running: Sequence[tuple[Trial, float]], finished: int, total: int) -> None:
        assert finished + len(running) <= total

    def on_end(self, trial: Trial, measures_lengths: bool) -> None:
        self.events.append(("end", trial.name, measures_lengths))


@pytest.fixture
def fake_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of Python with `-m headway.compare.trial_worker FOLDER DEVICE THREADS`: writes results at once."""
    (tmp_path / "worker.py").write_text(WORKER)
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{tmp_path / "worker.py"}" "$@"\n')
    os.chmod(script, 0o755)
    monkeypatch.setattr("headway.compare.runner.sys.executable", str(script))
    monkeypatch.setattr("headway.compare.runner.POLL_SECONDS", 0.01)


def make_trials(folder: Path, names: Sequence[str], seeds: int) -> list[Trial]:
    """As a plan has them: all seeds of a variant, then those of the next. Costs by length are of seed 1."""
    return [
        Trial(
            Variant(name, {}, []), Fit([], 0, ""), seed, folder / f"{name}-{seed}",
            {"lengths": [8] if seed == 1 else []},
        )
        for name in names for seed in range(1, seeds + 1)
    ]  # fmt: skip


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.usefixtures("fake_worker")
def test_first_one_seed_of_each_variant_and_last_the_costs_by_length(tmp_path: Path, jobs: int) -> None:
    trials = make_trials(tmp_path / "runs", ["a", "broken", "c"], seeds=2)
    listener = Listener()
    Runner(trials, listener, jobs=jobs, device="cpu").run()
    started = [event[1:] for event in listener.events if event[0] == "start"]
    assert [trial.seed for trial in trials] == [1, 2, 1, 2, 1, 2]
    training = ["a, seed 1", "broken, seed 1", "c, seed 1", "a, seed 2", "broken, seed 2", "c, seed 2"]
    measuring = ["a, seed 1", "c, seed 1"]  # a variant that failed has no costs
    assert started == [(name, False) for name in training] + [(name, True) for name in measuring]
    assert listener.numbers == [(number, 6) for number in range(1, 7)] + [(1, 2), (2, 2)]
    first = listener.events.index(("start", "a, seed 1", True))
    ended = [event for event in listener.events[:first] if event[0] == "end"]
    assert len(ended) == len(trials)  # nothing is trained beside a measurement
    for trial in trials:
        assert (trial.result is None) == trial.name.startswith("broken") == bool(trial.failure)
        assert trial.folder.joinpath(LENGTHS_FILE).exists() == (trial.name in measuring)
    for trial in (trials[0], trials[4]):
        assert json.loads(trial.folder.joinpath(LENGTHS_FILE).read_text())["results"] == 4


@pytest.mark.usefixtures("fake_worker")
def test_only_what_is_missing_runs(tmp_path: Path) -> None:
    trials = make_trials(tmp_path / "runs", ["a", "b"], seeds=1)
    trials[0].folder.mkdir(parents=True)
    (trials[0].folder / RESULT_FILE).write_text("{}")
    listener = Listener()
    Runner(trials, listener, device="cpu").run()
    assert [event[1:] for event in listener.events if event[0] == "start"] == [
        ("b, seed 1", False), ("a, seed 1", True), ("b, seed 1", True),
    ]  # fmt: skip
    assert listener.numbers[0] == (2, 2)
    Runner(trials, again := Listener(), device="cpu").run()
    assert again.events == []
