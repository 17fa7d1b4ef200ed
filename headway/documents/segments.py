"""Segments of a document: the interface between document formats and whatever translates them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from headway.documents.limits import current_meter
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.translate.options import TranslateOptions
    from headway.translate.pivot import PivotTranslator
    from headway.translate.translator import Translator

SEGMENTS_PER_CALL = 4096  # translated together
MAX_QUOTED_CHARS = 40  # of a segment, in a warning
NO_ALIGNMENT_WARNING = (
    "this model cannot align words, so the position of formatting and tags inside sentences is a guess"
)


class SegmentRequest(NamedTuple):
    """One segment to translate: a paragraph, a heading, a cell; one line, without markup.

    Placeholders ⟦0⟧, ⟦1⟧ … stand for what is not translated, such as code: each belongs in the translation once."""

    text: str
    align: bool = False  # it has inline markup, so its words must be aligned


class SegmentResult(NamedTuple):
    """The translation of a segment."""

    text: str
    links: Sequence[Sequence[int]] | None = None  # (source word, target word), separated by spaces, counted from 0
    warnings: Sequence[str] = ()


TranslateSegments = Callable[[Sequence[SegmentRequest]], Sequence[SegmentResult]]


@dataclass(frozen=True)
class DocumentCounts:
    """How many segments of a document were translated, and warnings."""

    segments: int  # with text to translate
    translated: int
    warnings: list[str] = field(default_factory=list)


class SegmentQueue:
    """The segments of a document, collected first so that they can be translated together."""

    def __init__(self) -> None:
        self.requests: list[SegmentRequest] = []
        self.results: list[SegmentResult] = []
        self.warnings: list[str] = []
        self.rejected: set[int] = set()
        self.meter = current_meter()
        self.verbatim: dict[int, Mapping[str, str]] = {}  # by segment: what its placeholders stand for

    def add(self, text: str, align: bool = False, verbatim: Mapping[str, str] | None = None) -> int:
        """Queue a segment; returns the index of its future result. verbatim: what its placeholders stand for."""
        self.meter.count_characters(len(text))
        if verbatim:
            self.verbatim[len(self.requests)] = verbatim
        self.requests.append(SegmentRequest(text, align))
        return len(self.requests) - 1

    def translate_all(self, translate: TranslateSegments) -> None:
        for start in range(0, len(self.requests), SEGMENTS_PER_CALL):
            group = self.requests[start : start + SEGMENTS_PER_CALL]
            results = list(translate(group))
            if len(results) != len(group):
                raise HeadwayError(f"{len(group)} segments were given, but {len(results)} translations came back.")
            self.results += results
        for number, result in enumerate(self.results):
            for warning in result.warnings:
                self.warn(number, warning)

    def reject(self, number: int, reason: str) -> None:
        """Do not use a translation: the segment stays unchanged."""
        self.rejected.add(number)
        self.warn(number, f"{reason}: left untranslated")

    def warn(self, number: int, warning: str) -> None:
        text = self.requests[number].text
        for placeholder, verbatim in self.verbatim.get(number, {}).items():
            text, warning = text.replace(placeholder, verbatim), warning.replace(placeholder, verbatim)
        quoted = text if len(text) <= MAX_QUOTED_CHARS else text[: MAX_QUOTED_CHARS - 1] + "…"
        self.warnings.append(f'"{quoted}": {warning}')

    def counts(self) -> DocumentCounts:
        total = len(self.requests)
        return DocumentCounts(total, total - len(self.rejected), list(dict.fromkeys(self.warnings)))


def segment_translator(
    translator: "Translator | PivotTranslator", options: "TranslateOptions | None" = None
) -> TranslateSegments:
    """A function that translates segments with this model. Words are aligned only where there is markup to place."""
    from headway.translate.options import TranslateOptions

    base = options or TranslateOptions()

    def translate(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        aligns = any(request.align for request in requests) and can_align(translator)
        results: dict[int, SegmentResult] = {}
        for align in (False, True):
            indices = [index for index, request in enumerate(requests) if request.align is align]
            lines = [requests[index].text for index in indices]
            translations = translator.translate(lines, replace(base, align=align and aligns)) if indices else []
            for index, translation in zip(indices, translations):
                extra = [NO_ALIGNMENT_WARNING] if align and not aligns else []
                links = translation.guesses[0].alignment
                results[index] = SegmentResult(translation.text, links, [*translation.warnings, *extra])
        return [results[index] for index in range(len(requests))]

    return translate


def can_align(translator: "Translator | PivotTranslator") -> bool:
    """Whether word alignments can be read from a model's attention and its tokenizers; of two in a row, from both."""
    from headway.translate.pivot import PivotTranslator

    return all(map(_can_align, translator.legs if isinstance(translator, PivotTranslator) else [translator]))


def _can_align(translator: "Translator") -> bool:
    from headway.text.align.words import token_roles
    from headway.translate.alignment import find_alignment_weights

    try:
        for tokenizer in (translator.tokenizers.source, translator.tokenizers.target):
            token_roles(tokenizer)
        for config in translator.configs:
            find_alignment_weights(config)
    except HeadwayError:
        return False
    return True
