"""The search by torch: every model, every setting, every device."""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import torch

from headway.config.search import Marks, Search
from headway.decode.constraints import Demands
from headway.decode.cpu.decoder import Lean
from headway.decode.cuda.graphs import share
from headway.decode.dispatch import decode
from headway.decode.padding import padded
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.types import Hypothesis, Precision, Recorder, T
from headway.nn.transformer import Transformer


class TorchEngine:
    """One model, or several that vote."""

    name: Literal["torch"] = "torch"

    def __init__(self, models: Sequence[Transformer], marks: Marks, pad: int, compute: Precision = "float32") -> None:
        self.marks, self.pad, self.compute = marks, pad, compute
        self.steppers = [ModelStepper(model.eval(), compute) for model in models]
        self._alone = threading.Lock()  # whoever comes while all threads work waits for them
        self.threads, self.stopped = torch.get_num_threads(), threading.Event()
        if self.steppers[0].device.type == "cuda":
            share()  # what is wrong with it is told now, and not with the first text
        self.stepper: Any = self.steppers[0] if len(models) == 1 else Ensemble(self.steppers)

    @property
    def device(self) -> str:
        return str(self.stepper.device.type)

    @functools.cached_property
    def workers(self) -> int:
        """On a CPU one for each thread: two threads at one batch wait for each other at every product."""
        return self.threads if isinstance(getattr(self.stepper, "lean", None), Lean) else 1

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads that compute by themselves. PyTorch would give all later threads of the process as few."""
        pool = ThreadPoolExecutor(self.workers, "search", initializer=torch.set_num_threads, initargs=(1,))
        started = threading.Barrier(self.workers + 1)
        for _ in range(self.workers):
            pool.submit(started.wait)
        started.wait()
        torch.set_num_threads(self.threads)
        return pool

    def stop(self) -> None:
        """Nothing more is searched: whoever waits for it has been interrupted."""
        self.stopped.set()

    def each(self, act: Callable[[T], None], batches: Sequence[T]) -> None:
        if self.workers < 2:
            for batch in batches:
                act(batch)
            return

        def unless_stopped(batch: T) -> None:
            if not self.stopped.is_set():
                act(batch)

        with self._alone:
            pending = []
            try:
                pending += [self._pool.submit(unless_stopped, batch) for batch in batches]
                for done in pending:
                    done.result()
            finally:
                for left in pending:
                    left.cancel()
        if self.stopped.is_set():
            raise KeyboardInterrupt

    def why_not(self, search: Search, prefixes: bool, record: Recorder | None, demands: bool = False) -> str:
        return ""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        lines: Sequence[int] | None = None,
        record: Recorder | None = None,
        demands: Sequence[Demands] | None = None,
    ) -> list[list[Hypothesis]]:
        ids, valid = padded(rows, self.pad, torch.device(self.stepper.device))
        return decode(
            self.stepper, ids, valid, marks=self.marks, search=search, prefixes=prefixes, lines=lines, record=record,
            demands=demands,
        )  # fmt: skip
