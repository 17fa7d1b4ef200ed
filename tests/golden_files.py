"""Golden numbers: tensors that reference implementations computed which cannot be installed beside ours.

The files lie in tests/golden. HEADWAY_GOLDEN names another folder of such files, made with other sizes: tests take
every size from the file's own config, so that they run on those too; what it lacks is read from tests/golden."""

import json
import os
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

OWN = Path(__file__).parent / "golden"
GOLDEN = Path(os.environ.get("HEADWAY_GOLDEN") or OWN)


def golden(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a golden file (in.*, w.*, out.*), and its config."""
    path = Path(f"{name}.safetensors")
    with safe_open(GOLDEN / path if (GOLDEN / path).exists() else OWN / path, "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["config"])  # noqa: SIM118
