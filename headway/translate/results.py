"""Results of a translation: `Translation` and its n-best `Guess`es, joined from the hypotheses of their sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from headway.decode.types import Hypothesis
from headway.files.notebook_html import render_table
from headway.text.align.words import current_word_index
from headway.text.segment.sentence_spacing import adapt_spacing
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.confidence import score_confidence
from headway.translate.source import Sentence, SourceLine

if TYPE_CHECKING:
    from headway.translate.pivot import PivotTranslator
    from headway.translate.translator import Translator


@dataclass(frozen=True)
class Guess:
    """One translation of a line."""

    text: str
    score: float  # sum over its sentences: log-probability over length penalty
    logp: float
    tokens: list[int]
    token_logps: list[float]
    alignment: list[tuple[int, int]] | None = None  # (source word, target word) of the line, if asked for
    confidence: float | None = None  # how likely it is good, from 0 to 1; None unless the model has been calibrated


class LazyGuess(Guess):
    """A guess made of one hypothesis a sentence, whose scores are computed when they are first read."""

    def __init__(
        self,
        text: str,
        hypotheses: Sequence[Hypothesis],
        alignment: list[tuple[int, int]] | None,
        line: SourceLine,
    ) -> None:
        tokens = [token for hypothesis in hypotheses for token in hypothesis.ids]
        values = {"text": text, "hypotheses": hypotheses, "tokens": tokens, "alignment": alignment, "line": line}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    hypotheses: Sequence[Hypothesis]
    line: SourceLine

    def __repr__(self) -> str:
        return f"Guess(text={self.text!r}, score={self.score:.4f}, {len(self.tokens)} tokens)"

    @property
    def score(self) -> float:
        return sum((hypothesis.score for hypothesis in self.hypotheses), 0.0)

    @property
    def logp(self) -> float:
        return sum((hypothesis.logp for hypothesis in self.hypotheses), 0.0)

    @property
    def token_logps(self) -> list[float]:
        return [logp for hypothesis in self.hypotheses for logp in hypothesis.token_logps]

    @property
    def confidence(self) -> float | None:
        calibration = self.line.load_calibration() if self.line.load_calibration else None
        if calibration is None:
            return None
        return score_confidence(calibration, self.line.source, self.line.tokens, self.text, self.token_logps)


@dataclass(frozen=True)
class ScoredPair:
    """A given translation with its log-probability. For the output of a beam search it is what the search reported.

    logp = log p(target, end | source), the sum of token_logps; score = logp / penalty(number of tokens).
    """

    source: str
    target: str
    logp: float
    score: float
    tokens: list[int]  # of the target, the end token last
    token_logps: list[float]
    warnings: list[str] = field(default_factory=list)


class PivotText(NamedTuple):
    """What a line was translated through."""

    language: str
    text: str


@dataclass(frozen=True)
class Translation:
    """The translation of one line: its n-best guesses, best first and each text once, and warnings about it."""

    source: str
    guesses: list[Guess]
    warnings: list[str] = field(default_factory=list)
    pivot: PivotText | None = None  # where it was not translated directly

    def _repr_html_(self) -> str:
        """Notebooks show the source and its guesses."""
        rows = [(guess.text, f"{guess.score:.3f}", _format_confidence(guess)) for guess in self.guesses]
        table = render_table(["translation", "score", "confidence"], rows, self.source)
        return table + "".join(f'<div style="opacity:.7">⚠ {escape(warning)}</div>' for warning in self.warnings)

    @property
    def text(self) -> str:
        return self.guesses[0].text

    @property
    def score(self) -> float:
        return self.guesses[0].score

    @property
    def confidence(self) -> float | None:
        return self.guesses[0].confidence

    def keep_source_below(self, min_confidence: float) -> "Translation":
        """This translation; where its confidence is lower, the source instead, with the scores of the translation."""
        if not min_confidence or (confidence := self.confidence) is None or confidence >= min_confidence:
            return self
        best = self.guesses[0]
        links: list[tuple[int, int]] | None = None if best.alignment is None else []
        source = Guess(self.source, best.score, best.logp, best.tokens, best.token_logps, links, confidence)
        warning = f"left untranslated: its score is {confidence:.2f}, below {min_confidence:g}"
        return replace(self, guesses=[source], warnings=[*self.warnings, warning])


class Translations(list[Translation]):
    """A list of translations, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        rows = [
            (one.source, one.text, f"{one.score:.3f}", _format_confidence(one.guesses[0]), "; ".join(one.warnings))
            for one in self
        ]
        return render_table(["source", "translation", "score", "confidence", "warnings"], rows)


