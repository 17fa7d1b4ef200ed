"""A file in, a file of the same type out."""

import os
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from headway.documents.segments import Asked, Counts, Said, Translate
from headway.errors import HeadwayError

# The module that knows each type: its translate_bytes(data, name, translate) gives the new bytes and the counts.
KNOWN = {
    ".txt": "headway.documents.txt",
    ".html": "headway.documents.html",
    ".htm": "headway.documents.html",
    ".srt": "headway.documents.srt",
    ".po": "headway.documents.po",
    ".docx": "headway.documents.docx",
    ".odt": "headway.documents.odt",
}
MOST_BYTES = 256 << 20
TELLING = 5000  # characters, by which a language is told


def type_of(name: str) -> str:
    """ ".docx" of report.DOCX. What is not known is refused."""
    ending = Path(name).suffix.lower()
    if ending not in KNOWN:
        given = f"{ending} files are" if ending else "a file without an ending is"
        raise HeadwayError(f"{name}: {given} not known here. Known: {', '.join(KNOWN)}.")
    return ending


def translate_file(
    path_in: str | os.PathLike[str], path_out: str | os.PathLike[str], translate: Translate, name: str | None = None
) -> Counts:
    """Translate a document. What is written is there as a whole or not at all.

    name: what its owner calls the file, if it lies here under another name; its ending is the type."""
    shown = name or os.fspath(path_in)
    module = import_module(KNOWN[type_of(shown)])
    data, counts = module.translate_bytes(read(Path(path_in), shown), shown, translate)
    write(Path(path_out), data)
    assert isinstance(counts, Counts)
    return counts


def beginning(path: str | os.PathLike[str], name: str | None = None) -> str:
    """Of what there is to translate in a document: enough to tell its language by."""
    shown = name or os.fspath(path)
    module = import_module(KNOWN[type_of(shown)])
    try:
        module.translate_bytes(read(Path(path), shown), shown, _listen)
    except Heard as heard:
        return str(heard)[:TELLING]
    return ""


class Heard(Exception):
    """The text of a document: nothing more is wanted of it now."""


def _listen(asked: Sequence[Asked]) -> list[Said]:
    raise Heard(" ".join(one.text for one in asked))


def read(path: Path, name: str) -> bytes:
    from headway.files.text_files import check_readable

    check_readable(path)
    if path.stat().st_size > MOST_BYTES:
        raise HeadwayError(
            f"{name} has more than {MOST_BYTES >> 20} MiB: that is no document. Cut it into smaller files."
        )
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    """Under another name first, so that nobody meets half a document. A link stays one: what it leads to is written."""
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file():  # a pipe, or /dev/stdout
        path.write_bytes(data)
        return
    try:
        handle, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:50]}.")
    except OSError as error:
        raise HeadwayError(f"{path} cannot be written: {error.strerror or error}") from None
    try:
        with open(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise
