"""Translate a document file; dispatch by suffix."""

import os
import tempfile
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from headway.documents.limits import DocumentLimits, apply_limits, format_bytes
from headway.documents.segments import DocumentCounts, SegmentRequest, SegmentResult, TranslateSegments
from headway.documents.target_language import use_target_language
from headway.errors import HeadwayError

# The module for each suffix; its translate_bytes(data, name, translate) returns the new bytes and the counts.
FORMAT_MODULES = {
    ".txt": "headway.documents.txt",
    ".html": "headway.documents.html",
    ".htm": "headway.documents.html",
    ".md": "headway.documents.markdown",
    ".srt": "headway.documents.srt",
    ".vtt": "headway.documents.vtt",
    ".po": "headway.documents.po",
    ".json": "headway.documents.json_values",
    ".xliff": "headway.documents.xliff",
    ".xlf": "headway.documents.xliff",
    ".tmx": "headway.documents.tmx",
    ".docx": "headway.documents.docx",
    ".odt": "headway.documents.odt",
    ".odp": "headway.documents.odt",
    ".pptx": "headway.documents.pptx",
    ".xlsx": "headway.documents.xlsx",
    ".epub": "headway.documents.epub",
    ".pdf": "headway.documents.pdf",
}
OUTPUT_SUFFIXES = {".pdf": ".txt"}  # of formats whose translation is a file of another type
REQUIRED_PACKAGES = {".pdf": "pypdf"}  # of extras
MAX_SAMPLE_CHARS = 5000  # enough to detect a language by


def document_type(name: str) -> str:
    """The suffix, such as .docx for report.DOCX; unsupported ones are refused."""
    suffix = Path(name).suffix.lower()
    if suffix not in FORMAT_MODULES:
        given = f"{suffix} files are" if suffix else "a file without a suffix is"
        raise HeadwayError(f"{name}: {given} not supported. Supported: {', '.join(FORMAT_MODULES)}.")
    return suffix


def output_suffix(name: str) -> str:
    """The suffix of a document's translation: its own, but for .pdf, of which only the text is translated."""
    suffix = document_type(name)
    return OUTPUT_SUFFIXES.get(suffix, suffix)


def available_suffixes() -> list[str]:
    """Of documents that can be translated here: those for which a package is missing are left out."""
    return [suffix for suffix in FORMAT_MODULES if _is_installed(REQUIRED_PACKAGES.get(suffix, ""))]


def _is_installed(package: str) -> bool:
    return not package or find_spec(package) is not None


def translate_file(
    path_in: str | os.PathLike[str],
    path_out: str | os.PathLike[str],
    translate: TranslateSegments,
    name: str | None = None,
    limits: DocumentLimits | None = None,
    language: str = "",
) -> DocumentCounts:
    """Translate a document. The output is written atomically.

    name: the file's name for messages and for its type, if it is stored under another one
    language: of the translation, for formats that name it"""
    limits = limits or DocumentLimits()
    name = name or os.fspath(path_in)
    module = import_module(FORMAT_MODULES[document_type(name)])
    with apply_limits(limits), use_target_language(language):
        data, counts = module.translate_bytes(read_document(Path(path_in), name, limits.file_bytes), name, translate)
    write_document(Path(path_out), data)
    assert isinstance(counts, DocumentCounts)
    return counts


def sample_text(path: str | os.PathLike[str], name: str | None = None, limits: DocumentLimits | None = None) -> str:
    """The beginning of a document's translatable text, to detect its language by."""
    limits = limits or DocumentLimits()
    name = name or os.fspath(path)
    module = import_module(FORMAT_MODULES[document_type(name)])
    try:
        with apply_limits(limits):
            module.translate_bytes(read_document(Path(path), name, limits.file_bytes), name, _collect_text)
    except TextCollected as collected:
        return str(collected)[:MAX_SAMPLE_CHARS]
    return ""


class TextCollected(Exception):
    """Raised instead of translating: carries the text of a document."""


def _collect_text(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
    raise TextCollected(" ".join(request.text for request in requests))


def read_document(path: Path, name: str, max_bytes: int) -> bytes:
    from headway.files.text_files import check_readable

    check_readable(path)
    if path.stat().st_size > max_bytes:
        raise HeadwayError(
            f"{name} is larger than {format_bytes(max_bytes)}, the limit for documents. Split it into smaller files."
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
