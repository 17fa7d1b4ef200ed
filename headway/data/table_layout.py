"""The layout of a table with both sides, TSV or CSV: delimiter, quoting, header, and the columns of the two sides.

It is found once, from the first rows, and holds for the whole file; a row that does not fit is refused by its number.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from headway.data.quoted_tables import find_delimiter, gather_evidence, is_number, is_quoted_table, read_quoted_rows
from headway.errors import HeadwayError
from headway.text.language_codes import languages_match
from headway.text.language_names import language_from_name

SAMPLED_ROWS = 1000
SAMPLED_CHARACTERS = 1 << 20  # in which quotation marks are looked for
MIN_SHARE = 0.95  # of the cells of a column, to say what it holds
MIN_SHARED_CHARACTERS = 6  # at the start of the cells of a column that is no text: http:/, CC-BY
MAX_HEADER_CHARACTERS = 40  # of one cell

SIDE_WORDS = {
    **dict.fromkeys(("source", "src", "original"), "source"),
    **dict.fromkeys(("target", "tgt", "trg", "translation", "translated"), "target"),
}
FILLER_WORDS = {"text", "sentence", "sentences", "segment", "language", "lang", "string", "line"}
INDEX_WORDS = {"id", "no"}  # also codes, of Indonesian and Norwegian

Pair = tuple[str, str]


class TableLayout(NamedTuple):
    columns: tuple[int, int] = (0, 1)  # of source and target, counted from 0
    width: int = 0  # cells in each row; 0: as many as the columns need
    delimiter: str = "\t"
    is_quoted: bool = False
    has_header: bool = False
    languages: Pair = ("", "")  # that the header names
    note: str = ""  # what was decided, "" if nothing had to be

    @property
    def identity(self) -> str:
        """Of what decides which text is read; "" for two columns with a tab between them."""
        return "" if self.width <= 2 and self.is_by_line and not self.has_header else repr(self[:5])

    @property
    def is_by_line(self) -> bool:
        """Whether a row is a line, which can be split by itself."""
        return not self.is_quoted and self.delimiter == "\t"


class WantedColumns(NamedTuple):
    """What is known about the two columns before the file is read."""

    columns: Pair | None = None  # given by the user: numbers from 1, or names
    languages: Pair = ("", "")
    languages_in_name: Pair = ("", "")  # x.en-de.tsv


def find_layout(path: str, sample: Sequence[str], is_csv: bool, wanted: WantedColumns) -> TableLayout:
    """The layout of the file that begins with these lines."""
    first_lines = list(sample[:SAMPLED_ROWS])
    delimiter = find_delimiter(first_lines) if is_csv else "\t"
    is_quoted = is_csv or is_quoted_table(sample, delimiter)
    rows = _read_sampled_rows(path, first_lines, delimiter, is_quoted)
    notes = []
    if is_csv and delimiter != ",":
        notes.append(f"fields are separated by {'tabs' if delimiter == chr(9) else delimiter}")
    if is_quoted and not is_csv:
        notes.append("fields are quoted as in CSV files, and read so")
    elif not is_quoted and gather_evidence(first_lines, delimiter).is_mixed:
        notes.append("some fields are quoted as in CSV files and others are not: quotation marks are kept as text")
    header = rows[0] if rows and is_header(rows, wanted) else None
    if header:
        notes.append(f"line 1 is taken as a header ({', '.join(cell or '(no name)' for cell in header)})")
    rows = rows[1:] if header else rows
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else len(header or ())
    columns = choose_columns(path, header, rows, width, wanted)
    if width > 2:
        notes.append(f"columns {columns[0] + 1} and {columns[1] + 1} of {width} are read")
    languages = _name_languages(header, columns) if header else ("", "")
    return TableLayout(
        columns,
        0 if wanted.columns else max(width, *(column + 1 for column in columns)),
        delimiter,
        is_quoted,
        header is not None,
        languages,
        f"{path}: {'; '.join(notes)}" if notes else "",
    )


def _read_sampled_rows(path: str, lines: Sequence[str], delimiter: str, is_quoted: bool) -> list[list[str]]:
    if not is_quoted:
        return [line.split(delimiter) for line in lines]
    rows = []
    try:
        for _, cells in read_quoted_rows(path, iter(lines), delimiter):
            rows.append(cells)
    except HeadwayError:  # raised again with its line when the file is read; the sample may end inside a row
        pass
    return [row for row in rows if row]


def is_header(rows: Sequence[list[str]], wanted: WantedColumns) -> bool:
    """Whether the first row names the columns. A row of text must never be taken for one, so this asks for much: the
    columns that the user named, or two that are called by languages or sides, or pandas' own numbering."""
    cells = [cell.strip() for cell in rows[0]]
    if len(cells) < 2 or any(len(cell) > MAX_HEADER_CHARACTERS for cell in cells):
        return False
    if wanted.columns and not all(map(_is_column_number, wanted.columns)):
        return all(name in cells for name in wanted.columns)
    numbered = [str(number) for number in range(len(cells))]
    if cells == numbered or (cells == ["", *numbered[:-1]] and len(rows) > 1 and rows[1][0] == "0"):
        return True
    sides = {SIDE_WORDS.get(word) for cell in cells if len(words := split_name(cell)) == 1 for word in words} - {None}
    if len(sides) == 2:
        return True
    languages = list_languages(cells, wanted.languages)
    known = [language for language in wanted.languages if language]
    if known and not all(any(languages_match(name, found) for found in languages) for name in known):
        return False
    return len(languages) > 1


