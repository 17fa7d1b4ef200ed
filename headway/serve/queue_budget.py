"""What the batch queue has measured, and what it may hold: the speed of each kind of call, and tokens that wait."""

import threading

from headway.serve.errors import too_many_requests

SLICE_SECONDS = 0.25  # that the calls of a slice are expected to take: others wait that long for their turn
MAX_SLICE_SECONDS = 0.8  # that they take if every output reaches its maximum length
INITIAL_SPEED = 4000.0  # steps of a hypothesis a second, until something has been measured
MIN_MEASURED_ROWS = 8  # fewer sentences are translated at a lower speed, which says nothing about many
MIN_MEASURED_SECONDS = 0.02


class CallSpeed:
    """Steps of a hypothesis a second, by the kind of a call, as measured in slices of many sentences."""

    def __init__(self) -> None:
        self._speeds: dict[str, float] = {}

    def record(self, kind: str, cost: float, rows: int, seconds: float) -> None:
        if seconds < MIN_MEASURED_SECONDS:
            return
        measured = cost / seconds
        known = self._speeds.get(kind)
        if rows < MIN_MEASURED_ROWS and measured < (known or INITIAL_SPEED):
            return
        self._speeds[kind] = measured if known is None else known + 0.3 * (measured - known)

    def known(self, kind: str = "search") -> float | None:
        return self._speeds.get(kind)

    def fits_slice(self, kind: str, cost: float, max_cost: float) -> bool:
        """Whether calls of this expected and this maximum cost are computed soon enough."""
        speed = self._speeds.get(kind) or self._speeds.get("search") or INITIAL_SPEED
        return cost <= SLICE_SECONDS * speed and max_cost <= MAX_SLICE_SECONDS * speed


class QueueBudget:
    """How many tokens may wait in all queues together, and an estimate of how long they will take."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.used_tokens = 0
        self._tokens_per_second = 1000.0  # until something has been measured
        self.lock = threading.Lock()

    def reserve(self, tokens: int) -> "Reservation":
        """Refuses what does not fit; but a job larger than all of the budget is taken when nothing else waits."""
        with self.lock:
            if self.used_tokens and self.used_tokens + tokens > self.max_tokens:
                raise too_many_requests(self.used_tokens / self._tokens_per_second)
            self.used_tokens += tokens
        return Reservation(self, tokens)

    def record_speed(self, tokens: float, seconds: float) -> None:
        with self.lock:
            self._tokens_per_second += 0.2 * (tokens / max(seconds, 1e-4) - self._tokens_per_second)


class Reservation:
    """What a job takes of the budget."""

    def __init__(self, budget: QueueBudget, tokens: int) -> None:
        self._budget = budget
        self._tokens = tokens
        self._released = False

    def resize(self, tokens: int) -> None:
        """When its tokens have been counted. What has begun is not refused."""
        with self._budget.lock:
            if not self._released:
                self._budget.used_tokens += tokens - self._tokens
                self._tokens = tokens

    def release(self) -> None:
        with self._budget.lock:
            if not self._released:
                self._budget.used_tokens -= self._tokens
                self._released = True
