"""kill -9 at any instant, also during saving, loses at most the steps since the last save."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize(
    ("seed", "kills"), [(1, 15), *(pytest.param(seed, 30, marks=pytest.mark.slow) for seed in range(2, 12))]
)
def test_kills_lose_nothing_that_was_saved(tmp_path: Path, seed: int, kills: int) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{HERE}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "killed.py"), str(tmp_path), str(seed), str(kills)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"steps survived {kills} kills" in done.stdout