def split_name(cell: str) -> list[str]:
    """The words of a column name that say something: "text_en" -> en"""
    return [word for word in re.split(r"[\W_]+", cell.casefold()) if word and word not in FILLER_WORDS]


def find_language(cell: str, known: Sequence[str] = ()) -> str:
    """The language that a column name stands for; "" if it names none, or more than one thing."""
    for language in known:
        if language and cell.strip().casefold() == language.casefold():
            return language
    if whole := language_from_name(cell):
        return whole
    words = [word for word in split_name(cell) if word not in SIDE_WORDS]
    return language_from_name(words[0]) if len(words) == 1 else ""


def list_languages(cells: Sequence[str], known: Sequence[str] = ()) -> dict[str, int]:
    """The languages that the columns are named by, and their columns, without those that are named twice."""
    found: dict[str, int] = {}
    named_twice = set()
    for number, cell in enumerate(cells):
        if language := find_language(cell, known):
            if language in found:
                named_twice.add(language)
            found.setdefault(language, number)
    found = {language: number for language, number in found.items() if language not in named_twice}
    if len(found) > 2:  # "id" is more often a number than Indonesian
        found = {name: n for name, n in found.items() if cells[n].casefold() not in INDEX_WORDS or name in known}
    return found


def choose_columns(
    path: str, header: list[str] | None, rows: Sequence[list[str]], width: int, wanted: WantedColumns
) -> tuple[int, int]:
    """By the user's choice, by the header, or the two columns that hold text."""
    if wanted.columns:
        return _find_given_columns(path, header, wanted.columns)
    if header and (named := _find_named_columns(path, header, wanted.languages)):
        return named
    first, second = (0, 1) if width <= 2 else _find_text_columns(path, rows, width)
    in_name = wanted.languages_in_name
    return (second, first) if all(in_name) and wanted.languages == in_name[::-1] else (first, second)


def _is_column_number(column: str) -> bool:
    return re.fullmatch(r"[1-9]\d{0,3}", column) is not None


def _find_given_columns(path: str, header: list[str] | None, columns: Pair) -> tuple[int, int]:
    if all(map(_is_column_number, columns)):
        return int(columns[0]) - 1, int(columns[1]) - 1
    names = [cell.strip() for cell in header or ()]
    if not header:
        raise HeadwayError(
            f"{path}: columns are numbers from 1, or names from the first line, which does not have "
            f"{' and '.join(columns)}."
        )
    return names.index(columns[0]), names.index(columns[1])


def _find_named_columns(path: str, header: Sequence[str], languages: Pair) -> tuple[int, int] | None:
    found = list_languages(header, languages)
    matches = [next((n for name, n in found.items() if language and languages_match(language, name)), None)
               for language in languages]  # fmt: skip
    source, target = matches
    if source is not None and target is not None and source != target:
        return source, target
    others = [number for number in found.values() if number not in (source, target)]
    if source is not None and len(others) == 1:
        return source, others[0]
    if target is not None and len(others) == 1:
        return others[0], target
    if len(found) == 2:
        first, second = found.values()
        return first, second
    if len(found) > 2:
        raise HeadwayError(
            f"{path}: the header has the languages {', '.join(found)}. Choose two with --from and --to, or --columns."
        )
    sides = {SIDE_WORDS[word]: n for n, cell in enumerate(header) for word in split_name(cell) if word in SIDE_WORDS}
    return (sides["source"], sides["target"]) if len(sides) == 2 else None


def _find_text_columns(path: str, rows: Sequence[list[str]], width: int) -> tuple[int, int]:
    """The two columns with text; the others must be numbers, addresses, or much the same in all rows."""
    even = [row for row in rows if len(row) == width]
    text = [number for number in range(width) if _holds_text([row[number] for row in even])]
    if len(text) == 2:
        return text[0], text[1]
    raise HeadwayError(
        f"{path}, line 1: there are {width} columns, and it is not clear which two of them are source and target. Name "
        "them with --columns, for example --columns 1,2."
    )


def _holds_text(cells: Sequence[str]) -> bool:
    filled = [cell.strip() for cell in cells if cell.strip()]
    wanted = MIN_SHARE * len(filled)
    if not filled or sum(map(is_number, filled)) >= wanted:
        return False
    if len(filled) < 3:
        return not all(re.match(r"https?:", cell) for cell in filled)
    starts = Counter(cell[:MIN_SHARED_CHARACTERS] for cell in filled)
    return starts.most_common(1)[0][1] < wanted and 10 * len(set(filled)) > len(filled)


def _name_languages(header: Sequence[str], columns: tuple[int, int]) -> Pair:
    source, target = (find_language(header[column]) if column < len(header) else "" for column in columns)
    return source, target
