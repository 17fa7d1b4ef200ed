"""The search by CTranslate2: sooner there than torch, and its text is that of the plain loop.

It ranks by logp / n^α. For the paper's penalty its n-best are asked for, with the power that comes nearest, and ranked
anew. What it forbids it forbids before the softmax, and we after it, so that its sums are other sums: in a beam control
tokens are forbidden only to the few rows in which they turn up.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from headway.config.search import Marks, Search
from headway.decode.ctranslate2.model import END, START, Ct2Model
from headway.decode.types import Hypothesis, Recorder, T
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.decode.constraints import Demands

NO_PENALTY = 1e-30  # 0 would have it stop as soon as one hypothesis has ended
AT_ONCE = 512  # tokens, by one of its workers: more do not stay in the caches
SCORED = 4096  # likewise, where nothing is searched for
TIGHT = 1.5  # times the source: a limit below that may well be met


class Ct2Engine:
    name: Literal["ctranslate2"] = "ctranslate2"
    device = "cpu"

    def __init__(self, model: Ct2Model, marks: Marks) -> None:
        assert (marks.start, marks.end) == (START, END), "these are written into the model"
        self.model, self.marks, self._banned = model, marks, frozenset(marks.suppress)

    @property
    def compute(self) -> Literal["float32", "int8"]:
        return self.model.compute

    workers = 1  # it has threads of its own

    def each(self, act: Callable[[T], None], batches: Sequence[T]) -> None:
        for batch in batches:
            act(batch)

    def why_not(
        self, search: Search, prefixes: bool = False, record: Recorder | None = None, demands: bool = False
    ) -> str:
        """Why this search would not find exactly what the plain loop finds; nothing if it would."""
        if search.sample:
            return "it draws other numbers"
        if record is not None:
            return "it does not tell its steps"
        if prefixes:
            return "a forced beginning is left to torch"
        if demands:
            return "a glossary is left to torch"
        if search.shortlist:
            return "it knows no shortlists"
        if search.min_length or (search.no_repeat_ngram and search.beam_size > 1):
            return "it counts what is forbidden otherwise"
        return ""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        search: Search,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        lines: Sequence[int] | None = None,
        record: Recorder | None = None,
        demands: "Sequence[Demands] | None" = None,
    ) -> list[list[Hypothesis]]:
        """Up to n_best hypotheses for each row, best first, at least one."""
        # Where something is searched again because it went wrong, what is forbidden need not be counted as elsewhere.
        asked = self.why_not(replace(search, no_repeat_ngram=0), prefixes is not None, record, demands is not None)
        assert not asked, "asked for what it cannot do"
        limits = [search.limit(len(row)) for row in rows]
        found: dict[int, list[list[int]]] = {}  # what each row may be, best first, an end token where it has ended
        left = [row for row, limit in enumerate(limits) if limit > 0]
        for places in _groups(left, [len(row) for row in rows], limits):
            found |= self._ranked(rows, places, max(limits[row] for row in places), search)
        for limit, same in _by_limit(_longer(found, limits), limits):
            found |= self._ranked(rows, same, limit, search)
        for limit, same in _by_limit(_spoilt(found, self._banned), limits):
            found |= self._ranked(rows, same, limit, search, forbid=True)
        unscored = Unscored(self, search)
        return [
            [unscored.add(row, ids) for ids in found[place][: search.n_best]]
            if place in found
            else [Hypothesis([], 0.0, 0.0, [], False)]
            for place, row in enumerate(rows)
        ]

    def _ranked(
        self, rows: Sequence[Sequence[int]], places: list[int], limit: int, search: Search, forbid: bool = False
    ) -> dict[int, list[list[int]]]:
        """Everything that is found for the rows at these places, ranked by our formula; equal ones as they came."""
        sources = [written(rows[place]) for place in places]
        alpha = _power(search, sum(map(len, sources)) // len(sources))
        results = self.model.translator(max(limit, *map(len, sources))).translate_batch(
            sources,
            beam_size=search.beam_size,
            num_hypotheses=search.beam_size,
            length_penalty=alpha,
            no_repeat_ngram_size=search.no_repeat_ngram,
            suppress_sequences=[[str(token)] for token in self._banned] if forbid or search.beam_size == 1 else None,
            max_decoding_length=limit,
            min_decoding_length=0,
            max_input_length=0,
            max_batch_size=min(AT_ONCE, math.ceil(sum(map(len, sources)) / self.model.workers)),
            batch_type="tokens",
            return_end_token=True,
            return_scores=True,
        )
        found = {}
        for place, result in zip(places, results):
            if not all(map(math.isfinite, result.scores)):
                raise HeadwayError(
                    f"row {place}: the model's log-probabilities are not numbers (NaN or infinite). Its weights are damaged."
                )
            ranked = [
                (search.score(score * len(tokens) ** alpha, len(tokens)), tokens)
                for tokens, score in zip(result.hypotheses, result.scores)
            ]
            ranked.sort(key=lambda pair: -pair[0])
            found[place] = [[int(token) for token in tokens] for _, tokens in ranked]
        return found

    def score(self, sources: list[list[str]], targets: list[list[str]]) -> list[list[float]]:
        """The log-probability of each token of each target, and of the end."""
        longest = max(map(len, [*sources, *targets])) + 1
        results = self.model.translator(longest).score_batch(
            sources, targets, max_batch_size=SCORED, batch_type="tokens", max_input_length=0
        )
        return [list(result.log_probs) for result in results]


class Unscored:
    """What one search has found. Its log-probabilities are worked out together, when one of them is first asked for:
    that is a pass of its own, and most want the text alone."""

    def __init__(self, engine: Ct2Engine, search: Search) -> None:
        self.engine, self.search = engine, search
        self.sources: list[Sequence[int]] = []
        self.targets: list[list[int]] = []  # without their ends

    def add(self, source: Sequence[int], ids: list[int]) -> "Found":
        finished = ids[-1:] == [self.engine.marks.end]
        self.sources.append(source)
        self.targets.append(ids[:-1] if finished else ids)
        return Found(self, len(self.targets) - 1, finished)

    @functools.cached_property
    def logps(self) -> list[list[float]]:
        """Of each target's tokens and its end."""
        return self.engine.score([*map(written, self.sources)], [*map(written, self.targets)])


