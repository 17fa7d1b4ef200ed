"""Back-translation: text in one language becomes pairs, by a model that translates the other way."""

import json
import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from headway.config.search import Search
from headway.data.parallel_files import OBJECTS, unpacked
from headway.errors import HeadwayError
from headway.files.resumable import Counts
from headway.text import copied, repeated
from headway.text.numbers import lost_numbers
from headway.translate.results import Translation
from headway.translate.translator import Translator

Reason = Literal["blank", "long", "empty", "cut", "loop", "copy", "ratio", "number", "score", "unlike"]

# Why a line gives no pair, and how that is told.
REASONS: dict[Reason, str] = {
    "blank": "blank lines",
    "long": "lines with too many tokens",
    "empty": "empty translations",
    "cut": "translations without an end",
    "loop": "translations that went round in a loop",
    "copy": "copies of the line",
    "ratio": "of a very different length",
    "number": "without a number of the line",
    "score": "of a low score",
    "unlike": "unlike their reference",
}
SLACK = 10  # tokens by which short lines may differ in length, whatever the ratio
SEPARATORS = str.maketrans("\t\r\n", "   ")


class Pair(NamedTuple):
    source: str  # by machine, with the tag
    target: str  # as it was given


@dataclass(frozen=True, kw_only=True)
class Standards:
    """Which pairs are worth learning from. Lengths are in tokens: words mean little in Chinese."""

    longest: int
    least_score: float = -math.inf  # the mean log-probability of a token
    most_ratio: float = 3.0
    numbers: bool = False  # whether each must be there in digits: see headway.text.numbers.keeps_digits

    def fault(self, line: Sequence[int], made: Translation) -> Reason | None:
        """What is wrong with a translation of the tokens in `line`, made without mending."""
        found = made.guesses[0]
        if not found.text.strip():
            return "empty"
        if made.warnings:  # nothing is too long, so the only one is that an output never came to its end
            return "cut"
        if repeated(found.tokens) and not repeated(line):
            return "loop"
        if copied(made.source, found.text):
            return "copy"
        short, long = sorted((len(line), len(found.tokens)))
        if long > self.most_ratio * short and long > short + SLACK:
            return "ratio"
        if self.numbers and lost_numbers(made.source, found.text):
            return "number"
        if sum(found.token_logps) < self.least_score * len(found.token_logps):
            return "score"
        return None


@dataclass(frozen=True, kw_only=True)
class BackTranslation:
    """How lines become pairs."""

    translator: Translator
    search: Search
    standards: Standards
    tag: str = ""
    to: str = ""
    split: bool = True

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[Pair | Reason]:
        """For each line a pair, or why there is none. `first`: the number of the first line, for the draws."""
        tried = attempts(self, [line.strip() for line in lines], first)
        return [
            one.reason or self.standards.fault(one.ids, one.made) or Pair(self._tagged(one.made.text), one.text)
            for one in tried
        ]

    def _tagged(self, text: str) -> str:
        return f"{self.tag} {text.strip()}" if self.tag else text.strip()


class Asking(Protocol):
    """Who has lines translated, and how."""

    @property
    def translator(self) -> Translator: ...
    @property
    def search(self) -> Search: ...
    @property
    def standards(self) -> Standards: ...
    @property
    def to(self) -> str: ...
    @property
    def split(self) -> bool: ...


class Attempt(NamedTuple):
    text: str
    ids: list[int]
    made: Translation  # of nothing, if there is a reason
    reason: Reason | None  # why it was not even translated


def attempts(asking: Asking, texts: Sequence[str], first: int) -> list[Attempt]:
    """Each text translated as a search finds it, unmended, if it is fit for that."""
    ids = asking.translator.tokenizers.source.encode_batch(texts)
    reasons = [unfit(text, tokens, asking.standards) for text, tokens in zip(texts, ids)]
    asked = ["" if reason else text for text, reason in zip(texts, reasons)]
    made = asking.translator.translate(
        asked, asking.search, to=asking.to, split=asking.split, first=first, mend=False, protect=None
    )  # fmt: skip
    return list(map(Attempt, texts, ids, made, reasons))


def unfit(text: str, ids: Sequence[int], standards: Standards) -> Reason | None:
    """Why a line is not even translated."""
    if not text:
        return "blank"
    return "long" if len(ids) > standards.longest else None


class Way(Protocol):
    """How lines become pairs: by back-translation, or by a teacher."""

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[Pair | Reason]: ...


def no_counts() -> Counts:
    """Before the first line: lines read and their checksum, pairs made, and how many lines gave none, by reason."""
    return {"lines": 0, "checksum": 0, "pairs": 0, **dict.fromkeys(REASONS, 0)}


def augment(
    lines: Iterator[str], way: Way, counts: Counts, at_once: int
) -> Iterator[tuple[list[Pair | Reason], Counts]]:
    """What becomes of `at_once` lines after the other, and what the counts are with them.

    Lines that `counts` knows of are passed over; they must be the same as before.
    """
    counts = dict(counts)
    if not _passed_over(lines, counts):
        raise HeadwayError(
            f"the first {counts['lines']:,} lines of the text are not those that this was begun with. Give the same "
            "text, or start anew with --overwrite."
        )
    while group := list(islice(lines, min(at_once, sys.maxsize))):
        found = way.pairs(group, counts["lines"])
        counts["lines"] += len(group)
        counts["checksum"] = _checksum(group, counts["checksum"])
        for one in found:
            counts["pairs" if isinstance(one, Pair) else one] += 1
        yield found, dict(counts)


def _passed_over(lines: Iterator[str], counts: Counts) -> bool:
    checksum, left = 0, counts["lines"]
    while left:
        group = list(islice(lines, min(left, 10_000)))
        if not group:
            return False
        checksum, left = _checksum(group, checksum), left - len(group)
    return checksum == counts["checksum"]


def _checksum(lines: Sequence[str], before: int) -> int:
    return zlib.crc32("".join(f"{line}\n" for line in lines).encode("utf-8"), before)


def written(found: Sequence[Pair | Reason], path: str) -> str:
    """Rows of a JSONL file or, by any other name, of a TSV file: there a tab or a line break would be a border."""
    pairs = [one for one in found if isinstance(one, Pair)]
    if Path(unpacked(path)).suffix.lower() in OBJECTS:
        return "".join(json.dumps(pair._asdict(), ensure_ascii=False) + "\n" for pair in pairs)
    return "".join("\t".join(side.translate(SEPARATORS) for side in pair) + "\n" for pair in pairs)
