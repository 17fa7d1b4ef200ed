"""What happened: history.jsonl in the model directory, and TensorBoard if asked for."""

import json
import math
from pathlib import Path
from typing import Any

from headway.config.config import write_atomically
from headway.errors import HeadwayError


class History:
    """One JSON object a line: {"kind": "step" | "validation" | "end", "step": …, …}."""

    def __init__(self, out: Path, since: int = 0, tensorboard: bool = False) -> None:
        """`since`: the step that a run goes on from. What an earlier run did after it is done again."""
        self.board: Any = _board(out / "tensorboard", since) if tensorboard else None
        past = [entry for entry in read_history(out) if entry["step"] <= since]
        write_atomically(out / "history.jsonl", "".join(json.dumps(entry) + "\n" for entry in past))
        self.file = (out / "history.jsonl").open("a", encoding="utf-8")

    def add(self, kind: str, step: int, **values: Any) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        self.file.write(json.dumps({"kind": kind, "step": step, **known}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in known.items():
                curves = (
                    {f"/{place}": part for place, part in enumerate(value)} if isinstance(value, list) else {"": value}
                )
                for place, part in curves.items():
                    if isinstance(part, int | float):
                        self.board.add_scalar(f"{kind}/{name}{place}", part, step)

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()


class Silence(History):
    """For a process that leaves the writing to another."""

    def __init__(self) -> None: ...

    def add(self, kind: str, step: int, **values: Any) -> None: ...

    def close(self) -> None: ...


def read_history(out: Path) -> list[dict[str, Any]]:
    """All of it but a last line that was cut off in the middle, when the machine went down."""
    path = out / "history.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        entries = [dict(json.loads(line)) for line in lines]
        if all(isinstance(entry["step"], int) and isinstance(entry["kind"], str) for entry in entries):
            return entries
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    raise HeadwayError(f"{path} is damaged. Move it away: the training goes on without it.")


def _board(folder: Path, since: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise HeadwayError("TensorBoard is not installed. Type: pip install 'headway[tensorboard]'") from None
    return SummaryWriter(str(folder), purge_step=since + 1)


def finite(number: float | list[float]) -> float | list[float | None] | None:
    """JSON has no word for the others. Of many numbers, as the load of experts, a few digits each."""
    if isinstance(number, list):
        return [round(part, 5) if math.isfinite(part) else None for part in number]
    return number if math.isfinite(number) else None
