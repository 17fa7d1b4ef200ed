"""Text files as lines. A line ends at \\n and nowhere else, so that two files of a pair stay side by side."""

import codecs
import gzip
import io
import lzma
import os
import select
import signal
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from headway.errors import HeadwayError, did_you_mean
from headway.files.prefetch import prefetch

PACKED = (".gz", ".xz", ".zst")
PIECE = 1 << 18  # bytes read at once

UNPACK = "Unpack it first, or name it {}: by its name it is unpacked while it is read."
WIDE = ("in UTF-16", "Convert it first, for example with: iconv -f utf-16 -t utf-8")
NO_TEXT = {  # what a file is that begins so, and what to do
    codecs.BOM_UTF16_LE: WIDE,
    codecs.BOM_UTF16_BE: WIDE,
    b"PK\x03\x04": ("a zip archive, as .docx and .odt files are", "Unpack it, or save its text as plain text."),
    b"\x1f\x8b": ("packed by gzip", UNPACK.format(".gz")),
    b"\xfd7zXZ\x00": ("packed by xz", UNPACK.format(".xz")),
    b"\x28\xb5\x2f\xfd": ("packed by zstd", UNPACK.format(".zst")),
    b"BZh": ("packed by bzip2", "Unpack it first."),
    b"%PDF-": ("a PDF", "Save its text as plain text, for example with: pdftotext"),
}

FilePath = str | os.PathLike[str]


def read_lines(path: FilePath) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or .gz, .xz, .zst by its name; "-" is standard input.

    U+2028, \\x0b, \\x85 and a lone \\r stay inside their line; the \\r of a Windows line end and a byte order mark
    are dropped; a last line without \\n counts."""
    check_readable(path)
    return decoded_lines(path)


def read_pairs(source: FilePath, target: FilePath) -> Iterator[tuple[str, str]]:
    """Two files line by line. Unequal numbers of lines are refused, with both numbers, once the ends are seen."""
    if str(source) == str(target) == "-":
        raise HeadwayError("source and target are both standard input (-): at most one of them can be.")
    return paired_lines(source, read_lines(source), target, read_lines(target))


def paired_lines(
    source: FilePath, source_lines: Iterator[str], target: FilePath, target_lines: Iterator[str]
) -> Iterator[tuple[str, str]]:
    count = 0
    for source_line in source_lines:
        target_line = next(target_lines, None)
        if target_line is None:
            raise unequal(source, count + 1 + sum(1 for _ in source_lines), target, count)
        count += 1
        yield source_line, target_line
    left_over = sum(1 for _ in target_lines)
    if left_over:
        raise unequal(source, count, target, count + left_over)


def unequal(source: FilePath, source_count: int, target: FilePath, target_count: int) -> HeadwayError:
    return HeadwayError(
        f"{source} has {source_count:,} lines and {target} has {target_count:,}: line n of the one must be the "
        "translation of line n of the other."
    )


def check_readable(path: FilePath) -> None:
    """Say what is wrong with a path before anything is read."""
    if str(path) == "-":
        return
    path = Path(path)
    if path.is_dir():
        raise HeadwayError(f"{path} is a folder: a text file is needed.")
    if path.exists():
        return
    if not path.parent.is_dir():
        raise HeadwayError(f"there is no file {path}: the folder {path.parent} does not exist either.")
    near = did_you_mean(path.name, sorted(entry.name for entry in path.parent.iterdir()))
    raise HeadwayError(f"there is no file {path}.{near}")


def called(path: FilePath) -> str:
    """As a message names it."""
    return "standard input" if str(path) == "-" else str(path)


def decoded_lines(path: FilePath) -> Iterator[str]:
    """Many lines at a time where the file allows it: decoding each by itself takes most of the time of reading."""
    number, start = 0, 0  # lines and bytes before the block
    for block in byte_blocks(path):
        try:
            lines = _split(block.decode("utf-8"), start)
        except UnicodeDecodeError as error:
            sound = block[: block.rfind(b"\n", 0, error.start) + 1]
            yield from _split(sound.decode("utf-8"), start)
            line = number + sound.count(b"\n") + 1
            raise HeadwayError(
                f"{called(path)}, line {line}: byte 0x{block[error.start]:02x} at offset {start + error.start} is not UTF-8. "
                "Convert it first, for example with: iconv -f latin1 -t utf-8"
            ) from None
        yield from lines
        number += block.count(b"\n")
        start += len(block)


def _split(text: str, start: int) -> Iterable[str]:
    """The lines of a part of a file that begins so many bytes from its start, and ends with a line."""
    lines = text.removeprefix("\ufeff").split("\n") if not start else text.split("\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix("\r") for line in lines) if "\r" in text else lines


def byte_blocks(path: FilePath) -> Iterator[bytes]:
    """Whole lines, as many as come at once: one from a pipe, where the next may take its time, and many from a file,
    which is unpacked ahead of them."""
    if str(path) == "-" or is_plain_pipe(Path(path)):
        return of_text(path, byte_lines(path))
    blocks = of_text(path, whole_lines(byte_pieces(Path(path))))
    return prefetch(blocks, 4) if Path(path).suffix in PACKED else blocks


def of_text(path: FilePath, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same, if it does not begin as something else does."""
    for number, block in enumerate(blocks):
        if number == 0:
            for first, (what, advice) in NO_TEXT.items():
                if block.startswith(first):
                    name = called(path)
                    raise HeadwayError(f"{name} is {what}, and not plain text in UTF-8. {advice}")
        yield block


