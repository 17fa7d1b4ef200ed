"""What a translation needs computed, as values: so that a caller can run it together with what others need, or not at
all.

    plan, a generator ── yields ──► SearchCall, AlignCall ── run_calls ──► sentence.hypotheses, call.links
      └──────────────────────── goes on: looks for faults, retries, joins ◄──────────────────────────────┘

`run_plan` runs the calls of one plan one by one, each for many sentences. The server's queue has one plan per sentence,
and runs calls of many plans together if they have the same key: what is found for a sentence does not depend on those
beside it."""

import math
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from headway.config.search import Search
from headway.decode.batching import batch_by_size
from headway.decode.types import Engine, Hypothesis, Recorder
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.translate.source import Sentence

if TYPE_CHECKING:
    from headway.translate.translator import Translator

R = TypeVar("R")
MIN_BATCH_TOKENS = 64  # a smaller batch is not worth a thread
EXPECTED_RATIO = 1.2  # output tokens for each source token, of an ordinary sentence
RETRY_COST = 2.0  # of a step of a retry, in steps of a first search: some engines make it in Python, and not in C
ALIGN_COST = 0.25  # of a token of an alignment, in steps of a search: all are computed at once


@dataclass(eq=False)
class SearchCall:
    """Search for these sentences with these settings; each has hypotheses afterwards."""

    sentences: list[Sentence]
    search: Search
    constrained: bool = False  # they have glossary terms
    is_retry: bool = False
    engine: Engine | None = None  # that searched before: a retry uses it too, so that no other is loaded

    @property
    def key(self) -> Hashable:
        return (self.search, self.constrained, self.is_retry, id(self.engine) if self.is_retry else 0)

    @property
    def kind(self) -> str:
        """Calls of one kind take about equally long for each unit of their cost."""
        return "constrained" if self.constrained else "retry" if self.is_retry else "search"

    @property
    def rows(self) -> int:
        return len(self.sentences)

    def estimate_cost(self) -> float:
        """The expected work, in steps of one hypothesis."""
        return self._weight * sum(min(EXPECTED_RATIO * len(s.ids), self._max_steps(s)) for s in self.sentences)

    def estimate_max_cost(self) -> float:
        """The work if every output reaches its maximum length."""
        return self._weight * sum(map(self._max_steps, self.sentences))

    def measure_cost(self) -> float:
        """The work that was done."""
        steps = sum(max((len(h.ids) + 1 for h in s.hypotheses), default=1) for s in self.sentences)
        return self._weight * steps

    def _max_steps(self, sentence: Sentence) -> int:
        return self.search.max_output_length(len(sentence.ids))

    @property
    def _weight(self) -> float:
        width = self.search.n_best if self.search.sample else self.search.beam_size
        return width * (RETRY_COST if self.is_retry else 1.0)


@dataclass(eq=False)
class AlignCall:
    """Align the words of these ids; see alignment.align_ids."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    directions: Sequence[DirectionTokens]
    link_rule: Any = None
    optional: bool = False  # without links, instead of an error, where the model has no attention to read them from
    links: list[Any] = field(default_factory=list)

    kind = "align"

    @property
    def key(self) -> Hashable:
        return ("align", self.link_rule, self.optional)

    @property
    def rows(self) -> int:
        return len(self.sources)

    def estimate_cost(self) -> float:
        return ALIGN_COST * sum(map(len, [*self.sources, *self.targets]))

    estimate_max_cost = measure_cost = estimate_cost


Call = SearchCall | AlignCall
Plan = Generator[Call, None, R]


def run_plan(translator: "Translator", plan: Plan[R], recorder: Recorder | None = None) -> R:
    """All calls of a plan, one after another; returns what it returns."""
    while True:
        try:
            call = next(plan)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        run_calls(translator, [call], recorder)


def run_calls(translator: "Translator", calls: Sequence[Call], recorder: Recorder | None = None) -> None:
    """Calls with the same key, together."""
    first = calls[0]
    if isinstance(first, AlignCall):
        _run_alignment(translator, [call for call in calls if isinstance(call, AlignCall)])
        return
    searches = [call for call in calls if isinstance(call, SearchCall)]
    sentences = [sentence for call in searches for sentence in call.sentences]
    together = replace(first, sentences=sentences)
    if sentences:
        _run_search(translator, together, recorder)
    for call in searches:
        call.engine = together.engine


def _run_search(translator: "Translator", call: SearchCall, recorder: Recorder | None) -> None:
    """In batches of like lengths. No output goes beyond the last position of a model."""
    sentences, search = call.sentences, call.search
    engine = call.engine if call.is_retry and not call.constrained else None
    if engine is None:
        has_prefixes = any(s.prefix or s.direction.target_lead for s in sentences)
        engine = translator.engines.choose(search, has_prefixes, recorder, call.constrained)
    call.engine = engine
    max_length = math.inf if translator.max_positions is None else translator.max_positions
    too_long = [s for s in sentences if search.max_output_length(len(s.ids)) > max_length]
    others = [s for s in sentences if search.max_output_length(len(s.ids)) <= max_length]
    truncated = replace(search, max_length=translator.max_positions) if too_long else search
    work = []
    for group, own_search in ((too_long, truncated), (others, search)):
        per_worker = math.ceil(sum(len(s.ids) for s in group) / engine.workers)  # so that none is idle
        budget = min(translator.batch_tokens // max(search.beam_size // 4, 1), max(per_worker, MIN_BATCH_TOKENS))
        work += [(batch, own_search) for batch in batch_by_size(group, lambda s: len(s.ids), budget)]
    if recorder is None:
        engine.run_batches(lambda item: search_batch(translator, engine, *item), work)
    else:
        for batch, own_search in work:
            search_batch(translator, engine, batch, own_search, recorder)


def search_batch(
    translator: "Translator",
    engine: Engine,
    batch: Sequence[Sentence],
    search: Search,
    recorder: Recorder | None = None,
) -> None:
    """One call of the engine."""
    prefixes = None
    if any(s.prefix or s.direction.target_lead for s in batch):
        prefixes = [[*s.direction.target_lead, *translator.encode_prefix(s.prefix)] for s in batch]
    found = engine.search(
        [s.ids for s in batch],
        search,
        prefixes=prefixes,
        line_numbers=[s.number for s in batch],
        record=recorder,
        constraints=[s.constraints for s in batch if s.constraints is not None] or None,
    )
    for sentence, hypotheses in zip(batch, found):
        sentence.hypotheses = [_drop_lead(h, len(sentence.direction.target_lead)) for h in hypotheses]
    if translator.on_sentences is not None:
        translator.on_sentences(len(batch))


def _drop_lead(hypothesis: Hypothesis, count: int) -> Hypothesis:
    """Without the tokens that every output in its language begins with."""
    return replace(hypothesis, ids=hypothesis.ids[count:], prefix=hypothesis.prefix - count) if count else hypothesis


def _run_alignment(translator: "Translator", calls: Sequence[AlignCall]) -> None:
    from headway.errors import HeadwayError
    from headway.translate import alignment

    first = calls[0]
    sources = [source for call in calls for source in call.sources]
    targets = [target for call in calls for target in call.targets]
    directions = [direction for call in calls for direction in call.directions]
    try:
        links = iter(alignment.align_ids(translator, sources, targets, directions, first.link_rule))
    except HeadwayError:
        if not first.optional:
            raise
        links = iter([[] for _ in sources])
    for call in calls:
        call.links = [next(links) for _ in call.sources]
