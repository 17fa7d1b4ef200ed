"""Labelled pictures: a folder with a folder for each label, a TSV of paths and labels, or rows in memory.

What cannot be read as a picture is left out, counted and named; everything else is read once here, so that training
meets no surprises."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.data.labelled_files import LabelledData, LabelledExample, PictureFile
from headway.data.pictures.files import PictureError, find_pictures, hash_picture, import_pillow, read_picture
from headway.errors import HeadwayError
from headway.files.text_files import format_path, read_lines

MAX_NAMED = 3  # of the files that were left out
PICTURES_PER_GROUP = 256  # that are checked at once
WORKERS = min(8, os.cpu_count() or 1)
COLUMN_NAMES = ("path", "picture", "image", "file")


class PictureCandidate(NamedTuple):
    """Something that may be a picture."""

    source: str | np.ndarray  # a path, or pixels
    name: str
    label: str


@dataclass
class PictureReport:
    """What was left out."""

    unreadable: list[str] = field(default_factory=list)  # a message each
    others: int = 0  # files that are not called like pictures
    unlabelled: int = 0  # pictures beside the folders of labels

    @property
    def messages(self) -> list[str]:
        found = []
        if self.unreadable:
            more = ", …" * (len(self.unreadable) > MAX_NAMED)
            named = "; ".join(message.rstrip(".") for message in self.unreadable[:MAX_NAMED])
            found.append(f"{len(self.unreadable):,} pictures could not be read and were left out: {named}{more}")
        if self.unlabelled:
            found.append(
                f"{self.unlabelled:,} pictures were left out: they lie beside the folders of labels, and have none"
            )
        if self.others:
            found.append(f"{self.others:,} files that are not called like pictures were left out")
        return found


def read_labelled_pictures(paths: Sequence[str]) -> tuple[LabelledData, PictureReport]:
    """Of folders and TSV files, in order."""
    import_pillow()
    report = PictureReport()
    candidates = [found for path in paths for found in _list_candidates(path, report)]
    data = check_pictures(candidates, report)
    if not data.examples:
        names = " and ".join(map(format_path, paths))
        told = f" {'. '.join(report.messages)}." if report.messages else ""
        raise HeadwayError(
            f"{names}: there is no picture with a label.{told} Give a folder with a folder for each label, or a TSV of "
            "path and label."
        )
    return data, report


def collect_pictures(rows: Iterable[Any], name: str = "data") -> LabelledData:
    """The same of rows in memory: (picture, label), where a picture is a path, an array, or an image of Pillow. Here
    every picture must be readable."""
    import_pillow()
    candidates = []
    for number, row in enumerate(rows):
        where = f"{name}[{number}]"
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise HeadwayError(f"{where} is a {type(row).__name__}: give tuples of a picture and its label.")
        picture, label = row
        if not str(label).strip():
            raise HeadwayError(f"{where}: the label is empty. Give every picture a label.")
        source = os.fspath(picture) if isinstance(picture, str | os.PathLike) else np.asarray(read_picture(picture))
        candidates.append(
            PictureCandidate(source, where if isinstance(source, np.ndarray) else source, str(label).strip())
        )
    report = PictureReport()
    data = check_pictures(candidates, report)
    if report.unreadable:
        raise HeadwayError(f"{name}: {report.unreadable[0]}")
    if not data.examples:
        raise HeadwayError(f"{name} holds no picture. Give tuples of a picture and its label.")
    return data


def is_picture_row(row: Any) -> bool:
    """Whether this row of (picture, label) begins with a picture: an array, an image, or a pathlib.Path. A string is a
    text."""
    first = row[0] if isinstance(row, list | tuple) and row else None
    return isinstance(first, np.ndarray | Path) or type(first).__module__.startswith("PIL.")


def check_pictures(candidates: Sequence[PictureCandidate], report: PictureReport) -> LabelledData:
    """Those that can be read, in order; the others go into the report."""
    examples = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for start in range(0, len(candidates), PICTURES_PER_GROUP):
            group = candidates[start : start + PICTURES_PER_GROUP]
            for candidate, found in zip(group, pool.map(_check, group)):
                if isinstance(found, PictureFile):
                    examples.append(LabelledExample((candidate.name,), (candidate.label,), picture=found))
                else:
                    report.unreadable.append(found)
    return LabelledData("classify", examples)


def _check(candidate: PictureCandidate) -> PictureFile | str:
    """The picture, or why it cannot be read."""
    try:
        image = read_picture(candidate.source)
        return PictureFile(candidate.source, hash_picture(candidate.source), image.size, image.mode == "L")
    except PictureError as error:
        return str(error)


def _list_candidates(path: str, report: PictureReport) -> Iterator[PictureCandidate]:
    if not Path(path).exists():
        raise HeadwayError(f"there is no folder or file {format_path(path)}.")
    yield from _list_folder(Path(path), report) if Path(path).is_dir() else _list_table(path)


def _list_folder(folder: Path, report: PictureReport) -> Iterator[PictureCandidate]:
    """The label of a picture is the first folder below this one that it lies in."""
    found = 0
    for file in find_pictures(folder):
        found += 1
        parts = file.relative_to(folder).parts
        if len(parts) == 1:
            report.unlabelled += 1
        else:
            yield PictureCandidate(str(file), str(file), parts[0])
    every = (path for path in folder.rglob("*") if path.is_file())
    visible = sum(not any(part.startswith(".") for part in path.relative_to(folder).parts) for path in every)
    report.others += visible - found


def _list_table(path: str) -> Iterator[PictureCandidate]:
    """Paths are relative to the folder of the table."""
    folder = Path(path).parent
    for number, line in enumerate(read_lines(path), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not line.strip() or (number == 1 and cells[0].lower() in COLUMN_NAMES):
            continue
        if len(cells) != 2 or not all(cells):
            raise HeadwayError(
                f"{format_path(path)}, line {number}: give the path of a picture and its label, separated by one tab."
            )
        file = str(folder / cells[0])
        yield PictureCandidate(file, file, cells[1])
