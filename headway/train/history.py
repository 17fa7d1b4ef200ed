"""The training log: history.jsonl in the model directory, and the loggers of the run."""

import json
import math
from pathlib import Path
from typing import Any

from headway.files.atomic import write_text_atomically
from headway.storage.training_history import read_history as read_history
from headway.train.loggers import LoggerList


class History:
    """Writes one JSON object a line: {"kind": "step" | "validation" | "end", "step": …, …}."""

    def __init__(self, out: Path, since: int = 0, loggers: LoggerList | None = None) -> None:
        """`since`: the step that a run resumes from. Entries of an earlier run after that step are dropped. `loggers`,
        which have been started, are told of every entry."""
        self.loggers = loggers
        entries = [entry for entry in read_history(out) if entry["step"] <= since]
        write_text_atomically(out / "history.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
        self.file = (out / "history.jsonl").open("a", encoding="utf-8")

    def add(self, kind: str, step: int, **values: Any) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        self.file.write(json.dumps({"kind": kind, "step": step, **known}) + "\n")
        self.file.flush()
        if self.loggers is not None:
            self.loggers.log(kind, step, known)

    def close(self) -> None:
        self.file.close()
        if self.loggers is not None:
            self.loggers.finish()


class NullHistory(History):
    """Writes nothing, in processes other than the main one."""

    def __init__(self) -> None: ...

    def add(self, kind: str, step: int, **values: Any) -> None: ...

    def close(self) -> None: ...


def to_json_number(number: float | list[float]) -> float | list[float | None] | None:
    """None for NaN and infinity, which JSON does not have. Lists, such as the load of experts, are rounded."""
    if isinstance(number, list):
        return [round(part, 5) if math.isfinite(part) else None for part in number]
    return number if math.isfinite(number) else None
