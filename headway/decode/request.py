"""What is asked of a search, checked and with its lengths worked out, before any model is run."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.search import Marks, Search
from headway.decode.constraints import Demands
from headway.decode.types import Hypothesis, Recorder
from headway.errors import HeadwayError


@dataclass(frozen=True)
class Job:
    """One search: a row of the request, or one of the draws from it."""

    row: int
    copy: int
    prefix: list[int]
    room: int  # how many tokens may follow the prefix, the end token counted
    noise: random.Random | None  # what decides the draws
    demands: Demands | None = None  # what must be said


@dataclass(frozen=True)
class Task:
    search: Search
    marks: Marks
    jobs: list[Job]  # the draws of a row stand together
    device: torch.device
    record: Recorder | None = None

    def hypothesis(self, job: Job, ids: list[int], logps: list[float], logp: float) -> Hypothesis:
        """ids: all of them, with the prefix, and with the end token if it ended."""
        finished = bool(logps) and ids[-1] == self.marks.end
        score = self.search.score(logp, len(logps))
        return Hypothesis(ids[:-1] if finished else ids, logp, score, logps, finished, len(job.prefix))


def make_jobs(
    lengths: list[int], prefixes: list[list[int]], search: Search, lines: Sequence[int] | None,
    demands: Sequence[Demands] | None = None,
) -> list[Job]:  # fmt: skip
    """What is drawn depends on the seed, the line and the draw alone, so not on the neighbours."""
    seed = random.getrandbits(64) if search.seed is None else search.seed
    jobs = []
    for row, (length, prefix) in enumerate(zip(lengths, prefixes)):
        line = row if lines is None else lines[row]
        for copy in range(search.n_best if search.sample else 1):
            noise = random.Random(f"{seed} {line} {copy}") if search.sample else None
            asked = None if demands is None else demands[row]
            jobs.append(Job(row, copy, prefix, search.limit(length) - len(prefix), noise, asked))
    return jobs


def lengths_of(source: Tensor | None, valid: Tensor | None, prefixes: list[list[int]]) -> list[int]:
    """What the longest output is reckoned from: the real tokens of the source, or of the prompt if there is none."""
    if source is None:
        return [len(prefix) for prefix in prefixes]
    if valid is None:
        return [source.shape[1]] * source.shape[0]
    lengths: list[int] = valid.sum(1).tolist()
    return lengths


def forced_prefixes(
    source: Tensor | None,
    valid: Tensor | None,
    prefixes: Sequence[Sequence[int]] | None,
    lines: Sequence[int] | None,
) -> list[list[int]]:
    """One prefix for each row, once it is sure that all parts of the request are about the same rows."""
    if source is not None and source.dim() != 2:
        raise HeadwayError(f"the source has the shape {tuple(source.shape)}; it must be (rows, tokens).")
    if valid is not None and (source is None or valid.shape != source.shape):
        beside = "no source" if source is None else f"a source of {tuple(source.shape)}"
        raise HeadwayError(f"valid has the shape {tuple(valid.shape)}, beside {beside}. Both must be (rows, tokens).")
    rows = source.shape[0] if source is not None else 1 if prefixes is None else len(prefixes)
    forced = [[] for _ in range(rows)] if prefixes is None else [list(prefix) for prefix in prefixes]
    if len(forced) != rows:
        raise HeadwayError(f"{len(forced)} prefixes for {rows} rows. Give one for each row, or none at all.")
    if lines is not None and len(lines) != rows:
        raise HeadwayError(f"{len(lines)} line numbers for {rows} rows. Give one for each row, or none at all.")
    return forced


def check_ids(marks: Marks, prefixes: list[list[int]], vocabulary: int) -> None:
    """Every id must be one the model knows, and no prefix may end before the search begins."""
    named: list[tuple[str, Sequence[int]]] = [("start", [marks.start]), ("end", [marks.end])]
    named += [("suppress", marks.suppress)]
    named += [(f"the prefix of row {row}", prefix) for row, prefix in enumerate(prefixes)]
    for name, ids in named:
        for token in ids:
            if not 0 <= token < vocabulary:
                raise HeadwayError(f"{name} holds the id {token}; the model knows 0 to {vocabulary - 1}.")
    for row, prefix in enumerate(prefixes):
        if marks.end in prefix:
            raise HeadwayError(f"the prefix of row {row} holds the end token, {marks.end}. Leave it out.")
