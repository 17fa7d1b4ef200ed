"""A model that may say only what its shortlist names for a source. This is the specification: a faster search computes
fewer rows of the output layer, and finds the same.

A lean search with a shortlist: only those rows of the output layer are computed that some sentence of the batch may
need. The search runs over ids that are places among them; what it finds is what shortlisted.py specifies.

B sentences    N hypotheses    U words that are left
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor

from headway.config.search import Marks
from headway.decode.cpu.decoder import Lean
from headway.decode.reference.beam_search import run
from headway.decode.reference.model import S, Stepper
from headway.decode.request import Job, Task
from headway.decode.types import Choice, Hypothesis
from headway.errors import HeadwayError
from headway.text.shortlist import Shortlist


class Listed(Generic[S]):
    """What a model remembers of N hypotheses, and what each may say."""

    def __init__(self, inner: S, allowed: Tensor) -> None:
        self.inner = inner
        self.allowed = allowed  # (N, V)

    def select(self, rows: Tensor) -> None:
        self.inner.select(rows)
        self.allowed = self.allowed[rows]


class Shortlisted(Generic[S]):
    """Each row has the candidates of its own source, whatever its neighbours have."""

    def __init__(self, stepper: Stepper[S], shortlist: Shortlist) -> None:
        self.stepper = stepper
        self.shortlist = shortlist
        self.vocabulary = stepper.vocabulary
        self.device = stepper.device

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Listed[S]:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        ids, kept = source.cpu().numpy(), real.cpu().numpy()
        allowed = self.shortlist.mask([row[keep] for row, keep in zip(ids, kept)])
        return Listed(self.stepper.start(source, valid, rows), torch.from_numpy(allowed).to(self.device))

    def step(self, state: Listed[S], ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """log_softmax of the logits that are allowed. That of all of them, less a number that each of a row has in
        common, will do for logits; so models that vote do so before."""
        logps = self.stepper.step(state.inner, ids, valid)
        return logps.masked_fill(~state.allowed, -torch.inf).log_softmax(-1)


def shortlisted(stepper: Any, source: Tensor | None) -> Any:
    """The same model with its shortlist; refused where there is none, or nothing to ask it about."""
    if source is None:
        raise HeadwayError("a shortlist names words for a source, and a language model reads none. Search without it.")
    found = getattr(stepper, "shortlist", None)  # only models of ours have one
    if found is None:
        raise HeadwayError(
            "this model has no shortlist. Make one: headway shortlist --model DIR --source FILE --target FILE; or search "
            "without it."
        )
    if found.target_size != stepper.vocabulary:
        raise HeadwayError(
            f"the shortlist was made for {found.target_size} words, and the model has {stepper.vocabulary}. Make it anew: "
            "headway shortlist"
        )
    return Shortlisted(stepper, found)


class Cut:
    """A lean model that knows U words."""

    def __init__(self, lean: Lean, words: Tensor, allowed: Tensor) -> None:
        """words (U,): their ids, ascending. allowed (B, U): which of them each sentence may say."""
        self.lean, self.words, self.allowed = lean, words, allowed
        self.vocabulary, self.device = len(words), lean.device
        self.output = lean.output_of(words)

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Any:
        past = self.lean.start(source, valid, rows)
        past.allowed = self.allowed
        return past

    def step(self, state: Any, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        logits = self.output(self.lean.read(state, self.words[ids]))  # (N, U)
        allowed = state.allowed[state.live].repeat_interleave(state.width, dim=0)
        return self.lean.normalised(logits.masked_fill_(~allowed, -torch.inf))


def run_cut(
    lean: Lean, shortlist: Shortlist, task: Task, source: Tensor, valid: Tensor | None
) -> Iterator[tuple[Job, Hypothesis]]:
    real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
    rows = sorted({job.row for job in task.jobs if job.room > 0})  # those that the search will ask for
    lists = [shortlist.candidates(source[row][real[row]].numpy()) for row in rows]
    forced = [token for job in task.jobs for token in job.prefix]
    words = np.unique(np.concatenate([*lists, [task.marks.start, task.marks.end, *forced]]).astype(np.int64))
    allowed = torch.zeros(len(rows), len(words), dtype=torch.bool)
    for own, names in zip(allowed, lists):
        own[torch.from_numpy(np.searchsorted(words, names))] = True
    for job, hypothesis in _found(Cut(lean, torch.from_numpy(words), allowed), _among(words, task), source, valid):
        yield job, replace(hypothesis, ids=words[hypothesis.ids].tolist())


def _found(cut: Cut, task: Task, source: Tensor, valid: Tensor | None) -> Iterator[tuple[Job, Hypothesis]]:
    for _, new in run(cut, task, source, valid):
        yield from new


def _among(words: np.ndarray, task: Task) -> Task:
    """The same task in places instead of ids."""

    place = {word: index for index, word in enumerate(words.tolist())}
    suppress = tuple(place[token] for token in task.marks.suppress if token in place)
    marks = Marks(start=place[task.marks.start], end=place[task.marks.end], suppress=suppress)
    record = task.record

    def told(choice: Choice) -> None:
        assert record is not None
        record(replace(choice, ids=words[choice.ids].tolist()))

    jobs = [replace(job, prefix=[place[token] for token in job.prefix]) for job in task.jobs]
    return replace(task, marks=marks, jobs=jobs, record=None if record is None else told)
