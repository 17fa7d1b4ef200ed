"""Lines are what stands between \\n and \\n, whatever else is in them, and every fault names its place."""

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from headway.data.check.raw_lines import read_raw_lines
from headway.data.parallel_files import ParallelFiles
from headway.errors import HeadwayError
from headway.files.text_files import (
    MAX_LINE_BYTES,
    MAX_RUNNING_TEXT_LINE_BYTES,
    READ_BYTES,
    read_lines,
    read_pairs,
)

PACKERS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture
def put(tmp_path: Path) -> Any:
    def put_file(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return put_file


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"\n", [""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\n", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\rb\r\rc", ["a", "b", "", "c"]),
        (b"a\r", ["a"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"]),
        ("日本語\nß\n".encode(), ["日本語", "ß"]),
    ],
)
@pytest.mark.parametrize("suffix", PACKERS)
def test_lines(put: Any, suffix: str, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(put(f"text.en{suffix}", PACKERS[suffix](content)))) == lines


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_packed_pieces_written_one_after_the_other_are_one_file(put: Any, suffix: str) -> None:
    pack = PACKERS[suffix]
    path = put(f"text{suffix}", pack(b"a\nb") + pack(b"c\n") + pack(b"x" * 100_000 + b"\nend"))
    assert list(read_lines(path)) == ["a", "bc", "x" * 100_000, "end"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_a_packed_file_that_was_cut_or_is_none_is_refused(put: Any, suffix: str) -> None:
    packed = PACKERS[suffix](b"".join(b"%d\n" % number for number in range(10_000)))
    for content in (packed[: len(packed) // 2], b"this is not packed at all"):
        with pytest.raises(HeadwayError, match=rf"text\.en{suffix} cannot be decompressed: "):
            list(read_lines(put(f"text.en{suffix}", content)))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("ä\n\nb".encode()), encoding="ascii"))
    assert list(read_lines("-")) == ["ä", "", "b"]


def test_what_is_not_utf8_is_found_by_file_line_and_byte(put: Any) -> None:
    path = put("old.de", "gut\nschön\n".encode("latin1"))
    with pytest.raises(HeadwayError, match=r"old\.de, line 2: byte 0xf6 at offset 7 is not UTF-8.* iconv "):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("\ufeffschön\n".encode("utf-16-le"), r"in UTF-16, not UTF-8 text\. .* iconv -f utf-16 -t utf-8$"),
        ("\ufeffschön\n".encode("utf-16-be"), r"in UTF-16, not .* iconv -f utf-16 -t utf-8$"),
        (b"PK\x03\x04\x14\n", r"a zip archive \(as \.docx and \.odt files are\), not .* Unpack it"),
        (gzip.compress(b"a\n", mtime=0), r"compressed by gzip, not .* rename it to end in \.gz"),
        (lzma.compress(b"a\n"), r"compressed by xz, not .* rename it to end in \.xz"),
        (bz2.compress(b"a\n"), r"compressed by bzip2, not .* rename it to end in \.bz2"),
        (b"PAR1\n", r"a Parquet table, not .* end in \.parquet"),
        (b"%PDF-1.7\n", r"a PDF, not .* pdftotext$"),
    ],
)
def test_what_is_no_text_is_named(put: Any, data: bytes, message: str) -> None:
    path = put("new.de", data)
    with pytest.raises(HeadwayError, match=message):
        list(read_lines(path))
    with pytest.raises(HeadwayError, match=message):
        list(read_raw_lines(ParallelFiles(str(path), str(path))))


def test_a_missing_file_is_named_at_once_with_what_was_probably_meant(put: Any, tmp_path: Path) -> None:
    put("train.en", b"")
    with pytest.raises(HeadwayError, match=r'there is no file .*trian\.en\. Did you mean "train\.en"\?'):
        read_lines(tmp_path / "trian.en")
    with pytest.raises(HeadwayError, match=r"there is no file .*zzz\.$"):
        read_lines(tmp_path / "zzz")
    with pytest.raises(HeadwayError, match=r"there is no file .*: the folder .*nowhere does not exist either"):
        read_lines(tmp_path / "nowhere" / "train.en")
    with pytest.raises(HeadwayError, match="is a folder: a text file is needed"):
        read_lines(tmp_path)


