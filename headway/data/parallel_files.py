"""Parallel text files: two files side by side, or one TSV or JSONL file with both sides."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headway.errors import HeadwayError
from headway.files.text_files import COMPRESSED_SUFFIXES, read_lines, read_pairs

TSV_SUFFIXES = (".tsv", ".tab")
JSONL_SUFFIXES = (".jsonl", ".ndjson")
LANGUAGE_SUFFIX = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8})*", re.IGNORECASE)
NOT_LANGUAGES = {"txt", "tok", "raw", "src", "tgt", "tsv", "tab", "csv", "bpe", "dat", "trn", "dev", "tst", "lc", "tc"}
COMMON_KEYS = (("source", "target"), ("src", "tgt"), ("src", "trg"))

Pair = tuple[str, str]


class ParallelFiles(NamedTuple):
    """The files of one corpus. Without a `target`, the file `source` holds both sides."""

    source: str
    target: str = ""
    source_language: str = ""
    target_language: str = ""
    columns: tuple[str, str] | None = None  # of a file with both sides: numbers from 1 in TSV, keys in JSONL

    @property
    def paths(self) -> list[str]:
        return [self.source, self.target] if self.target else [self.source]

    def __str__(self) -> str:
        return " and ".join(self.paths)


def read_parallel(files: ParallelFiles) -> Iterator[Pair]:
    """The pairs in their order, stripped of surrounding whitespace, as a translator reads its input."""
    return ((source.strip(), target.strip()) for source, target in _read_unstripped(files))


def _read_unstripped(files: ParallelFiles) -> Iterator[Pair]:
    if files.target:
        return read_pairs(files.source, files.target)
    suffix = Path(strip_compression(files.source)).suffix.lower()
    if suffix in TSV_SUFFIXES:
        return _read_tsv(files, read_lines(files.source))
    if suffix in JSONL_SUFFIXES:
        return _read_jsonl(files, read_lines(files.source))
    raise HeadwayError(
        f"{files.source}: a file with both sides must end in one of "
        f"{', '.join((*TSV_SUFFIXES, *JSONL_SUFFIXES))} (optionally followed by {', '.join(COMPRESSED_SUFFIXES)}). "
        "Rename it, or give two files as --source and --target."
    )


def strip_compression(path: str) -> str:
    """a.tsv.xz -> a.tsv"""
    for suffix in COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    return path


def language_from_filename(path: str) -> str:
    """train.en.gz -> en; '' if the file name has no language."""
    suffix = Path(strip_compression(Path(path).name)).suffix.lstrip(".").lower()
    return suffix if LANGUAGE_SUFFIX.fullmatch(suffix) and suffix not in NOT_LANGUAGES else ""


def languages_from_filename(path: str) -> Pair:
    """europarl.en-de.tsv.xz -> en, de; two '' if the file name has no languages. For a file with both sides."""
    name = Path(strip_compression(Path(path).name)).stem
    found = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?:$|[._])", name)
    return (found[1], found[2]) if found else ("", "")


def find_columns(files: ParallelFiles) -> tuple[int, int]:
    """The columns of source and target in a TSV file, counted from 0. They are swapped if the file is named x.en-de.tsv
    and the direction is de to en."""
    if files.columns is None:
        in_name = languages_from_filename(files.source)
        wanted = (files.source_language, files.target_language)
        return (1, 0) if all(in_name) and wanted == in_name[::-1] else (0, 1)
    if not all(re.fullmatch(r"[1-9]\d{0,3}", column) for column in files.columns):
        raise HeadwayError(
            f"{files.source}: columns of a TSV file are numbers from 1, not {' and '.join(files.columns)}."
        )
    first, second = (int(column) - 1 for column in files.columns)
    return first, second


def _read_tsv(files: ParallelFiles, lines: Iterator[str]) -> Iterator[Pair]:
    source, target = find_columns(files)
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) <= max(source, target):
            raise HeadwayError(
                f"{files.source}, line {number}: column {max(source, target) + 1} is missing, there "
                f"{'are' if len(cells) > 1 else 'is'} only {len(cells)}. Each line holds source and target, separated "
                "by a tab."
            )
        yield cells[source], cells[target]


def _read_jsonl(files: ParallelFiles, lines: Iterator[str]) -> Iterator[Pair]:
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise HeadwayError(f"{files.source}, line {number} is not JSON: each line must hold one object.") from None
        yield extract_pair(value, files, number)


def extract_pair(value: Any, files: ParallelFiles, number: int) -> Pair:
    """Both sides of one JSON object: by the given keys, by the languages, or by common names."""
    inner = value.get("translation") if isinstance(value, dict) else None
    table = inner if isinstance(inner, dict) else value
    wanted = [files.columns] if files.columns else [(files.source_language, files.target_language), *COMMON_KEYS]
    for source, target in wanted:
        if isinstance(table, dict) and isinstance(table.get(source), str) and isinstance(table.get(target), str):
            return table[source], table[target]
    found = f"the keys {', '.join(map(str, table))}" if isinstance(table, dict) else "no object"
    keys = " or ".join(f"{source} and {target}" for source, target in wanted if source and target)
    raise HeadwayError(
        f"{files.source}, line {number} has {found}: expected texts under {keys}. Name other keys with --columns."
    )
