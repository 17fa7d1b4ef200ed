"""The folder of an index: what is in it, how it is built over hours, and how it is opened.

    DIR/index.json      kind, settings, fingerprint, counts: written last, so that an index that has it is complete
    DIR/building.json   kind and settings while it is built; an interrupted run goes on from what it finds

Each kind of index has files of its own beside them: see headway.retrieval.chunk_index. Two runs never write to one
folder, because each holds a lock on it.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.files.cache import fingerprint

FORMAT_VERSION = 1
ABOUT_FILE = "index.json"
BUILDING_FILE = "building.json"

Table = dict[str, Any]


class IndexAbout(NamedTuple):
    """What index.json says."""

    kind: str
    settings: Table  # everything that the index depends on
    counts: dict[str, int]

    @property
    def fingerprint(self) -> str:
        """Equal for indexes of the same text with the same settings."""
        return fingerprint([self.kind, json.dumps(self.settings, sort_keys=True)])


class IndexBuild:
    """A folder that is being filled."""

    def __init__(self, folder: Path, about: IndexAbout, complete: IndexAbout | None) -> None:
        self.folder = folder
        self.about = about
        self.complete = complete  # the same index, where it was already built

    def finish(self, counts: dict[str, int]) -> None:
        """Everything is written: give the folder its index.json."""
        table = {
            "format_version": FORMAT_VERSION,
            "kind": self.about.kind,
            "fingerprint": self.about.fingerprint,
            "settings": self.about.settings,
            "counts": counts,
        }
        write_text_atomically(self.folder / ABOUT_FILE, json.dumps(table, indent=2, ensure_ascii=False) + "\n")
        (self.folder / BUILDING_FILE).unlink(missing_ok=True)


@contextmanager
def build_index(folder: Path, kind: str, settings: Table, *, overwrite: bool = False) -> Iterator[IndexBuild]:
    """The folder to build an index in, locked. Files of a run with the same settings are kept: it goes on. With other
    settings it is an error, unless they are overwritten."""
    about = IndexAbout(kind, json.loads(json.dumps(settings)), {})
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        complete = None
        if overwrite:
            _remove_index(folder)
        elif (folder / ABOUT_FILE).exists():
            complete = read_about(folder)
            _refuse_changes(folder, complete, about)
        elif (folder / BUILDING_FILE).exists():
            _refuse_changes(folder, _read_building(folder), about)
        elif any(folder.iterdir()):
            raise HeadwayError(f"{folder} is not empty, and holds no index. Choose another --out.")
        if complete is None:
            table = {"kind": kind, "settings": about.settings}
            write_text_atomically(folder / BUILDING_FILE, json.dumps(table, ensure_ascii=False) + "\n")
        yield IndexBuild(folder, about, complete)
    finally:
        os.close(descriptor)


def read_about(folder: Path, kind: str = "") -> IndexAbout:
    """What index.json says; an error, if it is not of this kind."""
    try:
        table = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
        about = IndexAbout(str(table["kind"]), dict(table["settings"]), dict(table["counts"]))
        version = int(table["format_version"])
    except FileNotFoundError:
        unfinished = (folder / BUILDING_FILE).exists()
        what = "is not finished: run headway index again, which goes on" if unfinished else "is not an index: make one"
        raise HeadwayError(f"{folder} {what}. See headway index --help.") from None
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        raise HeadwayError(f"{folder / ABOUT_FILE} is damaged. Build the index again, with --overwrite.") from None
    if version > FORMAT_VERSION:
        raise HeadwayError(
            f"{folder} was written in format {version}, and this Headway reads up to {FORMAT_VERSION}. Install a newer "
            "Headway."
        )
    if kind and about.kind != kind:
        raise HeadwayError(
            f"{folder} is an index of {about.kind}, and this needs one of {kind}. Make it: headway index --kind {kind}"
        )
    return about


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise HeadwayError(
            f"another run is writing to {folder}. Wait until it ends, stop it, or choose another --out."
        ) from None


def _remove_index(folder: Path) -> None:
    """Everything in a folder that holds an index, or a part of one."""
    if not any(folder.iterdir()):
        return
    if not (folder / ABOUT_FILE).exists() and not (folder / BUILDING_FILE).exists():
        raise HeadwayError(f"{folder} holds no index, so that nothing in it is overwritten. Choose another --out.")
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _read_building(folder: Path) -> IndexAbout:
    try:
        table = json.loads((folder / BUILDING_FILE).read_text(encoding="utf-8"))
        return IndexAbout(str(table["kind"]), dict(table["settings"]), {})
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        raise HeadwayError(f"{folder / BUILDING_FILE} is damaged. Start over with --overwrite.") from None


def _refuse_changes(folder: Path, before: IndexAbout, now: IndexAbout) -> None:
    old, new = ({"kind": about.kind, **about.settings} for about in (before, now))
    for name in [*new, *(name for name in old if name not in new)]:
        if old.get(name) != new.get(name):
            raise HeadwayError(
                f"{folder} holds an index with another {name.replace('_', ' ')}: {old.get(name)!r}, not "
                f"{new.get(name)!r}. Choose another --out, or start over with --overwrite."
            )
