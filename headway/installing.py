"""Putting models among the user's own, and taking them away again."""

import os
import re
import shutil
from pathlib import Path

from headway.errors import ConfigError, HeadwayError
from headway.installed import Installed, installed, listed, own_folder
from headway.outline import read_outline

NAME = re.compile(r"\w[\w.-]*")
NEEDED = ("config.json", "model.safetensors", "tokenizer.json")


def add(given: str | Path, name: str = "") -> Installed:
    """Copy a model directory, without its checkpoints: it works on when the original is moved, changed or deleted."""
    source = Path(given)
    name = name or source.resolve().name
    if not NAME.fullmatch(name):
        raise ConfigError(f'"{name}" cannot be the name of a model. Use letters, digits, - and _: --name my-model')
    missing = [file for file in NEEDED if not (source / file).is_file()]
    if missing:
        raise HeadwayError(f"{source} is not a complete model directory: it has no {missing[0]}.")
    read = read_outline(source)
    if read is None:
        raise HeadwayError(f"{source / 'config.json'} is not one that this Headway reads. Copy it anew.")
    target = own_folder() / name
    if os.path.lexists(target):
        raise HeadwayError(
            f'there is a model "{name}" already: {target}. Choose another --name, or first: headway models remove {name}'
        )
    _copy(source, target)
    return Installed(name, target, False, read[0])


def _copy(source: Path, target: Path) -> None:
    """All of it or nothing."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        for file in source.iterdir():
            if file.is_file() and not file.name.startswith("."):
                shutil.copyfile(file, partial / file.name)
        partial.rename(target)
    except OSError as error:
        raise HeadwayError(
            f"{target} cannot be written: {error.strerror or error}. Make room, or name another folder in the "
            "environment variable HEADWAY_MODELS."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove(name: str) -> Path:
    """Delete the copy that `add` made; of a link, the link."""
    found = installed().get(name)
    folder = own_folder() / name
    if found is not None and found.bundled:
        raise HeadwayError(f"{name} belongs to the package, and stays. Your own models lie in {own_folder()}.")
    if not NAME.fullmatch(name) or not os.path.lexists(folder):
        own = {one.name: one for one in installed().values() if not one.bundled}
        raise HeadwayError(f'you have no model "{name}" in {own_folder()}. {listed(own)}')
    if folder.is_symlink():
        folder.unlink()
    elif (folder / "checkpoints").exists():
        raise HeadwayError(f"{folder} holds a training, of which no other copy may exist. Delete it yourself.")
    else:
        shutil.rmtree(folder)
    return folder
