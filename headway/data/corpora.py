"""Corpora: text that is read as often as needed and never held in memory, with its counts and its identity.

The identity is a fingerprint of the text: caches and the resume check of a training know a corpus by it.
"""

import atexit
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from headway.data.parallel_files import (
    PARQUET_SUFFIXES,
    Pair,
    ParallelFiles,
    format_suffix,
    read_parallel,
    resolve_layout,
    strip_compression,
)
from headway.data.parquet_files import refuse_pipe
from headway.files.cache import fingerprint, load_or_build
from headway.files.text_files import MAX_RUNNING_TEXT_LINE_BYTES, check_readable, read_lines
from headway.text.unspaced import count_words


class CorpusCounts(NamedTuple):
    lines: int
    words: int  # on one side: the mean of both, so that a corpus is as large in one direction as in the other
    characters: int
    nonempty: int  # lines with text on both sides
    with_placeholders: int


class PairSource(Protocol):
    """Gives the same pairs each time it is read. It can be pickled, for worker processes."""

    def read(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class FilePairs:
    files: ParallelFiles

    def read(self) -> Iterator[Pair]:
        return read_parallel(self.files)


@dataclass(frozen=True)
class MemoryPairs:
    pairs: tuple[Pair, ...]

    def read(self) -> Iterator[Pair]:
        return iter(self.pairs)


@dataclass(frozen=True)
class FilteredPairs:
    """The pairs of another source without some of them, by row number or by text."""

    base: PairSource
    rows: frozenset[int] = frozenset()
    pairs: frozenset[Pair] = frozenset()

    def read(self) -> Iterator[Pair]:
        numbered = enumerate(self.base.read())
        return (pair for row, pair in numbered if row not in self.rows and pair not in self.pairs)


@dataclass(frozen=True)
class SwappedPairs:
    """The pairs of another source with source and target swapped."""

    base: PairSource

    def read(self) -> Iterator[Pair]:
        return ((target, source) for source, target in self.base.read())


@dataclass(frozen=True)
class PrefixedPairs:
    """The pairs of another source with the name of their task before each source, as in T5."""

    base: PairSource
    prefix: str

    def read(self) -> Iterator[Pair]:
        return ((f"{self.prefix} {source}" if source else "", target) for source, target in self.base.read())


@dataclass(frozen=True)
class ParallelCorpus:
    """Parallel text in one direction."""

    origin: PairSource
    identity: str  # the same for the same text
    counts: CorpusCounts
    source_language: str = ""
    target_language: str = ""
    weight: float = 1.0  # how often each pair is used in an epoch
    note: str = ""  # what was found out about its layout

    def read(self) -> Iterator[Pair]:
        return self.origin.read()

    def swap_sides(self) -> "ParallelCorpus":
        """The same text in the other direction."""
        origin = SwappedPairs(self.origin)
        identity = fingerprint([self.identity, "turned"])
        counts = count_pairs(origin, identity)
        return ParallelCorpus(origin, identity, counts, self.target_language, self.source_language, self.weight)

    def add_prefix(self, prefix: str) -> "ParallelCorpus":
        """The same text with a task prefix, "translate to German:", before each source."""
        origin = PrefixedPairs(self.origin, prefix.strip())
        identity = fingerprint([self.identity, "prefix", prefix.strip()])
        return replace(self, origin=origin, identity=identity, counts=count_pairs(origin, identity))

    def split(self, held: int) -> tuple["ParallelCorpus", "ParallelCorpus"]:
        """The corpus without `held` random pairs, always the same ones, and these pairs, held in memory."""
        generator = np.random.default_rng(0)
        rows = frozenset(generator.choice(self.counts.lines, held, replace=False).tolist())
        rest, apart = (fingerprint([self.identity, f"held {held} {is_held}"]) for is_held in (False, True))
        pairs = _load_or_read_pairs(apart, self.origin, rows)
        counts = _count(pairs)
        left = CorpusCounts(*(total - held_out for total, held_out in zip(self.counts, counts)))
        return (
            replace(self, origin=FilteredPairs(self.origin, rows), identity=rest, counts=left),
            replace(self, origin=MemoryPairs(pairs), identity=apart, counts=counts),
        )

    def exclude(self, pairs: frozenset[Pair]) -> "ParallelCorpus":
        """Without these pairs. If there are none of them, the corpus itself, so that its identity stays."""
        origin = FilteredPairs(self.origin, pairs=pairs)
        identity = fingerprint([self.identity, "without", *(side for pair in sorted(pairs) for side in pair)])
        counts = count_pairs(origin, identity)
        return self if counts == self.counts else replace(self, origin=origin, identity=identity, counts=counts)


@dataclass(frozen=True)
class TextCorpus:
    """Monolingual running text: the lines `first` to `last` of one or more files."""

    paths: tuple[str, ...]
    identity: str
    counts: CorpusCounts
    first: int = 0
    last: int | None = None
    memory: tuple[str, ...] = ()

    def read(self) -> Iterator[str]:
        lines = chain(self.memory, *(read_lines(path, MAX_RUNNING_TEXT_LINE_BYTES) for path in self.paths))
        return islice(lines, self.first, self.last)

    def split(self, held: int) -> tuple["TextCorpus", "TextCorpus"]:
        """The corpus without its last `held` lines, and these."""
        cut = self.counts.lines - held
        parts = []
        for first, last in ((0, cut), (cut, None)):
            identity = fingerprint([self.identity, f"lines {first} to {last}"])
            part = replace(self, first=first, last=last, identity=identity)
            parts.append(replace(part, counts=count_lines(part)))
        return parts[0], parts[1]


def open_parallel(files: ParallelFiles, weight: float = 1.0) -> ParallelCorpus:
    """A corpus in files. It is read once to count it, unless the counts are cached."""
    rereadable = resolve_layout(
        files._replace(
            source=ensure_rereadable(files.source), target=ensure_rereadable(files.target) if files.target else ""
        )
    )
    columns = rereadable.columns or ()
    languages = (rereadable.source_language, rereadable.target_language)
    layout = [rereadable.layout.identity] if rereadable.layout and rereadable.layout.identity else []
    text = [*map(hash_file, rereadable.paths), *columns, *(languages if not files.target else ()), *layout]
    identity = fingerprint(text)
    origin = FilePairs(rereadable)
    note = rereadable.layout.note if rereadable.layout else ""
    return ParallelCorpus(origin, identity, count_pairs(origin, identity), *languages, weight, note)


def parallel_from_memory(
    source: Sequence[str],
    target: Sequence[str],
    source_language: str = "",
    target_language: str = "",
    weight: float = 1.0,
) -> ParallelCorpus:
    """A corpus from two lists."""
    pairs = tuple(zip(source, target, strict=True))
    identity = fingerprint(side for pair in pairs for side in pair)
    return ParallelCorpus(MemoryPairs(pairs), identity, _count(pairs), source_language, target_language, weight)


def open_text(paths: Sequence[str]) -> TextCorpus:
    rereadable = tuple(ensure_rereadable(path) for path in paths)
    text = TextCorpus(rereadable, fingerprint(map(hash_file, rereadable)), CorpusCounts(0, 0, 0, 0, 0))
    return replace(text, counts=count_lines(text))


def text_from_memory(lines: Sequence[str]) -> TextCorpus:
    text = TextCorpus((), fingerprint(lines), CorpusCounts(0, 0, 0, 0, 0), memory=tuple(lines))
    return replace(text, counts=_count_lines(lines))


def count_pairs(origin: PairSource, identity: str) -> CorpusCounts:
    return _load_or_count(identity, lambda: _count(origin.read()))


def count_lines(text: TextCorpus) -> CorpusCounts:
    return _load_or_count(text.identity, lambda: _count_lines(text.read()))


def _count(pairs: Iterable[Pair]) -> CorpusCounts:
    lines = characters = nonempty = with_placeholders = 0
    words = 0.0
    for source, target in pairs:
        lines += 1
        words += count_words(source) + count_words(target)
        characters += len(source) + len(target)
        nonempty += bool(source and target)
        with_placeholders += "⟦" in source
    return CorpusCounts(lines, round(words / 2), round(characters / 2), nonempty, with_placeholders)


def _count_lines(lines: Iterable[str]) -> CorpusCounts:
    return _count((line.strip(), line) for line in lines)


def _load_or_count(identity: str, count: Callable[[], CorpusCounts]) -> CorpusCounts:
    def build(folder: Path) -> None:
        (folder / "counts.json").write_text(json.dumps(count()))

    return load_or_build(
        "word_counts", identity, build, lambda folder: CorpusCounts(*json.loads((folder / "counts.json").read_text()))
    )


def _load_or_read_pairs(identity: str, origin: PairSource, rows: frozenset[int]) -> tuple[Pair, ...]:
    """Some rows of a corpus, cached: a large one is read for them only once."""

    def build(folder: Path) -> None:
        pairs = [pair for row, pair in enumerate(origin.read()) if row in rows]
        (folder / "pairs.json").write_text(json.dumps(pairs))

    def load(folder: Path) -> tuple[Pair, ...]:
        return tuple((source, target) for source, target in json.loads((folder / "pairs.json").read_text()))

    return load_or_build("held", identity, build, load)


def hash_file(path: str) -> str:
    """A hash of the file's bytes; a compressed file is not decompressed for it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def ensure_rereadable(path: str) -> str:
    """The path of a file that can be read several times: input from a pipe is copied to a temporary file."""
    check_readable(path)
    if path != "-" and stat.S_ISREG(os.stat(path).st_mode):
        return path
    if format_suffix(path) in PARQUET_SUFFIXES:
        refuse_pipe(path)
    folder = tempfile.mkdtemp(prefix="headway-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / (strip_compression(Path(path).name) if path != "-" else "input")
    with copy.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in read_lines(path, MAX_RUNNING_TEXT_LINE_BYTES))
    return str(copy)
