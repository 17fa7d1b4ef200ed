"""Turn a source line into sentences that the model can read: segmentation, protected spans, token ids.

    line ── unwrap paragraphs ── mask protected spans ── split into sentences ── cut what is too long
         ── glossary terms, all-caps ──► SourceLine, a list of Sentence(ids, spans, terms, …)

The search fills in `Sentence.hypotheses` and `Sentence.outputs`; results.py joins the sentences again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.decode.types import Hypothesis
from headway.text.chinese_script import to_simplified
from headway.text.gaps import GapReader
from headway.text.segment.long_sentences import split_long_sentence
from headway.text.segment.sentences import Segment, make_segments, split_sentences
from headway.text.segment.wrapped_lines import WrappedText, unwrap_text
from headway.text.spans.long_words import describe_long_words
from headway.text.spans.protect import PLACEHOLDER, MaskedText, Protector, fill_placeholders, space_placeholders
from headway.text.spans.unknown_script import normalise_typography
from headway.text.spans.uppercase import lowercased
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headway.decode.constraints import PhraseConstraints
    from headway.storage.calibration import Calibration
    from headway.text.glossary import Glossary, Term

SENTENCE_BITS = 20  # of Sentence.number: the sentence within its line; the line's number stands above them


@dataclass
class Sentence:
    """One sentence of a line: what the model reads, and what the search has found for it."""

    before: str  # the spacing in front of it
    text: str  # as it was given
    ids: list[int]  # the tokens of model_text, and those of `direction` around them
    number: int  # unique within a request: together with the seed it decides what is sampled
    prefix: str | Sequence[int] = ""  # how the output must begin: a text, or its tokens
    hypotheses: list[Hypothesis] = field(default_factory=list)
    links: list[list[tuple[int, int]]] = field(default_factory=list)  # of each hypothesis: (source word, target word)
    warnings: list[str] = field(default_factory=list)
    spans: MaskedText | None = None  # its protected spans inside, if it has any
    outputs: list[str] = field(default_factory=list)  # text of each hypothesis, where it is not that of its ids alone
    outer_spans: tuple[str, str] = ("", "")  # protected spans at its two ends, which the model does not see
    terms: "list[Term]" = field(default_factory=list)  # glossary terms that it contains
    constraints: "PhraseConstraints | None" = None  # the same as token ids, for constrained decoding
    direction: DirectionTokens = DirectionTokens()  # its languages, and their control tokens
    all_caps: bool = False  # the source is in capitals, and the model reads it in lower case

    def restore_case(self, output: str) -> str:
        """In capitals again, if the source was."""
        return output.upper() if self.all_caps else output

    @property
    def is_untranslatable(self) -> bool:
        """Whether there are no letters to translate: only spans, digits and signs, such as the rule of a table."""
        if self.prefix or self.terms:
            return False
        return not any(character.isalpha() for character in PLACEHOLDER.sub("", self.model_text))

    @property
    def model_text(self) -> str:
        """The text as the model reads it: placeholders in place of its spans, and nothing of the outer ones."""
        if self.spans is not None:
            return self.spans.text
        first, last = self.outer_spans
        return self.text[len(first) : len(self.text) - len(last)]


@dataclass
class SourceLine:
    """A line of input and its sentences."""

    source: str
    sentences: list[Sentence]
    tail: str  # the spacing at its end
    layout: WrappedText | None = None  # where its paragraphs were broken, if it is wrapped text
    load_calibration: "Callable[[], Calibration | None] | None" = None  # for the confidence, when that is asked for

    @property
    def tokens(self) -> int:
        """How many the model reads."""
        return sum(len(sentence.ids) for sentence in self.sentences)


@dataclass(frozen=True)
class SourceReader:
    """Cuts lines into sentences of at most `max_tokens` ids, those of `direction` counted."""

    tokenizer: Tokenizer
    direction: DirectionTokens
    max_tokens: int
    language: str | None
    split: bool  # into sentences; else a line is one
    protector: Protector | None = None
    placeholders: bool = False  # whether the model has learned them; else it reads spans as they are
    glossary: "Glossary | None" = None
    gaps: GapReader | None = None  # of a denoising model
    simplify: bool = False  # traditional Chinese is read in simplified characters

    def read(self, line: str, number: int, prefix: str | Sequence[int] = "") -> SourceLine:
        """The sentences of a line. `prefix` is how the output of the first must begin."""
        layout = unwrap_text(line) if self.split else None
        result = SourceLine(line, [], "", layout)
        text = line if layout is None else layout.text
        text, spans = self.protector.mask(text) if self.protector else (text, [])
        text = normalise_typography(text)
        if self.protector and self.protector.repertoire:
            text = self.protector.repertoire.fold(text)
        if self.simplify:
            text = to_simplified(text)
        masked = MaskedText(text, spans) if spans else None
        for segment in split_sentences(text, self.language) if self.split else make_segments([text]):
            if segment.text:
                self._add_sentence(segment, result, number, masked)
            else:
                result.tail = segment.before
        if result.sentences:
            result.sentences[0].prefix = prefix
            result.sentences[0].warnings += describe_long_words(spans)
        return result

    def _add_sentence(self, sentence: Segment, line: SourceLine, number: int, masked: MaskedText | None) -> None:
        """In pieces, where it has more tokens than the model reads."""
        pieces = [sentence]
        limit = self.max_tokens - self.direction.source_count
        length = len(self._encode(sentence.text, masked))
        if length > limit:
            cut = split_long_sentence(sentence.text, max(limit, 1), lambda piece: len(self._encode(piece, masked)))
            pieces = [Segment(sentence.before, cut[0].text), *cut[1:]]
        for before, text in pieces:
            own_number = (number << SENTENCE_BITS) + len(line.sentences)
            line.sentences.append(self._make_sentence(before, text, own_number, masked))
        if len(pieces) > 1:
            warning = f"a sentence of {length} tokens was translated in {len(pieces)} pieces"
            line.sentences[-len(pieces)].warnings.append(warning)

    def _make_sentence(self, before: str, text: str, number: int, masked: MaskedText | None) -> Sentence:
        own = masked.extract(text) if masked and PLACEHOLDER.search(text) else None
        as_given = model_text = text
        outer_spans = ("", "")
        if own:
            first, model_text, last = own.split_outer()
            as_given = own.original
            outer_spans = (fill_placeholders(first, own.spans), fill_placeholders(last, own.spans))
            own = own.extract(model_text) if PLACEHOLDER.search(model_text) else None
            model_text = own.text if own else model_text
        found = self.glossary.find_terms(model_text) if self.glossary else None
        lowercase = model_text
        if found and found.terms:
            lowercase = model_text = found.text
            own = MaskedText(model_text, own.spans) if own else None
        elif model_text.isupper() and self.gaps is None:
            lowercase = lowercased(model_text, self.tokenizer)
        ids = self.direction.wrap_source(self._encode(lowercase, own))
        sentence = Sentence(
            before,
            as_given,
            ids,
            number,
            spans=own,
            outer_spans=outer_spans,
            direction=self.direction,
            all_caps=lowercase != model_text,
        )
        if found:
            sentence.terms = found.terms
            sentence.warnings = found.warnings
        return sentence

    def _encode(self, text: str, masked: MaskedText | None) -> list[int]:
        if masked is not None:
            text = space_placeholders(text) if self.placeholders else fill_placeholders(text, masked.spans)
        return self.tokenizer.encode(text) if self.gaps is None else self.gaps.encode(text)