def test_a_file_that_cannot_be_read_says_why(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("secret.en", b"a\n")

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("builtins.open", refuse)  # file modes do not stop a superuser, who may run this
    with pytest.raises(HeadwayError, match=r"secret\.en cannot be read: Permission denied"):
        list(read_lines(path))


def test_pairs(put: Any) -> None:
    source, target = put("a.en", b"a\nb\n"), put("a.de.gz", gzip.compress(b"x\ny", mtime=0))
    assert list(read_pairs(source, target)) == [("a", "x"), ("b", "y")]


@pytest.mark.parametrize(("source", "target"), [(3, 1200), (1200, 3), (0, 1), (1, 0)])
def test_pairs_of_unequal_length_are_refused_with_both_counts(put: Any, source: int, target: int) -> None:
    paths = put("a.en", b"a\n" * source), put("a.de", b"b\n" * target)
    with pytest.raises(HeadwayError, match=rf"a\.en has {source:,} lines and .*a\.de has {target:,}: "):
        list(read_pairs(*paths))


def test_only_one_side_can_be_standard_input() -> None:
    with pytest.raises(HeadwayError, match=r"both standard input \(-\)"):
        read_pairs("-", "-")


def test_zstandard_is_imported_only_when_needed(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert list(read_lines(put("a.en", b"a\n"))) == ["a"]
    with pytest.raises(ImportError):
        list(read_lines(put("a.en.zst", b"a\n")))


def test_lines_of_an_old_mac_are_lines_in_any_amount_and_from_a_pipe(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"".join(b"line %d\r" % number for number in range(60_000))  # more than is read at once
    lines = [f"line {number}" for number in range(60_000)]
    assert list(read_lines(put("mac.txt", content))) == lines
    assert [line for (line,) in read_raw_lines(ParallelFiles(str(put("mac.tsv", content))))][:2] == [
        b"line 0\n",
        b"line 1\n",
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert list(read_lines("-")) == lines


def test_a_windows_line_end_between_two_reads_is_one_line_end(put: Any) -> None:
    line = b"x" * (READ_BYTES - 1)
    assert list(read_lines(put("long.txt", line + b"\r\nnext\r\n"))) == [line.decode(), "next"]


def test_two_kinds_of_line_ends_are_refused(put: Any) -> None:
    with pytest.raises(HeadwayError, match=r"mixed\.txt: lines end in \\r at first and in \\n later on"):
        list(read_lines(put("mixed.txt", b"a\r" * READ_BYTES + b"b\nc\n")))


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_line_without_end_is_refused_by_its_number_and_never_held(put: Any, suffix: str) -> None:
    path = put(f"long.txt{suffix}", PACKERS[suffix](b"one\ntwo\n" + bytes(MAX_LINE_BYTES + 2)))
    for read in (read_lines, lambda path: read_raw_lines(ParallelFiles(str(path), str(path)))):
        lines = read(path)
        assert len([next(lines), next(lines)]) == 2
        with pytest.raises(HeadwayError, match=r"long\.txt.*, line 3 is longer than 16 MiB, .* fold -s -w 2000"):
            next(lines)


def test_a_line_without_end_from_a_pipe_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        given = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.given += len(buffer)
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    raw = Endless()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(raw, 1 << 20)))
    with pytest.raises(HeadwayError, match="standard input, line 1 is longer than 16 MiB"):
        list(read_lines("-"))
    assert raw.given < 2 * MAX_LINE_BYTES


def test_running_text_may_be_one_long_line(put: Any) -> None:
    path = put("text8", b"word " * (MAX_LINE_BYTES // 5 + 10))
    assert len(list(read_lines(path, MAX_RUNNING_TEXT_LINE_BYTES))) == 1
