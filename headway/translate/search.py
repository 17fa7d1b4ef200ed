"""Translate lines: read them, search for their sentences, retry faulty outputs, join the results.

    Request ── source.SourceReader ──► Sentence ── SentenceSearch ──► hypotheses ── join_sentences ──► Translation
                                                        │
              search_calls: batches of like lengths to an engine; constrained decoding for glossary terms
              retry: a wider beam where an output is a loop, a copy or empty, or lacks a number or a negation
              protected spans: kept, or inserted by word alignment (protected_spans); no U+FFFD is left (garbled)

`Translator.translate` is the public way in. `translate_requests` also takes forced prefixes, line numbers for sampling,
and a recorder of every decoding step. `TranslationStages` are its stages, for the server's queue: a search is a plan, a
generator of the calls that it needs (search_calls)."""

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from headway.config.objective_kinds import is_denoising
from headway.config.search import Search
from headway.decode.types import Engine, Hypothesis, Recorder
from headway.errors import HeadwayError
from headway.text.degenerate import is_copy, is_repetitive
from headway.text.gaps import GapReader
from headway.text.negation import find_negation_fault
from headway.text.numbers import find_lost_numbers, share_number_format
from headway.text.spans.protect import PLACEHOLDER, Protector, make_protector
from headway.text.unspaced import is_unspaced
from headway.translate.garbled import REPLACEMENT_CHARACTER, mend_garbled
from headway.translate.languages import find_languages
from headway.translate.memory_matches import MemoryMatcher
from headway.translate.options import TranslateOptions
from headway.translate.protected_spans import SpanKeeper
from headway.translate.results import Translation, join_sentences
from headway.translate.retry_budget import SKIPPED_WARNING, AdmitRetries, RetryBudget, SentenceCost
from headway.translate.search_calls import RETRY_COST, Plan, SearchCall, run_plan
from headway.translate.source import Sentence, SourceLine, SourceReader

if TYPE_CHECKING:
    from headway.translate.translator import Translator

MIN_RETRY_BEAM = 8
NEGATION_FAULTS = {
    "": "",
    "lost": "the output lacked the negation of the input",
    "added": "the output had a negation that the input lacks",
}
MAX_CONSTRAINED_BEAM = 32  # for glossary terms: each of their tokens needs beam slots of its own


@dataclass(frozen=True)
class Request:
    """One line to translate."""

    text: str
    number: int = 0  # of the line: together with the seed it decides what is sampled
    prefix: str | Sequence[int] = ""  # how the output must begin, as text or tokens; of several sentences, the first


def make_requests(
    lines: Sequence[str], first: int = 0, prefixes: Sequence[str | Sequence[int]] | None = None
) -> list[Request]:
    """One a line, numbered from `first`."""
    if isinstance(lines, str):
        raise HeadwayError("translate takes a list of lines, not a string: write [text].")
    for line in lines:
        if not isinstance(line, str):
            raise HeadwayError(f"every line must be a string, not {line!r}.")
    if prefixes is None:
        return [Request(line, first + index) for index, line in enumerate(lines)]
    if len(prefixes) != len(lines):
        raise HeadwayError(f"{len(prefixes)} prefixes for {len(lines)} lines: give one for each line, or none.")
    return [Request(line, first + index, prefix) for index, (line, prefix) in enumerate(zip(lines, prefixes))]


def translate_requests(
    translator: "Translator",
    requests: Sequence[Request],
    options: TranslateOptions,
    recorder: Recorder | None = None,
    retries: RetryBudget | None = None,
) -> list[Translation]:
    """One Translation a request, in order. recorder: called with every step of every search. retries: of the run that
    these requests are part of; None: they are all of it."""
    stages = TranslationStages(translator, requests, options, recorder, retries)
    lines = [stages.read(request) for request in requests]
    run_plan(translator, stages.search([sentence for line in lines for sentence in line.sentences]), recorder)
    return [stages.join(line) for line in lines]


