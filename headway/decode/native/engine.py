"""The native engine of a translator: int8 on a CPU, ready as soon as its weights are packed, and without torch."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from headway.config.search import Search
from headway.decode.batch_pool import BatchPool
from headway.decode.native.model import NativeModel
from headway.decode.native.search import StopFlag, run_search
from headway.decode.request import SearchTask, check_ids, describe_other_method, make_jobs
from headway.decode.types import Hypothesis, Recorder, T
from headway.device import available_cores
from headway.text.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from headway.decode.constraints import PhraseConstraints


class NativeEngine:
    """One model."""

    name: Literal["native"] = "native"
    compute: Literal["int8"] = "int8"
    device = "cpu"

    def __init__(self, model: NativeModel, special_tokens: SpecialTokens, threads: int | None = None) -> None:
        self.model = model
        self.special_tokens = special_tokens
        self._stop = StopFlag()
        self.use_threads(threads or available_cores())

    def use_threads(self, count: int) -> None:
        """How many batches are searched at a time; 1: each in the thread of its caller."""
        self._pool = BatchPool(count)

    @property
    def workers(self) -> int:
        return self._pool.workers

    def run_batches(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        self._pool.run(function, batches)

    def stop(self) -> None:
        """End all searches within a step, now and later."""
        self._stop.set()
        self._pool.stop()

    def unsupported(
        self, search: Search, prefixes: bool = False, record: Recorder | None = None, constraints: bool = False
    ) -> str:
        if search.sample:
            return "sampling is left to torch"
        if record is not None:
            return "it does not record its steps"
        if constraints:
            return "glossary terms are left to torch"
        if search.shortlist:
            return "shortlists are left to torch"
        return describe_other_method(search)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        line_numbers: Sequence[int] | None = None,
        record: Recorder | None = None,
        constraints: "Sequence[PhraseConstraints] | None" = None,
    ) -> list[list[Hypothesis]]:
        assert not self.unsupported(search, prefixes is not None, record, constraints is not None)
        forced = [[] for _ in rows] if prefixes is None else [list(prefix) for prefix in prefixes]
        check_ids(self.special_tokens, forced, self.model.vocabularies[1])
        jobs = make_jobs([len(row) for row in rows], forced, search, line_numbers)
        task = SearchTask(search, self.special_tokens, jobs)
        found: list[list[Hypothesis]] = [[] for _ in rows]
        for job in jobs:
            if job.max_new_tokens <= 0:
                found[job.row].append(task.hypothesis(job, job.prefix, [], 0.0))
        for job, hypothesis in run_search(self.model.search_model(), task, rows, self._stop):
            found[job.row].append(hypothesis)
        return found
