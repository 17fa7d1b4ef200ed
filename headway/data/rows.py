"""Text given in Python: pairs or running text from lists, generators, dicts, data frames and Hugging Face datasets.

Corpus (what the user gave) ─► open_rows() looks at the first row ─► OpenedRows ─► headway.data.spool

No library is imported: a data frame is what has `columns`, a dataset what gives rows that are dicts.
"""

import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from headway.data.json_files import PairKeys, find_table, infer_keys
from headway.errors import HeadwayError

Pair = tuple[str, str]
TEXT_COLUMN = "text"  # what data sets of running text call their column
SHOWN_CHARACTERS = 60  # of a value in an error
MISSING = object()


@dataclass(frozen=True)
class Corpus:
    """Text to train on, as a value: `data` in any form that `headway.train` takes, with what it does not say itself.

    data: pairs, dicts, a data frame, a dataset, a generator, or the path of a file
    languages: of source and target; by default those that columns or files are named by
    columns: of source and target, or the one of running text, where their names do not tell
    weight: how often each pair is seen in an epoch
    """

    data: Any
    languages: Pair = ("", "")
    columns: Pair | str | None = None
    weight: float = 1.0

    def __repr__(self) -> str:
        known = [
            f"{name}={getattr(self, name)!r}" for name in ("languages", "columns", "weight") if getattr(self, name)
        ]
        shown = reprlib.repr(self.data) if isinstance(self.data, str | list | tuple | dict) else _show(self.data)
        return f"Corpus({', '.join([shown, *known])})"

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, if `data` is one path, or a dict of two."""
        if isinstance(self.data, str | os.PathLike):
            return (os.fspath(self.data),)
        if isinstance(self.data, Mapping) and self.data and all(map(_is_path, self.data.values())):
            return tuple(map(os.fspath, self.data.values()))
        return ()


@dataclass(frozen=True)
class OpenedRows:
    """Rows that can be read once."""

    rows: Iterator[Any]  # of pairs, or of texts
    is_text: bool
    languages: Pair = ("", "")


def open_rows(corpus: Corpus, name: str = "data") -> OpenedRows:
    """What a corpus in memory holds: pairs or running text. `name` is what errors call it."""
    data = corpus.data
    if isinstance(data, Mapping):
        _refuse_splits(data, name)
        return _open_columns(list(data), data.__getitem__, corpus, name)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        return _open_columns(list(data.columns), data.__getitem__, corpus, name)
    try:
        iterator = iter(data)
    except TypeError:
        raise HeadwayError(
            f"{name} is {_show(data)}, which is no text to train on: give pairs, texts, a data frame, a dataset or "
            "the path of a file."
        ) from None
    first = next(iterator, MISSING)
    if first is MISSING:
        raise HeadwayError(f"{name} is empty: there is no row in it.")
    rows = chain([first], iterator)
    if isinstance(first, str):
        return OpenedRows(_read_texts(rows, name), is_text=True)
    if isinstance(first, Mapping):
        return _open_tables(first, rows, corpus, name)
    return OpenedRows(_read_pairs(rows, name), is_text=False, languages=corpus.languages)


def _open_columns(names: list[Any], column: Callable[[Any], Any], corpus: Corpus, name: str) -> OpenedRows:
    """A table by columns: a dict of lists, a data frame."""
    if (only := _find_text_column(names, corpus)) is not None:
        return OpenedRows(_refuse_no_rows(_read_texts(column(only), f"{name}[{only!r}]"), name), is_text=True)
    (source, target), languages = _find_columns(names, corpus, name)
    texts = [_refuse_one_string(column(key), f"{name}[{key!r}]") for key in (source, target)]
    pairs = _read_pairs(_zip_columns(texts, (source, target), name), name)
    return OpenedRows(_refuse_no_rows(pairs, name), is_text=False, languages=languages)


def _open_tables(first: Mapping[Any, Any], rows: Iterator[Any], corpus: Corpus, name: str) -> OpenedRows:
    """A table by rows that are dicts: a dataset. {"translation": {"en": …, "de": …}} is one of them."""
    names = list(find_table(first))
    if (only := _find_text_column(names, corpus)) is not None:
        return OpenedRows(_read_texts(_take_cells(rows, [only], name), name), is_text=True)
    keys, languages = _find_columns(names, corpus, name)
    return OpenedRows(_read_pairs(_take_cells(rows, keys, name), name), is_text=False, languages=languages)


def _find_text_column(names: Sequence[Any], corpus: Corpus) -> Any:
    """The column of running text; None if the table holds pairs."""
    if isinstance(corpus.columns, str):
        return corpus.columns
    single = names[0] if len(names) == 1 else TEXT_COLUMN
    return single if corpus.columns is None and single in names and not any(corpus.languages) else None


def _find_columns(names: Sequence[Any], corpus: Corpus, name: str) -> tuple[tuple[Any, Any], Pair]:
    """The columns of both sides, and the languages: by what was given, by names that are languages or common, or the
    only two."""
    given = corpus.columns if not isinstance(corpus.columns, str) else None
    if given is None:
        keys, languages = infer_keys({str(key): None for key in names}, PairKeys(None, corpus.languages))
        for source, target in keys.candidates():
            if source and target and source in names and target in names:
                return (source, target), languages
        if len(names) == 2 and not any(corpus.languages):
            return (names[0], names[1]), languages
    elif all(column in names for column in given):
        return given, corpus.languages
    known = ", ".join(map(str, names)) or "none"
    wanted = " and ".join(map(str, given)) if given else "source and target, nor two languages"
    raise HeadwayError(
        f'{name} has the columns {known}, but not {wanted}. Name those of both sides: columns=("…", "…").'
    )


def _take_cells(rows: Iterable[Any], keys: Sequence[Any], name: str) -> Iterator[Any]:
    """The cells under these keys: one by itself, two as a pair."""
    for number, row in enumerate(rows):
        table = find_table(row)
        if not isinstance(table, Mapping) or any(key not in table for key in keys):
            found = f"the keys {', '.join(map(str, table))}" if isinstance(table, Mapping) else _show(row)
            raise HeadwayError(f"{name}[{number}] has {found}: expected {' and '.join(map(str, keys))}, as before.")
        yield table[keys[0]] if len(keys) == 1 else tuple(table[key] for key in keys)


def _zip_columns(columns: Sequence[Iterable[Any]], names: Sequence[Any], name: str) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(zip_longest(*columns, fillvalue=MISSING)):
        for key, cell in zip(names, row):
            if cell is MISSING:
                other = names[1 - list(names).index(key)]
                raise HeadwayError(
                    f"{name}[{key!r}] ends after {number:,} rows, and {name}[{other!r}] goes on: both sides must have "
                    "as many, row by row."
                )
        yield row


def _read_pairs(rows: Iterable[Any], name: str) -> Iterator[Pair]:
    for number, row in enumerate(rows):
        if isinstance(row, str | Mapping) or not isinstance(row, Sequence) or len(row) != 2:
            raise HeadwayError(f"{name}[{number}] is {_show(row)}: expected a pair, (source, target).")
        source, target = row
        for side, cell in (("source", source), ("target", target)):
            if not isinstance(cell, str):
                raise _cell_error(cell, f"{name}[{number}]", f"the {side}")
        yield _join_lines(source), _join_lines(target)


def _read_texts(rows: Iterable[Any], name: str) -> Iterator[str]:
    """Lines of running text: a text of several lines is as many."""
    for number, row in enumerate(_refuse_one_string(rows, name)):
        if not isinstance(row, str):
            raise _cell_error(row, f"{name}[{number}]", "the text")
        yield from row.splitlines() or [""]


def _refuse_no_rows(rows: Iterator[Any], name: str) -> Iterator[Any]:
    first = next(rows, MISSING)
    if first is MISSING:
        raise HeadwayError(f"{name} is empty: its columns have no rows.")
    return chain([first], rows)


def _refuse_one_string(column: Any, name: str) -> Iterable[Any]:
    """A string would be read as a column of letters."""
    if isinstance(column, str) or not hasattr(column, "__iter__"):
        raise HeadwayError(f"{name} is {_show(column)}: expected a list of texts.")
    texts: Iterable[Any] = column
    return texts


def _refuse_splits(data: Mapping[Any, Any], name: str) -> None:
    """A DatasetDict is a dict of datasets, not of columns."""
    splits = [str(key) for key, value in data.items() if hasattr(value, "column_names")]
    if splits:
        raise HeadwayError(
            f'{name} holds several datasets: {", ".join(splits)}. Give one of them, as in data["{splits[0]}"], and '
            "another as valid=…"
        )


def _cell_error(cell: Any, place: str, side: str) -> HeadwayError:
    missing = cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)
    remedy = "Leave such rows out, in a data frame with dropna()" if missing else "Make it a string first"
    return HeadwayError(f"{place}: {side} is {_show(cell)}, not text. {remedy}.")


def _join_lines(text: str) -> str:
    """One line without spaces around it, as the two sides of a pair are in files."""
    return " ".join(text.split("\n")).replace("\r", "").strip() if "\n" in text or "\r" in text else text.strip()


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    if len(text) > SHOWN_CHARACTERS or "\n" in text or text.startswith("<"):
        return f"a {type(value).__name__}"
    return text


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)
