"""What happened: history.jsonl in the model directory, and TensorBoard if asked for."""

import json
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError


class History:
    """One JSON object a line: {"kind": "step" | "validation" | "end", "step": …, …}."""

    def __init__(self, out: Path, tensorboard: bool = False) -> None:
        self.file = (out / "history.jsonl").open("a", encoding="utf-8")
        self.board: Any = _board(out / "tensorboard") if tensorboard else None

    def add(self, kind: str, step: int, **values: Any) -> None:
        known = {name: value for name, value in values.items() if value is not None}
        self.file.write(json.dumps({"kind": kind, "step": step, **known}) + "\n")
        self.file.flush()
        if self.board is not None:
            for name, value in known.items():
                if isinstance(value, int | float):
                    self.board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self.file.close()
        if self.board is not None:
            self.board.close()


def read_history(out: Path) -> list[dict[str, Any]]:
    path = out / "history.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise HeadwayError("TensorBoard is not installed. Type: pip install 'headway[tensorboard]'") from None
    return SummaryWriter(str(folder))
