"""The text that a tokenizer is trained on: read as a stream, more than once, and measured."""

import itertools
import json
import math
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from headway.errors import HeadwayError
from headway.text.tokenizer.vocabulary import utf8

# Text in UTF-8 bytes, and a vocabulary that it can teach. Between two rows: a straight line on log-log paper.
SIZES = (
    (20_000, 320),  # a few pages: hardly more than the bytes
    (100_000, 512),  # 2,000 short lines on each side
    (4_000_000, 7_000),  # 29,000 pairs of captions
    (400_000_000, 32_000),  # 1.5 million pairs
    (1_300_000_000, 37_000),  # 4.5 million pairs, as in the paper
)


def choose_size(text_bytes: int) -> int:
    """How many entries a text of so many UTF-8 bytes can teach; more would be seen too rarely to be learned.

    Bytes, because they compare across scripts: an English, a German and a Chinese text of one length in bytes say
    about as much; of one length in words or characters they do not. Count the text that the vocabulary is for:
    both sides if it is shared.
    """
    if text_bytes <= SIZES[0][0]:
        return SIZES[0][1]
    for (low, small), (high, large) in itertools.pairwise(SIZES):
        if text_bytes <= high:
            share = math.log(text_bytes / low) / math.log(high / low)
            return int(small * math.pow(large / small, share))
    return SIZES[-1][1]


@contextmanager
def corpus(lines: Iterable[str]) -> Iterator["Corpus"]:
    """Lines that can be read again, checked and measured. An iterator is kept in a temporary file meanwhile."""
    if isinstance(lines, str):
        raise HeadwayError("the text to train on is one string. Give its lines, as in text.splitlines().")
    if iter(lines) is not lines:
        yield measured(lines)
        return
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
        yield measured(KeptLines(file))


def measured(lines: Iterable[str]) -> "Corpus":
    size = sum(len(utf8(line, f"line {n}: ")) for n, line in enumerate(lines, 1))
    if not size:
        raise HeadwayError("there is no text to train a tokenizer on: every line is empty, or there is none.")
    return Corpus(lines, size)


@dataclass(frozen=True)
class Corpus:
    lines: Iterable[str]
    bytes: int


@dataclass(frozen=True)
class KeptLines:
    file: IO[str]

    def __iter__(self) -> Iterator[str]:
        self.file.seek(0)
        return map(json.loads, self.file)
