"""The training log: history.jsonl in the model directory, and TensorBoard on request."""

import json
import math
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically


class History:
    """Writes one JSON object a line: {"kind": "step" | "validation" | "end", "step": …, …}."""

    def __init__(self, out: Path, since: int = 0, tensorboard: bool = False) -> None:
        """`since`: the step that a run resumes from. Entries of an earlier run after that step are dropped."""
        self.board: Any = _open_tensorboard(out / "tensorboard", since) if tensorboard else None
        entries = [entry for entry in read_history(out) if entry["step"] <= since]
        write_text_atomically(out / "history.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
        self.file = (out / "history.jsonl").open("a", encoding="utf-8")

    def add(self, kind: str, step: int, **values: Any) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        self.file.write(json.dumps({"kind": kind, "step": step, **known}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in known.items():
                is_list = isinstance(value, list)
                curves = {f"/{index}": part for index, part in enumerate(value)} if is_list else {"": value}
                for suffix, part in curves.items():
                    if isinstance(part, int | float):
                        self.board.add_scalar(f"{kind}/{name}{suffix}", part, step)

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()


class NullHistory(History):
    """Writes nothing, in processes other than the main one."""

    def __init__(self) -> None: ...

    def add(self, kind: str, step: int, **values: Any) -> None: ...

    def close(self) -> None: ...


def read_history(out: Path) -> list[dict[str, Any]]:
    """All entries, except a last line that was cut off when the machine went down."""
    path = out / "history.jsonl"
    try:
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        entries = [dict(json.loads(line)) for line in lines]
        if all(isinstance(entry["step"], int) and isinstance(entry["kind"], str) for entry in entries):
            return entries
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    raise HeadwayError(f"{path} is damaged. Move it away: training resumes without it.")


def _open_tensorboard(folder: Path, since: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise HeadwayError("TensorBoard is not installed. Type: pip install 'headway[tensorboard]'") from None
    return SummaryWriter(str(folder), purge_step=since + 1)


def to_json_number(number: float | list[float]) -> float | list[float | None] | None:
    """None for NaN and infinity, which JSON does not have. Lists, such as the load of experts, are rounded."""
    if isinstance(number, list):
        return [round(part, 5) if math.isfinite(part) else None for part in number]
    return number if math.isfinite(number) else None
