"""The text to train a tokenizer on: lines that can be read more than once, and their size."""

import itertools
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from headway.errors import HeadwayError
from headway.text.tokenizer.vocabulary import encode_utf8

# Bytes of UTF-8 text, and the vocabulary size that they support; interpolated linearly in log-log space.
VOCABULARY_SIZES = (
    (20_000, 320),  # a few pages: hardly more than the bytes
    (100_000, 512),  # 2,000 short lines on each side
    (4_000_000, 7_000),  # 29,000 pairs of captions
    (400_000_000, 32_000),  # 1.5 million pairs
    (1_300_000_000, 37_000),  # 4.5 million pairs, as in the paper
)
MAX_LEARNED_BYTES = 32_000_000  # to 64: more text takes minutes and changes hardly an entry


def recommend_size(text_bytes: int) -> int:
    """The vocabulary size for a text of this many UTF-8 bytes; in a larger one entries are too rare to be learned.

    Bytes, because they compare across scripts: English, German and Chinese texts of the same length in bytes contain
    about the same information; of the same length in words or characters they do not. Count the text that the
    vocabulary is for: both sides if it is shared.
    """
    if text_bytes <= VOCABULARY_SIZES[0][0]:
        return VOCABULARY_SIZES[0][1]
    for (low, small), (high, large) in itertools.pairwise(VOCABULARY_SIZES):
        if text_bytes <= high:
            share = math.log(text_bytes / low) / math.log(high / low)
            return int(small * math.pow(large / small, share))
    return VOCABULARY_SIZES[-1][1]


@contextmanager
def open_training_text(lines: Iterable[str]) -> Iterator["TrainingText"]:
    """Lines that can be read repeatedly, checked and measured. An iterator is copied to a temporary file meanwhile."""
    if isinstance(lines, str):
        raise HeadwayError("the text to train on is one string. Give its lines, as in text.splitlines().")
    if iter(lines) is not lines:
        yield measure_text(lines)
        return
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        yield measure_text(TemporaryLines(file))


def measure_text(lines: Iterable[str]) -> "TrainingText":
    utf8_bytes = sum(len(encode_utf8(line, f"line {n}: ")) for n, line in enumerate(lines, 1))
    if not utf8_bytes:
        raise HeadwayError("there is no text to train a tokenizer on: every line is empty, or there is none.")
    stride = max(utf8_bytes // MAX_LEARNED_BYTES, 1)
    return TrainingText(SampledLines(lines, stride) if stride > 1 else lines, utf8_bytes)


@dataclass(frozen=True)
class TrainingText:
    lines: Iterable[str]  # to learn from: all, or of a large text a part
    utf8_bytes: int  # of the whole text


@dataclass(frozen=True)
class SampledLines:
    """Every n-th line: always the same ones, from all parts of the text."""

    lines: Iterable[str]
    stride: int

    def __iter__(self) -> Iterator[str]:
        return itertools.islice(self.lines, 0, None, self.stride)


@dataclass(frozen=True)
class TemporaryLines:
    """Lines in a temporary file, one JSON string each."""

    file: IO[str]

    def __iter__(self) -> Iterator[str]:
        self.file.seek(0)
        return map(json.loads, self.file)
