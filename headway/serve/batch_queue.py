"""Texts of many connections, translated together: by tokens, with a little patience, fairly, each on its own account.

A job is what one request wants translated in one way. A thread takes texts of all the jobs that want the same, one of
each in turn, so that nobody waits behind another's long list."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headway.serve.errors import slow_down

R = TypeVar("R")
PAUSE = 0.1  # share of a batch's time
LEAST = 64  # tokens: fewer are not worth a thread of their own
BYTES_A_TOKEN = 3  # a guess that suits both an alphabet and Chinese; the translator counts exactly


def tokens_of(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN + 2


@dataclass(eq=False)
class Job(Generic[R]):
    how: Hashable
    texts: Sequence[str]
    answer: "Future[list[R]]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)
    taken: int = 0
    found: dict[int, R] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = [tokens_of(text) for text in self.texts]

    def finish(self, index: int, result: R) -> None:
        self.found[index] = result
        if len(self.found) == len(self.texts) and not self.answer.done():
            _settle(self.answer.set_result, [self.found[n] for n in range(len(self.texts))])

    def break_off(self, error: BaseException) -> None:
        if not self.answer.done():
            _settle(self.answer.set_exception, error)


def _settle(how: Callable[[Any], None], value: Any) -> None:
    try:
        how(value)
    except Exception:  # it was cancelled in between: nobody waits
        return


class Room:
    """How much may wait, and how long that will take, for all lanes together."""

    def __init__(self, tokens: int) -> None:
        self.most, self.taken, self._rate, self._lock = tokens, 0, 1000.0, threading.Lock()

    def take(self, tokens: int) -> None:
        with self._lock:
            if self.taken and self.taken + tokens > self.most:
                raise slow_down(self.taken / self._rate)
            self.taken += tokens

    def give(self, tokens: int) -> None:
        with self._lock:
            self.taken -= tokens

    def learn(self, tokens: int, seconds: float) -> None:
        """So many tokens took so long."""
        with self._lock:
            self._rate += 0.2 * (tokens / max(seconds, 1e-4) - self._rate)


Item = tuple[Job[R], int]


@dataclass
class Last:
    """What a thread remembers of its last batch."""

    ended: float = 0.0
    lasted: float = 0.0
    expected: int = 0  # texts that will wait, if everybody who was answered then asks again
    turn: int = 0  # how often something had been taken by then


class Lane(Generic[R]):
    """One model's queue, and the threads that work on it, each at a batch of its own."""

    def __init__(
        self,
        translate: Callable[[list[str], Any], Sequence[R]],
        room: Room,
        *,
        budget: int,
        patience: float,
        threads: int = 1,
        watch: Callable[[int, int, float], None] = lambda texts, tokens, seconds: None,
    ) -> None:
        """translate: takes texts and how, in any of the threads. budget: tokens taken at once. watch: is told of each
        batch."""
        self._translate, self._room, self._watch = translate, room, watch
        self._budget, self._patience = budget, patience
        self._jobs: deque[Job[R]] = deque()
        self._waiting = self._texts = 0  # tokens, and the texts that have them
        self._idle = self._turns = 0  # threads without work; how often something was taken
        self._changed = threading.Condition()
        self._closed = False
        self.threads = [threading.Thread(target=self._run, name="lane", daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def submit(self, texts: Sequence[str], how: Hashable) -> "Future[list[R]]":
        """The results in order, later; refused if too much waits. Cancelled, what has not begun is left out."""
        job: Job[R] = Job(how, texts)
        size = sum(job.sizes)
        self._room.take(size)
        job.answer.add_done_callback(lambda _: self._room.give(size))
        if not texts:
            job.answer.set_result([])
            return job.answer
        with self._changed:
            self._jobs.append(job)
            self._waiting += size
            self._texts += len(texts)
            self._changed.notify_all()
        return job.answer

    def close(self, wait: float = 0.0) -> None:
        """Finish what waits, then end. wait: seconds that the caller has for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + wait
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))

    def _run(self) -> None:
        last = Last()
        while batch := self._gather(last):
            started = time.monotonic()
            self._work(batch)
            tokens, seconds = sum(job.sizes[n] for job, n in batch), time.monotonic() - started
            with self._changed:
                last = Last(started + seconds, seconds, self._texts + len(batch), self._turns)
            self._room.learn(tokens, seconds)
            self._watch(len(batch), tokens, seconds)

    def _gather(self, last: Last) -> list[Item[R]]:
        """Wait for something, a little longer for more, and take it. Nothing: the lane is closed."""
        with self._changed:
            self._idle += 1
            try:
                while True:
                    while not self._jobs and not self._closed:
                        self._changed.wait()
                    if not self._jobs:
                        return []
                    left = self._until(last) - time.monotonic()
                    if left > 0 and not self._closed and self._waiting < self._budget:
                        self._changed.wait(left)
                    elif batch := self._take():
                        return batch
            finally:
                self._idle -= 1

    def _until(self, last: Last) -> float:
        """How long to wait for more. After a batch its clients come back, and they, too, are waited for, though not long
        as measured by the batch: two halves in turn would take longer than a whole."""
        patient = self._jobs[0].since + self._patience
        if self._texts >= last.expected or self._turns != last.turn:  # all are back, or others took them
            return patient
        return max(patient, last.ended + PAUSE * last.lasted)

    def _take(self) -> list[Item[R]]:
        """Texts that are wanted in the way of whoever has waited longest, one of each job in turn."""
        self._jobs = deque(job for job in self._jobs if not job.answer.done())
        if not self._jobs:
            self._waiting = self._texts = 0
            return []
        budget = min(self._budget, max(self._waiting // self._idle, LEAST))  # so that no thread is without
        how, tokens = self._jobs[0].how, 0
        turn = deque(job for job in self._jobs if job.how == how)
        batch: list[Item[R]] = []
        while turn and (tokens < budget or not batch):
            job = turn.popleft()
            batch.append((job, job.taken))
            tokens += job.sizes[job.taken]
            job.taken += 1
            if job.taken < len(job.texts):
                turn.append(job)
        self._jobs = deque(job for job in self._jobs if job.taken < len(job.texts))
        self._waiting = sum(sum(job.sizes[job.taken :]) for job in self._jobs)
        self._texts = sum(len(job.texts) - job.taken for job in self._jobs)
        self._turns += 1
        self._changed.notify_all()
        return batch

    def _work(self, batch: list[Item[R]]) -> None:
        """Each gets its result. Where they fail together they are tried one by one: only the guilty one is told."""
        try:
            results = self._translate([job.texts[n] for job, n in batch], batch[0][0].how)
        except Exception as error:
            if len(batch) == 1:
                batch[0][0].break_off(error)
                return
            for item in batch:
                if not item[0].answer.done():
                    self._work([item])
        except BaseException as error:
            for job, _ in batch:
                job.break_off(error)
        else:
            for (job, n), result in zip(batch, results):
                job.finish(n, result)
