"""Damaged files are read to their end, and what is wrong with a line is noted for that line alone."""

import gzip
import json
from pathlib import Path

import pytest

from headway.data.check.faults import FAULT_BITS, FAULT_NAMES
from headway.data.check.raw_lines import LineGroup, check_corpus_files, decode_pairs, read_groups, read_pairs_at
from headway.data.parallel_files import ParallelFiles
from headway.data.table_layout import TableLayout
from headway.errors import HeadwayError

TWO = ParallelFiles("a.en", "a.de", "en", "de")
TABLE = ParallelFiles("a.tsv")
OBJECTS = ParallelFiles("a.jsonl", "", "en", "de")


def names(faults: int) -> list[str]:
    return [name for name in FAULT_NAMES if faults & FAULT_BITS[name]]


@pytest.mark.parametrize(
    ("files", "line", "pair", "faults"),
    [
        (TWO, (b"One.\n", "Größe \r\n".encode()), ("One.", "Größe"), []),
        (TWO, (b"One.\n", b"Gr\xf6\xdfe\n"), ("One.", "Gr\ufffd\ufffde"), ["encoding"]),
        (TWO, (b"One.\n", "GrÃ¶ÃŸe".encode()), ("One.", "GrÃ¶ÃŸe"), ["encoding"]),
        (TWO, ("donâ€™t".encode(), b"nicht"), ("donâ€™t", "nicht"), ["encoding"]),
        (TWO, ("20 Â°C".encode(), b"20"), ("20 Â°C", "20"), ["encoding"]),
        (TWO, ("AMANHÃ, ÂNGELO".encode(), b"x"), ("AMANHÃ, ÂNGELO", "x"), []),
        (TWO, (b"a\x00b\n", b"x"), ("a\x00b", "x"), []),  # the scan looks at characters
        (TABLE, (b"One.\tEins.\tmore\n",), ("One.", "Eins."), []),
        (TABLE, (b"One.\n",), ("One.", ""), ["broken"]),
        (TABLE, (b"One\xff\n",), ("One\ufffd", ""), ["encoding", "broken"]),
        (TABLE, (b"\tEins.\n",), ("", "Eins."), []),
        (TABLE._replace(layout=TableLayout((2, 0))), (b"a\tb\tc\n",), ("c", "a"), []),
        (TABLE._replace(layout=TableLayout(width=3)), (b"a\tb\n",), ("a\tb", ""), ["broken"]),
        (TABLE._replace(layout=TableLayout(width=3)), (b"a\tb\tc\td\n",), ("a\tb\tc\td", ""), ["broken"]),
        (TABLE._replace(layout=TableLayout(width=3)), (b"a\tb\tc\t\n",), ("a", "b"), []),
        (OBJECTS, (b'{"en": "One.", "de": "Eins."}\n',), ("One.", "Eins."), []),
        (OBJECTS, (b'{"en": "One.",\n',), ('{"en": "One.",', ""), ["broken"]),
        (OBJECTS, (b'{"en": "One."}\n',), ('{"en": "One."}', ""), ["broken"]),
        (OBJECTS, (b"[" * 100_000,), ("[" * 100_000, ""), ["broken"]),
        (OBJECTS, (json.dumps({"en": "a\nb", "de": "c"}).encode(),), ("a\u2028b", "c"), []),
        (OBJECTS, (b'{"en": "\\ud800", "de": "c"}',), ("\ufffd", "c"), ["encoding"]),
    ],
)
def test_one_line(files: ParallelFiles, line: tuple[bytes, ...], pair: tuple[str, str], faults: list[str]) -> None:
    good = {TWO: (b"Yes.\n", b"Ja.\n"), OBJECTS: (b'{"en": "Yes.", "de": "Ja."}',)}.get(files, (b"Yes.\tJa.\tYes.\n",))
    found = decode_pairs(files, 4, [good, line, good])
    assert (found.source[1], found.target[1]) == pair
    assert names(found.faults[1]) == faults
    assert not found.faults[0] and not found.faults[2]
    assert found.source[0] == found.source[2] == "Yes."


def test_a_byte_order_mark_is_dropped_where_a_file_begins_only() -> None:
    line = (b"\xef\xbb\xbfOne.\n", b"\xef\xbb\xbfEins.\n")
    assert decode_pairs(TWO, 0, [line, line]).source == ["One.", "\ufeffOne."]
    assert decode_pairs(TWO, 0, [line]).target == ["Eins."]
    assert decode_pairs(TWO, 64, [line]).source == ["\ufeffOne."]


def test_groups_and_single_pairs_of_several_corpora(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"".join(b"a%d\tb%d\n" % (n, n) for n in range(5))))
    (tmp_path / "c.en").write_bytes(b"c0\nc1\nc2")
    (tmp_path / "c.de").write_bytes(b"d0\nd1\nd2")
    corpora = [
        ParallelFiles(str(tmp_path / "a.tsv.gz")),
        ParallelFiles(str(tmp_path / "c.en"), str(tmp_path / "c.de")),
    ]
    assert [(g.corpus, g.first, len(g.lines)) for g in read_groups(corpora, 2)] == [
        (0, 0, 2), (0, 2, 2), (0, 4, 1), (1, 0, 2), (1, 2, 1),
    ]  # fmt: skip
    assert list(read_groups(corpora, 4))[2] == LineGroup(1, 0, [(b"c0\n", b"d0\n"), (b"c1\n", b"d1\n"), (b"c2", b"d2")])
    assert dict(read_pairs_at(corpora, [1, 4, 7])) == {1: ("a1", "b1"), 4: ("a4", "b4"), 7: ("c2", "d2")}
    assert dict(read_pairs_at(corpora, [])) == {}


def test_what_cannot_be_read_at_all_is_said_first(tmp_path: Path) -> None:
    for files, message in [
        (
            ParallelFiles("-", "a.de"),
            "standard input (-) cannot be checked, because a corpus is read several times. Give a file.",
        ),
        (ParallelFiles(str(tmp_path / "no.tsv")), f"there is no file {tmp_path / 'no.tsv'}."),
        (ParallelFiles(str(tmp_path), str(tmp_path)), f"{tmp_path} is a folder: a text file is needed."),
    ]:
        with pytest.raises(HeadwayError) as caught:
            check_corpus_files(files)
        assert str(caught.value) == message
    (tmp_path / "pairs.txt").write_text("a\tb\n")
    with pytest.raises(HeadwayError, match=r"pairs.txt: a file with both sides must end in one of"):
        check_corpus_files(ParallelFiles(str(tmp_path / "pairs.txt")))
