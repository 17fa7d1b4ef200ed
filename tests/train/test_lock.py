"""Two trainings cannot share a directory, and a lock never outlives its training."""

from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.train.checkpoints import lock_directory


def test_a_second_training_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    with lock_directory(tmp_path):
        with (
            pytest.raises(HeadwayError, match=f"another training run is writing to {tmp_path}"),
            lock_directory(tmp_path),
        ):
            raise AssertionError("both are at work")
        (tmp_path / "other").mkdir()
        with lock_directory(tmp_path / "other"):
            pass
    with lock_directory(tmp_path):
        pass


def test_an_error_opens_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="in training"), lock_directory(tmp_path):
        raise ValueError("in training")
    with lock_directory(tmp_path):
        pass
