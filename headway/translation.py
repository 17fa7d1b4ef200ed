"""A line taken apart into sentences that a model can read, and put together again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headway.decode.hypothesis import Hypothesis
from headway.text import Segment, Tokenizer, split_long, split_sentences
from headway.text.capitals import calmed
from headway.text.protect import PLACEHOLDER, Hidden, Protector, shown, spaced
from headway.text.sentences import segments
from headway.text.strange import untypeset
from headway.text.words import words_before
from headway.text.wrapping import Layout, layout_of

if TYPE_CHECKING:
    from headway.confidence import Calibration
    from headway.decode.demands import Demands
    from headway.text.glossary import Glossary, Term
    from headway.translator import Translator


@dataclass(frozen=True)
class Guess:
    """One translation of a line."""

    text: str
    score: float  # of its sentences, added up: log-probability over length penalty
    logp: float
    tokens: list[int]
    token_logps: list[float]
    alignment: list[tuple[int, int]] | None = None  # (source word, target word) of the whole line, if asked for
    confidence: float | None = None  # how likely it is good, from 0 to 1; None unless the model has been calibrated


class Joined(Guess):
    """A guess made of one hypothesis a sentence. Its scores are theirs, and are asked for when somebody asks for them."""

    def __init__(
        self, text: str, found: Sequence[Hypothesis], alignment: list[tuple[int, int]] | None, line: "Line"
    ) -> None:
        tokens = [token for hypothesis in found for token in hypothesis.ids]
        values = {"text": text, "found": found, "tokens": tokens, "alignment": alignment, "line": line}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    found: Sequence[Hypothesis]
    line: "Line"

    @property
    def score(self) -> float:
        return sum((hypothesis.score for hypothesis in self.found), 0.0)

    @property
    def logp(self) -> float:
        return sum((hypothesis.logp for hypothesis in self.found), 0.0)

    @property
    def token_logps(self) -> list[float]:
        return [logp for hypothesis in self.found for logp in hypothesis.token_logps]

    @property
    def confidence(self) -> float | None:
        calibration = self.line.judge() if self.line.judge else None
        if calibration is None:
            return None
        return calibration.confidence(self.line.source, self.line.tokens, self.text, self.token_logps)


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

    @property
    def confidence(self) -> float | None:
        return self.guesses[0].confidence

    def unless_doubtful(self, min_score: float) -> "Translation":
        """As it is; the source instead, with the scores of what was found for it, where that is less sure."""
        if not min_score or (sure := self.confidence) is None or sure >= min_score:
            return self
        best = self.guesses[0]
        links: list[tuple[int, int]] | None = None if best.alignment is None else []
        source = Guess(self.source, best.score, best.logp, best.tokens, best.token_logps, links, sure)
        told = f"left untranslated: its score is {sure:.2f}, below {min_score:g}"
        return Translation(self.source, [source], [*self.warnings, told])


class Routed(NamedTuple):
    """A line of a text in any languages, and who translated it."""

    result: Translation
    translator: "Translator | None"  # None: it stays as it is
    source: str = ""  # the language that it was taken for; "" where nobody asked, or without letters
    note: str = ""


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


def joined(line: Line, tokenizer: Tokenizer, align: bool = False) -> Translation:
    """Sentences with their own spacing; the i-th guess of a line is made of the i-th of each sentence.

    align: their links are known and wanted."""
    guesses: list[Guess] = []
    for rank in range(max((len(s.found) for s in line.sentences), default=1)):
        found = [s.found[min(rank, len(s.found) - 1)] for s in line.sentences]
        texts = [
            f"{s.before}{s.frame[0]}"
            f"{s.said[min(rank, len(s.said) - 1)] if s.said else s.spelled(tokenizer.decode(h.ids).strip())}{s.frame[1]}"
            for s, h in zip(line.sentences, found)
        ]
        text = "".join(texts) + line.tail
        text = text if line.layout is None else line.layout.restored(text)
        guesses.append(Joined(text, found, _links(line, texts, rank) if align else None, line))
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
