"""How much of a run's work may go into retries: a model that is hardly trained has a fault in nearly every output, and
searching for all of them again would take many times as long as the translation itself.

The rule: a retry is made as long as all retries so far cost at most MIN_RETRY_COST + MAX_RETRY_SHARE times the first
searches of all sentences so far, in the order of the text. Costs are counted in steps of a hypothesis, never in
seconds, so that the same lines have the same retries on any machine, however they were grouped. A model whose outputs
have a fault in fewer than one of five sentences has all its retries; so has any text of a few dozen sentences."""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MAX_RETRY_SHARE = 1.0  # of the cost of the first searches
SKIPPED_WARNING = "not searched for again: too many outputs have faults"
MIN_RETRY_COST = 50_000.0  # in steps of a hypothesis: about 50 to 100 retries


class SentenceCost(NamedTuple):
    """What a sentence has cost, and what its retry would cost: 0 if it needs none."""

    search: float
    retry: float


AdmitRetries = Callable[[Sequence[SentenceCost]], list[bool]]


class LineOrder:
    """The order of groups of lines that are searched concurrently: each counts when those before it have ended."""

    def __init__(self) -> None:
        self._finished_lines = 0
        self._changed = threading.Condition()

    def wait_for_turn(self, first_line: int) -> None:
        with self._changed:
            while self._finished_lines < first_line:
                self._changed.wait()

    def finish_lines(self, count: int) -> None:
        """All lines before this one have been translated, or have failed."""
        with self._changed:
            self._finished_lines = max(self._finished_lines, count)
            self._changed.notify_all()


class RetryBudget:
    """Of one run: a file, an evaluation, a request, a call of `translate`."""

    def __init__(self, order: LineOrder | None = None) -> None:
        self.skipped = 0  # retries that were not made
        self._order = order
        self._search_cost = 0.0
        self._retry_cost = 0.0
        self._lock = threading.Lock()

    def admit(self, costs: Sequence[SentenceCost], first_line: int = 0) -> list[bool]:
        """Whether each of these sentences, in order, is searched for again.

        first_line: of the group of lines that they are part of"""
        if self._order is not None:
            self._order.wait_for_turn(first_line)
        admitted = []
        with self._lock:
            for cost in costs:
                self._search_cost += cost.search
                limit = MIN_RETRY_COST + MAX_RETRY_SHARE * self._search_cost
                allowed = bool(cost.retry) and self._retry_cost + cost.retry <= limit
                admitted.append(allowed)
                self._retry_cost += cost.retry if allowed else 0.0
                self.skipped += bool(cost.retry) and not allowed
        return admitted


def count_skipped_retries(warnings: Iterable[Sequence[str]]) -> int:
    """How many faulty outputs were not searched for again, by the warnings of each line."""
    return sum(warning.endswith(SKIPPED_WARNING) for own in warnings for warning in own)


def describe_skipped_retries(count: int) -> str:
    """For the user, once for a run."""
    return (
        f"not searched for again: {count:,} faulty output{'s' * (count != 1)} (loops, copies, lost numbers …). "
        "There were so many that retries would have taken longer than the translation itself. "
        "The model may be trained too little, or the text be in another language than it reads"
    )
