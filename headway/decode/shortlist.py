"""Decoding with a shortlist: a row may produce only the tokens that the model's shortlist names for its source.

ShortlistedStepper is the specification: all logits, and -inf where a token is not allowed. On the CPU,
ReducedVocabularyStepper finds the same but computes only those rows of the output layer that some sentence of the batch
may need; its search runs over indices into these U tokens instead of ids.

B sentences    N hypotheses    V vocabulary    U tokens that some sentence may produce
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from headway.decode.cpu.cache import FloatKVCache, Int8KVCache
from headway.decode.cpu.decoder import CpuDecoder
from headway.decode.reference.beam_search import beam_search
from headway.decode.reference.model import S, Stepper
from headway.decode.request import SearchJob, SearchTask
from headway.decode.types import BeamStep, Hypothesis
from headway.errors import HeadwayError
from headway.text.shortlist import Shortlist, UnreadableShortlist


class ShortlistedState(Generic[S]):
    """A model's state of N hypotheses, and the tokens that each may produce."""

    def __init__(self, inner: S, allowed: Tensor) -> None:
        self.inner = inner
        self.allowed = allowed  # (N, V)

    def select(self, rows: Tensor) -> None:
        self.inner.select(rows)
        self.allowed = self.allowed[rows]


class ShortlistedStepper(Generic[S]):
    """Each row has the candidates of its own source, whatever other rows have."""

    def __init__(self, stepper: Stepper[S], shortlist: Shortlist) -> None:
        self.stepper = stepper
        self.shortlist = shortlist
        self.vocabulary = stepper.vocabulary
        self.device = stepper.device

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> ShortlistedState[S]:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        allowed = self.shortlist.mask([ids[own] for ids, own in zip(source.cpu().numpy(), real.cpu().numpy())])
        return ShortlistedState(self.stepper.start(source, valid, rows), torch.from_numpy(allowed).to(self.device))

    def step(self, state: ShortlistedState[S], ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """log_softmax of the allowed logits. The log-probabilities of the whole vocabulary serve as logits: they differ
        by a constant in each row. So the models of an ensemble vote first."""
        logps = self.stepper.step(state.inner, ids, valid)
        return logps.masked_fill(~state.allowed, -torch.inf).log_softmax(-1)


def apply_shortlist(stepper: Stepper[S], source: Tensor | None) -> ShortlistedStepper[S]:
    """The same model with its shortlist; an error if it has none, or if there is no source."""
    if source is None:
        raise HeadwayError("shortlists need a source sentence; this is a language model. Remove shortlist.")
    shortlist = getattr(stepper, "shortlist", None)  # only Headway's own models have one
    if isinstance(shortlist, UnreadableShortlist):
        raise shortlist.error
    if shortlist is None:
        raise HeadwayError(
            "this model has no shortlist. Make one: headway shortlist --model DIR --source FILE --target FILE; or "
            "search without it."
        )
    if shortlist.target_size != stepper.vocabulary:
        raise HeadwayError(
            f"the shortlist was made for {shortlist.target_size} tokens, and the model has {stepper.vocabulary}. "
            "Make it again: headway shortlist"
        )
    return ShortlistedStepper(stepper, shortlist)


class ReducedVocabularyStepper:
    """A CpuDecoder whose output layer has U tokens."""

    def __init__(self, decoder: CpuDecoder, tokens: Tensor, allowed: Tensor) -> None:
        """tokens (U,): their ids, ascending. allowed (B, U): which of them each sentence may produce."""
        self.decoder = decoder
        self.tokens = tokens
        self.allowed = allowed
        self.vocabulary = len(tokens)
        self.device = decoder.device
        self.output = decoder.output_layer_of(tokens)

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Int8KVCache | FloatKVCache:
        cache = self.decoder.start(source, valid, rows)
        cache.allowed = self.allowed
        return cache

    def step(self, state: Int8KVCache | FloatKVCache, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        assert state.allowed is not None
        logits = self.output(self.decoder.hidden(state, self.tokens[ids]))  # (N, U)
        allowed = state.allowed[state.live].repeat_interleave(state.width, dim=0)
        return self.decoder.log_softmax(logits.masked_fill_(~allowed, -torch.inf))


def search_reduced_vocabulary(
    decoder: CpuDecoder, shortlist: Shortlist, task: SearchTask, source: Tensor, valid: Tensor | None
) -> Iterator[tuple[SearchJob, Hypothesis]]:
    """Beam search over the tokens that some row may need."""
    real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
    rows = sorted({job.row for job in task.open_jobs})
    lists = [shortlist.candidates(source[row][real[row]].numpy()) for row in rows]
    special = task.special_tokens
    forced = [token for job in task.jobs for token in job.prefix]
    tokens = np.unique(np.concatenate([*lists, [special.start, special.end, *forced]]).astype(np.int64))
    allowed = torch.zeros(len(rows), len(tokens), dtype=torch.bool)
    for own, ids in zip(allowed, lists):
        own[torch.from_numpy(np.searchsorted(tokens, ids))] = True
    stepper = ReducedVocabularyStepper(decoder, torch.from_numpy(tokens), allowed)
    for _, new in beam_search(stepper, _to_indices(tokens, task), source, valid):
        for job, hypothesis in new:
            yield job, replace(hypothesis, ids=tokens[hypothesis.ids].tolist())


def _to_indices(tokens: np.ndarray, task: SearchTask) -> SearchTask:
    """The same task, with indices into `tokens` instead of ids."""
    index_of = {token: index for index, token in enumerate(tokens.tolist())}
    special = replace(
        task.special_tokens,
        start=index_of[task.special_tokens.start],
        end=index_of[task.special_tokens.end],
        suppress=tuple(index_of[token] for token in task.special_tokens.suppress if token in index_of),
    )
    record = task.record

    def record_ids(step: BeamStep) -> None:
        assert record is not None
        record(replace(step, ids=tokens[step.ids].tolist()))

    jobs = [replace(job, prefix=[index_of[token] for token in job.prefix]) for job in task.jobs]
    return replace(task, special_tokens=special, jobs=jobs, record=None if record is None else record_ids)
