"""Texts that are read as often as needed and never held in memory: where they lie, what they count, who they are."""

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

from headway.data.parallel_files import Pair, ParallelFiles, read_parallel, unpacked
from headway.files.cache import cached, fingerprint
from headway.files.text_files import check_readable, read_lines


class Counts(NamedTuple):
    lines: int
    words: int  # of one side
    characters: int
    said: int  # lines that say something, on both sides
    marked: int  # pairs with placeholders


class Readable(Protocol):
    """Anything that gives the same pairs each time; it can be sent to another process."""

    def read(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class FromFiles:
    files: ParallelFiles

    def read(self) -> Iterator[Pair]:
        return read_parallel(self.files)


@dataclass(frozen=True)
class FromMemory:
    pairs: tuple[Pair, ...]

    def read(self) -> Iterator[Pair]:
        return iter(self.pairs)


@dataclass(frozen=True)
class Others:
    """All rows of another but some, by their numbers or by what they say."""

    whole: Readable
    rows: frozenset[int] = frozenset()
    pairs: frozenset[Pair] = frozenset()

    def read(self) -> Iterator[Pair]:
        read = enumerate(self.whole.read())
        return (pair for row, pair in read if row not in self.rows and pair not in self.pairs)


@dataclass(frozen=True)
class Turned:
    """Another with its sides exchanged."""

    whole: Readable

    def read(self) -> Iterator[Pair]:
        return ((target, source) for source, target in self.whole.read())


@dataclass(frozen=True)
class Parallel:
    """Parallel text of one direction."""

    origin: Readable
    identity: str  # the same for the same text
    counts: Counts
    source_language: str = ""
    target_language: str = ""
    weight: float = 1.0  # how often each pair is seen in an epoch

    def read(self) -> Iterator[Pair]:
        return self.origin.read()

    def turned(self) -> "Parallel":
        """The other direction."""
        origin, identity = Turned(self.origin), fingerprint([self.identity, "turned"])
        counts = count_pairs(origin, identity)
        return Parallel(origin, identity, counts, self.target_language, self.source_language, self.weight)

    def split(self, held: int) -> tuple["Parallel", "Parallel"]:
        """Without some pairs, and only them, which are few enough for memory: chosen by a fixed chance."""
        chance = np.random.default_rng(0)
        rows = frozenset(chance.choice(self.counts.lines, held, replace=False).tolist())
        kept, apart = (fingerprint([self.identity, f"held {held} {named}"]) for named in (False, True))
        pairs = _remembered_pairs(apart, self.origin, rows)
        counts = _counted_pairs(pairs)
        left = Counts(*(whole - gone for whole, gone in zip(self.counts, counts)))
        return (
            replace(self, origin=Others(self.origin, rows), identity=kept, counts=left),
            replace(self, origin=FromMemory(pairs), identity=apart, counts=counts),
        )

    def without(self, pairs: frozenset[Pair]) -> "Parallel":
        """All rows that say something else; where that is all of them, the same as before, so that a run goes on."""
        origin = Others(self.origin, pairs=pairs)
        identity = fingerprint([self.identity, "without", *(side for pair in sorted(pairs) for side in pair)])
        counts = count_pairs(origin, identity)
        return self if counts == self.counts else replace(self, origin=origin, identity=identity, counts=counts)


@dataclass(frozen=True)
class Running:
    """Running text: lines of one or more files, or some of them."""

    paths: tuple[str, ...]
    identity: str
    counts: Counts
    first: int = 0
    last: int | None = None
    memory: tuple[str, ...] = ()

    def read(self) -> Iterator[str]:
        lines = chain(self.memory, *(read_lines(path) for path in self.paths))
        return islice(lines, self.first, self.last)

    def split(self, held: int) -> tuple["Running", "Running"]:
        """All but the last lines, and these."""
        cut = self.counts.lines - held
        parts = []
        for first, last in ((0, cut), (cut, None)):
            identity = fingerprint([self.identity, f"lines {first} to {last}"])
            part = replace(self, first=first, last=last, identity=identity)
            parts.append(replace(part, counts=count_lines(part)))
        return parts[0], parts[1]


def parallel(files: ParallelFiles, weight: float = 1.0) -> Parallel:
    """A corpus in files. It is read once, to count it, unless that was done before."""
    columns = files.columns or ()
    known = files._replace(source=regular(files.source), target=regular(files.target) if files.target else "")
    languages = (files.source_language, files.target_language)
    identity = fingerprint([*map(hash_file, known.paths), *columns, *(languages if not files.target else ())])
    origin = FromFiles(known)
    return Parallel(origin, identity, count_pairs(origin, identity), *languages, weight)


def in_memory(
    source: Sequence[str],
    target: Sequence[str],
    source_language: str = "",
    target_language: str = "",
    weight: float = 1.0,
) -> Parallel:
    """The same from lists."""
    pairs = tuple(zip(source, target, strict=True))
    identity = fingerprint(side for pair in pairs for side in pair)
    return Parallel(FromMemory(pairs), identity, _counted_pairs(pairs), source_language, target_language, weight)


def running(paths: Sequence[str]) -> Running:
    known = tuple(regular(path) for path in paths)
    text = Running(known, fingerprint(map(hash_file, known)), Counts(0, 0, 0, 0, 0))
    return replace(text, counts=count_lines(text))


def running_in_memory(lines: Sequence[str]) -> Running:
    text = Running((), fingerprint(lines), Counts(0, 0, 0, 0, 0), memory=tuple(lines))
    return replace(text, counts=_counted_lines(lines))


def count_pairs(origin: Readable, identity: str) -> Counts:
    return _remembered(identity, lambda: _counted_pairs(origin.read()))


def count_lines(text: Running) -> Counts:
    return _remembered(text.identity, lambda: _counted_lines(text.read()))


def _counted_pairs(pairs: Iterable[Pair]) -> Counts:
    lines = words = characters = said = marked = 0
    for source, target in pairs:
        lines += 1
        words += len(target.split())
        characters += len(target)
        said += bool(source and target)
        marked += "⟦" in source
    return Counts(lines, words, characters, said, marked)


def _counted_lines(text: Iterable[str]) -> Counts:
    return _counted_pairs((line.strip(), line) for line in text)


def _remembered(identity: str, count: Callable[[], Counts]) -> Counts:
    def build(folder: Path) -> None:
        (folder / "counts.json").write_text(json.dumps(count()))

    return cached("counts", identity, build, lambda folder: Counts(*json.loads((folder / "counts.json").read_text())))


def _remembered_pairs(identity: str, origin: Readable, rows: frozenset[int]) -> tuple[Pair, ...]:
    """Some rows, for which a large corpus is read through only once."""

    def build(folder: Path) -> None:
        pairs = [pair for row, pair in enumerate(origin.read()) if row in rows]
        (folder / "pairs.json").write_text(json.dumps(pairs))

    def load(folder: Path) -> tuple[Pair, ...]:
        return tuple((source, target) for source, target in json.loads((folder / "pairs.json").read_text()))

    return cached("held", identity, build, load)


def hash_file(path: str) -> str:
    """Of what is stored: a packed file is not unpacked for it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def regular(path: str) -> str:
    """The path of a file that can be read again and again: what comes through a pipe is kept in a temporary one."""
    check_readable(path)
    if path != "-" and stat.S_ISREG(os.stat(path).st_mode):
        return path
    folder = tempfile.mkdtemp(prefix="headway-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = Path(folder) / (unpacked(Path(path).name) if path != "-" else "input")
    with kept.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in read_lines(path))
    return str(kept)
