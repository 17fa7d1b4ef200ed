"""A line taken apart into sentences that a model can read, and put together again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.decode.hypothesis import Hypothesis
from headway.text import Segment, Tokenizer, split_long, split_sentences
from headway.text.sentences import segments
from headway.text.words import words_before


@dataclass(frozen=True)
class Guess:
    """One translation of a line."""

    text: str
    score: float  # of its sentences, added up: log-probability over length penalty
    logp: float
    tokens: list[int]
    token_logps: list[float]
    alignment: list[tuple[int, int]] | None = None  # (source word, target word) of the whole line, if asked for


class Joined(Guess):
    """A guess made of one hypothesis a sentence. Its scores are theirs, and are asked for when somebody asks for them."""

    def __init__(self, text: str, found: Sequence[Hypothesis], alignment: list[tuple[int, int]] | None) -> None:
        tokens = [token for hypothesis in found for token in hypothesis.ids]
        for name, value in {"text": text, "found": found, "tokens": tokens, "alignment": alignment}.items():
            object.__setattr__(self, name, value)

    found: Sequence[Hypothesis]

    @property
    def score(self) -> float:
        return sum((hypothesis.score for hypothesis in self.found), 0.0)

    @property
    def logp(self) -> float:
        return sum((hypothesis.logp for hypothesis in self.found), 0.0)

    @property
    def token_logps(self) -> list[float]:
        return [logp for hypothesis in self.found for logp in hypothesis.token_logps]


@dataclass(frozen=True)
class Scored:
    """One pair. What stands here for the output of a beam search is what the search reported of it.

    logp = log p(target, end | source), the sum of token_logps; score = logp / penalty(number of tokens).
    """

    source: str
    target: str
    logp: float
    score: float
    tokens: list[int]  # of the target, the end token last
    token_logps: list[float]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Translation:
    """What became of one line: the best guess first, and what the reader should know."""

    source: str
    guesses: list[Guess]
    warnings: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.guesses[0].text

    @property
    def score(self) -> float:
        return self.guesses[0].score


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


@dataclass
class Line:
    source: str
    sentences: list[Sentence]
    tail: str  # the spacing at its end


@dataclass(frozen=True)
class Reader:
    """How lines become sentences: ids are `lead`, text, end, and at most `longest` of them."""

    tokenizer: Tokenizer
    lead: Sequence[int]
    longest: int
    language: str | None
    split: bool

    def read(self, line: str, number: int, prefix: str | Sequence[int] = "") -> Line:
        """The sentences of a line, none longer than the model has learned, and the spacing at its end."""
        read = Line(line, [], "")
        for segment in split_sentences(line, self.language) if self.split else segments([line]):
            if segment.text:
                self._add(segment, read, number)
            else:
                read.tail = segment.before
        if read.sentences:
            read.sentences[0].prefix = prefix
        return read

    def _add(self, sentence: Segment, line: Line, number: int) -> None:
        pieces, room = [sentence], self.longest - len(self.lead) - 1
        length = len(self.tokenizer.encode(sentence.text))
        if length > room:
            cut = split_long(sentence.text, max(room, 1), lambda piece: len(self.tokenizer.encode(piece)))
            pieces = [Segment(sentence.before, cut[0].text), *cut[1:]]
        for before, text in pieces:
            ids = [*self.lead, *self.tokenizer.encode(text), self.tokenizer.end]
            line.sentences.append(Sentence(before, text, ids, (number << 20) + len(line.sentences)))
        if len(pieces) > 1:
            told = f"a sentence of {length} tokens was translated in {len(pieces)} pieces"
            line.sentences[-len(pieces)].warnings.append(told)


def joined(line: Line, tokenizer: Tokenizer, align: bool = False) -> Translation:
    """Sentences with their own spacing; the i-th guess of a line is made of the i-th of each sentence.

    align: their links are known and wanted."""
    guesses: list[Guess] = []
    for rank in range(max((len(s.found) for s in line.sentences), default=1)):
        found = [s.found[min(rank, len(s.found) - 1)] for s in line.sentences]
        texts = [s.before + tokenizer.decode(h.ids).strip() for s, h in zip(line.sentences, found)]
        guesses.append(Joined("".join(texts) + line.tail, found, _links(line, texts, rank) if align else None))
    return Translation(line.source, guesses, [w for s in line.sentences for w in s.warnings])


def _links(line: Line, texts: Sequence[str], rank: int) -> list[tuple[int, int]]:
    """Those of each sentence, with its words counted from the beginning of the line."""
    links = []
    numbers, ends = [0, 0], ["", ""]  # the word at which a side has arrived, and its last character
    for sentence, text in zip(line.sentences, texts):
        here = [number + words_before(end + sentence.before) for number, end in zip(numbers, ends)]
        links += [(here[0] + i, here[1] + j) for i, j in sentence.links[min(rank, len(sentence.links) - 1)]]
        sides = [end + chunk for end, chunk in zip(ends, (sentence.before + sentence.text, text))]
        numbers = [number + words_before(side) for number, side in zip(numbers, sides)]
        ends = [side[-1:] for side in sides]
    return links


def one_line(text: str) -> str:
    """A line break inside a translation would shift all that follow in a file."""
    return text.replace("\r", " ").replace("\n", " ")
