"""Tables as people have them: what pandas and Excel write is read rightly, and sentences are never taken for it."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from headway.data.parallel_files import ParallelFiles, read_parallel, resolve_layout
from headway.data.quoted_tables import find_delimiter, gather_evidence
from headway.data.table_layout import TableLayout
from headway.errors import HeadwayError

PAIRS = [
    ("One.", "Eins."),
    ('He said "hi".', 'Er sagte "hallo".'),
    ("a\tb", "c, d; e"),
    ("two\nlines", "zwei"),
    ('"Yes."', "„Ja.“"),
    ("Three.", "Drei."),
]
READ = [(" ".join(source.split("\n")), target) for source, target in PAIRS]
SENTENCES = [('"Yes."', '"Ja."'), ('"No," he said.', '"Nein", sagte er.'), ("Go!", "Los!"), ('Say "a".', 'Sag "a".')]


def write_like_pandas(
    pairs: list[tuple[str, str]], header: list[str] | None, index: bool = True, **dialect: Any
) -> str:
    """As DataFrame.to_csv does, which uses the same writer."""
    text = io.StringIO()
    writer = csv.writer(text, **{"lineterminator": "\n", "delimiter": "\t", **dialect})
    if header:
        writer.writerow([""] * index + header)
    for number, pair in enumerate(pairs):
        writer.writerow([number] * index + list(pair))
    return text.getvalue()


def write(path: Path, text: str) -> ParallelFiles:
    path.write_bytes(text.encode())
    return ParallelFiles(str(path))


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("header", [["en", "de"], None, ["0", "1"], ["source", "target"], ["English", "Deutsch"]])
@pytest.mark.parametrize(
    ("name", "dialect"),
    [
        ("a.tsv", {}),
        ("a.tsv", {"quoting": csv.QUOTE_ALL}),
        ("a.tsv", {"quoting": csv.QUOTE_NONNUMERIC}),
        ("a.tsv", {"lineterminator": "\r\n"}),
        ("a.csv", {"delimiter": ","}),
        ("a.csv", {"delimiter": ";", "lineterminator": "\r\n"}),
        ("a.csv", {"delimiter": "|"}),
        ("a.csv", {}),
    ],
)
def test_what_pandas_writes(
    tmp_path: Path, name: str, dialect: dict[str, Any], header: list[str] | None, index: bool
) -> None:
    files = write(tmp_path / name, write_like_pandas(PAIRS, header, index, **dialect))
    assert list(read_parallel(files)) == READ
    resolved = resolve_layout(files)
    assert resolved.layout is not None
    assert resolved.layout.has_header == bool(header)
    named = header in (["en", "de"], ["English", "Deutsch"])
    assert (resolved.source_language, resolved.target_language) == (("en", "de") if named else ("", ""))
    assert ("taken as a header" in resolved.layout.note) == bool(header)


def test_sentences_in_quotation_marks_stay_as_they_are(tmp_path: Path) -> None:
    files = write(tmp_path / "a.tsv", "".join("\t".join(pair) + "\n" for pair in SENTENCES))
    assert list(read_parallel(files)) == SENTENCES
    assert resolve_layout(files).layout == TableLayout(width=2)
    doubled = write(tmp_path / "b.tsv", '"He said ""hi""."\tx\n' + '"Why," she asked.\tx\n' * 3)
    assert next(read_parallel(doubled)) == ('"He said ""hi""."', "x")
    layout = resolve_layout(doubled).layout
    assert layout and layout.note.endswith("others are not: quotation marks are kept as text")
    single = write(tmp_path / "c.tsv", '"Hi."\t"Hallo."\n')
    assert list(read_parallel(single)) == [('"Hi."', '"Hallo."')]


def test_what_excel_writes(tmp_path: Path) -> None:
    """It quotes fields with a comma, even between tabs."""
    files = write(tmp_path / "a.txt.tsv", '"Yes, I do."\tJa.\r\n"He said ""hi""."\tEr\r\nGo.\t"Los, geh."\r\n')
    assert list(read_parallel(files)) == [("Yes, I do.", "Ja."), ('He said "hi".', "Er"), ("Go.", "Los, geh.")]


def test_quotes_that_come_late_are_found(tmp_path: Path) -> None:
    pairs = [(f"line {number}", "x") for number in range(5000)] + PAIRS
    assert list(read_parallel(write(tmp_path / "a.tsv", write_like_pandas(pairs, None, False))))[5000:] == READ


@pytest.mark.parametrize(
    ("text", "languages", "expected"),
    [
        ("German\tDeutsch\n", ("", ""), [("German", "Deutsch")]),  # a dictionary, not a header
        ("it\tes\n", ("en", "de"), [("it", "es")]),
        ("One.\tEins.\n", ("", ""), [("One.", "Eins.")]),
        ("en\tde\nOne\tEins\n", ("de", "en"), [("Eins", "One")]),
        ("de\ten\nEins\tOne\n", ("en", "de"), [("One", "Eins")]),
        ("de_DE\tfr\ten-GB\nEins\tUn\tOne\n", ("en", "de"), [("One", "Eins")]),
        ("de\ten\tfr\nEins\tOne\tUn\n", ("fr", "de"), [("Un", "Eins")]),
        ("id\ten\tde\tscore\n7\tOne\tEins\t0.5\n", ("", ""), [("One", "Eins")]),
        ("sentence_en\tsentence_de\nOne\tEins\n", ("", ""), [("One", "Eins")]),
        ("English sentence\tGerman sentence\nOne\tEins\n", ("", ""), [("One", "Eins")]),
        ("target\tsource\nEins\tOne\n", ("", ""), [("One", "Eins")]),
        ("en\tde\t\nOne\tEins\t\n", ("en", "de"), [("One", "Eins")]),
        ("One\tEins\thttp://a.org/1\nTwo\tZwei\thttp://a.org/2\n", ("", ""), [("One", "Eins"), ("Two", "Zwei")]),
        ("1.25\tOne\tEins\n0.5\tTwo\tZwei\n", ("", ""), [("One", "Eins"), ("Two", "Zwei")]),
        ("", ("", ""), []),
        ("en\tde\n", ("", ""), []),
    ],
)
def test_headers_and_columns(
    tmp_path: Path, text: str, languages: tuple[str, str], expected: list[tuple[str, str]]
) -> None:
    files = write(tmp_path / "a.tsv", text)._replace(source_language=languages[0], target_language=languages[1])
    assert list(read_parallel(files)) == expected


def test_only_one_language_has_to_be_named(tmp_path: Path) -> None:
    files = write(tmp_path / "a.tsv", "de\ten\nEins\tOne\n")
    assert list(read_parallel(files._replace(source_language="en"))) == [("One", "Eins")]
    assert list(read_parallel(files._replace(target_language="de"))) == [("One", "Eins")]


def test_attributions_and_names_of_corpora_are_no_text(tmp_path: Path) -> None:
    rows = [f"Europarl\tLine {n} of it.\t{n}. Zeile.\tCC-BY 2.0: {n * 7}\n" for n in range(30)]
    pairs = list(read_parallel(write(tmp_path / "a.tsv", "".join(rows))))
    assert pairs[3] == ("Line 3 of it.", "3. Zeile.")


def test_columns_by_name(tmp_path: Path) -> None:
    files = write(tmp_path / "a.csv", "no,left,right\n1,One,Eins\n")
    assert list(read_parallel(files._replace(columns=("right", "left")))) == [("Eins", "One")]
    with pytest.raises(HeadwayError, match="names from the first line, which does not have right and wrong"):
        list(read_parallel(files._replace(columns=("right", "wrong"))))


def test_three_languages_need_a_choice(tmp_path: Path) -> None:
    files = write(tmp_path / "a.tsv", "en\tde\tfr\nOne\tEins\tUn\n")
    with pytest.raises(HeadwayError, match="the header has the languages en, de, fr. Choose two with --from and --to"):
        list(read_parallel(files))


def test_given_columns_allow_rows_of_any_width(tmp_path: Path) -> None:
    files = write(tmp_path / "a.tsv", "a\tb\nc\td\te\n")._replace(columns=("1", "2"))
    assert list(read_parallel(files)) == [("a", "b"), ("c", "d")]


def test_blank_lines_between_rows_of_csv_are_no_rows(tmp_path: Path) -> None:
    assert list(read_parallel(write(tmp_path / "a.csv", "a,b\n\nc,d\n"))) == [("a", "b"), ("c", "d")]


def test_the_delimiter_is_found_in_spite_of_commas_in_the_text() -> None:
    assert find_delimiter(["Yes, I do.;Ja.", "No, no, no.;Nein.", "Go.;Geh, los."]) == ";"
    assert find_delimiter(['"Yes, I do.",Ja.', "Go.,Geh."]) == ","


def test_a_sample_that_ends_inside_a_row_decides_nothing() -> None:
    evidence = gather_evidence(['"a ""b"""\tc', '"begun'], "\t")
    assert evidence.records == 1 and evidence.is_quoted
    assert not gather_evidence([], "\t").is_quoted


def test_a_table_from_a_pipe_is_looked_at_while_it_is_read(tmp_path: Path) -> None:
    import os
    import threading

    pipe = tmp_path / "pipe.tsv"
    os.mkfifo(pipe)
    text = write_like_pandas(PAIRS, ["en", "de"])
    writer = threading.Thread(target=pipe.write_text, args=(text,))
    writer.start()
    assert list(read_parallel(ParallelFiles(str(pipe)))) == READ
    writer.join()
