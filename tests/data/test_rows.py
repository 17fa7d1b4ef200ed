"""Text given in Python: every form is read as the same pairs or lines, and what is wrong is named by its place."""

import sys
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headway.data.rows import Corpus, open_rows
from headway.data.spool import spool_pairs, spool_text
from headway.errors import HeadwayError
from headway.files.cache import cache_folder

PAIRS = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
EN, DE = [list(side) for side in zip(*PAIRS)]
Row = namedtuple("Row", "source target")


class Frame:
    """What pandas and polars data frames have in common."""

    def __init__(self, **columns: Any) -> None:
        self.table = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]


class Dataset:
    """What a Dataset and an IterableDataset of Hugging Face have in common."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self.column_names = list(rows[0])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)


@pytest.mark.parametrize(
    ("data", "languages"),
    [
        (PAIRS, ("", "")),
        (tuple(PAIRS), ("", "")),
        ([list(pair) for pair in PAIRS], ("", "")),
        (iter(PAIRS), ("", "")),
        ((pair for pair in PAIRS), ("", "")),
        ([Row(*pair) for pair in PAIRS], ("", "")),
        ([(f" {one}\n", other.replace(" ", "\r\n")) for one, other in PAIRS], ("", "")),
        ({"en": EN, "de": DE}, ("en", "de")),
        ({"source": EN, "target": DE}, ("", "")),
        ({"english": iter(EN), "number": [1, 2], "german": np.array(DE)}, ("en", "de")),
        (Frame(en=EN, de=DE), ("en", "de")),
        (Frame(one=EN, other=DE), ("", "")),
        (Dataset([{"en": one, "de": other, "id": 3} for one, other in PAIRS]), ("en", "de")),
        (Dataset([{"id": "7", "translation": {"en": one, "de": other}} for one, other in PAIRS]), ("en", "de")),
        ([{"src": one, "tgt": other} for one, other in PAIRS], ("", "")),
    ],
)
def test_pairs_of_every_form(data: Any, languages: tuple[str, str]) -> None:
    opened = open_rows(Corpus(data))
    assert not opened.is_text and opened.languages == languages
    assert list(opened.rows) == PAIRS


@pytest.mark.parametrize(
    "data",
    [
        EN,
        iter(EN),
        ["\n".join(EN)],
        np.array(EN),
        {"text": EN},
        {"anything": EN},
        Frame(text=EN, label=[0, 1]),
        Dataset([{"text": line, "label": 1} for line in EN]),
    ],
)
def test_running_text_of_every_form(data: Any) -> None:
    opened = open_rows(Corpus(data))
    assert opened.is_text and list(opened.rows) == EN


def test_columns_and_languages_choose() -> None:
    table = {"en": EN, "de": DE, "fr": ["un chien", "un chat"], "text": EN}
    found = open_rows(Corpus(table, languages=("fr", "de")))
    assert list(found.rows) == list(zip(table["fr"], DE)) and found.languages == ("fr", "de")
    assert list(open_rows(Corpus(table, columns=("de", "en"))).rows) == [(de, en) for en, de in PAIRS]
    text = open_rows(Corpus(table, columns="de"))
    assert text.is_text and list(text.rows) == DE
    rows = Dataset([{"en": one, "de": other, "text": one} for one, other in PAIRS])
    assert list(open_rows(Corpus(rows, columns="en")).rows) == EN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "data is empty: there is no row in it."),
        (iter([]), "data is empty: there is no row in it."),
        ({"en": [], "de": []}, "data is empty: its columns have no rows."),
        (Frame(text=[]), "data is empty: its columns have no rows."),
        (5, "data is 5, which is no text to train on: give pairs, texts, a data frame, a dataset or the path"),
        (object(), "data is a"),
        ([("a", "b"), ("c",)], r"data\[1\] is \('c',\): expected a pair, \(source, target\)."),
        ([("a", "b"), ("c", "d", "e")], r"data\[1\] is \('c', 'd', 'e'\): expected a pair"),
        ([("a", "b"), "cd"], r"data\[1\] is 'cd': expected a pair"),
        ([("a", "b"), {"c": "d", "e": "f"}], r"data\[1\] is .*: expected a pair"),
        ([("a", "b"), ("c", None)], r"data\[1\]: the target is None, not text. Leave such rows out"),
        ([("a", "b"), (float("nan"), "d")], r"data\[1\]: the source is nan, not text. Leave such rows out.*dropna"),
        ([("a", "b"), (3, "d")], r"data\[1\]: the source is 3, not text. Make it a string first."),
        (["a", None], r"data\[1\]: the text is None, not text."),
        (["a", ("b", "c")], r"data\[1\]: the text is \('b', 'c'\), not text"),
        ({"en": EN, "de": DE[:1]}, r"data\['de'\] ends after 1 rows, and data\['en'\] goes on: both sides must have"),
        ({"en": EN[:1], "de": DE}, r"data\['en'\] ends after 1 rows"),
        ({"en": "a dog", "de": DE}, r"data\['en'\] is 'a dog': expected a list of texts."),
        ({"en": 5, "de": DE}, r"data\['en'\] is 5: expected a list of texts."),
        ({"a": EN, "b": DE, "c": DE}, "data has the columns a, b, c, but not source and target, nor two languages"),
        (Frame(a=EN, b=DE, c=EN), "data has the columns a, b, c"),
        ([{"x": "a", "y": "b", "z": "c"}], "data has the columns x, y, z, but not source and target"),
        ([{"en": "a", "de": "b"}, {"en": "c"}], r"data\[1\] has the keys en: expected en and de, as before."),
        ([{"en": "a", "de": "b"}, 7], r"data\[1\] has 7: expected en and de, as before."),
        (
            {"train": Dataset([{"text": "a"}])},
            r'data holds several datasets: train. Give one of them, as in data\["train',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(data: Any, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        list(open_rows(Corpus(data)).rows)


def test_columns_that_are_not_there() -> None:
    with pytest.raises(HeadwayError, match=r'but not one and two. Name those of both sides: columns=\("…", "…"\).'):
        open_rows(Corpus({"en": EN, "de": DE}, columns=("one", "two")))


def test_a_value_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Secret:
        def __repr__(self) -> str:
            raise ValueError

    with pytest.raises(HeadwayError, match=r"data\[1\]: the source is a Secret, not text"):
        list(open_rows(Corpus([("a", "b"), (Secret(), "d")])).rows)


def test_paths() -> None:
    assert Corpus("a.tsv").paths == ("a.tsv",)
    assert Corpus({"en": "a.en", "de": Path("a.de")}).paths == ("a.en", "a.de")
    assert Corpus({"en": EN, "de": DE}).paths == Corpus({}).paths == Corpus(PAIRS).paths == ()


# ---- the copy on disk


def test_a_spooled_corpus_is_read_again_and_known_by_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    one, again = (spool_pairs(iter([("a", "b\u2028c"), ("", "ß")]), ("en", "de"), 2.0) for _ in range(2))
    assert list(one.read()) == list(again.read()) == [("a", "b\u2028c"), ("", "ß")]
    assert one.identity == again.identity != spool_pairs([("a", "b")]).identity
    assert (one.counts.lines, one.counts.nonempty, one.weight) == (2, 1, 2.0)
    text = spool_text(["one two", "", "three"])
    assert list(text.read()) == ["one two", "", "three"] and text.counts.words == 3
    assert len(list(tmp_path.glob("given-*"))) == 3 and not list(tmp_path.glob("*.partial"))


def test_nothing_is_left_of_rows_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))

    def rows(error: Exception) -> Iterator[tuple[str, str]]:
        yield "a", "b"
        raise error

    with pytest.raises(ValueError, match="mine"):
        spool_pairs(rows(ValueError("mine")))
    with pytest.raises(HeadwayError, match="row 1 could not be read: ConnectionError: gone"):
        spool_pairs(rows(ConnectionError("gone")))
    with pytest.raises(HeadwayError, match="row 0 holds half a surrogate pair, which is no character"):
        spool_pairs([("\ud800", "b")])
    assert not list(cache_folder().glob("given-*")) and not list(cache_folder().glob("*.partial"))


def test_a_generator_is_never_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While 40 MB go by, at most a few rows are alive."""
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    alive = SimpleNamespace(now=0, most=0)

    class Text(str):
        def __init__(self, text: str) -> None:
            alive.now += 1
            alive.most = max(alive.most, alive.now)

        def __del__(self) -> None:
            alive.now -= 1

    corpus = spool_pairs(open_rows(Corpus((Text("x" * 9999), Text("y")) for _ in range(4000))).rows)
    assert corpus.counts.lines == 4000 and sys.getrefcount(corpus) < 10
    assert alive.most < 20
