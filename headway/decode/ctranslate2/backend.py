"""The CTranslate2 engine: ready sooner than torch, and its outputs are those of the reference search.

CTranslate2 ranks by logp / n^α. For the paper's length penalty we ask for its n-best, with the nearest power, and rank
them again. It suppresses tokens before the softmax, and we after it, so that its sums differ: in a beam search control
tokens are suppressed only for the few rows in which they turn up. What it cannot tell us: one that was in the beam for
some steps, in place of another hypothesis, and in no output. Only a model that is hardly trained finds one so likely.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from headway.config.search import Search
from headway.decode.ctranslate2.model import Ct2Model
from headway.decode.request import describe_reference_only
from headway.decode.types import Hypothesis, Recorder, T
from headway.errors import HeadwayError
from headway.text.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from headway.decode.constraints import PhraseConstraints

NO_PENALTY = 1e-30  # 0 would make it stop as soon as one hypothesis has ended
MAX_BATCH_TOKENS = 512  # of one worker: more do not stay in the CPU's caches
MAX_SCORE_BATCH_TOKENS = 4096  # likewise, where nothing is searched for
TIGHT_LIMIT_RATIO = 1.5  # times the source length: outputs may well reach a maximum length below that

Ranked = dict[int, list[list[int]]]  # of each row its outputs, best first; an end token last if it has ended


class Ct2Engine:
    """One model on the CPU."""

    name: Literal["ctranslate2"] = "ctranslate2"
    device = "cpu"
    workers = 1  # it has threads of its own

    def __init__(self, model: Ct2Model, special_tokens: SpecialTokens) -> None:
        self.model = model
        self.model.special_tokens = special_tokens  # before it is loaded: they are written into it
        self.special_tokens = special_tokens
        self._suppress = frozenset(special_tokens.suppress)

    @property
    def compute(self) -> Literal["float32", "int8"]:
        return self.model.compute

    def use_threads(self, count: int) -> None:
        """Its threads are made with the model, and serve several callers."""

    def stop(self) -> None:
        """It ends between two batches: see decode.stop."""

    def run_batches(self, function: Callable[[T], None], batches: Sequence[T]) -> None:
        for batch in batches:
            function(batch)

    def unsupported(
        self, search: Search, prefixes: bool = False, record: Recorder | None = None, constraints: bool = False
    ) -> str:
        """Why this search would not find exactly what the reference search finds; "" if it would."""
        if search.sample:
            return "sampling would draw other tokens"
        if record is not None:
            return "it does not record its steps"
        if prefixes:
            return "forced prefixes are left to torch"
        if constraints:
            return "glossary terms are left to torch"
        if search.shortlist:
            return "it has no shortlists"
        if search.min_length or (search.no_repeat_ngram and search.beam_size > 1):
            return "it applies min_length and no_repeat_ngram before the softmax"
        return describe_reference_only(search)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        line_numbers: Sequence[int] | None = None,
        record: Recorder | None = None,
        constraints: "Sequence[PhraseConstraints] | None" = None,
    ) -> list[list[Hypothesis]]:
        """Up to n_best hypotheses for each row, best first, at least one."""
        # A retry with no_repeat_ngram, after an output that went wrong, need not score as the reference search does.
        retry = replace(search, no_repeat_ngram=0)
        assert not self.unsupported(retry, prefixes is not None, record, constraints is not None)
        limits = [search.max_output_length(len(row)) for row in rows]
        open_rows = [index for index, limit in enumerate(limits) if limit > 0]
        found: Ranked = {}
        for group in _group_rows(open_rows, [len(row) for row in rows], limits):
            found |= self._search_rows(rows, group, max(limits[index] for index in group), search)
        for limit, group in _group_by_limit(_find_too_long(found, limits), limits):
            found |= self._search_rows(rows, group, limit, search)
        for limit, group in _group_by_limit(_find_suppressed(found, self._suppress), limits):
            found |= self._search_rows(rows, group, limit, search, suppress=True)
        scores = LazyScores(self, search)
        return [
            [scores.add(row, ids) for ids in found[index][: search.n_best]]
            if index in found
            else [Hypothesis([], 0.0, 0.0, [], False)]
            for index, row in enumerate(rows)
        ]

    def _search_rows(
        self, rows: Sequence[Sequence[int]], indices: list[int], limit: int, search: Search, suppress: bool = False
    ) -> Ranked:
        """The outputs of these rows, ranked by our formula; equal ones in CTranslate2's order."""
        sources = [to_ct2_tokens(rows[index]) for index in indices]
        alpha = nearest_power(search, sum(map(len, sources)) // len(sources))
        suppressed = [[str(token)] for token in self._suppress] if suppress or search.beam_size == 1 else None
        results = self.model.translator(max(limit, *map(len, sources))).translate_batch(
            sources,
            beam_size=search.beam_size,
            num_hypotheses=search.beam_size,
            length_penalty=alpha,
            no_repeat_ngram_size=search.no_repeat_ngram,
            suppress_sequences=suppressed,
            max_decoding_length=limit,
            min_decoding_length=0,
            max_input_length=0,
            max_batch_size=min(MAX_BATCH_TOKENS, math.ceil(sum(map(len, sources)) / self.model.workers)),
            batch_type="tokens",
            return_end_token=True,
            return_scores=True,
        )
        found = {}
        for index, result in zip(indices, results):
            if not all(map(math.isfinite, result.scores)):
                raise HeadwayError(
                    f"row {index}: the model's log-probabilities are not numbers (NaN or infinite). "
                    "Its weights are damaged."
                )
            ranked = [
                (search.score(score * len(tokens) ** alpha, len(tokens)), tokens)
                for tokens, score in zip(result.hypotheses, result.scores)
            ]
            ranked.sort(key=lambda pair: -pair[0])
            found[index] = [[int(token) for token in tokens] for _, tokens in ranked]
        return found

    def score(self, sources: list[list[str]], targets: list[list[str]]) -> list[list[float]]:
        """The log-probability of each token of each target, and of the end."""
        positions = max(map(len, [*sources, *targets])) + 1
        results = self.model.translator(positions).score_batch(
            sources, targets, max_batch_size=MAX_SCORE_BATCH_TOKENS, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]


class LazyScores:
    """The log-probabilities of a search's hypotheses, computed together when one is first needed: that is a pass of its
    own, and most callers need the text alone."""

    def __init__(self, engine: Ct2Engine, search: Search) -> None:
        self.engine = engine
        self.search = search
        self.sources: list[Sequence[int]] = []
        self.targets: list[list[int]] = []  # without their ends

    def add(self, source: Sequence[int], ids: list[int]) -> "LazyHypothesis":
        finished = ids[-1:] == [self.engine.special_tokens.end]
        self.sources.append(source)
        self.targets.append(ids[:-1] if finished else ids)
        return LazyHypothesis(self, len(self.targets) - 1, finished)

    @functools.cached_property
    def logps(self) -> list[list[float]]:
        """Of each target's tokens and its end."""
        return self.engine.score([*map(to_ct2_tokens, self.sources)], [*map(to_ct2_tokens, self.targets)])


class LazyHypothesis(Hypothesis):
    """A hypothesis whose scores are computed when they are first read."""

    def __init__(self, scores: LazyScores, index: int, finished: bool) -> None:
        for name, value in {"_scores": scores, "_index": index, "finished": finished, "prefix": 0}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "ids", scores.targets[index])

    @property
    def token_logps(self) -> list[float]:
        logps: list[float] = self._scores.logps[self._index]  # type: ignore[attr-defined]
        return logps if self.finished else logps[:-1]

    @property
    def logp(self) -> float:
        return sum(self.token_logps)

    @property
    def score(self) -> float:
        search: Search = self._scores.search  # type: ignore[attr-defined]
        return search.score(self.logp, len(self.token_logps))


