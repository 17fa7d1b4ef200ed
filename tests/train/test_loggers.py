"""Loggers: each receives what history.jsonl holds, in the calls that its package has; none can end a run.

W&B and MLflow are stand-in modules with the names and parameters of the real ones."""

import csv
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from quick_training import PAIRS, QUICK

import headway
from headway.cli.app import main
from headway.errors import ConfigError, HeadwayError
from headway.train.history import History, read_history
from headway.train.loggers import LoggedRun, LoggerList, flatten_values, make_loggers


def open_history(out: Path, loggers: Any, since: int = 0) -> tuple[History, list[str]]:
    notes: list[str] = []
    made = LoggerList(make_loggers(loggers), notes.append)
    made.start(LoggedRun(out, {"train.seed": 1}, since))
    return History(out, since, made), notes


class Wandb(ModuleType):
    """wandb.init() -> Run with id, log, finish."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.calls: list[Any] = []

    def init(
        self,
        entity: str | None = None,
        project: str | None = None,
        dir: str | None = None,
        id: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | None = None,
        resume: str | None = None,
    ) -> Any:
        self.calls.append(("init", project, name, id, resume, config))
        return SimpleNamespace(id=id or "abc1", log=self.log, finish=lambda: self.calls.append("finish"))

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        self.calls.append((step, data))


class Mlflow(ModuleType):
    """mlflow.start_run() -> ActiveRun with info.run_id; log_params, log_metrics, end_run of the module."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.calls: list[Any] = []

    def start_run(
        self, run_id: str | None = None, experiment_id: str | None = None, run_name: str | None = None
    ) -> Any:
        self.calls.append(("start_run", run_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id or "f00"))

    def log_params(self, params: dict[str, Any], synchronous: bool | None = None) -> None:
        assert len(params) <= 100 and all(len(value) <= 500 for value in params.values())
        self.calls.append(("params", params))

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.calls.append((step, metrics))

    def end_run(self, status: str = "FINISHED") -> None:
        self.calls.append("end_run")


def test_wandb_gets_every_report_and_resumes_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    headway.train(PAIRS, out=tmp_path / "m", log="wandb", **{**QUICK, "steps": 2})
    first, *logged, last = wandb.calls
    assert first[:5] == ("init", "headway", "m", None, "allow") and first[5]["train.steps"] == 2
    entries = read_history(tmp_path / "m")
    assert [step for step, _ in logged] == [entry["step"] for entry in entries] and last == "finish"
    assert [data[f"{entry['kind']}/loss"] for (_, data), entry in zip(logged, entries)] == [e["loss"] for e in entries]
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    wandb.calls.clear()
    headway.train(PAIRS, out=tmp_path / "m", log=["wandb"], **QUICK)
    assert wandb.calls[0][:5] == ("init", "mine", "m", "abc1", "allow")
    assert [call[0] for call in wandb.calls[1:-1]] == [4, 4, 4]


def test_mlflow_gets_every_report_and_resumes_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    headway.train(PAIRS, out=tmp_path / "m", log="mlflow", **{**QUICK, "steps": 2})
    assert mlflow.calls[0] == ("start_run", None, "m") and mlflow.calls[-1] == "end_run"
    params = [call[1] for call in mlflow.calls if call[0] == "params"]
    assert {name: value for part in params for name, value in part.items()}["train.steps"] == "2"
    reports = [call for call in mlflow.calls[1:-1] if call[0] != "params"]
    entries = read_history(tmp_path / "m")
    assert [values[f"{entry['kind']}/loss"] for (_, values), entry in zip(reports, entries)] == [
        entry["loss"] for entry in entries
    ]
    mlflow.calls.clear()
    headway.train(PAIRS, out=tmp_path / "m", log="mlflow", **QUICK)
    assert mlflow.calls[0] == ("start_run", "f00", None)
    assert "params" not in [call[0] for call in mlflow.calls]


def test_an_id_file_that_is_damaged_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Mlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    for text in ("{", "[]"):
        (tmp_path / "loggers.json").write_text(text)
        open_history(tmp_path, "mlflow", since=5)[0].close()
    assert [call[1] for call in mlflow.calls if call[0] == "start_run"] == [None, None]


