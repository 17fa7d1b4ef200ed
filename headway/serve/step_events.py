"""Following a search step by step, and reading what it writes in the open: weights, distributions, beams, as events."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.decode.types import Choice
from headway.inspect.events import packed_floats, packed_weights
from headway.nn.context import Report
from headway.nn.transformer import Memory, Transformer
from headway.text import Tokenizer

Emit = Callable[[dict[str, Any]], None]
WEIGHTS, VECTORS = (".weights",), (".q", ".k", ".v")


class Reader:
    """One source in one model, and the target so far. Each reading gives the rows that are new since the last."""

    def __init__(self, model: Transformer, source: Sequence[int], start: int, *, weights: bool, vectors: bool) -> None:
        self.model, self.start = model, start
        self.suffixes = (*(WEIGHTS if weights else ()), *(VECTORS if vectors else ()))
        report = Report(trace={})
        with torch.no_grad():
            self.memory: Memory = model.encode(torch.tensor([source], device=model.device), report=report)
        self.encoder = self._chosen(report, 0)
        self.read: list[int] = []
        self._state: Any = None
        self._steps = True  # whether a state remembers every place, so that a step can be read by itself

    @torch.no_grad()
    def rows(self, ids: Sequence[int]) -> tuple[int, dict[str, Any], Tensor]:
        """For a target that begins so: the first row that is new, what was computed for it and those after it, and the
        log-probabilities (V,) of what may follow."""
        whole = [self.start, *ids]
        first = _common(self.read, whole)
        if first == len(whole):  # it has become shorter, or was read already
            first -= 1
        if self._steps and self._state is not None and first == len(self.read):
            report, hidden = self._step(whole[first:])
            shown = self._chosen(report, 0)
        else:
            self._state = self.model.new_state(1, self.memory)
            report, hidden = self._step(whole)
            shown = self._chosen(report, first)
        if self._steps and not self._places_are_positions(report, len(whole)):
            self._steps = False
            self.read = []
            return self._anew(whole, first)
        self.read = whole
        return first, shown, self.model.logits(hidden[0, -1]).float().log_softmax(-1).cpu()

    def _step(self, ids: list[int]) -> tuple[Report, Tensor]:
        report = Report(trace={})
        tensor = torch.tensor([ids], device=self.model.device)
        if self._steps:
            return report, self.model.decode(tensor, state=self._state, report=report)
        return report, self.model.decode(tensor, memory=self.memory, report=report)

    def _anew(self, whole: list[int], first: int) -> tuple[int, dict[str, Any], Tensor]:
        report, hidden = self._step(whole)
        self.read = whole
        return first, self._chosen(report, first), self.model.logits(hidden[0, -1]).float().log_softmax(-1).cpu()

    def _places_are_positions(self, report: Report, length: int) -> bool:
        """Not so where a state forgets what is far away: there the whole is read each time."""
        own = [t for name, t in (report.trace or {}).items() if name.endswith(".self.weights")]
        return all(tensor.shape[-1] == length for tensor in own)

    def _chosen(self, report: Report, first: int) -> dict[str, Any]:
        """Of the trace: weights (H, rows, S), and q, k, v where they are wanted. Keys and values stand for all places."""
        shown = {}
        for name, tensor in (report.trace or {}).items():
            if not name.endswith(self.suffixes) or tensor.dim() != 4:
                continue
            rows = tensor[0].cpu()
            rows = rows if name.endswith((".k", ".v")) else rows[:, first:]
            shown[name] = packed_weights(rows) if name.endswith(WEIGHTS) else packed_floats(rows)
        return shown


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids at the beginning are the same."""
    count = 0
    for a, b in zip(one, other):
        if a != b:
            break
        count += 1
    return count


class Follower:
    """Is told every step of a search, and tells an event for each."""

    def __init__(self, reader: Reader, tokenizer: Tokenizer, prefix: Sequence[int], top: int, emit: Emit) -> None:
        self.reader, self.tokenizer, self.prefix, self.top, self.emit = reader, tokenizer, list(prefix), top, emit
        self.running: list[list[int]] = []
        self.searches = 0

    def __call__(self, choice: Choice) -> None:
        if choice.step == 0:
            self.running = [self.prefix]
            self.searches += 1
            if self.searches > 1:
                self.emit({"event": "again", "search": self.searches})
        told = {**self.look(self.running[0]), "event": "step", "step": choice.step, "beam": self._beam(choice)}
        self.emit(told)
        survivors = [(p, i) for p, i, fate in zip(choice.parents, choice.ids, choice.fates) if fate == "runs"]
        self.running = [[*self.running[parent], token] for parent, token in survivors] or self.running

    def look(self, ids: Sequence[int]) -> dict[str, Any]:
        """The likeliest hypothesis so far, in the open."""
        first, tensors, logps = self.reader.rows(ids)
        likely = logps.topk(min(self.top, len(logps)))
        numbers = likely.indices.tolist()
        entropy = float(-(logps.exp() * logps.clamp(min=-1e4)).sum())
        return {
            "ids": list(ids),
            "pieces": self.tokenizer.pieces(list(ids)),
            "first": first,
            "tensors": tensors,
            "entropy": round(entropy, 5),
            "top": {
                "ids": numbers,
                "pieces": self.tokenizer.pieces(numbers),
                "probabilities": [round(p, 6) for p in likely.values.exp().tolist()],
            },
        }

    def _beam(self, choice: Choice) -> dict[str, Any]:
        finite = [round(logp, 5) if np.isfinite(logp) else None for logp in choice.logps]
        return {
            "parents": choice.parents,
            "ids": choice.ids,
            "pieces": self.tokenizer.pieces(choice.ids),
            "logps": finite,
            "fates": choice.fates,
        }
