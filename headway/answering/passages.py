"""Passages: documents cut into pieces of some sentences, each under the headings that it stands below.

A passage ends at a heading, and where it would have too many words; sentences stay whole. Its blocks are lines."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.documents.blocks.block import PlaceUnit, TextBlock
from headway.text.segment.sentences import split_sentences
from headway.text.unspaced import count_words

MAX_WORDS = 120  # about what encoders of texts read
MIN_WORDS = 25  # a shorter rest stays with the passage before it
MAX_SENTENCE_CHARS = 1000  # a longer one is cut between words: it is a table, or data
MAX_HEADING_CHARS = 200
HEADING_SEPARATOR = " › "


class Passage(NamedTuple):
    text: str
    document: int  # its number in the index
    heading: str  # those above it, from the first level on
    first: int  # where it begins and ends, in the document's units
    last: int

    @property
    def indexed_text(self) -> str:
        return f"{self.heading}\n{self.text}" if self.heading else self.text


class Source(NamedTuple):
    """A passage as an answer cites it."""

    file: str
    unit: PlaceUnit
    passage: Passage

    @property
    def place(self) -> str:
        """manual.md:12, or report.pdf, page 3"""
        first = self.passage.first
        return f"{self.file}:{first}" if self.unit == "line" else f"{self.file}, {self.unit} {first}"


class PlacedSentence(NamedTuple):
    text: str
    first: int
    last: int
    gap: str = "\n"  # between the sentence before and this one


def cut_passages(blocks: Iterable[TextBlock], document: int = 0) -> Iterator[Passage]:
    """The passages of a document, in order."""
    headings: list[tuple[int, str]] = []
    section = Section(document)
    for block in blocks:
        if block.level:
            yield from section.finish()
            headings = [one for one in headings if one[0] < block.level]
            headings.append((block.level, block.text[:MAX_HEADING_CHARS]))
            section = Section(document, HEADING_SEPARATOR.join(text for _, text in headings)[-2 * MAX_HEADING_CHARS :])
        else:
            yield from section.add(block)
    yield from section.finish()


@dataclass
class Section:
    """What stands below one heading, as far as it is not yet in a passage. One passage is held back: a short rest
    joins it."""

    document: int
    heading: str = ""
    sentences: list[PlacedSentence] = field(default_factory=list)
    words: float = 0.0
    held: list[PlacedSentence] = field(default_factory=list)

    def add(self, block: TextBlock) -> Iterator[Passage]:
        for sentence in place_sentences(block):
            size = count_words(sentence.text)
            if self.sentences and self.words + size > MAX_WORDS:
                yield from self._release()
                self.held, self.sentences, self.words = self.sentences, [], 0.0
            self.sentences.append(sentence)
            self.words += size

    def _release(self) -> Iterator[Passage]:
        if self.held:
            yield make_passage(self.held, self.document, self.heading)
            self.held = []

    def finish(self) -> Iterator[Passage]:
        if self.words < MIN_WORDS:
            self.sentences = self.held + self.sentences
            self.held = []
        yield from self._release()
        if self.sentences:
            yield make_passage(self.sentences, self.document, self.heading)
            self.sentences = []


def make_passage(sentences: Sequence[PlacedSentence], document: int, heading: str) -> Passage:
    text = sentences[0].text
    for sentence in sentences[1:]:
        text += sentence.gap + sentence.text
    return Passage(text, document, heading, sentences[0].first, max(sentence.last for sentence in sentences))


def place_sentences(block: TextBlock) -> Iterator[PlacedSentence]:
    """The sentences of a paragraph, or the lines of code."""
    last = max(block.last, block.place)
    if block.code:
        for line in block.text.split("\n"):
            for piece in cut_words(line):
                yield PlacedSentence(piece, block.place, last)
        return
    gap = "\n"
    for segment in split_sentences(block.text):
        for piece in cut_words(segment.text):
            yield PlacedSentence(piece, block.place, last, gap if gap == "\n" else segment.before)
            gap = " "


def cut_words(sentence: str) -> Iterator[str]:
    """A sentence in pieces that are not too long, cut between words where there are any."""
    while len(sentence) > MAX_SENTENCE_CHARS:
        cut = sentence.rfind(" ", MAX_SENTENCE_CHARS // 2, MAX_SENTENCE_CHARS) + 1 or MAX_SENTENCE_CHARS
        yield sentence[:cut].rstrip()
        sentence = sentence[cut:]
    if sentence.strip():
        yield sentence.rstrip()
