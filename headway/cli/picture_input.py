"""Pictures on the command line: files, folders, and lists of paths; labels printed line by line."""

import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.terminal import log
from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.data.labelled_files import LabelledData
    from headway.translate.picture_model import PictureModel
    from headway.translate.task_model import Prediction

PICTURES_PER_GROUP = 256


def list_paths(given: tuple[str, ...], input_file: str | None) -> Iterator[str]:
    """The pictures of the folders and files given, or the paths in a file, one a line."""
    from headway.data.pictures.files import find_pictures
    from headway.files.text_files import read_lines

    names = list(given) if given and given != ("-",) else [line for line in read_lines(input_file or "-") if line]
    for name in names:
        if not Path(name).is_dir():
            yield name
            continue
        found = list(map(str, find_pictures(Path(name))))
        if not found:
            raise HeadwayError(f"the folder {name} holds no pictures. Give another one, or files.")
        yield from found


def print_predictions(model: "PictureModel", paths: Iterator[str], top_k: int, as_json: bool) -> None:
    """Path, label and probability of each picture, as they are found; a path alone where it cannot be read, and in the
    end an error."""
    from headway.data.pictures.files import PictureError, import_pillow, read_picture

    import_pillow()
    total = unreadable = 0
    while group := list(islice(paths, PICTURES_PER_GROUP)):
        images = {}
        for path in group:
            try:
                images[path] = read_picture(path)
            except PictureError as error:
                unreadable += 1
                log(str(error), "warning")
        found = dict(zip(images, model.predict(list(images.values()), top_k)))
        total += len(group)
        for path in group:
            click.echo(format_prediction(path, found.get(path), as_json))
    if unreadable:
        raise HeadwayError(f"{unreadable:,} of {total:,} pictures could not be read: see above.")


def format_prediction(path: str, found: "Prediction | None", as_json: bool) -> str:
    labels = found.labels if found is not None else ()
    if as_json:
        table = {"picture": path, "labels": [label._asdict() for label in labels]}
        return json.dumps(table if found is not None else {**table, "error": "it cannot be read"}, ensure_ascii=False)
    return "\t".join([path, *(f"{label}\t{probability:.4f}" for label, probability in labels)])


def read_pictures_to_evaluate(paths: tuple[str, ...]) -> "LabelledData":
    """Labelled pictures, with a warning of what was left out."""
    from headway.data.pictures.labelled import read_labelled_pictures

    data, report = read_labelled_pictures([os.fspath(path) for path in paths])
    for message in report.messages:
        log(message, "warning")
    return data
