"""Read text files as lines: UTF-8, plain or compressed (.gz, .bz2, .xz, .zst), from a file, a pipe or a terminal.

A line ends at \\n and nowhere else, so that line n of two parallel files stays a pair. Only where a text has no \\n but
\\r, as on old Macs, does it end there. A line has at most MAX_LINE_BYTES: a longer one is refused before it is read.
"""

import bz2
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
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from headway.errors import HeadwayError, did_you_mean
from headway.files.prefetch import prefetch

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
READ_BYTES = 1 << 18  # per read
MAX_LINE_BYTES = 1 << 24  # 16 MiB: far longer than a sentence, and what a check of it needs fits into memory
MAX_RUNNING_TEXT_LINE_BYTES = 1 << 29  # for a language model, a corpus may be a single line

DECOMPRESS_ADVICE = "Decompress it first, or rename it to end in {}: it is then decompressed while it is read."
UTF16 = ("in UTF-16", "Convert it first, for example with: iconv -f utf-16 -t utf-8")
BINARY_SIGNATURES = {  # first bytes: what such a file is, and what to do
    codecs.BOM_UTF16_LE: UTF16,
    codecs.BOM_UTF16_BE: UTF16,
    b"PK\x03\x04": ("a zip archive (as .docx and .odt files are)", "Unpack it, or save its text as plain text."),
    b"\x1f\x8b": ("compressed by gzip", DECOMPRESS_ADVICE.format(".gz")),
    b"\xfd7zXZ\x00": ("compressed by xz", DECOMPRESS_ADVICE.format(".xz")),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", DECOMPRESS_ADVICE.format(".zst")),
    b"BZh": ("compressed by bzip2", DECOMPRESS_ADVICE.format(".bz2")),
    b"PAR1": ("a Parquet table", "Rename it to end in .parquet, and give it to --pairs."),
    b"%PDF-": ("a PDF", "Save its text as plain text, for example with: pdftotext"),
}

FilePath = str | os.PathLike[str]


def read_lines(path: FilePath, max_bytes: int = MAX_LINE_BYTES) -> Iterator[str]:
    """The lines of a UTF-8 file, compressed if its suffix is .gz, .bz2, .xz or .zst; "-" is standard input.

    U+2028, \\x0b, \\x85 and a lone \\r do not end a line; the \\r of a Windows line end and a byte order mark are
    dropped; a last line without \\n counts. Raises HeadwayError for a line of more than `max_bytes`."""
    check_readable(path)
    return decode_lines(path, max_bytes)


def read_pairs(source: FilePath, target: FilePath) -> Iterator[tuple[str, str]]:
    """Two files line by line. Raises an error that names both line counts if they turn out to differ."""
    if str(source) == str(target) == "-":
        raise HeadwayError("source and target are both standard input (-): at most one of them can be.")
    return pair_lines(source, read_lines(source), target, read_lines(target))


def pair_lines(
    source: FilePath, source_lines: Iterator[str], target: FilePath, target_lines: Iterator[str]
) -> Iterator[tuple[str, str]]:
    count = 0
    for source_line in source_lines:
        target_line = next(target_lines, None)
        if target_line is None:
            raise line_count_error(source, count + 1 + sum(1 for _ in source_lines), target, count)
        count += 1
        yield source_line, target_line
    extra = sum(1 for _ in target_lines)
    if extra:
        raise line_count_error(source, count, target, count + extra)


def line_count_error(source: FilePath, source_count: int, target: FilePath, target_count: int) -> HeadwayError:
    return HeadwayError(
        f"{source} has {source_count:,} lines and {target} has {target_count:,}: line n of the one must be the "
        "translation of line n of the other."
    )


def check_readable(path: FilePath) -> None:
    """Raise an error if this is no path of a file, before anything is read."""
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


def format_path(path: FilePath) -> str:
    """The path as error messages name it."""
    return "standard input" if str(path) == "-" else str(path)


def decode_lines(path: FilePath, max_bytes: int = MAX_LINE_BYTES) -> Iterator[str]:
    """Decode a file block by block where possible: line by line, decoding would take most of the time."""
    line_count = 0  # before the block
    offset = 0  # of the block, in bytes
    for block in read_blocks(path, max_bytes):
        try:
            lines = _split_block(block.decode("utf-8"), offset)
        except UnicodeDecodeError as error:
            valid = block[: block.rfind(b"\n", 0, error.start) + 1]
            yield from _split_block(valid.decode("utf-8"), offset)
            line = line_count + valid.count(b"\n") + 1
            byte = f"byte 0x{block[error.start]:02x} at offset {offset + error.start}"
            raise HeadwayError(
                f"{format_path(path)}, line {line}: {byte} is not UTF-8. Convert it first, for example with: "
                "iconv -f latin1 -t utf-8"
            ) from None
        yield from lines
        line_count += block.count(b"\n")
        offset += len(block)


def _split_block(text: str, offset: int) -> Iterable[str]:
    """The lines of a block of complete lines that begins at this offset in the file."""
    lines = text.split("\n") if offset else text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return (line.removesuffix("\r") for line in lines) if "\r" in text else lines