def to_ct2_tokens(ids: Sequence[int]) -> list[str]:
    return [str(token) for token in ids]


def _group_rows(indices: list[int], lengths: list[int], limits: list[int]) -> list[list[int]]:
    """Rows that are searched together. Few outputs reach their maximum length, so that most rows share the largest
    limit of all; where limits are tight, rows of one limit go together."""
    tight = {index for index in indices if limits[index] < TIGHT_LIMIT_RATIO * lengths[index] + 10}
    groups = [[index for index in indices if index not in tight]]
    groups += [group for _, group in _group_by_limit(sorted(tight), limits)]
    return [group for group in groups if group]


def _group_by_limit(indices: list[int], limits: list[int]) -> list[tuple[int, list[int]]]:
    known = sorted({limits[index] for index in indices})
    return [(limit, [index for index in indices if limits[index] == limit]) for limit in known]


def _find_too_long(found: Ranked, limits: list[int]) -> list[int]:
    """The rows with an output above their maximum length."""
    return [index for index, ranked in found.items() if any(len(ids) > limits[index] for ids in ranked)]


def _find_suppressed(found: Ranked, suppress: frozenset[int]) -> list[int]:
    """The rows with ids that may not be produced."""
    return [index for index, ranked in found.items() if any(not suppress.isdisjoint(ids) for ids in ranked)]


def nearest_power(search: Search, length: int) -> float:
    """The power of n with which CTranslate2 keeps what our search would keep, for outputs of about this length or some
    times shorter: it drops what it ranks last before we rank."""
    if search.penalty == "none" or not search.alpha:
        return NO_PENALTY
    if search.penalty == "power":
        return search.alpha
    return search.alpha * math.log((5 + length) / (5 + length / 4)) / math.log(4)
