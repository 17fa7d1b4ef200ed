"""Dynamic batching: texts of many connections are queued for a model and translated in batches, measured in tokens.

A job is what one request wants translated with one set of options. A thread takes texts of all jobs with the same
options, one text of each job in turn, so that a short request does not wait behind another's long list."""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from headway.serve.errors import too_many_requests

R = TypeVar("R")
RETURN_WAIT = 0.1  # how long a thread waits for clients of its last batch to come back, as a share of that batch's time
MIN_TOKENS_PER_THREAD = 64  # fewer are not worth a thread of their own
BYTES_PER_TOKEN = 3  # a guess that suits both alphabets and Chinese; the translator counts exactly


def estimate_tokens(text: str) -> int:
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 2


@dataclass(eq=False)
class QueuedJob(Generic[R]):
    options: Hashable
    texts: Sequence[str]
    answer: "Future[list[R]]" = field(default_factory=Future)
    submitted: float = field(default_factory=time.monotonic)
    taken: int = 0  # how many texts threads have taken
    results: dict[int, R] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = [estimate_tokens(text) for text in self.texts]

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


class QueueBudget:
    """How many tokens may wait in all queues together, and an estimate of how long they will take."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.used_tokens = 0
        self._tokens_per_second = 1000.0  # until something has been measured
        self._lock = threading.Lock()

    def reserve(self, tokens: int) -> None:
        """Refuses what does not fit; but a job larger than all of the budget is taken when nothing else waits."""
        with self._lock:
            if self.used_tokens and self.used_tokens + tokens > self.max_tokens:
                raise too_many_requests(self.used_tokens / self._tokens_per_second)
            self.used_tokens += tokens

    def release(self, tokens: int) -> None:
        with self._lock:
            self.used_tokens -= tokens

    def record_speed(self, tokens: int, seconds: float) -> None:
        with self._lock:
            self._tokens_per_second += 0.2 * (tokens / max(seconds, 1e-4) - self._tokens_per_second)


Item = tuple[QueuedJob[R], int]  # a job, and the index of one of its texts


@dataclass
class LastBatch:
    """What a thread remembers of its last batch."""

    ended: float = 0.0
    seconds: float = 0.0
    expected_texts: int = 0  # how many will wait, if every client of that batch comes back with as many
    batch_count: int = 0  # of the queue, when it ended


class BatchQueue(Generic[R]):
    """One model's queue, and its threads, each of which translates a batch at a time."""

    def __init__(
        self,
        translate: Callable[[list[str], Any], Sequence[R]],
        budget: QueueBudget,
        *,
        batch_tokens: int,
        max_delay: float,
        threads: int = 1,
        on_batch: Callable[[int, int, float], None] = lambda texts, tokens, seconds: None,
    ) -> None:
        """translate: takes texts and options, in any of the threads. batch_tokens: the size of a batch. max_delay:
        seconds that a text waits for others. on_batch: called after each batch."""
        self._translate = translate
        self._budget = budget
        self._on_batch = on_batch
        self._batch_tokens = batch_tokens
        self._max_delay = max_delay
        self._jobs: deque[QueuedJob[R]] = deque()
        self._waiting_tokens = 0
        self._waiting_texts = 0
        self._idle_threads = 0
        self._batch_count = 0  # how often a batch was taken
        self._changed = threading.Condition()
        self._closed = False
        self.threads = [threading.Thread(target=self._run, name="batch-queue", daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def submit(self, texts: Sequence[str], options: Hashable) -> "Future[list[R]]":
        """The results in order, later; refused if too much waits. Texts of a cancelled job are not begun."""
        job: QueuedJob[R] = QueuedJob(options, texts)
        size = sum(job.sizes)
        self._budget.reserve(size)
        job.answer.add_done_callback(lambda _: self._budget.release(size))
        if not texts:
            job.answer.set_result([])
            return job.answer
        with self._changed:
            self._jobs.append(job)
            self._waiting_tokens += size
            self._waiting_texts += len(texts)
            self._changed.notify_all()
        return job.answer

    def close(self, timeout: float = 0.0) -> None:
        """Finish what waits, then end the threads. timeout: seconds that the caller waits for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        end = time.monotonic() + timeout
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))

    def _run(self) -> None:
        last = LastBatch()
        while batch := self._next_batch(last):
            started = time.monotonic()
            self._translate_batch(batch)
            seconds = time.monotonic() - started
            tokens = sum(job.sizes[n] for job, n in batch)
            with self._changed:
                last = LastBatch(started + seconds, seconds, self._waiting_texts + len(batch), self._batch_count)
            self._budget.record_speed(tokens, seconds)
            self._on_batch(len(batch), tokens, seconds)

    def _next_batch(self, last: LastBatch) -> list[Item[R]]:
        """Wait for texts, a little longer for more of them, and take a batch. Empty: the queue is closed."""
        with self._changed:
            self._idle_threads += 1
            try:
                while True:
                    while not self._jobs and not self._closed:
                        self._changed.wait()
                    if not self._jobs:
                        return []
                    left = self._deadline(last) - time.monotonic()
                    if left > 0 and not self._closed and self._waiting_tokens < self._batch_tokens:
                        self._changed.wait(left)
                    elif batch := self._take_batch():
                        return batch
            finally:
                self._idle_threads -= 1

    def _deadline(self, last: LastBatch) -> float:
        """Until when to wait for more texts. After a batch its clients come back, and they are waited for as well,
        though not long compared with the batch: two halves in turn would take longer than one batch."""
        deadline = self._jobs[0].submitted + self._max_delay
        if self._waiting_texts >= last.expected_texts or self._batch_count != last.batch_count:
            return deadline  # all are back, or another thread has taken them
        return max(deadline, last.ended + RETURN_WAIT * last.seconds)

    def _take_batch(self) -> list[Item[R]]:
        """Texts with the options of the job that has waited longest, one text of each such job in turn."""
        self._jobs = deque(job for job in self._jobs if not job.answer.done())
        if not self._jobs:
            self._waiting_tokens = 0
            self._waiting_texts = 0
            return []
        # a share for each idle thread, so that none goes without
        limit = min(self._batch_tokens, max(self._waiting_tokens // self._idle_threads, MIN_TOKENS_PER_THREAD))
        options = self._jobs[0].options
        turns = deque(job for job in self._jobs if job.options == options)
        batch: list[Item[R]] = []
        tokens = 0
        while turns and (tokens < limit or not batch):
            job = turns.popleft()
            batch.append((job, job.taken))
            tokens += job.sizes[job.taken]
            job.taken += 1
            if job.taken < len(job.texts):
                turns.append(job)
        self._jobs = deque(job for job in self._jobs if job.taken < len(job.texts))
        self._waiting_tokens = sum(sum(job.sizes[job.taken :]) for job in self._jobs)
        self._waiting_texts = sum(len(job.texts) - job.taken for job in self._jobs)
        self._batch_count += 1
        self._changed.notify_all()
        return batch

    def _translate_batch(self, batch: list[Item[R]]) -> None:
        """Each job gets its results. A batch that fails is tried text by text, so that only its cause fails."""
        try:
            results = self._translate([job.texts[n] for job, n in batch], batch[0][0].options)
        except Exception as error:
            if len(batch) == 1:
                batch[0][0].set_exception(error)
                return
            for item in batch:
                if not item[0].answer.done():
                    self._translate_batch([item])
        except BaseException as error:
            for job, _ in batch:
                job.set_exception(error)
        else:
            for (job, n), result in zip(batch, results):
                job.finish(n, result)
