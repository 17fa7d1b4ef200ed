"""Read lines that may be damaged: every line is decoded, and its faults are noted beside it."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import FAULT_BITS
from headway.data.json_files import PairKeys, extract_pair
from headway.data.parallel_files import (
    JSONL_SUFFIXES,
    TABLE_SUFFIXES,
    ParallelFiles,
    check_pair_suffix,
    fits_layout,
    format_suffix,
    read_parallel,
)
from headway.data.table_layout import TableLayout
from headway.errors import HeadwayError
from headway.files.text_files import check_readable, read_byte_lines, refuse_binary

Faults = NDArray[np.uint16]

LINES_PER_GROUP = 4096
BYTES_PER_GROUP = 3 << 19  # of long lines, a group has fewer

# UTF-8 that was decoded as Latin-1 or Windows-1252, and the replacement character.
GARBLED = re.compile("\ufffd|Ã[\u0080-\u00bf„–œŸ]|Â[\u00a0-\u00bf]|â€")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class LineGroup(NamedTuple):
    """Consecutive lines of a corpus, as bytes."""

    corpus: int
    first: int  # line of the corpus, counted from 0
    lines: list[tuple[bytes, ...]]  # with two files, both sides of a pair


class DecodedPairs(NamedTuple):
    source: list[str]
    target: list[str]
    faults: Faults  # found while decoding


def check_corpus_files(files: ParallelFiles) -> None:
    """Raise HeadwayError if the files of a corpus cannot be read at all."""
    for path in files.paths:
        if path == "-":
            raise HeadwayError(
                "standard input (-) cannot be checked, because a corpus is read several times. Give a file."
            )
        check_readable(path)
    if not files.target:
        check_pair_suffix(files.source)


def is_by_line(files: ParallelFiles) -> bool:
    """Whether each pair is a line of each file. Others (CSV, JSON, Parquet) are decoded while they are read, and a
    damaged one is refused."""
    if files.target or format_suffix(files.source) in JSONL_SUFFIXES:
        return True
    return format_suffix(files.source) in TABLE_SUFFIXES and (files.layout or TableLayout()).is_by_line


def count_header_lines(files: ParallelFiles) -> int:
    return int(files.layout is not None and files.layout.has_header)


def read_raw_lines(files: ParallelFiles) -> Iterator[tuple[bytes | None, ...]]:
    """The lines of the files side by side, without a header; None where one file has ended. Both sides of each pair,
    where pairs are not lines."""
    if is_by_line(files):
        lines = itertools.zip_longest(*(refuse_binary(path, read_byte_lines(path)) for path in files.paths))
        return itertools.islice(lines, count_header_lines(files), None)
    return _encode_pairs(files)


def read_groups(corpora: Sequence[ParallelFiles], size: int = LINES_PER_GROUP) -> Iterator[LineGroup]:
    """All lines of all corpora. The first pass has checked that two files have equally many."""
    for number, files in enumerate(corpora):
        group = LineGroup(number, 0, [])
        group_bytes = 0
        for line in _read_complete_lines(files):
            group.lines.append(line)
            group_bytes += sum(map(len, line))
            if len(group.lines) == size or group_bytes > BYTES_PER_GROUP:
                yield group
                group = LineGroup(number, group.first + len(group.lines), [])
                group_bytes = 0
        if group.lines:
            yield group


def _read_complete_lines(files: ParallelFiles) -> Iterator[tuple[bytes, ...]]:
    """As read_raw_lines, for files of equal lengths."""
    if is_by_line(files):
        return itertools.islice(zip(*map(read_byte_lines, files.paths)), count_header_lines(files), None)
    return _encode_pairs(files)


def _encode_pairs(files: ParallelFiles) -> Iterator[tuple[bytes, ...]]:
    for pair in read_parallel(files):
        yield tuple(side.encode(errors="surrogatepass") for side in pair)


def read_pairs_at(corpora: Sequence[ParallelFiles], numbers: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The pairs with these numbers, counted over all corpora, in ascending order. Stops reading after the last one."""
    first = done = 0
    for group in read_groups(corpora):
        if done == len(numbers):
            return
        pairs: DecodedPairs | None = None
        while done < len(numbers) and numbers[done] < first + len(group.lines):
            pairs = pairs or decode_pairs(corpora[group.corpus], group.first, group.lines)
            index = numbers[done] - first
            yield numbers[done], (pairs.source[index], pairs.target[index])
            done += 1
        first += len(group.lines)


def decode_pairs(files: ParallelFiles, first: int, lines: Sequence[tuple[bytes, ...]]) -> DecodedPairs:
    """The pairs of some lines, stripped of surrounding whitespace."""
    faults = np.zeros(len(lines), np.uint16)
    source = [""] * len(lines)
    target = [""] * len(lines)
    split_line = _make_splitter(files)
    for number, line in enumerate(lines):
        try:
            texts = [raw.decode() for raw in line]
        except UnicodeDecodeError:
            texts = [raw.decode(errors="replace") for raw in line]
            faults[number] = FAULT_BITS["encoding"]
        if first + number == 0 and not count_header_lines(files):
            texts = [text.removeprefix("\ufeff") for text in texts]
        if len(texts) == 1:
            try:
                texts = [*split_line(texts[0].rstrip("\r\n"))]
            except (HeadwayError, ValueError, RecursionError):
                texts.append("")
                faults[number] |= FAULT_BITS["broken"]
        source[number] = texts[0].strip()
        target[number] = texts[1].strip()
    for side in (source, target):
        for number in _find_garbled(side):
            faults[number] |= FAULT_BITS["encoding"]
            side[number] = LONE_SURROGATE.sub("\ufffd", side[number])
    return DecodedPairs(source, target, faults)


def _make_splitter(files: ParallelFiles) -> Callable[[str], tuple[str, str]]:
    """A function that splits a line of a file with both sides into source and target, or raises."""
    if files.target or format_suffix(files.source) in JSONL_SUFFIXES:
        keys = PairKeys(files.columns, (files.source_language, files.target_language))
        return lambda text: _replace_line_feeds(extract_pair(json.loads(text), keys, ""))
    layout = files.layout or TableLayout()
    source, target = layout.columns

    def split(text: str) -> tuple[str, str]:
        cells = text.split("\t")
        if not fits_layout(cells, layout):
            raise ValueError
        return cells[source], cells[target]

    return split


def _replace_line_feeds(pair: tuple[str, str]) -> tuple[str, str]:
    """A JSON text may contain line feeds: as line separators (U+2028) they stay in the line, and are reported later."""
    source, target = pair
    return source.replace("\n", "\u2028"), target.replace("\n", "\u2028")


def _find_garbled(lines: Sequence[str]) -> list[int]:
    """Lines that were decoded wrongly. Nearly always there are none, so all lines are searched at once first."""
    text = "\n".join(lines)
    if not GARBLED.search(text) and not LONE_SURROGATE.search(text):
        return []
    return [number for number, line in enumerate(lines) if GARBLED.search(line) or LONE_SURROGATE.search(line)]