class TranslationStages:
    """The stages of a translation, for callers that run them one by one: read a text into sentences, search for
    sentences, in any order and beside those of others, and join those of a text."""

    def __init__(
        self,
        translator: "Translator",
        requests: Sequence[Request],
        options: TranslateOptions,
        recorder: Recorder | None = None,
        retries: RetryBudget | None = None,
    ) -> None:
        options.check(translator)
        summary = translator.summary
        self.translator = translator
        self.options = options
        self.recorder = recorder
        first_line = requests[0].number if requests else 0
        self.admit_retries = functools.partial((retries or RetryBudget()).admit, first_line=first_line)
        self.settings = options.search or summary.search
        self.span_protector: Protector | None = None
        denoises = is_denoising(summary.objective)
        if options.protect is not None and not denoises:
            ascii_only = all(request.text.isascii() for request in requests)  # then no word can be in an unknown script
            self.span_protector = make_protector(options.protect, None if ascii_only else translator.repertoire)
        direction = translator.direction_tokens(options.source, options.target)
        others = [language for language in summary.source_languages if language != direction.target]
        language = direction.source or next(iter(others or summary.source_languages), None)
        self.reader = SourceReader(
            translator.tokenizers.source,
            direction,
            summary.max_tokens,
            language,
            options.split_sentences,
            self.span_protector,
            summary.placeholders,
            options.glossary,
            simplify=translator.reads_simplified(language),
        )
        self.memory = self._open_memory(language or "", direction.target)
        self.gaps: GapReader | None = None
        if denoises:
            self.gaps = GapReader(translator.tokenizers.source, summary.objective == "span_corruption")
            self.reader = replace(self.reader, gaps=self.gaps, split=False)

    def _open_memory(self, source: str, target: str) -> MemoryMatcher | None:
        options = self.options
        if options.memory is None:
            return None
        targets = [language for language in self.translator.summary.target_languages if language != source]
        index = options.memory.for_direction(source, target or next(iter(targets), ""))
        return MemoryMatcher(index, options.min_similarity, self.reader, self.translator.tokenizers.target)

    def read(self, request: Request) -> SourceLine:
        """Takes time linear in its length, and no model."""
        known = self.memory.read_line(request.text, request.number) if self.memory and not request.prefix else None
        if known is not None:
            return known
        return self.reader.read(request.text, request.number, request.prefix)

    def search(self, sentences: list[Sentence]) -> Plan[None]:
        """Up to n_best hypotheses for each sentence, and their links if those are wanted."""
        retry = self.options.retry and self.gaps is None
        if self.memory is not None:
            for sentence in sentences:
                self.memory.fill(sentence)
        yield from search_sentences(
            self.translator,
            sentences,
            self.settings,
            retry,
            self.span_protector,
            self.recorder,
            self.admit_retries,
            self.options.mbr,
        )
        for sentence in sentences if self.gaps else ():
            self._fill_gaps(sentence)
        if self.options.align:
            from headway.translate.alignment import align_sentences

            yield from align_sentences(self.translator, sentences)

    def _fill_gaps(self, sentence: Sentence) -> None:
        assert self.gaps is not None
        decode = self.translator.tokenizers.target.decode
        sentence.outputs = [decode(self.gaps.fill(sentence.ids, one.ids)).strip() for one in sentence.hypotheses]

    def join(self, line: SourceLine) -> Translation:
        """When all its sentences have been searched for."""
        options = self.options
        line.load_calibration = lambda: self.translator.calibration(options.target)
        target = self.translator.tokenizers.target
        joined = join_sentences(line, target, options.align, unique=bool(options.mbr) or not self.settings.sample)
        return joined.keep_source_below(options.min_confidence)


def search_sentences(
    translator: "Translator",
    sentences: list[Sentence],
    search: Search,
    retry: bool,
    span_protector: Protector | None,
    recorder: Recorder | None = None,
    admit_retries: AdmitRetries | None = None,
    utility: str = "",
) -> Plan[None]:
    """Find up to n_best hypotheses for each sentence, with all its protected spans. utility: a metric, to have them in
    the order of minimum Bayes risk."""
    with_spans = [sentence for sentence in sentences if sentence.spans]
    for sentence in sentences:
        if sentence.is_untranslatable and span_protector is not None:
            sentence.hypotheses = [Hypothesis([], 0.0, 0.0, [], True)]
            sentence.outputs = [sentence.spans.original if sentence.spans else sentence.model_text]
    wide = replace(search, n_best=search.beam_size) if with_spans and not search.sample else search
    # When recording, or with protection off, keep the model's raw output.
    use_placeholders = span_protector is not None and translator.summary.placeholders and recorder is None
    earlier_warnings = {sentence.number: list(sentence.warnings) for sentence in sentences if sentence.warnings}
    admit_retries = admit_retries or RetryBudget().admit
    first_search = SentenceSearch(translator, wide, retry, use_placeholders, admit_retries)
    yield from first_search([sentence for sentence in sentences if not sentence.hypotheses])
    if span_protector:
        # Without placeholders for numbers: spans are inserted into the text of the ids, which has no such numbers.
        plain_search = SentenceSearch(translator, wide, retry, admit_retries=admit_retries)
        keeper = SpanKeeper(translator, span_protector, plain_search, first_search.describe_fault, earlier_warnings)
        yield from keeper.keep_spans([sentence for sentence in with_spans if not sentence.outputs])
        yield from mend_garbled(translator, sentences, keeper, search.sample)
    if utility:
        from headway.translate.mbr import rank_by_utility

        rank_by_utility(translator, sentences, utility, first_search.describe_fault)
    for sentence in sentences:
        sentence.hypotheses = sentence.hypotheses[: search.n_best]
        sentence.outputs = sentence.outputs[: search.n_best]
        best = sentence.hypotheses[0]
        if not best.finished:
            sentence.warnings.append(f"the output was cut at {len(best.ids)} tokens")
        if sentence.terms:
            from headway.text.glossary import find_unplaced_terms

            sentence.warnings += find_unplaced_terms(sentence.terms, translator.tokenizers.target.decode(best.ids))


