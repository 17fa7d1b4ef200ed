"""Which files an index is made of: those that were named, and those in folders."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from headway.documents.files import available_suffixes, document_type
from headway.errors import HeadwayError
from headway.files.text_files import check_readable

MAX_FILES = 1_000_000


class DocumentFile(NamedTuple):
    path: Path
    name: str  # as answers cite it: relative to the root
    size: int
    modified: int  # nanoseconds
    named: bool  # whether it was given itself, and not found in a folder


def find_documents(paths: Sequence[str | os.PathLike[str]]) -> list[DocumentFile]:
    """The files, and of folders all documents in them and below, in the order of their names; hidden ones are left
    out."""
    found: dict[Path, bool] = {}
    suffixes = tuple(available_suffixes())
    for path in map(Path, paths):
        if path.is_dir():
            for inner in walk_folder(path, suffixes):
                found.setdefault(inner, False)
        else:
            document_type(path.name)
            check_readable(path)
            found[path] = True
        if len(found) > MAX_FILES:
            raise HeadwayError(f"these are more than {MAX_FILES:,} files, the limit for an index. Make several.")
    if not found:
        raise HeadwayError(f"no documents found: give files or folders with {', '.join(suffixes)}.")
    root = find_root(list(found))
    return [describe_file(path, root, named) for path, named in found.items()]


def find_root(paths: Sequence[Path]) -> str:
    """The folder around the one that all have in common, so that names say which that is."""
    return os.path.dirname(os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths]))


def walk_folder(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    found: list[Path] = []
    for place, folders, files in os.walk(folder):  # links to folders are not followed: they may lead in circles
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = sorted(name for name in files if not name.startswith(".") and name.lower().endswith(suffixes))
        found += [path for name in names if (path := Path(place, name)).is_file()]
    return found


def describe_file(path: Path, root: str, named: bool) -> DocumentFile:
    about = path.stat()
    name = os.path.relpath(os.path.abspath(path), root)
    return DocumentFile(path, name, about.st_size, about.st_mtime_ns, named)
