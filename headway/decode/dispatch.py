"""Dispatch of a decoding request to the fastest search that supports it: `decode`, and `stream` id by id.

"reference"  beam search over any model: the specification of the others
"cpu"        the same over CpuDecoder; in int8, where it can be, as one call into C
"cuda"       the same in tensors of fixed shape, replayed as CUDA graphs
"auto"       the fastest of these that supports the model and the settings

Models that were trained by masked_target have a search of their own: headway.decode.mask_predict.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from headway.config.search import Search
from headway.decode.constraints import PhraseConstraints
from headway.decode.cpu import search as cpu_search
from headway.decode.cpu.decoder import CpuDecoder, cpu_decoder_of
from headway.decode.cuda import search as cuda_search
from headway.decode.mask_predict import check_request, find_method, mask_predict
from headway.decode.reference.beam_search import beam_search
from headway.decode.reference.model import ModelStepper, S, Stepper
from headway.decode.request import SearchJob, SearchTask, check_ids, make_jobs, resolve_prefixes, source_lengths
from headway.decode.shortlist import ShortlistedStepper, apply_shortlist, search_reduced_vocabulary
from headway.decode.types import Hypothesis, Recorder
from headway.errors import ConfigError, HeadwayError
from headway.text.tokenizer.special_tokens import SpecialTokens

SearchKind = Literal["auto", "reference", "cpu", "cuda"]


@torch.no_grad()
def decode(
    stepper: Stepper[S],
    source: Tensor | None,
    valid: Tensor | None = None,
    *,
    special_tokens: SpecialTokens,
    search: Search,
    prefixes: Sequence[Sequence[int]] | None = None,
    line_numbers: Sequence[int] | None = None,
    record: Recorder | None = None,
    search_kind: SearchKind = "auto",
    constraints: Sequence[PhraseConstraints] | None = None,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses for each row of source (B, S), best first, at least one.

    valid (B, S): which source ids are real; None: all. Without a source, each prefix is a prompt to continue.
    line_numbers: of the rows; with the seed they decide what is drawn for each; None: 0, 1, …
    record: called with every row's candidates at every step; it costs time and changes nothing.
    search_kind: see the top of this module.
    constraints: phrases that each row's output must contain; outputs that lack some, because the maximum length was
        reached, come last.
    """
    if search_kind not in get_args(SearchKind):
        raise HeadwayError(f'there is no search "{search_kind}": use one of {", ".join(get_args(SearchKind))}.')
    method = find_method(stepper, search)
    if method is not None:
        if source is None:
            raise HeadwayError("mask_predict needs a source.")
        check_request(search, resolve_prefixes(source, valid, prefixes, line_numbers), record, constraints)
        own: Any = getattr(stepper, "steppers", [stepper])[0]
        return mask_predict(own, source, valid, special_tokens=special_tokens, search=search, method=method)
    if search.sample and constraints is not None:
        raise ConfigError(
            "constraints need a beam search, not sampling. Set sample = false, or remove the constraints.", "sample"
        )
    model: Stepper[Any] = apply_shortlist(stepper, source) if search.shortlist else stepper
    forced = resolve_prefixes(source, valid, prefixes, line_numbers)
    check_ids(special_tokens, forced, model.vocabulary)
    lengths = source_lengths(source, valid, forced)
    jobs = make_jobs(lengths, forced, search, line_numbers, constraints)
    task = SearchTask(search, special_tokens, jobs, model.device, record)
    found: list[list[Hypothesis]] = [[] for _ in forced]
    for job in jobs:
        if job.max_new_tokens <= 0 and job.copy == 0:
            found[job.row].append(task.hypothesis(job, job.prefix, [], 0.0))
    for job, hypothesis in _run_search(search_kind, model, task, source, valid, lengths):
        found[job.row].append(hypothesis)
    if constraints is not None:
        for row, own in zip(found, constraints):
            row.sort(key=lambda hypothesis: (own.count_missing(hypothesis.ids), -hypothesis.score))
        return [row[: search.n_best] for row in found]
    return [sorted(row, key=lambda hypothesis: -hypothesis.score)[: search.n_best] for row in found]


