"""One event for each step of a search: attention weights, next-token distributions, the beam."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.decode.types import BeamStep
from headway.inspect.events import pack_floats, pack_weights
from headway.nn.context import ForwardReport
from headway.nn.transformer import Memory, Transformer
from headway.text.tokenizer.tokenizer import Tokenizer

Emit = Callable[[dict[str, Any]], None]
WEIGHT_SUFFIXES = (".weights",)  # of names in a trace
VECTOR_SUFFIXES = (".q", ".k", ".v")


class IncrementalTracer:
    """Traces the forward pass of one source and a growing target: each call gives the rows since the last."""

    def __init__(self, model: Transformer, source: Sequence[int], start: int, *, weights: bool, vectors: bool) -> None:
        self.model = model
        self.start = start
        self.suffixes = (*(WEIGHT_SUFFIXES if weights else ()), *(VECTOR_SUFFIXES if vectors else ()))
        report = ForwardReport(trace={})
        with torch.no_grad():
            self.memory: Memory = model.encode(torch.tensor([source], device=model.device), report=report)
        self.encoder = self._select_tensors(report, 0)
        self._traced_ids: list[int] = []
        self._state: Any = None  # the decoder's KV cache after self._traced_ids
        self._incremental = True  # whether the cache keeps every position, so that new tokens can be traced alone

    @torch.no_grad()
    def trace_new_rows(self, ids: Sequence[int]) -> tuple[int, dict[str, Any], Tensor]:
        """For these target ids: the index of the first new row, the tensors of it and the rows after it, and the
        log-probabilities (V,) of the next token."""
        target = [self.start, *ids]
        first = _common_length(self._traced_ids, target)
        if first == len(target):  # it has become shorter, or was traced already
            first -= 1
        if self._incremental and self._state is not None and first == len(self._traced_ids):
            report, hidden = self._decode(target[first:])
            tensors = self._select_tensors(report, 0)
        else:
            self._state = self.model.new_state(1, self.memory)
            report, hidden = self._decode(target)
            tensors = self._select_tensors(report, first)
        if self._incremental and not self._keeps_all_positions(report, len(target)):
            self._incremental = False
            report, hidden = self._decode(target)
            tensors = self._select_tensors(report, first)
        self._traced_ids = target
        return first, tensors, self.model.logits(hidden[0, -1]).float().log_softmax(-1).cpu()

    def _decode(self, ids: list[int]) -> tuple[ForwardReport, Tensor]:
        """The next ids, after those in the cache; where it does not keep all positions, all ids."""
        report = ForwardReport(trace={})
        tensor = torch.tensor([ids], device=self.model.device)
        if self._incremental:
            return report, self.model.decode(tensor, state=self._state, report=report)
        return report, self.model.decode(tensor, memory=self.memory, report=report)

    def _keeps_all_positions(self, report: ForwardReport, length: int) -> bool:
        """False for a sliding-window cache, which drops old keys: there the whole target is traced each time."""
        weights = [t for name, t in (report.trace or {}).items() if name.endswith(".self.weights")]
        return all(tensor.shape[-1] == length for tensor in weights)

    def _select_tensors(self, report: ForwardReport, first: int) -> dict[str, Any]:
        """The tensors that were asked for: weights (H, rows, S), and q, k, v. Keys and values are of all positions."""
        tensors = {}
        for name, tensor in (report.trace or {}).items():
            if not name.endswith(self.suffixes) or tensor.dim() != 4:
                continue
            rows = tensor[0].cpu()
            rows = rows if name.endswith((".k", ".v")) else rows[:, first:]
            tensors[name] = pack_weights(rows) if name.endswith(WEIGHT_SUFFIXES) else pack_floats(rows)
        return tensors


def _common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common prefix."""
    count = 0
    for a, b in zip(one, other):
        if a != b:
            break
        count += 1
    return count


class StepRecorder:
    """Records a search: called with each of its steps, it emits an event for it."""

    def __init__(
        self, tracer: IncrementalTracer, tokenizer: Tokenizer, prefix: Sequence[int], top: int, emit: Emit
    ) -> None:
        self.tracer = tracer
        self.tokenizer = tokenizer
        self.prefix = list(prefix)
        self.top = top
        self.emit = emit
        self.running: list[list[int]] = []  # the hypotheses in the beam
        self.searches = 0

    def __call__(self, step: BeamStep) -> None:
        if step.step == 0:
            self.running = [self.prefix]
            self.searches += 1
            if self.searches > 1:
                self.emit({"event": "again", "search": self.searches})
        self.emit(
            {**self.describe(self.running[0]), "event": "step", "step": step.step, "beam": self._describe_beam(step)}
        )
        survivors = [(p, i) for p, i, fate in zip(step.parents, step.ids, step.fates) if fate == "runs"]
        self.running = [[*self.running[parent], token] for parent, token in survivors] or self.running

    def describe(self, ids: Sequence[int]) -> dict[str, Any]:
        """The fields of an event that describe a hypothesis: its new rows, and the likeliest next tokens."""
        first, tensors, logps = self.tracer.trace_new_rows(ids)
        likely = logps.topk(min(self.top, len(logps)))
        token_ids = likely.indices.tolist()
        entropy = float(-(logps.exp() * logps.clamp(min=-1e4)).sum())
        return {
            "ids": list(ids),
            "pieces": self.tokenizer.pieces(list(ids)),
            "first": first,
            "tensors": tensors,
            "entropy": round(entropy, 5),
            "top": {
                "ids": token_ids,
                "pieces": self.tokenizer.pieces(token_ids),
                "probabilities": [round(p, 6) for p in likely.values.exp().tolist()],
            },
        }

    def _describe_beam(self, step: BeamStep) -> dict[str, Any]:
        logps = [round(logp, 5) if np.isfinite(logp) else None for logp in step.logps]
        return {
            "parents": step.parents,
            "ids": step.ids,
            "pieces": self.tokenizer.pieces(step.ids),
            "logps": logps,
            "fates": step.fates,
        }