class Fault(NamedTuple):
    """Something wrong with an output."""

    message: str
    lacks_number: bool = False
    lacks_negation: bool = (
        False  # or has one too many; a weaker fault than all others, because it is found by a few words
    )


class SentenceSearch:
    """Searches for sentences, and retries those with a fault. Each has hypotheses afterwards."""

    def __init__(
        self,
        translator: "Translator",
        search: Search,
        retry: bool,
        use_placeholders: bool = False,
        admit_retries: AdmitRetries | None = None,
    ) -> None:
        """retry: search again where the output is a loop, a copy or empty, or lacks a number or a negation
        use_placeholders: for numbers that the retry has not found either"""
        self.translator = translator
        self.search = search
        self.retry = retry
        self.use_placeholders = use_placeholders
        self.admit_retries = admit_retries or RetryBudget().admit
        self.engine: Engine | None = None  # of the first search: retries use it too, so that no other is loaded

    def __call__(self, sentences: list[Sentence]) -> Plan[None]:
        yield from self._search_all(sentences, self.search)
        if self.retry and not self.search.sample:
            yield from self._retry(self._admit_retries(sentences))

    def _search_all(self, sentences: list[Sentence], search: Search, is_retry: bool = False) -> Plan[None]:
        """Sentences with glossary terms apart: they need constrained decoding, and a wider beam."""
        yield from self._search([s for s in sentences if not s.terms], search, is_retry=is_retry)
        by_beam: dict[int, list[Sentence]] = defaultdict(list)
        for sentence in sentences:
            if sentence.terms:
                by_beam[self._set_constraints(sentence, search.beam_size)].append(sentence)
        for beam_size, with_terms in by_beam.items():
            constrained = replace(search, beam_size=beam_size, shortlist=False)
            yield from self._search(with_terms, constrained, constrained=True, is_retry=is_retry)

    def _set_constraints(self, sentence: Sentence, beam_size: int) -> int:
        """Its terms as token ids; the beam that these need."""
        from headway.decode.constraints import PhraseConstraints
        from headway.text.glossary import encode_term

        target = self.translator.tokenizers.target
        phrases = tuple(encode_term(term, target) for term in sentence.terms)
        open_ended = frozenset(n for n, term in enumerate(sentence.terms) if is_unspaced(term.target[-1:]))
        sentence.constraints = PhraseConstraints(phrases, target.continuation_ids, open_ended)
        return max(beam_size, min(2 * (sum(map(len, phrases)) + 1), MAX_CONSTRAINED_BEAM))

    def _search(
        self, sentences: list[Sentence], search: Search, constrained: bool = False, is_retry: bool = False
    ) -> Plan[None]:
        if sentences:
            call = SearchCall(sentences, search, constrained, is_retry, self.engine)
            yield call
            if not constrained:
                self.engine = call.engine

    def _admit_retries(self, sentences: list[Sentence]) -> list[tuple[Sentence, "Fault"]]:
        """The sentences with a fault, as far as the run's budget for retries allows. The others have a warning."""
        if not sentences:
            return []
        faults = [None if s.prefix else self._find_fault(s, s.hypotheses[0]) for s in sentences]
        width = max(MIN_RETRY_BEAM, self.search.beam_size)
        costs = []
        for sentence, fault in zip(sentences, faults):
            steps = max(len(hypothesis.ids) + 1 for hypothesis in sentence.hypotheses)
            costs.append(SentenceCost(steps * self.search.beam_size, steps * width * RETRY_COST if fault else 0.0))
        admitted = self.admit_retries(costs)
        suspects = []
        for sentence, fault, is_admitted in zip(sentences, faults, admitted):
            if fault and is_admitted:
                suspects.append((sentence, fault))
            elif fault:
                sentence.warnings.append(f"{fault.message}; {SKIPPED_WARNING}")
        return suspects

    def describe_fault(self, sentence: Sentence, hypothesis: Hypothesis) -> str | None:
        """What is wrong with a hypothesis, if faults are looked for at all."""
        fault = self._find_fault(sentence, hypothesis) if self.retry else None
        return fault.message if fault else None

    def _find_fault(self, sentence: Sentence, hypothesis: Hypothesis) -> Fault | None:
        summary = self.translator.summary
        if is_repetitive(hypothesis.ids) and not is_repetitive(sentence.ids):
            return Fault("the output went round in a loop")
        source = sentence.model_text if summary.placeholders else PLACEHOLDER.sub("", sentence.model_text)
        output = self.translator.tokenizers.target.decode(hypothesis.ids)
        if not output.strip() and any(character.isalnum() for character in source):
            return Fault("the output was empty")
        if REPLACEMENT_CHARACTER in output and REPLACEMENT_CHARACTER not in sentence.text:
            unknown = self.translator.tokenizers.target.unknown in hypothesis.ids
            return Fault(f"the output had {'unknown tokens' if unknown else 'bytes that are not valid UTF-8'}")
        if summary.placeholders and "⟦" in output and "⟦" not in source:
            return Fault("the output had a placeholder that the input lacks")
        shared = set(summary.source_languages) & set(summary.target_languages)
        if not shared and is_copy(source, output):
            return Fault("the output was a copy of the input")
        if self._keeps_digits and (lost := find_lost_numbers(source, output, summary.target_languages)):
            return Fault(f"the output lacked the number{'s' * (len(lost) > 1)} {', '.join(lost)}", lacks_number=True)
        languages = find_languages(summary, sentence.direction)
        if message := NEGATION_FAULTS[find_negation_fault(source, output, *languages)]:
            return Fault(message, lacks_negation=True)
        return None

    @functools.cached_property
    def _keeps_digits(self) -> bool:
        return share_number_format(self.translator.summary.languages)

    def _retry(self, suspects: list[tuple[Sentence, "Fault"]]) -> Plan[None]:
        """A wider beam, for loops and copies without repeated n-grams; take what it finds without a fault."""
        if not suspects:
            return
        search = self.search
        before = [(s, fault, s.hypotheses) for s, fault in suspects]
        width = max(MIN_RETRY_BEAM, search.beam_size)
        wide = replace(search, beam_size=width, n_best=width)
        lacking = [s for s, fault, _ in before if fault.lacks_number or fault.lacks_negation]
        yield from self._search_all(lacking, wide, is_retry=True)
        others = [s for s, fault, _ in before if not (fault.lacks_number or fault.lacks_negation)]
        at_once = self.translator.summary.objective == "masked_target"  # then there is no n-gram to go on from
        yield from self._search_all(others, wide if at_once else replace(wide, no_repeat_ngram=3), is_retry=True)
        outcomes = {}
        still_lost = []
        for sentence, fault, first in before:
            found = [(h, self._find_fault(sentence, h)) for h in sentence.hypotheses]
            sound = [h for h, other in found if other is None]
            if not sound and not fault.lacks_negation:
                sound = [h for h, other in found if other is not None and other.lacks_negation]
            sentence.hypotheses = (sound or first)[: search.n_best]
            outcomes[sentence.number] = "another was found" if sound else "nothing better was found"
            if fault.lacks_number and not sound:
                still_lost.append(sentence)
        for sentence in (yield from self._retry_with_placeholders(still_lost, wide)):
            outcomes[sentence.number] = "inserted afterwards; check its position"
        for sentence, fault, _ in before:
            sentence.warnings.append(f"{fault.message}; {outcomes[sentence.number]}")

    def _retry_with_placeholders(self, still_lost: list[Sentence], wide: Search) -> Plan[list[Sentence]]:
        """Those of the sentences that have their numbers after all."""
        if not still_lost or not self.use_placeholders:
            return []
        from headway.translate.lost_numbers import retry_with_placeholders

        def search(sentences: list[Sentence]) -> Plan[None]:
            return self._search(sentences, wide, is_retry=True)

        def is_sound(sentence: Sentence, hypothesis: Hypothesis) -> bool:
            return not self._find_fault(sentence, hypothesis)

        return (yield from retry_with_placeholders(self.translator, still_lost, search, is_sound))