class Found(Hypothesis):
    """A hypothesis that knows its scores only when it is asked."""

    def __init__(self, batch: Unscored, place: int, finished: bool) -> None:
        for name, value in {"_batch": batch, "_place": place, "finished": finished, "prefix": 0}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "ids", batch.targets[place])

    @property
    def token_logps(self) -> list[float]:
        logps: list[float] = self._batch.logps[self._place]  # type: ignore[attr-defined]
        return logps if self.finished else logps[:-1]

    @property
    def logp(self) -> float:
        return sum(self.token_logps)

    @property
    def score(self) -> float:
        search: Search = self._batch.search  # type: ignore[attr-defined]
        return search.score(self.logp, len(self.token_logps))


def written(ids: Sequence[int]) -> list[str]:
    return [str(token) for token in ids]


def _groups(places: list[int], sizes: list[int], limits: list[int]) -> list[list[int]]:
    """Rows that are searched together. Few outputs are as long as they may be, so that most rows share the largest
    limit of all; where limits are tight, rows of one limit go together."""
    tight = {place for place in places if limits[place] < TIGHT * sizes[place] + 10}
    groups = [[place for place in places if place not in tight]]
    groups += [same for _, same in _by_limit(sorted(tight), limits)]
    return [group for group in groups if group]


def _by_limit(places: list[int], limits: list[int]) -> list[tuple[int, list[int]]]:
    known = sorted({limits[place] for place in places})
    return [(limit, [place for place in places if limits[place] == limit]) for limit in known]


def _longer(found: dict[int, list[list[int]]], limits: list[int]) -> list[int]:
    """The rows for which something was found that is longer than it may be."""
    return [place for place, ranked in found.items() if any(len(ids) > limits[place] for ids in ranked)]


def _spoilt(found: dict[int, list[list[int]]], banned: frozenset[int]) -> list[int]:
    """The rows in which there are ids that may not be produced."""
    return [place for place, ranked in found.items() if any(not banned.isdisjoint(ids) for ids in ranked)]


def _power(search: Search, length: int) -> float:
    """The power of n by which CTranslate2 keeps what the search would keep, for outputs of about this length or some
    times shorter: it drops what it ranks last before we rank."""
    if search.penalty == "none" or not search.alpha:
        return NO_PENALTY
    if search.penalty == "power":
        return search.alpha
    return search.alpha * math.log((5 + length) / (5 + length / 4)) / math.log(4)
