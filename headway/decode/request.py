"""A decoding request: checked, and with its length limits worked out, before any model runs. No torch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headway.config.search import Search
from headway.decode.constraints import PhraseConstraints
from headway.decode.types import Hypothesis, Recorder
from headway.errors import HeadwayError
from headway.text.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class SearchJob:
    """One search: a row of the request, or one of the draws from it."""

    row: int
    copy: int  # which of the n_best draws, when sampling
    prefix: list[int]
    max_new_tokens: int  # how many tokens may follow the prefix, the end token counted
    rng: random.Random | None  # decides what is drawn; None: nothing is
    constraints: PhraseConstraints | None = None


@dataclass(frozen=True)
class SearchTask:
    """Everything that a search needs beside the model and the source."""

    search: Search
    special_tokens: SpecialTokens
    jobs: list[SearchJob]  # the draws of a row are consecutive
    device: "torch.device | None" = None  # None: the CPU
    record: Recorder | None = None

    @property
    def open_jobs(self) -> list[SearchJob]:
        """The jobs that may produce a token at all."""
        return [job for job in self.jobs if job.max_new_tokens > 0]

    def length_penalty(self, produced: int) -> float:
        """For so many produced tokens. As in Hugging Face, what every output begins with is part of its length, and a
        prefix that a user demands is not."""
        return self.search.length_penalty(produced + self.special_tokens.target_lead)

    def hypothesis(self, job: SearchJob, ids: list[int], logps: list[float], logp: float) -> Hypothesis:
        """ids: all of them, with the prefix, and with the end token if it ended."""
        finished = bool(logps) and ids[-1] == self.special_tokens.end
        score = logp / self.length_penalty(len(logps))
        return Hypothesis(ids[:-1] if finished else ids, logp, score, logps, finished, len(job.prefix))


def describe_other_method(search: Search) -> str:
    """A search that is no beam, and no greedy one; "" if it is."""
    kind = "beam" if search.method is None else search.method.kind
    return "" if kind == "beam" else f"{kind} is left to torch"


def describe_reference_only(search: Search) -> str:
    """A setting that only the reference search and the native one have, or another engine; "" if there is none."""
    if reason := describe_other_method(search):
        return reason
    if search.stopping == "score" and search.beam_size > 1:
        return 'stopping is "score"'
    return next((f"{name} is set" for name in ("force_end", "renormalise") if getattr(search, name)), "")


def make_jobs(
    lengths: list[int],
    prefixes: list[list[int]],
    search: Search,
    line_numbers: Sequence[int] | None,
    constraints: Sequence[PhraseConstraints] | None = None,
) -> list[SearchJob]:
    """What is drawn depends on the seed, the line number and the draw alone, so not on the other rows."""
    seed = random.getrandbits(64) if search.seed is None else search.seed
    jobs = []
    for row, (length, prefix) in enumerate(zip(lengths, prefixes)):
        line = row if line_numbers is None else line_numbers[row]
        max_new_tokens = search.max_output_length(length) - len(prefix)
        for copy in range(search.n_best if search.sample else 1):
            rng = random.Random(f"{seed} {line} {copy}") if search.sample else None
            required = None if constraints is None else constraints[row]
            jobs.append(SearchJob(row, copy, prefix, max_new_tokens, rng, required))
    return jobs


def source_lengths(source: "Tensor | None", valid: "Tensor | None", prefixes: list[list[int]]) -> list[int]:
    """The lengths that maximum lengths depend on: of the real tokens of the source, or of the prompt without one."""
    if source is None:
        return [len(prefix) for prefix in prefixes]
    if valid is None:
        return [source.shape[1]] * source.shape[0]
    lengths: list[int] = valid.sum(1).tolist()
    return lengths


def resolve_prefixes(
    source: "Tensor | None",
    valid: "Tensor | None",
    prefixes: Sequence[Sequence[int]] | None,
    line_numbers: Sequence[int] | None,
) -> list[list[int]]:
    """One forced prefix for each row, after checking that all parts of the request have the same rows."""
    if source is not None and source.dim() != 2:
        raise HeadwayError(f"the source has the shape {tuple(source.shape)}; it must be (rows, tokens).")
    if valid is not None and (source is None or valid.shape != source.shape):
        beside = "no source" if source is None else f"a source of {tuple(source.shape)}"
        raise HeadwayError(f"valid has the shape {tuple(valid.shape)}, beside {beside}. Both must be (rows, tokens).")
    rows = source.shape[0] if source is not None else 1 if prefixes is None else len(prefixes)
    forced = [[] for _ in range(rows)] if prefixes is None else [list(prefix) for prefix in prefixes]
    if len(forced) != rows:
        raise HeadwayError(f"{len(forced)} prefixes for {rows} rows. Give one for each row, or none at all.")
    if line_numbers is not None and len(line_numbers) != rows:
        raise HeadwayError(f"{len(line_numbers)} line numbers for {rows} rows. Give one for each row, or none at all.")
    return forced


def non_finite_error(job: SearchJob, step: int) -> HeadwayError:
    """For a row whose log-probabilities were NaN or infinite after `step` tokens."""
    return HeadwayError(
        f"row {job.row}, output token {step + 1}: the model's log-probabilities are not numbers (NaN or infinite). Its "
        "weights are damaged, or it overflows in this precision: try float32."
    )


def check_ids(special_tokens: SpecialTokens, prefixes: list[list[int]], vocabulary: int) -> None:
    """Every id must be in the model's vocabulary, and no prefix may contain the end token."""
    named: list[tuple[str, Sequence[int]]] = [("start", [special_tokens.start]), ("end", [special_tokens.end])]
    named += [("suppress", special_tokens.suppress)]
    named += [(f"the prefix of row {row}", prefix) for row, prefix in enumerate(prefixes)]
    for name, ids in named:
        for token in ids:
            if not 0 <= token < vocabulary:
                raise HeadwayError(f"{name} holds the id {token}; the model knows 0 to {vocabulary - 1}.")
    for row, prefix in enumerate(prefixes):
        if special_tokens.end in prefix:
            raise HeadwayError(f"the prefix of row {row} holds the end token, {special_tokens.end}. Leave it out.")
