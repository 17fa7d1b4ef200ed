"""Gaps in a text, "[MASK]", as the tokens that a denoising model reads for them; and what it writes, as a whole text.

span_corruption   A ⟨gap:0⟩ rides ⟨gap:1⟩ bike .   ─►   ⟨gap:0⟩ man in red ⟨gap:1⟩ his   ─►   insert_spans
denoising         A ⟨mask⟩ rides ⟨mask⟩ bike .     ─►   the whole text

Nothing here imports torch."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer

GAP = re.compile(r" ?(?:\[MASK\]|<mask>)")  # with the space before it, which belongs to what is missing


@dataclass(frozen=True)
class GapReader:
    """How a denoising model reads gaps: all as its mask token, or each as a sentinel of its own."""

    tokenizer: Tokenizer
    numbered: bool  # by sentinels

    def encode(self, text: str) -> list[int]:
        first, *others = GAP.split(text)
        names = self.tokenizer.sentinels if self.numbered else (self.tokenizer.mask,) * len(others)
        if len(others) > len(names) or (others and min(names) < 0):
            count = len(names) if self.numbered else 0
            raise HeadwayError(f"this text has {len(others)} gaps, and the model knows {count}. Give it fewer at once.")
        ids = self.tokenizer.encode(first) if first.strip() else []
        for name, part in zip(names, others):
            ids += [name, *self._encode_behind_gap(part)]
        return ids

    def _encode_behind_gap(self, text: str) -> list[int]:
        """A space before it is part of its first token; without one, the text goes on as behind a letter."""
        if not text or text[:1].isspace():
            return self.tokenizer.encode(text.strip()) if text.strip() else []
        letter, whole = self.tokenizer.encode_batch(["x", f"x{text}"])
        return whole[len(letter) :] if whole[: len(letter)] == letter else self.tokenizer.encode(text)

    def fill(self, source: Sequence[int], output: Sequence[int]) -> list[int]:
        """The ids of the whole text, of what the model has read and written."""
        if not self.numbered:
            return list(output)
        controls = self.tokenizer.control_ids - frozenset(self.tokenizer.sentinels)
        return [n for n in insert_spans(source, output, self.tokenizer.sentinels) if n not in controls]


def insert_spans(source: Sequence[int], target: Sequence[int], sentinels: Sequence[int]) -> list[int]:
    """The text of a source with sentinels and a target that says what they stand for. A sentinel of the source that the
    target does not have stands for nothing; what the target has before its first sentinel belongs nowhere."""
    names = frozenset(sentinels)
    spans: dict[int, list[int]] = {}
    current: list[int] = []
    for token in target:
        if token in names:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return list(itertools.chain.from_iterable(spans.get(one, []) if one in names else [one] for one in source))
