"""Dynamic batching: sentences of many connections are queued for a model and computed in slices of bounded cost.

A job is what one request wants translated (queued_job). A thread takes calls with the same settings, one of each job in
turn, as many as take about half a second: so that nobody waits behind another's long text, whatever it looks like, and
that work nobody waits for ends soon. What a retry costs is queued like everything else."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from headway.decode.stop import SearchStopped, stop_when
from headway.serve.errors import takes_too_long
from headway.serve.queue_budget import INITIAL_SPEED, CallSpeed, QueueBudget
from headway.serve.queued_job import COST_PER_TOKEN, PendingCall, QueuedJob, TextStages, estimate_tokens
from headway.translate.search_calls import Call, SearchCall

R = TypeVar("R")
RETURN_WAIT = 0.1  # how long a thread waits for clients of its last slice to come back, as a share of that slice's time
MIN_COST_PER_THREAD = 256.0  # a smaller slice is not worth a thread of its own
MAX_READ_CHARACTERS = 20_000  # that a thread reads before it looks again what others wait for
MAX_OVERESTIMATE = 2.0  # of the tokens of a text by its length, before it is read
MAX_COUNTED_CALLS = 1000  # of a job: more than a slice takes
STOP_SECONDS = 5.0  # that threads have to end once they are told to stop


class TextToRead(NamedTuple):
    job: QueuedJob[Any]
    text: int


@dataclass
class LastSlice:
    """What a thread remembers of its last slice."""

    ended: float = 0.0
    seconds: float = 0.0
    expected_waiting: int = 0  # how many will wait, if every client of that slice comes back with as many
    slice_count: int = 0  # of the queue, when it ended
    read_characters: int = 0  # that the thread has read since


class BatchQueue(Generic[R]):
    """One model's queue, and its threads, each of which computes a slice at a time."""

    def __init__(
        self,
        begin: Callable[[Sequence[str], Any], TextStages[R]],
        compute: Callable[[Sequence[Call]], None],
        budget: QueueBudget,
        *,
        max_delay: float,
        threads: int = 1,
        max_seconds: float = float("inf"),
        on_slice: Callable[[int, int, float], None] = lambda sentences, tokens, seconds: None,
    ) -> None:
        """begin: the stages of texts with the same options. compute: runs calls with the same key. Both in any of the
        threads. max_delay: seconds that a text waits for others. max_seconds: a job that would take longer, all by
        itself, is refused. on_slice: called after each slice."""
        self._begin = begin
        self._compute = compute
        self._budget = budget
        self._on_slice = on_slice
        self._max_delay = max_delay
        self._max_seconds = max_seconds
        self.speed = CallSpeed()
        self._jobs: deque[QueuedJob[R]] = deque()  # that are not finished; the next to be served first
        self._idle_threads = 0
        self._slice_count = 0  # how often a slice was taken
        self._changed = threading.Condition()
        self._closed = False
        self._stopped = False
        self.threads = [threading.Thread(target=self._run, name="batch-queue", daemon=True) for _ in range(threads)]
        for thread in self.threads:
            thread.start()

    def submit(self, texts: Sequence[str], options: Any, width: float = 1.0) -> "Future[list[R]]":
        """The results in order, later; refused if too much waits, or if it would take too long. A cancelled job ends
        within a step of its search. width: hypotheses of the search, in beams of four."""
        tokens = math.ceil(width * sum(map(estimate_tokens, texts)))
        self._check_duration(COST_PER_TOKEN * tokens / MAX_OVERESTIMATE)
        reservation = self._budget.reserve(tokens)
        job: QueuedJob[R] = QueuedJob(texts, lambda: self._begin(texts, options), reservation)
        job.answer.add_done_callback(lambda _: reservation.release())
        if not texts:
            job.answer.set_result([])
            return job.answer
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        return job.answer

    def stop_long_jobs(self, seconds: float) -> None:
        """Stop the jobs that would take longer, at the speed that has been measured."""
        possible = seconds * len(self.threads) * (self.speed.known() or INITIAL_SPEED)
        with self._changed:
            for job in self._jobs:
                if job.estimate_rest() > possible:
                    job.set_exception(SearchStopped())

    def close(self, timeout: float = 0.0) -> None:
        """Finish what waits, then end the threads. After `timeout` seconds, if those are given, the rest is stopped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if not timeout:
            return
        self._join_threads(timeout)
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._join_threads(STOP_SECONDS)

    def _join_threads(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(end - time.monotonic(), 0))

    def _check_duration(self, cost: float) -> None:
        speed = self.speed.known()
        if speed is not None and cost > speed * self._max_seconds:
            raise takes_too_long(cost / speed, self._max_seconds)

    # ---- threads

    def _run(self) -> None:
        last = LastSlice()
        while work := self._next_work(last):
            if isinstance(work[0], TextToRead):
                texts = [item for item in work if isinstance(item, TextToRead)]
                self._read_texts(texts)
                last.read_characters += sum(len(job.texts[index]) for job, index in texts)
                continue
            items = [item for item in work if isinstance(item, PendingCall)]
            started = time.monotonic()
            self._run_slice(items)
            seconds = time.monotonic() - started
            with self._changed:
                last = LastSlice(started + seconds, seconds, self._count_waiting() + len(items), self._slice_count)

    def _next_work(self, last: LastSlice) -> Sequence[TextToRead | PendingCall]:
        """Wait for texts, a little longer for more of them, and take some. Empty: the queue is closed."""
        with self._changed:
            self._idle_threads += 1
            try:
                while True:
                    self._drop_finished()
                    ready = any(job.is_ready for job in self._jobs)
                    unread = any(job.is_unread for job in self._jobs)
                    if self._stopped or (self._closed and not self._jobs):
                        return []
                    if unread and not (ready and last.read_characters >= MAX_READ_CHARACTERS):
                        return self._take_texts()
                    if not ready:
                        self._changed.wait()
                        continue
                    left = self._deadline(last) - time.monotonic()
                    if left > 0 and not self._closed and not self._is_full():
                        self._changed.wait(left)
                    else:
                        return self._take_slice()
            finally:
                self._idle_threads -= 1

    def _drop_finished(self) -> None:
        if self._stopped:
            for job in self._jobs:
                job.set_exception(SearchStopped())
        self._jobs = deque(job for job in self._jobs if not job.answer.done())

    def _deadline(self, last: LastSlice) -> float:
        """Until when to wait for more. After a slice its clients come back, and they are waited for as well, though not
        long compared with the slice: two halves in turn would take longer than one slice."""
        deadline = min(job.submitted for job in self._jobs if job.is_ready) + self._max_delay
        if self._count_waiting() >= last.expected_waiting or self._slice_count != last.slice_count:
            return deadline  # all are back, or another thread has taken them
        return max(deadline, last.ended + RETURN_WAIT * last.seconds)

    def _count_waiting(self) -> int:
        """Calls, and texts that have not been read."""
        calls = sum(len(calls) for job in self._jobs for calls in job.pending.values())
        return calls + sum(len(job.texts) - job.taken_texts for job in self._jobs)

    def _is_full(self) -> bool:
        """Whether a slice could not take all that waits."""
        cost = max_cost = 0.0
        for job in self._jobs:
            for calls in job.pending.values():
                for item in calls:
                    cost += item.cost
                    max_cost += item.max_cost
                    if not self.speed.fits_slice(item.call.kind, cost, max_cost):
                        return True
        return False

    def _take_texts(self) -> list[TextToRead]:
        """Texts to read, one of each job in turn."""
        turns = deque(job for job in self._jobs if job.is_unread)
        texts: list[TextToRead] = []
        characters = 0
        while turns and characters < MAX_READ_CHARACTERS:
            job = turns.popleft()
            texts.append(TextToRead(job, job.taken_texts))
            characters += len(job.texts[job.taken_texts])
            job.taken_texts += 1
            if job.is_unread:
                turns.append(job)
        return texts

    def _take_slice(self) -> list[PendingCall]:
        """Calls with the key of the job whose turn it is, one of each job in turn. Those jobs then go to the end."""
        first = next(job for job in self._jobs if job.is_ready)
        key = next(iter(first.pending))
        kind = first.pending[key][0].call.kind
        turns = deque(job for job in self._jobs if job.is_ready and key in job.pending)
        share = self._share_for_thread(turns, key)
        items: list[PendingCall] = []
        served: dict[QueuedJob[R], None] = {}
        cost = max_cost = 0.0
        while turns:
            job = turns.popleft()
            cost += job.pending[key][0].cost
            max_cost += job.pending[key][0].max_cost
            if items and (cost > share or not self.speed.fits_slice(kind, cost, max_cost)):
                break
            items.append(job.pop(key))
            served[job] = None
            if key in job.pending:
                turns.append(job)
        self._jobs = deque([*(job for job in self._jobs if job not in served), *served])
        self._slice_count += 1
        self._changed.notify_all()
        return items

    def _share_for_thread(self, jobs: "Sequence[QueuedJob[R]] | deque[QueuedJob[R]]", key: Any) -> float:
        """The cost that a thread may take, so that no other idle thread goes without."""
        if self._idle_threads < 2:
            return float("inf")
        waiting = sum(item.cost for job in jobs for item in islice(job.pending[key], MAX_COUNTED_CALLS))
        return max(waiting / self._idle_threads, MIN_COST_PER_THREAD)

    # ---- stages

    def _read_texts(self, texts: Sequence[TextToRead]) -> None:
        for job, index in texts:
            if job.answer.done():
                continue
            try:
                plans = job.stages.read(index)
                with self._changed:
                    job.plans_left[index] = len(plans)
                if not plans:
                    self._join_text(job, index)
                for plan in plans:
                    self._advance(job, index, plan, is_first=True)
                with self._changed:
                    job.read_texts += 1
                    if job.read_texts == len(job.texts):
                        self._count_cost(job)
            except Exception as error:
                job.set_exception(error)
        with self._changed:
            self._changed.notify_all()

    def _count_cost(self, job: QueuedJob[R]) -> None:
        """Now that the sentences of a job are known: refuse it, or count what it really is."""
        self._check_duration(job.cost)
        assert job.reservation is not None
        job.reservation.resize(math.ceil(job.cost / COST_PER_TOKEN))

    def _advance(self, job: QueuedJob[R], index: int, plan: Any, is_first: bool = False) -> None:
        """Go on with a plan, up to its next call or to its end."""
        if job.answer.done():
            return
        try:
            call = next(plan, None)
            if call is not None:
                cost = call.estimate_cost()
                item = PendingCall(job, index, plan, call, cost, call.estimate_max_cost())
                with self._changed:
                    job.cost += cost if is_first else 0.0
                    job.add(item)
                return
            with self._changed:
                job.plans_left[index] -= 1
                is_last = not job.plans_left[index]
            if is_last:
                self._join_text(job, index)
        except Exception as error:
            job.set_exception(error)

    def _join_text(self, job: QueuedJob[R], index: int) -> None:
        result = job.stages.join(index)
        with self._changed:
            job.finish(index, result)

    def _run_slice(self, items: list[PendingCall]) -> None:
        """Each job gets its results. A slice that fails is tried call by call, so that only its cause fails."""
        calls = [item.call for item in items]
        jobs = list(dict.fromkeys(item.job for item in items))
        started = time.monotonic()
        try:
            with stop_when(lambda: self._stopped or all(job.answer.done() for job in jobs)):
                self._compute(calls)
        except SearchStopped as stopped:
            for job in jobs:
                job.set_exception(stopped)
        except Exception as error:
            if len(items) == 1:
                jobs[0].set_exception(error)
            else:
                for item in items:
                    if not item.job.answer.done():
                        self._run_slice([item])
        except BaseException as error:
            for job in jobs:
                job.set_exception(error)
        else:
            self._record(calls, time.monotonic() - started)
            for item in items:
                self._advance(item.job, item.text, item.plan)
        with self._changed:
            self._changed.notify_all()

    def _record(self, calls: Sequence[Call], seconds: float) -> None:
        cost = sum(call.measure_cost() for call in calls)
        rows = sum(call.rows for call in calls)
        self.speed.record(calls[0].kind, cost, rows, seconds)
        self._budget.record_speed(cost / COST_PER_TOKEN, seconds)
        tokens = sum(len(s.ids) for call in calls if isinstance(call, SearchCall) for s in call.sentences)
        self._on_slice(rows, tokens, seconds)
