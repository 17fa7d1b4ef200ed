"""Atomic writes: a file or directory appears under its name only when it is complete.

It is written beside its destination as `.NAME.partial` and renamed at the end. If anything fails before that, the
partial one is deleted and what stood there before stays untouched.

    write_text_atomically(path, text)            a UTF-8 file
    save_tensors_atomically(path, tensors)       a safetensors file
    with atomic_file(path) as partial: ...       a file written by other code
    with atomic_directory(folder) as partial:    a directory of files
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """The partial path to write to; it is renamed to `path` when the block ends."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def atomic_directory(folder: Path, *, exist_ok: bool = False, per_process: bool = True) -> Iterator[Path]:
    """A new, empty partial directory to fill; it is renamed to `folder` when the block ends.

    exist_ok: if another process has made `folder` by then, its directory is kept and this one is dropped.
    per_process: give the partial directory a name of this process. Without it, one that a killed process has left is
    replaced: only where a lock keeps other writers out.
    """
    owner = f".{os.getpid()}" if per_process else ""
    partial = folder.with_name(f".{folder.name}{owner}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        try:
            os.replace(partial, folder)
        except OSError:
            if not (exist_ok and folder.exists()):
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_text_atomically(path: Path, text: str) -> None:
    """Write a UTF-8 file."""
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def save_tensors_atomically(path: Path, tensors: Mapping[str, Any], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file of NumPy arrays or of torch tensors on any device."""
    import numpy as np
    from safetensors import SafetensorError

    try:
        with atomic_file(path) as partial:
            if all(isinstance(tensor, np.ndarray) for tensor in tensors.values()):
                import safetensors.numpy

                safetensors.numpy.save_file(dict(tensors), partial, metadata)
            else:
                import safetensors.torch

                plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
                safetensors.torch.save_file(plain, partial, metadata)
            partial.chmod(0o644)  # safetensors creates files that only their owner may read
    except (SafetensorError, OSError) as error:
        raise HeadwayError(f"{path} cannot be written: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    """The system's words for an error; safetensors passes on only its number."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
