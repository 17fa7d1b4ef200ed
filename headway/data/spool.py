"""Rows that are read only once, copied to the cache: a generator may give more than memory holds.

An entry is named by its contents, so the same rows are the same corpus, in whatever form they were given."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from headway.data.corpora import CorpusCounts, ParallelCorpus, TextCorpus, count_lines, count_pairs
from headway.data.parallel_files import Pair
from headway.errors import HeadwayError
from headway.files.cache import add_entry

T = TypeVar("T")

ROWS_FILE = "rows"


@dataclass(frozen=True)
class SpooledPairs:
    """Pairs in a file, one JSON list a line."""

    path: Path

    def read(self) -> Iterator[Pair]:
        with self.path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                source, target = json.loads(line)
                yield source, target


def spool_pairs(pairs: Iterable[Pair], languages: Pair = ("", ""), weight: float = 1.0) -> ParallelCorpus:
    path, identity = _spool(pairs, lambda pair: json.dumps(pair, ensure_ascii=False))
    origin = SpooledPairs(path)
    return ParallelCorpus(origin, identity, count_pairs(origin, identity), *languages, weight)


def spool_text(lines: Iterable[str]) -> TextCorpus:
    path, identity = _spool(lines, str)
    text = TextCorpus((str(path),), identity, CorpusCounts(0, 0, 0, 0, 0))
    return replace(text, counts=count_lines(text))


def _spool(rows: Iterable[T], format_row: Callable[[T], str]) -> tuple[Path, str]:
    """The file, and the fingerprint of its contents."""
    digest = hashlib.blake2b(digest_size=16)

    def write(folder: Path) -> str:
        with (folder / ROWS_FILE).open("wb") as file:
            for number, row in enumerate(_blame_reader(rows)):
                try:
                    line = f"{format_row(row)}\n".encode()
                except UnicodeEncodeError:
                    raise HeadwayError(
                        f"row {number} holds half a surrogate pair, which is no character. Leave such rows out."
                    ) from None
                digest.update(line)
                file.write(line)
        return digest.hexdigest()

    folder = add_entry("given", write)
    return folder / ROWS_FILE, digest.hexdigest()


def _blame_reader(rows: Iterable[T]) -> Iterator[T]:
    """An OSError of the user's generator must not be taken for one of the cache."""
    number = 0
    try:
        for row in rows:
            yield row
            number += 1
    except OSError as error:
        raise HeadwayError(f"row {number} could not be read: {type(error).__name__}: {error}") from error
