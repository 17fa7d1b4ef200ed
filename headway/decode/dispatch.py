"""decode and stream: ids in, ids out."""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from headway.config.search import Marks, Search
from headway.decode.constraints import Demands
from headway.decode.cpu import search as whole_search
from headway.decode.cuda import search as static
from headway.decode.reference.beam_search import run
from headway.decode.reference.model import ModelStepper, S, Stepper
from headway.decode.request import Job, Task, check_ids, forced_prefixes, lengths_of, make_jobs
from headway.decode.shortlist import Shortlisted, run_cut, shortlisted
from headway.decode.types import Hypothesis, Recorder
from headway.errors import ConfigError, HeadwayError

ENGINES = ("auto", "naive", "lean", "static")


@torch.no_grad()
def decode(
    stepper: Stepper[S],
    source: Tensor | None,
    valid: Tensor | None = None,
    *,
    marks: Marks,
    search: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
    lines: Sequence[int] | None = None,
    record: Recorder | None = None,
    engine: Literal["auto", "naive", "lean", "static"] = "auto",
    demands: Sequence[Demands] | None = None,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each row of source (B, S), best first, at least one.

    valid (B, S): which source ids are real; None: all. Without a source, each prefix is a prompt to go on from.
    lines: numbers the rows carry, which with the seed decide what is drawn for them; None: 0, 1, …
    record: called with every row's candidates at every step; it costs time and changes nothing.
    engine: "naive" is the plain loop over the plain model; "lean" the same over a model made for the CPU; "static" finds
        the same in tensors that keep their shape, as recorded steps on a GPU; "auto" is what is fastest and can be.
    demands: what each row's output must say; what does not, because its length was spent, comes after what does.
    """
    if engine not in ENGINES:
        raise HeadwayError(f'engine "{engine}" is not known: one of {", ".join(ENGINES)}.')
    if search.sample and demands is not None:
        raise ConfigError(
            "what must be said is searched for, and this draws at random. Leave one of them out.", "sample"
        )
    stepper = shortlisted(stepper, source) if search.shortlist else stepper
    forced = forced_prefixes(source, valid, prefixes, lines)
    check_ids(marks, forced, stepper.vocabulary)
    lengths = lengths_of(source, valid, forced)
    jobs = make_jobs(lengths, forced, search, lines, demands)
    task = Task(search, marks, jobs, stepper.device, record)
    found: list[list[Hypothesis]] = [[] for _ in forced]
    for job in jobs:
        if job.room <= 0 and job.copy == 0:
            found[job.row].append(task.hypothesis(job, job.prefix, [], 0.0))
    for job, hypothesis in _searched(engine, stepper, task, source, valid, lengths):
        found[job.row].append(hypothesis)
    if demands is not None:
        for row, own in zip(found, demands):
            row.sort(key=lambda hypothesis: (own.lacks(hypothesis.ids), -hypothesis.score))
        return [row[: search.n_best] for row in found]
    return [sorted(row, key=lambda hypothesis: -hypothesis.score)[: search.n_best] for row in found]


def _searched(
    engine: str, stepper: Any, task: Task, source: Tensor | None, valid: Tensor | None, lengths: list[int]
) -> Iterable[tuple[Job, Hypothesis]]:
    """By the engine that was asked for, or is fastest."""
    if engine == "static" or (engine == "auto" and stepper.device.type == "cuda"):
        reason = static.why_not(stepper, task, source, lengths)
        if reason and engine == "static":
            raise HeadwayError(f'this search cannot be static: {reason}. Leave the engine at "auto".')
        if not reason:
            try:
                return static.run(stepper, task, source, valid)
            except torch.OutOfMemoryError:
                pass  # the plain loop keeps less: only the rows that are not done
    if engine == "lean" or (engine == "auto" and stepper.device.type == "cpu"):
        reason = _why_not_lean(stepper, task, source)
        if reason and engine == "lean":
            raise HeadwayError(f'this search cannot be lean: {reason}. Leave the engine at "auto".')
        if not reason and isinstance(stepper, Shortlisted):
            assert source is not None
            return run_cut(stepper.stepper.lean, stepper.shortlist, task, source, valid)  # type: ignore[attr-defined]
        if not reason:
            stepper = stepper.lean
            if not whole_search.why_not(stepper, task):
                assert source is not None
                return whole_search.run(stepper, task, source, valid)
    return (item for _, new in run(stepper, task, source, valid) for item in new)


def _why_not_lean(stepper: Any, task: Task, source: Tensor | None) -> str:
    """Nothing if it can be."""
    stepper = stepper.stepper if isinstance(stepper, Shortlisted) else stepper
    if type(stepper) is not ModelStepper:
        return "several models vote, or it is no model of ours"
    if source is None:
        return "there is no source"
    if len({len(job.prefix) for job in task.jobs}) > 1:
        return "its prefixes have different lengths"
    return stepper.lean if isinstance(stepper.lean, str) else ""


@torch.no_grad()
def stream(
    stepper: Stepper[S],
    source: Tensor | None,
    valid: Tensor | None = None,
    *,
    marks: Marks,
    search: Search,
    prefix: Sequence[int] = (),
    line: int = 0,
) -> Generator[int, None, Hypothesis]:
    """The ids of one row as they are produced, after the prefix and without the end; returns the hypothesis.

    They are those of decode. A beam cannot be streamed: its first token is certain only when the last one is.
    """
    if search.beam_size > 1 or search.n_best > 1:
        raise ConfigError("only one hypothesis can be streamed. Set beam_size = 1 and n_best = 1.", "search")
    if source is not None and len(source) != 1:
        raise HeadwayError(f"only one row can be streamed, and the source has {len(source)}. Give them one by one.")
    stepper = shortlisted(stepper, source) if search.shortlist else stepper
    forced = forced_prefixes(source, valid, [prefix], [line])
    check_ids(marks, forced, stepper.vocabulary)
    jobs = make_jobs(lengths_of(source, valid, forced), forced, search, [line])
    task = Task(search, marks, jobs, stepper.device)
    shown, hypothesis = len(prefix), task.hypothesis(jobs[0], forced[0], [], 0.0)
    for batch, new in run(stepper, task, source, valid):
        for _, hypothesis in new:
            yield from hypothesis.ids[shown:]
        if batch.jobs:
            shown += 1
            yield int(batch.history[0, 0, -1])
    return hypothesis
