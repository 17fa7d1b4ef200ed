"""Loggers: what a run reports, sent to TensorBoard, Weights & Biases, MLflow, a CSV file, or wherever you like.

    log="tensorboard,csv"            by name, in Python and as `--log`
    log=["csv", MyLogger()]          any object with start, log and finish

History.add() ─► flatten_values() ─► Logger.log(kind, step, {"loss": 2.5, …}) of each

history.jsonl is always written, too. Packages are imported when a logger is made, and none is needed otherwise. A
logger that fails during the run is left out from there on, with a note: it never ends a training."""

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.files.atomic import atomic_file, write_text_atomically

CSV_FILE = "metrics.csv"
RUN_IDS_FILE = "loggers.json"  # the ids of this run in W&B and MLflow, so that it resumes there, too
MAX_MLFLOW_PARAMS = 100  # in one request
MAX_MLFLOW_VALUE = 500  # characters


class LoggedRun(NamedTuple):
    """What a logger is told at the start."""

    folder: Path  # the model directory
    settings: dict[str, Any]  # all of the config, by path: {"train.seed": 1, …}
    step: int  # that the run resumes from; 0: a new one


class Logger(Protocol):
    """Receives the reports of a run, in the main process."""

    def start(self, run: LoggedRun) -> None: ...

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """kind: "step" (a progress report), "validation" or "end"."""

    def finish(self) -> None: ...


class CsvLogger:
    """A table with a row for each report: metrics.csv in the model directory."""

    def start(self, run: LoggedRun) -> None:
        self.path = run.folder / CSV_FILE
        self.columns = ["kind", "step"]
        rows: list[dict[str, str]] = []
        if run.step and self.path.exists():
            with self.path.open(newline="", encoding="utf-8") as file:
                reader = csv.DictReader(file)
                self.columns = list(reader.fieldnames or self.columns)
                rows = [row for row in reader if (row.get("step") or "").isdigit() and int(row["step"]) <= run.step]
        self._write(rows)

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        new = [name for name in values if name not in self.columns]
        if new:  # the first report of its kind: the header grows
            with self.path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            self.columns += new
            self._write(rows)
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow({"kind": kind, "step": step, **values})

    def finish(self) -> None:
        """Every row is on disk already."""

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with atomic_file(self.path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)


class TensorBoardLogger:
    """Event files in the folder tensorboard of the model directory."""

    def __init__(self) -> None:
        self.module = _import("torch.utils.tensorboard", "TensorBoard", "headway[tensorboard]")

    def start(self, run: LoggedRun) -> None:
        self.writer = self.module.SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.step + 1)

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(f"{kind}/{name}", value, step)

    def finish(self) -> None:
        self.writer.close()


class WandbLogger:
    """A run of Weights & Biases. Project, entity, mode and key are those of its own environment variables."""

    def __init__(self) -> None:
        self.module = _import("wandb", "Weights & Biases", "wandb")

    def start(self, run: LoggedRun) -> None:
        own_id = os.environ.get("WANDB_RUN_ID") or _read_run_id(run, "wandb")
        project = os.environ.get("WANDB_PROJECT") or "headway"
        name = os.environ.get("WANDB_NAME") or run.folder.resolve().name
        self.run = self.module.init(
            project=project, name=name, dir=str(run.folder), config=run.settings, id=own_id, resume="allow"
        )
        _write_run_id(run, "wandb", self.run.id)

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        self.run.log({f"{kind}/{name}": value for name, value in values.items()}, step=step)

    def finish(self) -> None:
        self.run.finish()


class MlflowLogger:
    """A run of MLflow. Server and experiment are those of its own environment variables."""

    def __init__(self) -> None:
        self.module = _import("mlflow", "MLflow", "mlflow")

    def start(self, run: LoggedRun) -> None:
        known = _read_run_id(run, "mlflow")
        started = self.module.start_run(run_id=known, run_name=None if known else run.folder.resolve().name)
        if known is None:  # parameters of a run cannot be changed
            params = [(name, str(value)[:MAX_MLFLOW_VALUE]) for name, value in run.settings.items()]
            for first in range(0, len(params), MAX_MLFLOW_PARAMS):
                self.module.log_params(dict(params[first : first + MAX_MLFLOW_PARAMS]))
        _write_run_id(run, "mlflow", started.info.run_id)

    def log(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        self.module.log_metrics({f"{kind}/{name}": value for name, value in values.items()}, step=step)

    def finish(self) -> None:
        self.module.end_run()


LOGGERS: dict[str, Callable[[], Logger]] = {
    "csv": CsvLogger,
    "mlflow": MlflowLogger,
    "tensorboard": TensorBoardLogger,
    "wandb": WandbLogger,
}


def make_loggers(given: str | Sequence[str | Logger]) -> list[Logger]:
    """Loggers from names ("tensorboard,csv") and objects, each name once. Raises where a package is missing."""
    parts = given.split(",") if isinstance(given, str) else given
    loggers: dict[Any, Logger] = {}
    for part in parts:
        if not isinstance(part, str):
            missing = [name for name in ("start", "log", "finish") if not callable(getattr(part, name, None))]
            if missing:
                raise ConfigError(f"{type(part).__name__} is no logger: it has no {missing[0]}.", "log")
            loggers[id(part)] = part
        elif name := part.strip().lower():
            if name not in LOGGERS:
                hint = did_you_mean(name, list(LOGGERS))
                raise ConfigError(f'there is no logger "{name}".{hint} Known: {", ".join(LOGGERS)}.', "log")
            loggers[name] = loggers.get(name) or LOGGERS[name]()
    return list(loggers.values())


def flatten_values(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a report. A list, such as the load of experts, is one value for each entry: load/0, load/1 …"""
    flat: dict[str, float] = {}
    for name, value in values.items():
        is_list = isinstance(value, list)
        parts = {f"{name}/{index}": part for index, part in enumerate(value)} if is_list else {name: value}
        flat |= {key: part for key, part in parts.items() if isinstance(part, int | float)}
    return flat


class LoggerList:
    """Loggers of a run. One that fails is dropped with a note."""

    def __init__(self, loggers: Sequence[Logger], note: Callable[[str], None]) -> None:
        self.loggers = list(loggers)
        self.note = note

    def start(self, run: LoggedRun) -> None:
        for logger in self.loggers:
            try:
                logger.start(run)
            except Exception as error:
                name = type(logger).__name__
                raise HeadwayError(
                    f"{name} could not be started: {type(error).__name__}: {error}. Put it right, or train without it."
                ) from error

    def log(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        flat = flatten_values(values)
        self._call("log", kind, step, flat)

    def finish(self) -> None:
        self._call("finish")

    def _call(self, method: str, *given: Any) -> None:
        for logger in list(self.loggers):
            try:
                getattr(logger, method)(*given)
            except Exception as error:
                self.loggers.remove(logger)
                name = type(logger).__name__
                self.note(f"{name} failed and is left out from here on: {type(error).__name__}: {error}")


def _import(module: str, name: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise HeadwayError(f"{name} is not installed. Type: pip install '{package}'") from None


def _read_run_ids(run: LoggedRun) -> dict[str, str]:
    try:
        ids = json.loads((run.folder / RUN_IDS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in ids.items()} if isinstance(ids, dict) else {}


def _read_run_id(run: LoggedRun, service: str) -> str | None:
    """The id that this run had when it was interrupted."""
    return _read_run_ids(run).get(service) if run.step else None


def _write_run_id(run: LoggedRun, service: str, value: str) -> None:
    write_text_atomically(run.folder / RUN_IDS_FILE, json.dumps({**_read_run_ids(run), service: value}) + "\n")
