"""What is done before the first step of a run, said while it is done: with much text it takes minutes."""

import time
from collections.abc import Callable

Log = Callable[[str], None]
REPORT_SECONDS = 5.0


def log_nothing(message: str) -> None: ...


class EncodingProgress:
    """How much of a corpus is encoded, or searched for, and how long the rest will take."""

    def __init__(self, log: Log, total: int, unit: str, verbs: tuple[str, str] = ("encoding", "encoded")) -> None:
        self.log = log
        self.total = total
        self.unit = unit
        self.started = self.reported = time.monotonic()
        self.done = verbs[1]
        log(f"{verbs[0]} {total:,} {unit}")

    def on_rows(self, count: int) -> None:
        now = time.monotonic()
        if now - self.reported < REPORT_SECONDS or not 0 < count < self.total:
            return
        self.reported = now
        left = (now - self.started) * (self.total - count) / count
        minutes, seconds = divmod(round(left), 60)
        self.log(f"{self.done} {count:,} of {self.total:,} {self.unit}, {minutes}:{seconds:02} left")
