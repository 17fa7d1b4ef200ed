"""Translate lines: read them, search for their sentences, retry faulty outputs, join the results.

    Request ── source.SourceReader ──► Sentence ── SentenceSearch ──► hypotheses ── join_sentences ──► Translation
                                                        │
              batches of like lengths to an engine (backends.Engines.choose); constrained decoding for glossary terms
              retry: a wider beam where an output is a loop, a copy or empty, or lacks a number (lost_numbers)
              protected spans: kept, or inserted by word alignment (protected_spans)

`Translator.translate` is the public way in. `translate_requests` also takes forced prefixes, line numbers for sampling,
and a recorder of every decoding step."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from headway.config.search import Search
from headway.decode.batching import batch_by_size
from headway.decode.types import Engine, Hypothesis, Recorder
from headway.errors import HeadwayError
from headway.text.degenerate import is_copy, is_repetitive
from headway.text.numbers import find_lost_numbers, share_number_format
from headway.text.spans.protect import Protector, make_protector
from headway.translate.options import TranslateOptions
from headway.translate.results import Translation, join_sentences
from headway.translate.source import Sentence, SourceReader

if TYPE_CHECKING:
    from headway.translate.translator import Translator

MIN_BATCH_TOKENS = 64  # a smaller batch is not worth a thread
MIN_RETRY_BEAM = 8
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
    translator: "Translator", requests: Sequence[Request], options: TranslateOptions, recorder: Recorder | None = None
) -> list[Translation]:
    """One Translation a request, in order. recorder: called with every step of every search."""
    options.check(translator)
    summary = translator.summary
    search = options.search or summary.search
    span_protector = None
    if options.protect is not None:
        ascii_only = all(request.text.isascii() for request in requests)  # then no word can be in an unknown script
        span_protector = make_protector(options.protect, None if ascii_only else translator.unknown_words)
    target = options.target or translator.target
    others = [language for language in summary.source_languages if language != target]
    language = options.source or translator.source or next(iter(others or summary.source_languages), None)
    reader = SourceReader(
        translator.tokenizers.source,
        translator.tag_ids(options.target),
        summary.max_tokens,
        language,
        options.split_sentences,
        span_protector,
        summary.placeholders,
        options.glossary,
    )
    lines = [reader.read(request.text, request.number, request.prefix) for request in requests]
    sentences = [sentence for line in lines for sentence in line.sentences]
    search_sentences(translator, sentences, search, options.retry, span_protector, recorder)
    if options.align:
        from headway.translate.alignment import align_sentences

        align_sentences(translator, sentences)
    for line in lines:
        line.load_calibration = lambda: translator.calibration(options.target)
    joined = [
        join_sentences(line, translator.tokenizers.target, options.align, unique=not search.sample) for line in lines
    ]
    return [translation.keep_source_below(options.min_confidence) for translation in joined]


def search_sentences(
    translator: "Translator",
    sentences: list[Sentence],
    search: Search,
    retry: bool,
    span_protector: Protector | None,
    recorder: Recorder | None = None,
) -> None:
    """Find up to n_best hypotheses for each sentence, with all its protected spans."""
    with_spans = [sentence for sentence in sentences if sentence.spans]
    for sentence in sentences:
        if sentence.is_untranslatable and span_protector is not None:
            sentence.hypotheses = [Hypothesis([], 0.0, 0.0, [], True)]
            sentence.outputs = [sentence.spans.original if sentence.spans else sentence.model_text]
    wide = replace(search, n_best=search.beam_size) if with_spans and not search.sample else search
    # When recording, or with protection off, keep the model's raw output.
    use_placeholders = span_protector is not None and translator.summary.placeholders and recorder is None
    earlier_warnings = {sentence.number: list(sentence.warnings) for sentence in with_spans}
    run_search = SentenceSearch(translator, wide, retry, recorder, use_placeholders)
    run_search([sentence for sentence in sentences if not sentence.hypotheses])
    if with_spans and span_protector:
        from headway.translate.protected_spans import SpanKeeper

        # Without placeholders for numbers: spans are inserted into the text of the ids, which has no such numbers.
        plain_search = SentenceSearch(translator, wide, retry, recorder)
        keeper = SpanKeeper(translator, span_protector, plain_search, earlier_warnings)
        keeper.keep_spans([sentence for sentence in with_spans if not sentence.outputs])
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


class SentenceSearch:
    """Searches for the sentences of one request, and retries those with a fault. Each has hypotheses afterwards."""

    def __init__(
        self,
        translator: "Translator",
        search: Search,
        retry: bool,
        recorder: Recorder | None = None,
        use_placeholders: bool = False,
    ) -> None:
        """retry: search again where the output is a loop, a copy or empty, or lacks a number
        use_placeholders: for numbers that the retry has not found either"""
        self.translator = translator
        self.search = search
        self.retry = retry
        self.recorder = recorder
        self.use_placeholders = use_placeholders
        self.engine: Engine | None = None  # of the first search: retries use it too, so that no other is loaded

    def __call__(self, sentences: list[Sentence]) -> None:
        self._search_all(sentences, self.search)
        if self.retry and not self.search.sample:
            self._retry([s for s in sentences if not s.prefix and self._find_fault(s, s.hypotheses[0])])

    def _search_all(self, sentences: list[Sentence], search: Search, is_retry: bool = False) -> None:
        """Sentences with glossary terms apart: they need constrained decoding, and a wider beam."""
        self._search([s for s in sentences if not s.terms], search, is_retry=is_retry)
        with_terms = [s for s in sentences if s.terms]
        if with_terms:
            from headway.decode.constraints import PhraseConstraints
            from headway.text.glossary import encode_term

            target = self.translator.tokenizers.target
            for sentence in with_terms:
                phrases = tuple(encode_term(term, target) for term in sentence.terms)
                sentence.constraints = PhraseConstraints(phrases, target.continuation_ids)
            max_tokens = max(sum(map(len, s.constraints.phrases)) for s in with_terms if s.constraints)
            beam_size = max(search.beam_size, min(2 * (max_tokens + 1), MAX_CONSTRAINED_BEAM))
            self._search(with_terms, replace(search, beam_size=beam_size, shortlist=False), constrained=True)

    def _search(
        self, sentences: list[Sentence], search: Search, constrained: bool = False, is_retry: bool = False
    ) -> None:
        """In batches of like lengths. No output goes beyond the last position of a model."""
        if not sentences:
            return
        translator = self.translator
        has_prefixes = any(s.prefix for s in sentences)
        engine = self.engine if is_retry and not constrained else None
        if engine is None:
            engine = translator.engines.choose(len(sentences), search, has_prefixes, self.recorder, constrained)
        if not constrained:
            self.engine = engine
        max_length = math.inf if translator.max_positions is None else translator.max_positions
        too_long = [s for s in sentences if search.max_output_length(len(s.ids)) > max_length]
        others = [s for s in sentences if search.max_output_length(len(s.ids)) <= max_length]
        truncated = replace(search, max_length=translator.max_positions) if too_long else search
        work = []
        for group, own_search in ((too_long, truncated), (others, search)):
            per_worker = math.ceil(sum(len(s.ids) for s in group) / engine.workers)  # so that none is idle
            budget = min(translator.batch_tokens // max(search.beam_size // 4, 1), max(per_worker, MIN_BATCH_TOKENS))
            work += [(batch, own_search) for batch in batch_by_size(group, lambda s: len(s.ids), budget)]
        if self.recorder is None:
            engine.run_batches(lambda item: self._search_batch(engine, *item), work)
        else:
            for item in work:
                self._search_batch(engine, *item)

    def _search_batch(self, engine: Engine, batch: Sequence[Sentence], search: Search) -> None:
        prefixes = None
        if any(s.prefix for s in batch):
            prefixes = [self.translator.encode_prefix(s.prefix) for s in batch]
        found = engine.search(
            [s.ids for s in batch],
            search,
            prefixes=prefixes,
            line_numbers=[s.number for s in batch],
            record=self.recorder,
            constraints=[s.constraints for s in batch if s.constraints is not None] or None,
        )
        for sentence, hypotheses in zip(batch, found):
            sentence.hypotheses = hypotheses

    def _find_fault(self, sentence: Sentence, hypothesis: Hypothesis) -> Fault | None:
        summary = self.translator.summary
        if is_repetitive(hypothesis.ids) and not is_repetitive(sentence.ids):
            return Fault("the output went round in a loop")
        source = sentence.model_text
        output = self.translator.tokenizers.target.decode(hypothesis.ids)
        if not output.strip() and any(character.isalnum() for character in source):
            return Fault("the output was empty")
        if "\ufffd" in output and "\ufffd" not in source:
            return Fault("the output had bytes that are not valid UTF-8")
        if summary.placeholders and "⟦" in output and "⟦" not in source:
            return Fault("the output had a placeholder that the input lacks")
        shared = set(summary.source_languages) & set(summary.target_languages)
        if not shared and is_copy(source, output):
            return Fault("the output was a copy of the input")
        if self._keeps_digits and (lost := find_lost_numbers(source, output, summary.target_languages)):
            return Fault(f"the output lacked the number{'s' * (len(lost) > 1)} {', '.join(lost)}", lacks_number=True)
        return None

    @functools.cached_property
    def _keeps_digits(self) -> bool:
        return share_number_format(self.translator.summary.languages)

    def _retry(self, suspects: list[Sentence]) -> None:
        """A wider beam, for loops and copies without repeated n-grams; take what it finds without a fault."""
        if not suspects:
            return
        search = self.search
        before = [(s, fault, s.hypotheses) for s in suspects if (fault := self._find_fault(s, s.hypotheses[0]))]
        width = max(MIN_RETRY_BEAM, search.beam_size)
        wide = replace(search, beam_size=width, n_best=width)
        self._search_all([s for s, fault, _ in before if fault.lacks_number], wide, is_retry=True)
        others = [s for s, fault, _ in before if not fault.lacks_number]
        self._search_all(others, replace(wide, no_repeat_ngram=3), is_retry=True)
        outcomes = {}
        still_lost = []
        for sentence, fault, first in before:
            sound = [h for h in sentence.hypotheses if not self._find_fault(sentence, h)]
            sentence.hypotheses = (sound or first)[: search.n_best]
            outcomes[sentence.number] = "another was found" if sound else "nothing better was found"
            if fault.lacks_number and not sound:
                still_lost.append(sentence)
        for sentence in self._retry_with_placeholders(still_lost, wide):
            outcomes[sentence.number] = "inserted afterwards; check its position"
        for sentence, fault, _ in before:
            sentence.warnings.append(f"{fault.message}; {outcomes[sentence.number]}")

    def _retry_with_placeholders(self, still_lost: list[Sentence], wide: Search) -> list[Sentence]:
        """Those of the sentences that have their numbers after all."""
        if not still_lost or not self.use_placeholders:
            return []
        from headway.translate.lost_numbers import retry_with_placeholders

        def search(sentences: list[Sentence]) -> None:
            self._search(sentences, wide, is_retry=True)

        def is_sound(sentence: Sentence, hypothesis: Hypothesis) -> bool:
            return not self._find_fault(sentence, hypothesis)

        return retry_with_placeholders(self.translator, still_lost, search, is_sound)
