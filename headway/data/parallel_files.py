"""Parallel text files: two files side by side, or one file with both sides: TSV, CSV, JSONL, JSON or Parquet.

ParallelFiles ─► resolve_layout() looks at the first rows ─► read_parallel() ─► pairs
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from headway.data.json_files import (
    PairKeys,
    find_table,
    infer_keys,
    iterate_objects,
    read_json_lines,
    read_json_objects,
)
from headway.data.parquet_files import open_parquet, parquet_keys, read_parquet
from headway.data.quoted_tables import read_quoted_rows
from headway.data.table_layout import SAMPLED_CHARACTERS, SAMPLED_ROWS, TableLayout, WantedColumns, find_layout
from headway.errors import HeadwayError
from headway.files.text_files import COMPRESSED_SUFFIXES, check_readable, read_lines, read_pairs

TSV_SUFFIXES = (".tsv", ".tab")
CSV_SUFFIXES = (".csv",)
TABLE_SUFFIXES = (*TSV_SUFFIXES, *CSV_SUFFIXES)
JSONL_SUFFIXES = (".jsonl", ".ndjson")
JSON_SUFFIXES = (".json",)
PARQUET_SUFFIXES = (".parquet",)
PAIR_SUFFIXES = (*TABLE_SUFFIXES, *JSONL_SUFFIXES, *JSON_SUFFIXES, *PARQUET_SUFFIXES)
LANGUAGE_SUFFIX = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,8})*", re.IGNORECASE)
NOT_LANGUAGES = {"txt", "tok", "raw", "src", "tgt", "tsv", "tab", "csv", "bpe", "dat", "trn", "dev", "tst", "lc", "tc"}

Pair = tuple[str, str]


class ParallelFiles(NamedTuple):
    """The files of one corpus. Without a `target`, the file `source` holds both sides."""

    source: str
    target: str = ""
    source_language: str = ""
    target_language: str = ""
    columns: tuple[str, str] | None = None  # of a file with both sides: numbers from 1 or names, keys in JSON
    layout: TableLayout | None = None  # of a table, once it has been looked at

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
    check_pair_suffix(files.source)
    check_readable(files.source)
    suffix = format_suffix(files.source)
    if suffix in TABLE_SUFFIXES:
        return _read_table_file(resolve_layout(files))
    if suffix in JSONL_SUFFIXES and not Path(files.source).is_file():
        return _read_jsonl_pipe(files)
    files = resolve_layout(files)
    keys = PairKeys(files.columns, _languages(files))
    if suffix in JSONL_SUFFIXES:
        return read_json_lines(files.source, read_lines(files.source), keys)
    return read_json_objects(files.source, keys) if suffix in JSON_SUFFIXES else read_parquet(files.source, keys)


def _read_table_file(files: ParallelFiles) -> Iterator[Pair]:
    lines = read_lines(files.source)
    if files.layout:
        return read_table(files, files.layout, lines)
    sample = list(islice(lines, SAMPLED_ROWS))  # of a pipe, which can be read only once
    is_csv = format_suffix(files.source) in CSV_SUFFIXES
    layout = find_layout(files.source, sample, is_csv, _wanted_columns(files))
    return read_table(files, layout, chain(sample, lines))


def _read_jsonl_pipe(files: ParallelFiles) -> Iterator[Pair]:
    lines = read_lines(files.source)
    first = next(lines, None)
    if first is None:
        return
    with suppress(ValueError, RecursionError):
        files = _with_keys(files, find_table(json.loads(first)))
    yield from read_json_lines(files.source, chain([first], lines), PairKeys(files.columns, _languages(files)))


def check_pair_suffix(path: str) -> None:
    """Raise HeadwayError if a file with both sides is of no known format."""
    suffix = format_suffix(path)
    if suffix in PARQUET_SUFFIXES and strip_compression(path) != path:
        raise HeadwayError(f"{path}: a Parquet table is compressed inside, and read as it is. Decompress it first.")
    if suffix not in PAIR_SUFFIXES:
        raise HeadwayError(
            f"{path}: a file with both sides must end in one of {', '.join(PAIR_SUFFIXES)} (text optionally followed "
            f"by {', '.join(COMPRESSED_SUFFIXES)}). Rename it, or give two files as --source and --target."
        )


def format_suffix(path: str) -> str:
    """The suffix that names the format: a.tsv.xz -> .tsv"""
    return Path(strip_compression(path)).suffix.lower()


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


def resolve_layout(files: ParallelFiles) -> ParallelFiles:
    """The same files with what they themselves say: columns, header and quoting of a table, languages as keys.

    A pipe is returned as it is: what it says is found while it is read."""
    suffix = format_suffix(files.source)
    if files.target or files.layout or suffix not in PAIR_SUFFIXES or not Path(files.source).is_file():
        return files
    if suffix in TABLE_SUFFIXES:
        return _with_table(files, find_layout(files.source, *_sample_table(files)))
    if suffix in PARQUET_SUFFIXES:
        with open_parquet(files.source) as file:
            return _with_keys(files, dict.fromkeys(parquet_keys(file)))
    return _with_keys(files, find_table(_read_first_object(files)))


def _with_table(files: ParallelFiles, layout: TableLayout) -> ParallelFiles:
    source, target = (given or found for given, found in zip(_languages(files), layout.languages))
    return files._replace(layout=layout, source_language=source, target_language=target)


def _with_keys(files: ParallelFiles, table: Any) -> ParallelFiles:
    if not isinstance(table, dict):
        return files
    keys, (source, target) = infer_keys(table, PairKeys(files.columns, _languages(files)))
    return files._replace(columns=keys.columns, source_language=source, target_language=target)


def _languages(files: ParallelFiles) -> Pair:
    return files.source_language, files.target_language


def _wanted_columns(files: ParallelFiles) -> WantedColumns:
    return WantedColumns(files.columns, _languages(files), languages_from_filename(files.source))


def _sample_table(files: ParallelFiles) -> tuple[list[str], bool, WantedColumns]:
    lines: list[str] = []
    characters = 0
    try:
        for line in read_lines(files.source):
            lines.append(line)
            characters += len(line)
            if characters > SAMPLED_CHARACTERS:
                break
    except HeadwayError:  # raised again when the lines before have been read, or noted by a check
        pass
    return lines, format_suffix(files.source) in CSV_SUFFIXES, _wanted_columns(files)


def _read_first_object(files: ParallelFiles) -> Any:
    """The first JSON object; None if there is none, which is an error when the file is read."""
    try:
        if format_suffix(files.source) in JSON_SUFFIXES:
            return next(iterate_objects(files.source), None)
        return json.loads(next(read_lines(files.source), "null"))
    except (HeadwayError, ValueError, RecursionError):
        return None


def read_table(files: ParallelFiles, layout: TableLayout, lines: Iterator[str]) -> Iterator[Pair]:
    """The pairs of a table. A row with other columns than the first ones is refused by its line number."""
    source, target = layout.columns
    if layout.is_by_line:
        rows: Iterable[tuple[int, list[str]]] = ((n, line.split("\t")) for n, line in enumerate(lines, start=1))
    else:
        rows = read_quoted_rows(files.source, lines, layout.delimiter)
    if layout.has_header:
        rows = islice(rows, 1, None)
    width = layout.width
    needed = max(source, target) + 1
    for number, cells in rows:
        if len(cells) != width and not fits_layout(cells, layout):
            if not cells and not layout.is_by_line:  # a blank line of a CSV file is no row
                continue
            raise column_error(files.source, number, len(cells), width or needed, layout)
        yield cells[source], cells[target]


def fits_layout(cells: Sequence[str], layout: TableLayout) -> bool:
    """Whether a row has the columns of both sides, and no text behind the last column of the table."""
    if len(cells) <= max(layout.columns):
        return False
    return not layout.width or (len(cells) >= layout.width and not any(cells[layout.width :]))


def column_error(path: str, line: int, found: int, wanted: int, layout: TableLayout) -> HeadwayError:
    if found < wanted:
        separator = "a tab" if layout.delimiter == "\t" else f'"{layout.delimiter}"'
        return HeadwayError(
            f"{path}, line {line}: column {wanted} is missing, there {'are' if found > 1 else 'is'} only {found}. Each "
            f"{'line' if layout.is_by_line else 'row'} holds source and target, separated by {separator}."
        )
    # `check` refuses such rows, too, where a row may have several lines.
    remedy = (
        ", or leave such lines out with: headway check --clean" if layout.is_by_line else ". Mend or delete this row"
    )
    return HeadwayError(
        f"{path}, line {line}: there are {found} columns, where other lines have {wanted}. Name those of source and "
        f"target with --columns, for example --columns 1,2{remedy}"
    )
