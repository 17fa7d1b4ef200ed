"""What became of a line: its sentences put together again, with their scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headway.decode.types import Hypothesis
from headway.text import Tokenizer
from headway.text.align.words import words_before
from headway.translate.source import Line

if TYPE_CHECKING:
    from headway.translate.translator import Translator


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
        self, text: str, found: Sequence[Hypothesis], alignment: list[tuple[int, int]] | None, line: Line
    ) -> None:
        tokens = [token for hypothesis in found for token in hypothesis.ids]
        values = {"text": text, "found": found, "tokens": tokens, "alignment": alignment, "line": line}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    found: Sequence[Hypothesis]
    line: Line

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