def test_csv_is_one_table(tmp_path: Path) -> None:
    history, _ = open_history(tmp_path, "csv")
    history.add("step", 10, loss=1.5, chosen="words are no number", load=[0.25, 0.75])
    history.add("validation", 10, loss=1.25, bleu=3.0)
    history.add("step", 20, loss=1.0)
    history.close()
    again, _ = open_history(tmp_path, "csv", since=10)
    again.add("step", 20, loss=0.5, more=1)
    again.close()
    with (tmp_path / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["kind", "step", "loss", "load/0", "load/1", "bleu", "more"]
    assert [(row["kind"], row["step"], row["loss"], row["bleu"]) for row in rows] == [
        ("step", "10", "1.5", ""),
        ("validation", "10", "1.25", "3.0"),
        ("step", "20", "0.5", ""),
    ]
    assert [len(row) for row in rows] == [7, 7, 7]


def test_tensorboard_has_a_curve_for_each_number(tmp_path: Path) -> None:
    history, _ = open_history(tmp_path, "tensorboard")
    history.add("step", 10, loss=1.5, chosen="words are no curve", **{"encoder.0.load": [0.25, None, 0.75]})
    history.close()
    [events] = (tmp_path / "tensorboard").iterdir()
    written = events.read_bytes()
    assert b"step/loss" in written and b"words" not in written
    assert b"step/encoder.0.load/0" in written and b"step/encoder.0.load/2" in written
    assert b"step/encoder.0.load/1" not in written


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("tensorboard", "torch.utils.tensorboard", r"headway\[tensorboard\]"),
        ("wandb", "wandb", "wandb"),
        ("mlflow", "mlflow", "mlflow"),
    ],
)
def test_a_missing_package_is_named_before_anything_is_read(
    name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(HeadwayError, match=f"is not installed. Type: pip install '{package}'"):
        headway.train(iter(PAIRS), out=tmp_path / "m", log=name, **QUICK)
    assert not (tmp_path / "m").exists()


def test_the_command_line_takes_names(toy: Path, tmp_path: Path) -> None:
    words = ["-q", "train", "--pairs", str(tmp_path / "a.tsv"), "--preset", "tiny", "--steps", "2"]
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    small = [word for path, value in QUICK["set"].items() for word in ("--set", f"{path}={value}")]
    assert main([*words, *small, "--log", "csv", "--tensorboard", "--out", str(tmp_path / "m")]) == 0
    assert (tmp_path / "m" / "metrics.csv").exists() and list((tmp_path / "m" / "tensorboard").glob("events*"))


class Mine:
    """A logger of one's own, which may fail."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.seen: list[tuple[str, int]] = []

    def start(self, run: LoggedRun) -> None:
        self._fail("start")
        self.seen.append((run.folder.name, run.step))

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        self._fail("log")
        self.seen.append((kind, step))

    def finish(self) -> None:
        self._fail("finish")
        self.seen.append(("finish", 0))

    def _fail(self, method: str) -> None:
        if method == self.fails:
            raise ConnectionError("no route")


def test_a_logger_of_ones_own(tmp_path: Path) -> None:
    mine = Mine()
    headway.train(PAIRS, out=tmp_path / "m", log=[mine, "csv", "csv "], **QUICK)
    assert mine.seen == [
        ("m", 0), ("step", 2), ("validation", 2), ("step", 4), ("validation", 4), ("end", 4), ("finish", 0)
    ]  # fmt: skip


def test_a_logger_that_fails_is_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    broken, whole = Mine("log"), Mine()
    history, notes = open_history(tmp_path, [broken, whole, Mine("finish")])
    history.add("step", 1, loss=2.0)
    history.add("step", 2, loss=1.0)
    history.close()
    assert notes == ["Mine failed and is left out from here on: ConnectionError: no route"] * 2
    assert whole.seen[1:] == [("step", 1), ("step", 2), ("finish", 0)]
    assert [entry["step"] for entry in read_history(tmp_path)] == [1, 2]


def test_a_logger_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="Mine could not be started: ConnectionError: no route. Put it right, or"):
        open_history(tmp_path, [Mine("start")])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("csv,tensorbord", 'there is no logger "tensorbord". Did you mean "tensorboard"'),
        ([object()], "log: object is no logger: it has no start"),
    ],
)
def test_what_is_no_logger(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_loggers(given)


def test_values() -> None:
    assert flatten_values({"a": 1, "b": [1.5, None], "c": "word", "d": None}) == {"a": 1, "b/0": 1.5}
    assert make_loggers("") == make_loggers(()) == []
    assert list(inspect.signature(Mlflow.start_run).parameters)[1] == "run_id"