def read_blocks(path: FilePath, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Blocks of complete lines: single lines from a pipe, where the next may take long to come; many at once from a
    file. Compressed files are decompressed ahead in a thread (prefetch)."""
    if str(path) == "-" or is_plain_pipe(Path(path)):
        return refuse_binary(path, read_byte_lines(path, max_bytes))
    blocks = refuse_binary(path, cut_at_line_ends(unify_line_ends(path, read_chunks(Path(path))), path, max_bytes))
    return prefetch(blocks, 4) if Path(path).suffix in COMPRESSED_SUFFIXES else blocks


def refuse_binary(path: FilePath, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same blocks, or an error if the first begins like a file of another type."""
    for number, block in enumerate(blocks):
        if number == 0:
            for signature, (what, advice) in BINARY_SIGNATURES.items():
                if block.startswith(signature):
                    raise HeadwayError(f"{format_path(path)} is {what}, not UTF-8 text. {advice}")
        yield block


def is_plain_pipe(path: Path) -> bool:
    return not path.is_file() and path.suffix not in COMPRESSED_SUFFIXES


def cut_at_line_ends(chunks: Iterable[bytes], path: FilePath = "-", max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The same bytes in blocks that end with a line end."""
    rest: list[bytes] = []
    size = 0  # of the rest
    lines = 0  # before it
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut:
            block = b"".join([*rest, chunk[:cut]])
            yield block
            lines += block.count(b"\n")
            rest = []
            size = 0
        rest.append(chunk[cut:])
        size += len(chunk) - cut
        if size > max_bytes:
            raise line_length_error(path, lines + 1, max_bytes)
    if last := b"".join(rest):
        yield last


def line_length_error(path: FilePath, line: int, max_bytes: int) -> HeadwayError:
    return HeadwayError(
        f"{format_path(path)}, line {line:,} is longer than {max_bytes >> 20} MiB, the most that a line may have. Is "
        "it text, with line ends? Break the line first, for example with: fold -s -w 2000"
    )


def unify_line_ends(path: FilePath, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, with \\n for \\r where a text has no other line ends."""
    stream = iter(chunks)
    head = b""
    complete = False  # the head is all
    while b"\n" not in head and len(head) < READ_BYTES and not complete:
        chunk = next(stream, None)
        complete = chunk is None
        head += chunk or b""
    if b"\n" in head or b"\r" not in (head if complete else head[:-1]):  # a chunk may end between \r and \n
        yield head
        yield from stream
        return
    for chunk in chain([head], stream):
        if b"\n" in chunk:
            raise HeadwayError(
                f"{format_path(path)}: lines end in \\r at first and in \\n later on, so they cannot be counted. Unify "
                "them first, for example with: sed 's/\\r\\n*/\\n/g'"
            )
        yield chunk.replace(b"\r", b"\n")


def read_byte_lines(path: FilePath, max_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """The lines as bytes. Iterating over a binary file splits at \\n only; str.splitlines splits elsewhere, too."""
    if str(path) == "-":
        with open_standard_input() as file:
            is_terminal = isinstance(file, io.IOBase) and file.isatty()
            yield from read_terminal_lines(file.fileno()) if is_terminal else read_pipe_lines(file, path, max_bytes)
    elif is_plain_pipe(Path(path)):
        with open(path, "rb") as file:
            yield from read_pipe_lines(file, path, max_bytes)
    else:
        for block in cut_at_line_ends(unify_line_ends(path, read_chunks(Path(path))), path, max_bytes):
            yield from block.splitlines(keepends=True) if b"\r" not in block else io.BytesIO(block)


def read_pipe_lines(file: BinaryIO, path: FilePath, max_bytes: int) -> Iterator[bytes]:
    """Each line as soon as it has come."""
    number = 0
    while line := file.readline(max_bytes + 1):
        number += 1
        if len(line) > max_bytes:
            raise line_length_error(path, number, max_bytes)
        if number == 1 and b"\r" in line and not line.endswith(b"\n"):  # all there is: lines of an old Mac
            line = line.replace(b"\r", b"\n")
            yield from io.BytesIO(line)
        else:
            yield line


def read_terminal_lines(terminal: int) -> Iterator[bytes]:
    """Lines typed at a terminal. A Ctrl-C just before read() would be noticed only after the next line, so this also
    waits on a pipe that signals write to."""
    for block in cut_at_line_ends(read_terminal_chunks(terminal)):
        yield from io.BytesIO(block)


def read_terminal_chunks(terminal: int) -> Iterator[bytes]:
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    with open(wakeup_read, "rb", 0), open(wakeup_write, "wb", 0), wake_on_signals(wakeup_write):
        while True:
            ready, _, _ = select.select([terminal, wakeup_read], [], [])
            if wakeup_read in ready:
                os.read(wakeup_read, READ_BYTES)  # the signal handler has run by now
            elif chunk := os.read(terminal, READ_BYTES):
                yield chunk
            else:
                return


@contextmanager
def wake_on_signals(wakeup_write: int) -> Iterator[None]:
    """Have signals write to this pipe; only the main thread receives any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


def read_chunks(path: Path) -> Iterator[bytes]:
    """A file's bytes, decompressed by its suffix."""
    try:
        if path.suffix == ".zst":
            yield from decompress_zstandard(path)
            return
        with open_bytes(path) as file:
            while chunk := file.read(READ_BYTES):
                yield chunk
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError, zlib.error) as error:
        raise HeadwayError(f"{path} cannot be decompressed: {error}") from None
    except OSError as error:
        if path.suffix == ".bz2" and error.errno is None:  # damaged, rather than unreadable
            raise HeadwayError(f"{path} cannot be decompressed: {error}") from None
        raise HeadwayError(f"{path} cannot be read: {error.strerror or error}") from None


def open_standard_input() -> AbstractContextManager[BinaryIO]:
    """A separate reader: Python aborts on exit while a thread still waits inside `sys.stdin`."""
    try:
        return open(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:  # not a file, as in tests and notebooks
        return nullcontext(sys.stdin.buffer)


def open_bytes(path: Path) -> BinaryIO | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix == ".bz2":
        return bz2.open(path)
    if path.suffix == ".xz":
        return lzma.open(path)
    return open(path, "rb")


def decompress_zstandard(path: Path) -> Iterator[bytes]:
    """Decompress frame by frame: the library's own reader takes a truncated file for a complete one."""
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
