"""What is done beside something else is done when that is over, and keeps its troubles to itself."""

import subprocess
import sys
import threading

import pytest
import torch

from headway.train.prewarm import prewarm_torch

LOADED = """
import sys, torch
from headway.train.prewarm import prewarm_torch
assert "torch._dynamo" not in sys.modules
with prewarm_torch(torch.device("cpu")):
    pass
assert "torch._dynamo" in sys.modules
"""


def test_the_compiler_is_loaded_in_the_meantime() -> None:
    subprocess.run([sys.executable, "-c", LOADED], check=True)


def test_no_thread_is_left_and_no_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no GPU")

    monkeypatch.setattr(torch, "zeros", failing)
    before = threading.active_count()
    with pytest.raises(ValueError, match="mine"), prewarm_torch(torch.device("cuda")):
        raise ValueError("mine")
    assert threading.active_count() == before
