"""Writing what remains of a corpus when its faults are left out."""

import contextlib
import gzip
import io
import lzma
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from headway.data.check.raw_lines import decoded, groups
from headway.data.check.report import Report
from headway.data.parallel_files import TABLES, ParallelFiles, unpacked
from headway.errors import ConfigError
from headway.files.text_files import PACKED


def refuse_output(out: Path, inputs: Sequence[ParallelFiles]) -> None:
    """What would make the writing fail, or destroy what is read, before the work begins."""
    if Path(unpacked(out.name)).suffix.lower() not in TABLES:
        raise ConfigError(
            f"--clean {out}: a table is written, so the name must end in {' or '.join(TABLES)}, with or without "
            f"{', '.join(PACKED)}."
        )
    if out.is_dir():
        raise ConfigError(f"--clean {out}: this is a folder. Name a file.")
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--clean {out}: the folder {out.parent} does not exist.")
    for path in (path for files in inputs for path in files.paths):
        if out.exists() and Path(path).exists() and out.samefile(path):
            raise ConfigError(f"--clean {out}: this file is being checked, and is never written over. Name another.")


def write_clean(report: Report, out: Path, keep: Sequence[str] = ()) -> int:
    """All pairs without faults, source and target with a tab between them; returns how many."""
    clean = report.clean(keep)
    number = 0
    with written(out) as file:
        for group in groups(report.corpora):
            pairs = decoded(report.corpora[group.corpus], group.first, group.lines)
            for source, target in zip(pairs.source, pairs.target):
                if clean[number]:
                    both = "\t".join(side.replace("\t", " ") for side in (source, target))
                    file.write(f"{both}\n".encode())
                number += 1
    return int(clean.sum())


@contextlib.contextmanager
def written(out: Path) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is complete; packed as its name says."""
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            with packing(file, out.suffix) as packed:
                yield packed
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def packing(file: IO[bytes], ending: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    if ending == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename=""))
    if ending == ".xz":
        return cast(IO[bytes], lzma.LZMAFile(file, "wb", preset=2))
    if ending == ".zst":
        import zstandard

        writer = zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False)
        return cast(IO[bytes], io.BufferedWriter(writer, 1 << 16))
    return contextlib.nullcontext(file)
