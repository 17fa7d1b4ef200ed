"""Text files as lines. A line ends at \\n and nowhere else, so that two files of a pair stay side by side."""

import gzip
import io
import lzma
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from headway.errors import HeadwayError, did_you_mean

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


def decoded_lines(path: FilePath) -> Iterator[str]:
    start = 0
    for number, line in enumerate(byte_lines(path), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise HeadwayError(
                f"{path}, line {number}: byte 0x{line[error.start]:02x} at offset {start + error.start} is not "
                "UTF-8. Convert the file first, for example with: iconv -f latin1 -t utf-8"
            ) from None
        start += len(line)
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")


def byte_lines(path: FilePath) -> Iterator[bytes]:
    """Iterating over a binary file splits at \\n only, where text in Python can split at other characters too."""
    if str(path) == "-":
        with standard_input() as file:
            yield from file
        return
    path = Path(path)
    try:
        if path.suffix == ".zst":
            yield from split_lines(unpack_zstandard(path))
        else:
            with open_bytes(path) as file:
                yield from file
    except (gzip.BadGzipFile, lzma.LZMAError, EOFError) as error:
        raise HeadwayError(f"{path} cannot be unpacked: {error}") from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror or error}") from None


def standard_input() -> AbstractContextManager[Iterable[bytes]]:
    """A reader of its own: Python aborts when it ends while a thread still waits inside `sys.stdin`."""
    try:
        return open(os.dup(sys.stdin.fileno()), "rb")
    except io.UnsupportedOperation:  # not a file, as in tests and notebooks
        return nullcontext(sys.stdin.buffer)


def open_bytes(path: Path) -> AbstractContextManager[Iterable[bytes]]:
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


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
