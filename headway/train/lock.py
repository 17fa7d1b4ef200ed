"""One training at a time writes to a directory."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.errors import HeadwayError


@contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Refuses where another is at work. The lock is the process's: however that ends, it is gone."""
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    with (out / "checkpoints" / "training.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeadwayError(
                f"another training is writing to {out}. Wait for its end, stop it, or choose another --out."
            ) from None
        yield