def is_plain_pipe(path: Path) -> bool:
    return not path.is_file() and path.suffix not in PACKED


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut behind line ends."""
    rest: list[bytes] = []
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*rest, piece[:cut]])
            rest = []
        rest.append(piece[cut:])
    if last := b"".join(rest):
        yield last


def byte_lines(path: FilePath) -> Iterator[bytes]:
    """Iterating over a binary file splits at \\n only, where text in Python can split at other characters too."""
    if str(path) == "-":
        with standard_input() as file:
            yield from typed_lines(file.fileno()) if isinstance(file, io.IOBase) and file.isatty() else file
    elif is_plain_pipe(Path(path)):
        with open(path, "rb") as file:
            yield from file
    else:
        for block in whole_lines(byte_pieces(Path(path))):
            yield from block.splitlines(keepends=True) if b"\r" not in block else io.BytesIO(block)


def typed_lines(terminal: int) -> Iterator[bytes]:
    """What a person types. A Ctrl-C that comes just before read() would be noticed only after the next line, so a pipe
    that signals write to is waited for too."""
    for block in whole_lines(typed_pieces(terminal)):
        yield from io.BytesIO(block)


def typed_pieces(terminal: int) -> Iterator[bytes]:
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    with open(woken, "rb", 0), open(waker, "wb", 0), wakes(waker):
        while True:
            ready, _, _ = select.select([terminal, woken], [], [])
            if woken in ready:
                os.read(woken, PIECE)  # whoever handles the signal has been called by now
            elif piece := os.read(terminal, PIECE):
                yield piece
            else:
                return


@contextmanager
def wakes(waker: int) -> Iterator[None]:
    """Signals write to this pipe. Only the main thread is told of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


def byte_pieces(path: Path) -> Iterator[bytes]:
    """What is in a file, unpacked by its name."""
    try:
        if path.suffix == ".zst":
            yield from unpack_zstandard(path)
            return
        with open_bytes(path) as file:
            while piece := file.read(PIECE):
                yield piece
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError, zlib.error) as error:
        raise HeadwayError(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror or error}") from None


def standard_input() -> AbstractContextManager[Iterable[bytes]]:
    """A reader of its own: Python aborts when it ends while a thread still waits inside `sys.stdin`."""
    try:
        return open(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:  # not a file, as in tests and notebooks
        return nullcontext(sys.stdin.buffer)


def open_bytes(path: Path) -> BinaryIO | gzip.GzipFile | lzma.LZMAFile:
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    return open(path, "rb")


def unpack_zstandard(path: Path) -> Iterator[bytes]:
    """One frame after the other. The library's own reader takes a cut file for a complete one."""
    import zstandard

    frame = zstandard.ZstdDecompressor().decompressobj()
    with path.open("rb") as file:
        while chunk := file.read(1 << 16):
            while chunk:
                if frame.eof:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    yield frame.decompress(chunk)
                except zstandard.ZstdError as error:
                    raise EOFError(str(error)) from None
                chunk = frame.unused_data
    if not frame.eof:
        raise EOFError("the file ends in the middle")