def _format_confidence(guess: Guess) -> str:
    return "" if (confidence := guess.confidence) is None else f"{confidence:.2f}"


class RoutedLine(NamedTuple):
    """A line of text in any language, and the translator that it was given to."""

    result: Translation
    translator: "Translator | PivotTranslator | None"  # None: it stays as it is
    source: str = ""  # its detected language; "" where it was not detected, or has no letters
    note: str = ""


def join_sentences(line: SourceLine, tokenizer: Tokenizer, align: bool = False, unique: bool = True) -> Translation:
    """Join sentences with their own spacing; the i-th guess of a line is made of the i-th hypothesis of each.

    align: their links are known and wanted
    unique: give each text once, as its first and best guess: different tokens may spell the same text"""
    guesses: list[Guess] = []
    texts_so_far = set()
    for rank in range(max((len(s.hypotheses) for s in line.sentences), default=1)):
        texts = [_sentence_text(sentence, rank, tokenizer) for sentence in line.sentences]
        spaces = _space_texts(line, texts)
        text = "".join(part for pair in zip(spaces, texts) for part in pair) + line.tail
        text = text if line.layout is None else line.layout.restore(text)
        if unique and text in texts_so_far:
            continue
        texts_so_far.add(text)
        hypotheses = [s.hypotheses[min(rank, len(s.hypotheses) - 1)] for s in line.sentences]
        guesses.append(LazyGuess(text, hypotheses, _join_links(line, spaces, texts, rank) if align else None, line))
    return Translation(line.source, guesses, [warning for s in line.sentences for warning in s.warnings])


def _sentence_text(sentence: Sentence, rank: int, tokenizer: Tokenizer) -> str:
    """Of the hypothesis of this rank, or of the last where there are fewer."""
    first, last = sentence.outer_spans
    if sentence.outputs:
        output = sentence.outputs[min(rank, len(sentence.outputs) - 1)]
    else:
        hypothesis = sentence.hypotheses[min(rank, len(sentence.hypotheses) - 1)]
        output = sentence.restore_case(tokenizer.decode(hypothesis.ids).strip())
    return f"{first}{output}{last}"


def _space_texts(line: SourceLine, texts: Sequence[str]) -> list[str]:
    """What stands before each translated sentence."""
    pairs = zip(pairwise(line.sentences), pairwise(texts))
    return [sentence.before for sentence in line.sentences[:1]] + [
        adapt_spacing(sentence.before, previous.text, left, right) for (previous, sentence), (left, right) in pairs
    ]


def _join_links(line: SourceLine, spaces: Sequence[str], texts: Sequence[str], rank: int) -> list[tuple[int, int]]:
    """The links of each sentence, with its words counted from the beginning of the line."""
    links = []
    word_counts = [0, 0]  # words so far on each side
    last_characters = ["", ""]  # and the character that a side ends with: it may go on with the same word
    for sentence, space, text in zip(line.sentences, spaces, texts):
        befores = (sentence.before, space)
        before_words = zip(word_counts, last_characters, befores)
        starts = [count + current_word_index(end + before) for count, end, before in before_words]
        own_links = sentence.links[min(rank, len(sentence.links) - 1)]
        links += [(starts[0] + i, starts[1] + j) for i, j in own_links]
        sides = [end + side for end, side in zip(last_characters, (sentence.before + sentence.text, space + text))]
        word_counts = [count + current_word_index(side) for count, side in zip(word_counts, sides)]
        last_characters = [side[-1:] for side in sides]
    return links


def to_one_line(text: str) -> str:
    """Without line breaks: one inside a translation would shift all that follow in a file."""
    return text.replace("\r", " ").replace("\n", " ")
