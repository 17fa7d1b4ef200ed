"""Translate a document file into a file of the same type; dispatch by suffix."""

import os
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from headway.documents.segments import DocumentCounts, SegmentRequest, SegmentResult, TranslateSegments
from headway.errors import HeadwayError

# The module for each suffix; its translate_bytes(data, name, translate) returns the new bytes and the counts.
FORMAT_MODULES = {
    ".txt": "headway.documents.txt",
    ".html": "headway.documents.html",
    ".htm": "headway.documents.html",
    ".srt": "headway.documents.srt",
    ".po": "headway.documents.po",
    ".docx": "headway.documents.docx",
    ".odt": "headway.documents.odt",
}
MAX_DOCUMENT_BYTES = 256 << 20
MAX_SAMPLE_CHARS = 5000  # enough to detect a language by


def document_type(name: str) -> str:
    """The suffix, such as .docx for report.DOCX; unsupported ones are refused."""
    suffix = Path(name).suffix.lower()
    if suffix not in FORMAT_MODULES:
        given = f"{suffix} files are" if suffix else "a file without a suffix is"
        raise HeadwayError(f"{name}: {given} not supported. Supported: {', '.join(FORMAT_MODULES)}.")
    return suffix


def translate_file(
    path_in: str | os.PathLike[str],
    path_out: str | os.PathLike[str],
    translate: TranslateSegments,
    name: str | None = None,
) -> DocumentCounts:
    """Translate a document. The output is written atomically.

    name: the file's name for messages and for its type, if it is stored under another one."""
    name = name or os.fspath(path_in)
    module = import_module(FORMAT_MODULES[document_type(name)])
    data, counts = module.translate_bytes(read_document(Path(path_in), name), name, translate)
    write_document(Path(path_out), data)
    assert isinstance(counts, DocumentCounts)
    return counts


def sample_text(path: str | os.PathLike[str], name: str | None = None) -> str:
    """The beginning of a document's translatable text, to detect its language by."""
    name = name or os.fspath(path)
    module = import_module(FORMAT_MODULES[document_type(name)])
    try:
        module.translate_bytes(read_document(Path(path), name), name, _collect_text)
    except TextCollected as collected:
        return str(collected)[:MAX_SAMPLE_CHARS]
    return ""


class TextCollected(Exception):
    """Raised instead of translating: carries the text of a document."""


def _collect_text(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
    raise TextCollected(" ".join(request.text for request in requests))


def read_document(path: Path, name: str) -> bytes:
    from headway.files.text_files import check_readable

    check_readable(path)
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise HeadwayError(
            f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MiB, the limit for documents. Split it into smaller "
            "files."
        )
    return path.read_bytes()


def write_document(path: Path, data: bytes) -> None:
    """Write atomically: to a temporary file first, then rename. A symbolic link is kept, and its target is written."""
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        path.write_bytes(data)
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    except OSError as error:
        raise HeadwayError(f"{path} cannot be written: {error.strerror or error}") from None
    try:
        with open(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
