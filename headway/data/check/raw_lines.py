"""Reading what may be damaged: every line comes through, and what is wrong with it is noted beside it."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.faults import BITS
from headway.data.parallel_files import OBJECTS, TABLES, ParallelFiles, pair_of, table_columns, unpacked
from headway.errors import HeadwayError
from headway.files.text_files import PACKED, byte_lines, check_readable, of_text

Faults = NDArray[np.uint16]

GROUP, MOST_BYTES = 4096, 3 << 19  # lines that are looked at together, and their bytes: long lines, fewer of them

# UTF-8 that was read as Latin-1 or Windows-1252, and what stands for a character that could not be read.
GARBLED = re.compile("\ufffd|Ã[\u0080-\u00bf„–œŸ]|Â[\u00a0-\u00bf]|â€")
NO_CHARACTER = re.compile("[\ud800-\udfff]")


class Group(NamedTuple):
    """Some lines of a corpus as they stand in its files."""

    corpus: int
    first: int  # line of the corpus, counted from 0
    lines: list[tuple[bytes, ...]]  # two to a pair where the sides lie in two files


class Pairs(NamedTuple):
    source: list[str]
    target: list[str]
    faults: Faults  # what the reading itself has shown


def refuse_unreadable(files: ParallelFiles) -> None:
    """What cannot be read at all, before anything is read."""
    for path in files.paths:
        if path == "-":
            raise HeadwayError("a corpus is read more than once, which standard input (-) cannot be. Give a file.")
        check_readable(path)
    if not files.target and form_of(files.source) not in (*TABLES, *OBJECTS):
        raise HeadwayError(
            f"{files.source}: pairs in one file are told by its name, and this ends in none of "
            f"{', '.join((*TABLES, *OBJECTS))} (with or without {', '.join(PACKED)}). Rename it, or give two files."
        )


def form_of(path: str) -> str:
    return Path(unpacked(path)).suffix.lower()


def raw_lines(files: ParallelFiles) -> Iterator[tuple[bytes | None, ...]]:
    """The lines of its files side by side; None where a file has ended before the other."""
    return itertools.zip_longest(*(of_text(path, byte_lines(path)) for path in files.paths))


def groups(corpora: Sequence[ParallelFiles], size: int = GROUP) -> Iterator[Group]:
    """All lines of all corpora. Two files of a pair have equally many: `survey` has seen to it."""
    for number, files in enumerate(corpora):
        group = Group(number, 0, [])
        taken = 0
        for line in zip(*(byte_lines(path) for path in files.paths)):
            group.lines.append(line)
            taken += sum(map(len, line))
            if len(group.lines) == size or taken > MOST_BYTES:
                yield group
                group, taken = Group(number, group.first + len(group.lines), []), 0
        if group.lines:
            yield group


def pairs_at(corpora: Sequence[ParallelFiles], numbers: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Some pairs, by their numbers over all corpora, in ascending order. Nothing is read behind the last of them."""
    first = done = 0
    for group in groups(corpora):
        if done == len(numbers):
            return
        pairs: Pairs | None = None
        while done < len(numbers) and numbers[done] < first + len(group.lines):
            pairs = pairs or decoded(corpora[group.corpus], group.first, group.lines)
            place = numbers[done] - first
            yield numbers[done], (pairs.source[place], pairs.target[place])
            done += 1
        first += len(group.lines)


def decoded(files: ParallelFiles, first: int, lines: Sequence[tuple[bytes, ...]]) -> Pairs:
    """The pairs in some lines, without the space around a sentence."""
    faults = np.zeros(len(lines), np.uint16)
    source, target = [""] * len(lines), [""] * len(lines)
    both_sides = _splitter(files)
    for number, line in enumerate(lines):
        try:
            texts = [raw.decode() for raw in line]
        except UnicodeDecodeError:
            texts = [raw.decode(errors="replace") for raw in line]
            faults[number] = BITS["encoding"]
        if first + number == 0:
            texts = [text.removeprefix("\ufeff") for text in texts]
        if len(texts) == 1:
            try:
                texts = [*both_sides(texts[0].rstrip("\r\n"))]
            except (HeadwayError, ValueError, RecursionError):
                texts.append("")
                faults[number] |= BITS["broken"]
        source[number], target[number] = texts[0].strip(), texts[1].strip()
    for side in (source, target):
        for number in _garbled(side):
            faults[number] |= BITS["encoding"]
            side[number] = NO_CHARACTER.sub("\ufffd", side[number])
    return Pairs(source, target, faults)


def _splitter(files: ParallelFiles) -> Callable[[str], tuple[str, str]]:
    """What takes a line of a file with both sides apart, or raises."""
    if files.target or form_of(files.source) in OBJECTS:
        return lambda text: _on_one_line(pair_of(json.loads(text), files, 0))
    source, target = table_columns(files)

    def split(text: str) -> tuple[str, str]:
        cells = text.split("\t")
        if len(cells) <= max(source, target):
            raise ValueError
        return cells[source], cells[target]

    return split


def _on_one_line(pair: tuple[str, str]) -> tuple[str, str]:
    """JSON can write a line end inside a text; it stays one, but of another kind, and is found as such later."""
    source, target = pair
    return source.replace("\n", "\u2028"), target.replace("\n", "\u2028")


def _garbled(lines: Sequence[str]) -> list[int]:
    """Those with signs of a wrong decoding; nearly always none, so all are looked through at once first."""
    text = "\n".join(lines)
    if not GARBLED.search(text) and not NO_CHARACTER.search(text):
        return []
    return [number for number, line in enumerate(lines) if GARBLED.search(line) or NO_CHARACTER.search(line)]
