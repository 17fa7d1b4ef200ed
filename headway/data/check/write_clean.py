"""Write the pairs of a corpus without faults, to a TSV file."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from headway.data.check.raw_lines import decode_pairs, read_groups
from headway.data.check.report import CheckReport
from headway.data.parallel_files import TSV_SUFFIXES, ParallelFiles, strip_compression
from headway.errors import ConfigError
from headway.files.text_files import COMPRESSED_SUFFIXES


def check_output(out: Path, inputs: Sequence[ParallelFiles]) -> None:
    """Raise ConfigError if the output cannot be written, or would overwrite an input, before the work begins."""
    if Path(strip_compression(out.name)).suffix.lower() not in TSV_SUFFIXES:
        raise ConfigError(
            f"--clean {out}: the file is a table, so its name must end in {' or '.join(TSV_SUFFIXES)}, optionally "
            f"followed by {', '.join(COMPRESSED_SUFFIXES)}."
        )
    if out.is_dir():
        raise ConfigError(f"--clean {out}: this is a folder. Give a file.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--clean {out}: the folder {out.parent} does not exist.")
    for path in (path for files in inputs for path in files.paths):
        if out.exists() and Path(path).exists() and out.samefile(path):
            raise ConfigError(f"--clean {out}: this file is being checked and is never overwritten. Give another one.")


def write_clean(report: CheckReport, out: Path, keep: Sequence[str] = ()) -> int:
    """Write all pairs without faults, source and target separated by a tab. Returns their number."""
    clean = report.clean(keep)
    number = 0
    with open_atomic(out) as file:
        for group in read_groups(report.corpora):
            pairs = decode_pairs(report.corpora[group.corpus], group.first, group.lines)
            for source, target in zip(pairs.source, pairs.target):
                if clean[number]:
                    both = "\t".join(side.replace("\t", " ") for side in (source, target))
                    file.write(f"{both}\n".encode())
                number += 1
    return int(clean.sum())


@contextlib.contextmanager
def open_atomic(out: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete; compressed by its suffix."""
    partial = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with partial.open("wb") as file:
            with open_compressor(file, out.suffix) as packed:
                yield packed
            file.flush()
            os.fsync(file.fileno())
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)


def open_compressor(file: IO[bytes], suffix: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    if suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename=""))
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.BZ2File(file, "wb"))
    if suffix == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(file, "wb", preset=2))
    if suffix == ".zst":
        import zstandard

        writer = zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False)
        return cast(IO[bytes], io.BufferedWriter(writer, 1 << 16))
    return contextlib.nullcontext(file)
