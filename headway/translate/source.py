"""A line taken apart into sentences that a model can read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.decode.types import Hypothesis
from headway.text import Segment, Tokenizer, split_long, split_sentences
from headway.text.segment.sentences import segments
from headway.text.segment.wrapped_lines import Layout, layout_of
from headway.text.spans.protect import PLACEHOLDER, Hidden, Protector, shown, spaced
from headway.text.spans.unknown_script import untypeset
from headway.text.spans.uppercase import calmed

if TYPE_CHECKING:
    from headway.decode.constraints import Demands
    from headway.text.glossary import Glossary, Term
    from headway.translate.confidence import Calibration


@dataclass
class Sentence:
    before: str  # the spacing in front of it
    text: str
    ids: list[int]  # as the model reads it
    number: int  # different for each sentence of a request: with the seed it decides what is drawn
    prefix: str | Sequence[int] = ""  # how the output must begin; a text, or its tokens
    found: list[Hypothesis] = field(default_factory=list)
    links: list[list[tuple[int, int]]] = field(default_factory=list)  # of each: (source word, target word)
    warnings: list[str] = field(default_factory=list)
    hidden: Hidden | None = None  # its protected spans, if it has any
    said: list[str] = field(default_factory=list)  # what was found, where its ids do not say it: spans were put back
    frame: tuple[str, str] = ("", "")  # spans at its ends, which the model does not see
    terms: "list[Term]" = field(default_factory=list)  # whose translations are given
    demands: "Demands | None" = None  # the same in ids
    lead: Sequence[int] = ()  # what its ids begin with, before the text
    capitals: bool = False  # all of it, read in small letters

    def spelled(self, output: str) -> str:
        """What was found, as the source is spelled."""
        return output.upper() if self.capitals else output

    @property
    def stays(self) -> bool:
        """Whether there is nothing to translate: spans, numbers and signs, such as the rule of a table."""
        given = self.prefix or self.terms
        return not given and not any(character.isalpha() for character in PLACEHOLDER.sub("", self.read))

    @property
    def read(self) -> str:
        """The text as a search sees it: with placeholders for its spans, or without those at its ends."""
        if self.hidden is not None:
            return self.hidden.text
        first, last = self.frame
        return self.text[len(first) : len(self.text) - len(last)]


@dataclass
class Line:
    source: str
    sentences: list[Sentence]
    tail: str  # the spacing at its end
    layout: Layout | None = None  # how it was broken into lines, where its sentences go on in the next
    judge: "Callable[[], Calibration | None] | None" = None  # what its confidence is reckoned with

    @property
    def tokens(self) -> int:
        """That the model reads."""
        return sum(len(sentence.ids) for sentence in self.sentences)


@dataclass(frozen=True)
class Reader:
    """How lines become sentences: ids are `lead`, text, end, and at most `longest` of them."""

    tokenizer: Tokenizer
    lead: Sequence[int]
    longest: int
    language: str | None
    split: bool
    protector: Protector | None = None
    placeholders: bool = False  # whether the model reads them; else it reads spans as they are
    glossary: "Glossary | None" = None

    def read(self, line: str, number: int, prefix: str | Sequence[int] = "") -> Line:
        """The sentences of a line, none longer than the model has learned, and the spacing at its end."""
        layout = layout_of(line) if self.split else None
        read = Line(line, [], "", layout)
        text = line if layout is None else layout.text
        text, spans = self.protector.hide(text) if self.protector else (text, [])
        text = untypeset(text)
        hidden = Hidden(text, spans) if spans else None
        for segment in split_sentences(text, self.language) if self.split else segments([text]):
            if segment.text:
                self._add(segment, read, number, hidden)
            else:
                read.tail = segment.before
        if read.sentences:
            read.sentences[0].prefix = prefix
        return read

    def _add(self, sentence: Segment, line: Line, number: int, hidden: Hidden | None) -> None:
        pieces, room = [sentence], self.longest - len(self.lead) - 1
        length = len(self._encoded(sentence.text, hidden))
        if length > room:
            cut = split_long(sentence.text, max(room, 1), lambda piece: len(self._encoded(piece, hidden)))
            pieces = [Segment(sentence.before, cut[0].text), *cut[1:]]
        for before, text in pieces:
            line.sentences.append(self._sentence(before, text, (number << 20) + len(line.sentences), hidden))
        if len(pieces) > 1:
            told = f"a sentence of {length} tokens was translated in {len(pieces)} pieces"
            line.sentences[-len(pieces)].warnings.append(told)

    def _sentence(self, before: str, text: str, number: int, hidden: Hidden | None) -> Sentence:
        own = hidden.part(text) if hidden and PLACEHOLDER.search(text) else None
        as_given, read, frame = text, text, ("", "")
        if own:
            first, read, last = own.peeled()
            as_given, frame = own.original, (shown(first, own.spans), shown(last, own.spans))
            own = own.part(read) if PLACEHOLDER.search(read) else None
            read = own.text if own else read
        found = self.glossary.find(read) if self.glossary else None
        calm = read
        if found and found.terms:
            calm = read = found.text
            own = Hidden(read, own.spans) if own else None
        elif read.isupper():
            calm = calmed(read, self.tokenizer)
        ids = [*self.lead, *self._encoded(calm, own), self.tokenizer.end]
        made = Sentence(before, as_given, ids, number, hidden=own, frame=frame, lead=self.lead, capitals=calm != read)
        if found:
            made.terms, made.warnings = found.terms, found.warnings
        return made

    def _encoded(self, text: str, hidden: Hidden | None) -> list[int]:
        if hidden is not None:
            text = spaced(text) if self.placeholders else shown(text, hidden.spans)
        return self.tokenizer.encode(text)
