"""Files of tensors that are there whole, or not at all."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from headway.errors import HeadwayError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Where to write what is to lie at this path: it goes there when it is complete. Where it cannot be written, nothing is
    left behind, and the reason is said."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.chmod(0o644)  # the library makes files that only their owner may read
        os.replace(partial, path)
    except (SafetensorError, OSError) as error:
        with suppress(OSError):
            partial.unlink()
        raise HeadwayError(f"{path} cannot be written: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    """What the system said, of which the library's error has only the number."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else getattr(error, "strerror", None) or str(error)