def _run_search(
    search_kind: SearchKind,
    stepper: Stepper[Any],
    task: SearchTask,
    source: Tensor | None,
    valid: Tensor | None,
    lengths: list[int],
) -> Iterable[tuple[SearchJob, Hypothesis]]:
    """By the search that was asked for; "auto": by the fastest."""
    if search_kind == "cuda" or (search_kind == "auto" and stepper.device.type == "cuda"):
        reason = cuda_search.unsupported(stepper, task, source, lengths)
        if reason and search_kind == "cuda":
            raise _refuse(search_kind, reason)
        if not reason:
            assert isinstance(stepper, ModelStepper)
            try:
                return cuda_search.run_search(stepper, task, source, valid)
            except torch.OutOfMemoryError:
                pass  # the reference search needs less: it keeps only the rows that are not done
    if search_kind == "cpu" or (search_kind == "auto" and stepper.device.type == "cpu"):
        decoder = _cpu_decoder(stepper, task, source)
        if isinstance(decoder, CpuDecoder):
            assert source is not None
            return _run_cpu_search(decoder, stepper, task, source, valid)
        if search_kind == "cpu":
            raise _refuse(search_kind, decoder)
    return (item for _, new in beam_search(stepper, task, source, valid) for item in new)


def _refuse(search_kind: SearchKind, reason: str) -> HeadwayError:
    return HeadwayError(f'the "{search_kind}" search does not support this: {reason}. Use search_kind="auto".')


def _cpu_decoder(stepper: Stepper[Any], task: SearchTask, source: Tensor | None) -> CpuDecoder | str:
    """The stepper's model, made for the CPU, or why it cannot be."""
    model = stepper.stepper if isinstance(stepper, ShortlistedStepper) else stepper
    if type(model) is not ModelStepper:
        return "the model is an ensemble, or not one of Headway's"
    if source is None:
        return "there is no source"
    decoder = cpu_decoder_of(model)
    if isinstance(decoder, str) or len({len(job.prefix) for job in task.jobs}) < 2:
        return decoder
    in_python = isinstance(stepper, ShortlistedStepper) or cpu_search.unsupported(decoder, task)
    return "prefixes have different lengths" if in_python else decoder


def _run_cpu_search(
    decoder: CpuDecoder, stepper: Stepper[Any], task: SearchTask, source: Tensor, valid: Tensor | None
) -> Iterable[tuple[SearchJob, Hypothesis]]:
    if isinstance(stepper, ShortlistedStepper):
        return search_reduced_vocabulary(decoder, stepper.shortlist, task, source, valid)
    if not cpu_search.unsupported(decoder, task):
        return cpu_search.run_search(decoder, task, source, valid)
    return (item for _, new in beam_search(decoder, task, source, valid) for item in new)


@torch.no_grad()
def stream(
    stepper: Stepper[S],
    source: Tensor | None,
    valid: Tensor | None = None,
    *,
    special_tokens: SpecialTokens,
    search: Search,
    prefix: Sequence[int] = (),
    line_number: int = 0,
) -> Generator[int, None, Hypothesis]:
    """The ids of one row as they are produced, after the prefix and without the end; returns the hypothesis.

    They are those of decode. A beam cannot be streamed: its first token is certain only when the last one is.
    """
    if find_method(stepper, search) is not None:
        raise HeadwayError("this model translates by mask_predict, all tokens at once: there is nothing to stream.")
    if search.beam_size > 1 or search.n_best > 1:
        raise ConfigError("only one hypothesis can be streamed. Set beam_size = 1 and n_best = 1.", "search")
    if source is not None and len(source) != 1:
        raise HeadwayError(f"only one row can be streamed, and the source has {len(source)}. Give them one by one.")
    model: Stepper[Any] = apply_shortlist(stepper, source) if search.shortlist else stepper
    forced = resolve_prefixes(source, valid, [prefix], [line_number])
    check_ids(special_tokens, forced, model.vocabulary)
    jobs = make_jobs(source_lengths(source, valid, forced), forced, search, [line_number])
    task = SearchTask(search, special_tokens, jobs, model.device)
    hypothesis = task.hypothesis(jobs[0], forced[0], [], 0.0)
    yielded = len(prefix)
    for beam, new in beam_search(model, task, source, valid):
        for _, hypothesis in new:
            yield from hypothesis.ids[yielded:]
        if beam.jobs:
            yielded += 1
            yield int(beam.history[0, 0, -1])
    return hypothesis
