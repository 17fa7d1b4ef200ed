"""Tables with quoted fields, as pandas, Excel and databases write them: read them, and tell them from plain text.

A field in quotation marks may hold the delimiter and line ends, and a quotation mark in it is written twice. Sentences
may begin with a quotation mark, too: whether a TSV file is quoted is therefore decided by the file, from a sample.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headway.errors import HeadwayError

DELIMITERS = (",", ";", "\t", "|")
QUOTE = '"'
MAX_FIELD_LINES = 1000  # a field with more was opened by mistake
MAX_SAMPLED_FIELD_LINES = 20
MAX_SAMPLED_RECORDS = 1000  # with quotation marks
MIN_QUOTED_SHARE = 0.98  # of these, for a file to be quoted
MIN_MIXED_SHARE = 0.1  # above which a file that is not quoted is worth a note


class NumberedRow(NamedTuple):
    line: int  # the last line of the row, counted from 1
    cells: list[str]


def read_quoted_rows(path: str, lines: Iterator[str], delimiter: str) -> Iterator[NumberedRow]:
    """The rows of a quoted table. Raises HeadwayError with the line number where the quoting is wrong."""
    row_start = 0

    def feed() -> Iterator[str]:
        for number, line in enumerate(lines):
            if number - row_start > MAX_FIELD_LINES:
                raise HeadwayError(
                    f"{path}, line {row_start + 1:,}: a quotation mark is opened and not closed within "
                    f"{MAX_FIELD_LINES:,} lines. Write a quotation mark inside a quoted field twice."
                )
            yield f"{line}\n"

    reader = csv.reader(feed(), delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise HeadwayError(
                f"{path}, line {row_start + 1:,}: this row is not that of a table ({error}). A field that begins with "
                "a quotation mark must end with one, and those inside are written twice."
            ) from None
        row_start = reader.line_num
        yield NumberedRow(reader.line_num, [_join_lines(cell) for cell in cells])


def _join_lines(cell: str) -> str:
    """A pair is one line on each side."""
    return " ".join(cell.split("\n")) if "\n" in cell else cell


class QuotingEvidence(NamedTuple):
    """Rows of a sample in which there are quotation marks, and how many of them each way of quoting would give."""

    records: int
    minimal: int  # quoted where it must be: pandas, most programs
    commas: int  # where there is a comma, too: Excel
    doubled: int  # with a quotation mark written twice

    @property
    def is_quoted(self) -> bool:
        if not self.records:
            return False
        wanted = MIN_QUOTED_SHARE * self.records
        return self.minimal >= wanted or (self.commas >= wanted and self.doubled > 0)

    @property
    def is_mixed(self) -> bool:
        """Some rows look quoted, and too few do."""
        return not self.is_quoted and self.minimal > MIN_MIXED_SHARE * self.records


def is_quoted_table(lines: Sequence[str], delimiter: str) -> bool:
    return gather_evidence(lines, delimiter).is_quoted or has_all_quoted(lines[:MAX_SAMPLED_RECORDS], delimiter)


def gather_evidence(lines: Sequence[str], delimiter: str) -> QuotingEvidence:
    """Read the rows as a quoted table, write them again, and see whether the same text comes out."""
    records = minimal = commas = doubled = 0
    number = 0
    while number < len(lines) and records < MAX_SAMPLED_RECORDS:
        if QUOTE not in lines[number]:
            number += 1
            continue
        cells, count = _parse_record(lines[number : number + MAX_SAMPLED_FIELD_LINES], delimiter)
        if records and number + count > len(lines):
            break  # perhaps the sample ends in the middle of a record
        text = "\n".join(lines[number : number + count])
        records += 1
        if cells is not None:
            minimal += text == _write_record(cells, delimiter, lambda cell: _needs_quotes(cell, delimiter))
            commas += text == _write_record(cells, delimiter, lambda cell: _needs_quotes(cell, delimiter, ","))
            doubled += any(QUOTE in cell for cell in cells)
        number += count
    return QuotingEvidence(records, minimal, commas, doubled)


def has_all_quoted(lines: Sequence[str], delimiter: str) -> bool:
    """Whether every field but numbers is in quotation marks, in two rows or more."""
    rows = quoted = number = 0
    while number < len(lines):
        cells, count = _parse_record(lines[number : number + MAX_SAMPLED_FIELD_LINES], delimiter)
        if rows and number + count > len(lines):
            break
        text = "\n".join(lines[number : number + count])
        rows += 1
        if cells is not None and len(cells) > 1 and QUOTE in text:
            everything = _write_record(cells, delimiter, lambda _: True)
            quoted += text in (everything, _write_record(cells, delimiter, lambda cell: not is_number(cell)))
        number += count
        if rows - quoted > (1 - MIN_QUOTED_SHARE) * len(lines):
            return False
    return rows > 1 and quoted >= MIN_QUOTED_SHARE * rows


def find_delimiter(lines: Sequence[str]) -> str:
    """The delimiter that cuts most rows of a CSV file into the same number of cells, two or more."""

    def count_even_rows(delimiter: str) -> tuple[int, int]:
        widths: list[int] = []
        number = 0
        while number < len(lines):
            cells, count = _parse_record(lines[number : number + MAX_SAMPLED_FIELD_LINES], delimiter)
            if lines[number]:
                widths.append(len(cells or ()))
            number += count
        usual = max(set(widths) - {0, 1}, key=widths.count, default=0)
        return widths.count(usual) if usual else 0, -DELIMITERS.index(delimiter)

    return max(DELIMITERS, key=count_even_rows)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse_record(lines: Sequence[str], delimiter: str) -> tuple[list[str] | None, int]:
    """The cells of the first record of these lines, and how many lines it has; None if its quoting is wrong. A record
    that is not complete has more lines than were given, unless so many were given that it is wrong."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        return next(reader), reader.line_num
    except (csv.Error, StopIteration) as error:
        incomplete = "end of data" in str(error) and len(lines) < MAX_SAMPLED_FIELD_LINES
        return None, len(lines) + 1 if incomplete else 1


def _needs_quotes(cell: str, *others: str) -> bool:
    return any(character in cell for character in (QUOTE, "\n", "\r", *others))


def _write_record(cells: Sequence[str], delimiter: str, needs_quotes: Callable[[str], bool]) -> str:
    return delimiter.join(f'"{cell.replace(QUOTE, QUOTE * 2)}"' if needs_quotes(cell) else cell for cell in cells)
