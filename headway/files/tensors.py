"""Read safetensors files, whatever their names."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def open_tensors(path: Path, framework: str) -> Iterator[Any]:
    """As safetensors.safe_open, which takes only names in UTF-8: other files are opened by their descriptor."""
    from safetensors import safe_open

    handle = None
    name = os.fspath(path)
    if not is_utf8(path):
        handle = os.open(path, os.O_RDONLY)
        name = f"/dev/fd/{handle}"
    try:
        with safe_open(name, framework=framework) as file:
            yield file
    finally:
        if handle is not None:
            os.close(handle)


def is_utf8(path: Path) -> bool:
    """Whether the bytes of a file name are UTF-8."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True
