"""kill -9 at any instant, also during saving, loses at most the steps since the last save."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_thirty_kills_lose_nothing_that_was_saved(tmp_path: Path, seed: int) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{HERE}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "killed.py"), str(tmp_path), str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "steps survived 30 kills" in done.stdout
