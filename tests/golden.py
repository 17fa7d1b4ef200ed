"""Numbers of reference implementations that cannot be installed, where they lie beside the checkout or where
HEADWAY_GOLDEN says."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from torch import Tensor

GOLDEN = Path(os.environ.get("HEADWAY_GOLDEN", Path(__file__).parents[2] / "shared" / "golden"))


def golden(name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors (in.*, w.*, out.*) and config."""
    path = GOLDEN / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"the golden numbers are not here: {path}")
    with safe_open(path, "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["config"])  # noqa: SIM118
