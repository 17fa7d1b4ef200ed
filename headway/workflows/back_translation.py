"""Back-translation: make pairs from monolingual text, with a model that translates the other way.

    lines ── translate_lines ── PairFilter ──► SyntheticPair, or the reason why there is none ── format_pairs ──► file

`make_pairs` runs any PairMaker, this one or distillation.Distillation, over a text, and can be resumed."""

import json
import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from headway.data.parallel_files import JSONL_SUFFIXES, strip_compression
from headway.errors import HeadwayError
from headway.files.resumable import Counts
from headway.text.degenerate import is_copy, is_repetitive
from headway.text.numbers import find_lost_numbers
from headway.translate.options import TranslateOptions
from headway.translate.results import Translation
from headway.translate.search import make_requests, translate_requests
from headway.translate.translator import Translator

RejectReason = Literal["blank", "long", "empty", "cut", "loop", "copy", "ratio", "number", "score", "unlike"]

REJECT_REASONS: dict[RejectReason, str] = {  # as they are reported
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
MIN_LENGTH_GAP = 10  # tokens by which short lines may differ in length, whatever the ratio
SEPARATORS = str.maketrans("\t\r\n", "   ")
LINES_PER_CHECKSUM = 10_000


class SyntheticPair(NamedTuple):
    """A pair to train on, one side of which a model has written."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True)
class PairFilter:
    """Which pairs are worth learning from. Lengths are in tokens: words mean little in Chinese."""

    max_tokens: int  # of a line
    min_score: float = -math.inf  # mean log-probability of a token
    max_length_ratio: float = 3.0
    keep_numbers: bool = False  # whether all digits must be kept: see headway.text.numbers.share_number_format

    def reject_line(self, text: str, ids: Sequence[int]) -> RejectReason | None:
        """Why a line is not even translated."""
        if not text:
            return "blank"
        return "long" if len(ids) > self.max_tokens else None

    def reject_translation(self, ids: Sequence[int], translation: Translation) -> RejectReason | None:
        """What is wrong with a translation, made without retries, of a line with these ids."""
        best = translation.guesses[0]
        if not best.text.strip():
            return "empty"
        if translation.warnings:  # no line is too long, so the only possible one is that the output was cut
            return "cut"
        if is_repetitive(best.tokens) and not is_repetitive(ids):
            return "loop"
        if is_copy(translation.source, best.text):
            return "copy"
        short, long = sorted((len(ids), len(best.tokens)))
        if long > self.max_length_ratio * short and long > short + MIN_LENGTH_GAP:
            return "ratio"
        if self.keep_numbers and find_lost_numbers(translation.source, best.text):
            return "number"
        if sum(best.token_logps) < self.min_score * len(best.token_logps):
            return "score"
        return None


class PairMaker(Protocol):
    """Makes pairs of lines: BackTranslation or Distillation."""

    @property
    def translator(self) -> Translator: ...
    @property
    def options(self) -> TranslateOptions: ...
    @property
    def pair_filter(self) -> PairFilter: ...

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[SyntheticPair | RejectReason]:
        """For each line a pair, or why there is none. `first`: the number of the first line, for sampling."""


@dataclass(frozen=True, kw_only=True)
class BackTranslation:
    """Makes pairs whose target is the given line, and whose source is its translation, with a tag before it."""

    translator: Translator
    options: TranslateOptions
    pair_filter: PairFilter
    tag: str = ""

    def pairs(self, lines: Sequence[str], first: int = 0) -> list[SyntheticPair | RejectReason]:
        """For each line a pair, or why there is none. `first`: the number of the first line, for sampling."""
        attempts = translate_lines(self, [line.strip() for line in lines], first)
        return [
            attempt.reason
            or self.pair_filter.reject_translation(attempt.ids, attempt.translation)
            or SyntheticPair(self._add_tag(attempt.translation.text), attempt.text)
            for attempt in attempts
        ]

    def _add_tag(self, text: str) -> str:
        return f"{self.tag} {text.strip()}" if self.tag else text.strip()


class Attempt(NamedTuple):
    """A line and its translation."""

    text: str
    ids: list[int]
    translation: Translation  # of a blank line, if there is a reason
    reason: RejectReason | None  # why it was not even translated


def translate_lines(maker: PairMaker, texts: Sequence[str], first: int) -> list[Attempt]:
    """Translate what the filter lets through: the model's raw output, without retries or protected spans."""
    ids = maker.translator.tokenizers.source.encode_batch(texts)
    reasons = [maker.pair_filter.reject_line(text, tokens) for text, tokens in zip(texts, ids)]
    requests = make_requests(["" if reason else text for text, reason in zip(texts, reasons)], first)
    options = replace(maker.options, retry=False, protect=None)
    translations = translate_requests(maker.translator, requests, options)
    return list(map(Attempt, texts, ids, translations, reasons))


def initial_counts() -> Counts:
    """Before the first line: lines read and their checksum, pairs made, and how many lines gave none, by reason."""
    return {"lines": 0, "checksum": 0, "pairs": 0, **dict.fromkeys(REJECT_REASONS, 0)}


def make_pairs(
    lines: Iterator[str], maker: PairMaker, counts: Counts, group_size: int
) -> Iterator[tuple[list[SyntheticPair | RejectReason], Counts]]:
    """Pairs of one group of lines after the other, and the counts so far.

    Lines that `counts` includes are skipped; they must be the same as before.
    """
    counts = dict(counts)
    if not _skip_lines(lines, counts):
        raise HeadwayError(
            f"the first {counts['lines']:,} lines of the text are not those that this was begun with. Give the same "
            "text, or start again with --overwrite."
        )
    while group := list(islice(lines, min(group_size, sys.maxsize))):
        pairs = maker.pairs(group, counts["lines"])
        counts["lines"] += len(group)
        counts["checksum"] = _checksum(group, counts["checksum"])
        for pair in pairs:
            counts["pairs" if isinstance(pair, SyntheticPair) else pair] += 1
        yield pairs, dict(counts)


def _skip_lines(lines: Iterator[str], counts: Counts) -> bool:
    """Whether the lines that are skipped are those that were counted."""
    checksum = 0
    left = counts["lines"]
    while left:
        group = list(islice(lines, min(left, LINES_PER_CHECKSUM)))
        if not group:
            return False
        checksum = _checksum(group, checksum)
        left -= len(group)
    return checksum == counts["checksum"]


def _checksum(lines: Sequence[str], before: int) -> int:
    return zlib.crc32("".join(f"{line}\n" for line in lines).encode("utf-8"), before)


def format_pairs(found: Sequence[SyntheticPair | RejectReason], path: str) -> str:
    """Rows of a JSONL file or, by any other name, of a TSV file, where tabs and line breaks become spaces."""
    pairs = [one for one in found if isinstance(one, SyntheticPair)]
    if Path(strip_compression(path)).suffix.lower() in JSONL_SUFFIXES:
        return "".join(json.dumps(pair._asdict(), ensure_ascii=False) + "\n" for pair in pairs)
    return "".join("\t".join(side.translate(SEPARATORS) for side in pair) + "\n" for pair in pairs)
