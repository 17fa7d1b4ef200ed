"""The torch engine of a translator: every model, every setting, every device."""

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from headway.config.search import Search
from headway.decode.batch_pool import BatchPool
from headway.decode.constraints import PhraseConstraints
from headway.decode.cpu.decoder import CpuDecoder, cpu_decoder_of
from headway.decode.cuda.graphs import memory_share
from headway.decode.dispatch import decode
from headway.decode.forking import call_after_fork
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
        self.threads = torch.get_num_threads()
        self.is_stopped = False
        self._process = os.getpid()
        call_after_fork(self)
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
    def _pool(self) -> BatchPool:
        """Threads that each compute with one thread. PyTorch would give that number to all later threads of the
        process, too, so it is set back."""
        pool = BatchPool(self.workers, lambda: torch.set_num_threads(1))
        if self.is_stopped:
            pool.stop()
        pool.start()
        torch.set_num_threads(1 if os.getpid() != self._process else self.threads)  # see decode.forking
        return pool

    def after_fork(self) -> None:
        """Threads are started again, each of which computes with one."""
        vars(self).pop("_pool", None)

    def stop(self) -> None:
        """After an interrupt: batches that have not begun are not searched."""
        self.is_stopped = True
        if "_pool" in vars(self):
            self._pool.stop()

    def run_batches(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        if self.workers > 1:
            self._pool.run(function, batches)
        else:
            for batch in batches:
                function(batch)

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
        for stepper in self.steppers:
            stepper.check_process()
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
