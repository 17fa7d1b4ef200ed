"""Where sentence pairs lie, and how they are read: two files side by side, or both sides in one TSV or JSONL file."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headway.errors import HeadwayError
from headway.files.text_files import PACKED, read_lines, read_pairs

TABLES = (".tsv", ".tab")
OBJECTS = (".jsonl", ".ndjson")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8})*", re.IGNORECASE)
NO_LANGUAGE = {"txt", "tok", "raw", "src", "tgt", "tsv", "tab", "csv", "bpe", "dat", "trn", "dev", "tst", "lc", "tc"}
USUAL_KEYS = (("source", "target"), ("src", "tgt"), ("src", "trg"))

Pair = tuple[str, str]


class ParallelFiles(NamedTuple):
    """One corpus. Without a `target`, the file of `source` holds both sides."""

    source: str
    target: str = ""
    source_language: str = ""
    target_language: str = ""
    columns: tuple[str, str] | None = None  # of such a file: numbers from 1 in TSV, keys in JSONL

    @property
    def paths(self) -> list[str]:
        return [self.source, self.target] if self.target else [self.source]

    def __str__(self) -> str:
        return " and ".join(self.paths)


def read_parallel(files: ParallelFiles) -> Iterator[Pair]:
    """The pairs in their order, without the space around a sentence: so a translator will read it later."""
    return ((source.strip(), target.strip()) for source, target in _pairs(files))


def _pairs(files: ParallelFiles) -> Iterator[Pair]:
    if files.target:
        return read_pairs(files.source, files.target)
    ending = Path(unpacked(files.source)).suffix.lower()
    if ending in TABLES:
        return _table(files, read_lines(files.source))
    if ending in OBJECTS:
        return _objects(files, read_lines(files.source))
    raise HeadwayError(
        f"{files.source}: pairs in one file are told by its name, and this ends in none of "
        f"{', '.join((*TABLES, *OBJECTS))} (with or without {', '.join(PACKED)}). Rename it, or give two files as "
        "--source and --target."
    )


def unpacked(path: str) -> str:
    """a.tsv.xz -> a.tsv"""
    for ending in PACKED:
        path = path.removesuffix(ending)
    return path


def language_of(path: str) -> str:
    """train.en.gz -> en; '' where the name does not say."""
    suffix = Path(unpacked(Path(path).name)).suffix.lstrip(".").lower()
    return suffix if LANGUAGE.fullmatch(suffix) and suffix not in NO_LANGUAGE else ""


def languages_of(path: str) -> Pair:
    """europarl.en-de.tsv.xz -> en, de; '' twice where the name does not say. For a file with both sides."""
    name = Path(unpacked(Path(path).name)).stem
    found = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?:$|[._])", name)
    return (found[1], found[2]) if found else ("", "")


def table_columns(files: ParallelFiles) -> tuple[int, int]:
    """Which columns of a TSV file hold source and target, counted from 0. A name like x.en-de.tsv tells, too."""
    if files.columns is None:
        named = languages_of(files.source)
        wanted = (files.source_language, files.target_language)
        return (1, 0) if all(named) and wanted == named[::-1] else (0, 1)
    if not all(re.fullmatch(r"[1-9]\d{0,3}", column) for column in files.columns):
        raise HeadwayError(
            f"{files.source}: columns of a table are numbers from 1 on, not {' and '.join(files.columns)}."
        )
    first, second = (int(column) - 1 for column in files.columns)
    return first, second


def _table(files: ParallelFiles, lines: Iterator[str]) -> Iterator[Pair]:
    source, target = table_columns(files)
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) <= max(source, target):
            raise HeadwayError(
                f"{files.source}, line {number}: {len(cells)} column{'s' * (len(cells) > 1)}, and column "
                f"{max(source, target) + 1} is wanted. Source and target stand in one line with a tab between them."
            )
        yield cells[source], cells[target]


def _objects(files: ParallelFiles, lines: Iterator[str]) -> Iterator[Pair]:
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise HeadwayError(f"{files.source}, line {number} is not JSON: each line holds one object.") from None
        yield pair_of(value, files, number)


def pair_of(value: Any, files: ParallelFiles, number: int) -> Pair:
    """The two sides in one object: by the keys asked for, by the languages, or by the usual names."""
    inner = value.get("translation") if isinstance(value, dict) else None
    table = inner if isinstance(inner, dict) else value
    wanted = [files.columns] if files.columns else [(files.source_language, files.target_language), *USUAL_KEYS]
    for source, target in wanted:
        if isinstance(table, dict) and isinstance(table.get(source), str) and isinstance(table.get(target), str):
            return table[source], table[target]
    known = f"the keys {', '.join(map(str, table))}" if isinstance(table, dict) else "no object"
    keys = " or ".join(f"{source} and {target}" for source, target in wanted if source and target)
    raise HeadwayError(
        f"{files.source}, line {number} has {known}: texts under {keys} are wanted. Name others with --columns."
    )
