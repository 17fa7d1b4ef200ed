"""Sentences and lines whose translation a translation memory has: they are not searched for."""

from dataclasses import dataclass

from headway.decode.types import Hypothesis
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.translation_memory import MemoryIndex
from headway.translate.source import SENTENCE_BITS, Sentence, SourceLine, SourceReader

MAX_QUOTED_CHARS = 60  # of a similar source, in a warning


@dataclass(frozen=True)
class MemoryMatcher:
    index: MemoryIndex
    min_similarity: float
    reader: SourceReader
    tokenizer: Tokenizer  # of the target

    def read_line(self, text: str, number: int) -> SourceLine | None:
        """A line that the memory has as a whole, as one sentence with its translation."""
        stripped = text.strip()
        target = self.index.find_exact(stripped) if stripped else None
        if target is None:
            return None
        start = text.index(stripped)
        direction = self.reader.direction
        ids = direction.wrap_source(self.reader.tokenizer.encode(stripped))
        if len(ids) > self.reader.max_tokens:  # too long to be aligned: its sentences are looked up
            return None
        sentence = Sentence(text[:start], stripped, ids, number << SENTENCE_BITS, direction=direction)
        self._use(sentence, target)
        return SourceLine(text, [sentence], text[start + len(stripped) :])

    def fill(self, sentence: Sentence) -> None:
        """Give a sentence the translation of the memory, if it has one."""
        if sentence.prefix or sentence.hypotheses:
            return
        target, warnings = look_up(self.index, sentence.text, self.min_similarity)
        sentence.warnings += warnings
        if target is not None:
            self._use(sentence, target)

    def _use(self, sentence: Sentence, target: str) -> None:
        ids = self.tokenizer.encode(target)
        sentence.terms = []
        sentence.hypotheses = [Hypothesis(ids, 0.0, 0.0, [0.0] * len(ids), True)]
        first, last = sentence.outer_spans
        if target.startswith(first) and target.endswith(last):  # they are added again
            target = target[len(first) : len(target) - len(last)]
        else:
            sentence.outer_spans = ("", "")
        sentence.outputs = [target]


def look_up(index: MemoryIndex, text: str, min_similarity: float) -> tuple[str | None, list[str]]:
    """The translation of a text, or of one that is as similar, and what is to be said about it; None without one."""
    target = index.find_exact(text)
    if target is not None or min_similarity >= 1:
        return target, []
    found = index.find_similar(text, min_similarity, 1)
    if not found:
        return None, []
    source = found[0].source
    quoted = source if len(source) <= MAX_QUOTED_CHARS else f"{source[: MAX_QUOTED_CHARS - 1]}…"
    warning = f'taken from the memory, where the source is {found[0].similarity:.0%} the same: "{quoted}"'
    return found[0].target, [warning]
