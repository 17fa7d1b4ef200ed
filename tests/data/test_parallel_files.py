"""Pairs from two files, from tables and from JSON lines, packed or not."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from headway.data.parallel_files import ParallelFiles, language_from_filename, languages_from_filename, read_parallel
from headway.errors import HeadwayError

PAIRS = [("One.", "Eins."), ("Two\u2028still two.", "Zwei."), ("", "leer")]


def write(path: Path, text: str) -> str:
    data = text.encode()
    if path.suffix == ".zst":
        import zstandard

        data = zstandard.compress(data)
    path.write_bytes({".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(path.suffix, bytes)(data))
    return str(path)


def table(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"{source}\t{target}\n" for source, target in pairs)


@pytest.mark.parametrize("packed", ["", ".gz", ".bz2", ".xz", ".zst"])
def test_the_same_pairs_however_they_lie(tmp_path: Path, packed: str) -> None:
    one = write(tmp_path / f"a.tsv{packed}", table(PAIRS))
    rows = [{"source": source, "target": target} for source, target in PAIRS]
    two = write(tmp_path / f"a.jsonl{packed}", "".join(json.dumps(row) + "\n" for row in rows))
    sides = [write(tmp_path / f"a.{n}{packed}", "".join(pair[n] + "\n" for pair in PAIRS)) for n in (0, 1)]
    for files in (ParallelFiles(one), ParallelFiles(two), ParallelFiles(*sides)):
        assert list(read_parallel(files)) == PAIRS, files


def test_space_around_a_sentence_goes_and_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", " a\x0bb \t c\r\nd\u2028e\tf\x85g\n")
    assert list(read_parallel(ParallelFiles(path))) == [("a\x0bb", "c"), ("d\u2028e", "f\x85g")]


def test_columns_of_a_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id\tone\teins\tmore\n")
    assert list(read_parallel(ParallelFiles(path, columns=("2", "3")))) == [("one", "eins")]
    assert list(read_parallel(ParallelFiles(path, columns=("3", "2")))) == [("eins", "one")]
    for columns in (("0", "1"), ("a", "b"), ("-1", "2")):
        with pytest.raises(HeadwayError, match=r"a.tsv: columns are numbers from 1, or names from the first line"):
            list(read_parallel(ParallelFiles(path, columns=columns)))


def test_a_table_that_names_its_languages_is_read_either_way(tmp_path: Path) -> None:
    path = write(tmp_path / "x.en-de.tsv", "one\teins\n")
    assert list(read_parallel(ParallelFiles(path, "", "en", "de"))) == [("one", "eins")]
    assert list(read_parallel(ParallelFiles(path, "", "de", "en"))) == [("eins", "one")]
    assert languages_from_filename("a/x.en-de.tsv.xz") == ("en", "de")
    assert languages_from_filename("en-de.jsonl") == ("en", "de")
    assert languages_from_filename("europarl.part1.tsv.xz") == ("", "")
    assert language_from_filename("a.tsv.gz") == ""


@pytest.mark.parametrize(
    "row",
    [
        {"source": "a", "target": "b"},
        {"src": "a", "tgt": "b", "score": 1},
        {"en": "a", "de": "b"},
        {"translation": {"en": "a", "de": "b"}},
    ],
)
def test_usual_shapes_of_json(tmp_path: Path, row: dict[str, object]) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert list(read_parallel(ParallelFiles(path, "", "en", "de"))) == [("a", "b")]


def test_keys_of_json(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"x": "a", "y": "b"}\n')
    assert list(read_parallel(ParallelFiles(path, columns=("x", "y")))) == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.tsv",
            "one\teins\nonly one\n",
            "a.tsv, line 2: column 2 is missing, there is only 1. Each line holds source and target",
        ),
        (
            "a.jsonl",
            '{"source": "a", "target": "b"}\n{oops\n',
            "a.jsonl, line 2 is not JSON: each line must hold one object",
        ),
        ("a.jsonl", "[" * 100_000 + "\n", "a.jsonl, line 1 is not JSON"),
        (
            "a.jsonl",
            '["a", "b"]\n',
            "a.jsonl, line 1 has no object: expected texts under en and de or source and target or src",
        ),
        (
            "a.jsonl",
            '{"source": "a", "b": 1}\n',
            "a.jsonl, line 1 has the keys source, b: expected texts under en and de or",
        ),
        ("a.jsonl", '{"en": "a", "de": 5}\n', "line 1: what it has under en and de is not text."),
        ("a.txt", "one\teins\n", "a.txt: a file with both sides must end in one of .tsv, .tab"),
        ("a.text", "one,eins\n", "Rename it, or give two files as --source and --target."),
        ("a.parquet.gz", "", "a Parquet table is compressed inside, and read as it is. Decompress it first."),
        ("a.tsv", "a\tb\nc\td\te\n", "a.tsv, line 2: there are 3 columns, where other lines have 2. Name those"),
        ("a.csv", "a,b\nc,d,e\n", "a.csv, line 2: there are 3 columns, where other lines have 2."),
        ("a.csv", "a,b\nc,d,e\n", "for example --columns 1,2. Mend or delete this row"),
        ("a.csv", "a;b\nc\nd;e\n", 'Each row holds source and target, separated by ";".'),
        ("a.csv", 'a,b\n"c,d\n', "a.csv, line 2: this row is not that of a table (unexpected end of data)."),
        ("a.csv", 'a,b\n"c" x,d\n', "A field that begins with a quotation mark must end with one"),
        ("a.csv", 'a,b\n"c,d\n' + "e,f\n" * 2000, "a.csv, line 2: a quotation mark is opened and not closed within"),
        ("a.tsv", "a\tb\nc\td\te\n", "or leave such lines out with: headway check --clean"),
        ("a.tsv", "one\ntwo\n", "a.tsv, line 1: column 2 is missing, there is only 1."),
        ("a.tsv", "One.\tUn.\tEins.\n", "a.tsv, line 1: there are 3 columns, and it is not clear which two of them"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(HeadwayError) as caught:
        list(read_parallel(ParallelFiles(path, "", "en", "de")))
    assert message in str(caught.value)


def test_a_corpus_is_named_by_its_files() -> None:
    assert str(ParallelFiles("a.en", "a.de")) == "a.en and a.de"
    assert str(ParallelFiles("a.tsv")) == "a.tsv"
