"""The torch engine of a translator: every model, every setting, every device."""

import functools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import torch

from headway.config.search import Search
from headway.decode.constraints import PhraseConstraints
from headway.decode.cpu.decoder import CpuDecoder, cpu_decoder_of
from headway.decode.cuda.graphs import memory_share
from headway.decode.dispatch import decode
from headway.decode.padding import pad_rows
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.types import Hypothesis, Precision, Recorder, T
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens


class TorchEngine:
    """One model, or an ensemble of several."""

    name: Literal["torch"] = "torch"

    def __init__(
        self, models: Sequence[Transformer], special_tokens: SpecialTokens, pad: int, compute: Precision = "float32"
    ) -> None:
        self.special_tokens = special_tokens
        self.pad = pad
        self.compute = compute
        self.steppers = [ModelStepper(model.eval(), compute) for model in models]
        self._batches_lock = threading.Lock()  # one caller of run_batches at a time: it uses all threads
        self.threads = torch.get_num_threads()
        self.stopped = threading.Event()
        if self.steppers[0].device.type == "cuda":
            memory_share()  # raises now if its environment variable is wrong, and not with the first text
        self.stepper: Any = self.steppers[0] if len(models) == 1 else Ensemble(self.steppers)

    @property
    def device(self) -> str:
        return str(self.stepper.device.type)

    @functools.cached_property
    def workers(self) -> int:
        """On a CPU one for each thread: two threads at one batch wait for each other at every product."""
        if not isinstance(self.stepper, ModelStepper):
            return 1
        return self.threads if isinstance(cpu_decoder_of(self.stepper), CpuDecoder) else 1

    @functools.cached_property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads that each compute with one thread. PyTorch would give that number to all later threads of the
        process, too, so it is set back."""
        pool = ThreadPoolExecutor(self.workers, "search", initializer=torch.set_num_threads, initargs=(1,))
        started = threading.Barrier(self.workers + 1)
        for _ in range(self.workers):
            pool.submit(started.wait)
        started.wait()
        torch.set_num_threads(self.threads)
        return pool

    def stop(self) -> None:
        """After an interrupt: batches that have not begun are not searched."""
        self.stopped.set()

    def run_batches(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        if self.workers < 2:
            for batch in batches:
                function(batch)
            return

        def unless_stopped(batch: T) -> None:
            if not self.stopped.is_set():
                function(batch)

        with self._batches_lock:
            pending = []
            try:
                pending += [self._pool.submit(unless_stopped, batch) for batch in batches]
                for future in pending:
                    future.result()
            finally:
                for future in pending:
                    future.cancel()
        if self.stopped.is_set():
            raise KeyboardInterrupt

    def unsupported(self, search: Search, prefixes: bool, record: Recorder | None, constraints: bool = False) -> str:
        return ""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        line_numbers: Sequence[int] | None = None,
        record: Recorder | None = None,
        constraints: Sequence[PhraseConstraints] | None = None,
    ) -> list[list[Hypothesis]]:
        ids, valid = pad_rows(rows, self.pad, torch.device(self.stepper.device))
        return decode(
            self.stepper,
            ids,
            valid,
            special_tokens=self.special_tokens,
            search=search,
            prefixes=prefixes,
            line_numbers=line_numbers,
            record=record,
            constraints=constraints,
        )
