"""A job of the batch queue: what one request wants translated with one set of options, and how far it has come.

text ── read ──► sentences, one plan each ── calls, in slices with those of other jobs ──► join ──► result"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from headway.serve.queue_budget import Reservation
from headway.translate.search_calls import Call, Plan

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
COST_PER_TOKEN = 4.8  # steps of a hypothesis for a source token, with a beam of four
BYTES_PER_TOKEN = 3  # a guess that suits both alphabets and Chinese; reading counts exactly


def estimate_tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 2


class TextStages(Protocol[R_co]):
    """How the texts of a job are translated: see headway.translate.search.TranslationStages."""

    def read(self, index: int) -> Sequence[Plan[Any]]:
        """A plan for each sentence of a text."""

    def join(self, index: int) -> R_co:
        """The result of a text, when all its plans have ended."""


class PendingCall(NamedTuple):
    """A call that waits, and the plan that goes on after it."""

    job: "QueuedJob[Any]"
    text: int
    plan: Plan[Any]
    call: Call
    cost: float  # expected
    max_cost: float


@dataclass(eq=False)
class QueuedJob(Generic[R]):
    """Its lists and counts are changed under the queue's lock."""

    texts: Sequence[str]
    begin: Callable[[], TextStages[R]]
    reservation: Reservation | None = None
    answer: "Future[list[R]]" = field(default_factory=Future)
    submitted: float = field(default_factory=time.monotonic)
    taken_texts: int = 0  # how many texts threads have begun to read
    read_texts: int = 0
    pending: dict[Hashable, deque[PendingCall]] = field(default_factory=dict)  # by the key of the call
    plans_left: dict[int, int] = field(default_factory=dict)  # of each text that has been read
    results: dict[int, R] = field(default_factory=dict)
    cost: float = 0.0  # of the first call of each plan, expected
    _stages: TextStages[R] | None = None
    _stages_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def stages(self) -> TextStages[R]:
        """Made by the first thread that needs them."""
        with self._stages_lock:
            if self._stages is None:
                self._stages = self.begin()
            return self._stages

    @property
    def is_unread(self) -> bool:
        return self.taken_texts < len(self.texts)

    @property
    def is_ready(self) -> bool:
        """Whether all of it has been read, so that its cost is known, and calls wait."""
        return bool(self.pending) and self.read_texts == len(self.texts)

    def estimate_rest(self) -> float:
        """The cost of what waits."""
        unread = COST_PER_TOKEN * sum(map(estimate_tokens, self.texts[self.taken_texts :]))
        return unread + sum(item.cost for calls in self.pending.values() for item in calls)

    def add(self, item: PendingCall) -> None:
        self.pending.setdefault(item.call.key, deque()).append(item)

    def pop(self, key: Hashable) -> PendingCall:
        item = self.pending[key].popleft()
        if not self.pending[key]:
            del self.pending[key]
        return item

    def finish(self, index: int, result: R) -> None:
        self.results[index] = result
        if len(self.results) == len(self.texts) and not self.answer.done():
            _settle(self.answer.set_result, [self.results[n] for n in range(len(self.texts))])

    def set_exception(self, error: BaseException) -> None:
        if not self.answer.done():
            _settle(self.answer.set_exception, error)


def _settle(set_outcome: Callable[[Any], None], value: Any) -> None:
    try:
        set_outcome(value)
    except Exception:  # it was cancelled in between: nobody waits
        return
