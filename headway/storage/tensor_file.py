"""The weights of a model directory as they lie in their file: looked up without torch, read when they are wanted.

A matrix may be stored in eight bits: its rows as I8 under its name, the scale of each row as F32 under name + SCALE.
"""

import json
import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.errors import HeadwayError

if TYPE_CHECKING:
    import numpy as np

SCALE = ".row_scale"
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
KINDS = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?"}  # fmt: skip
HEADER_AT_MOST = 100_000_000  # bytes, as the library has it


class Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    first: int  # bytes, from the beginning of the file
    last: int


class Stored:
    """A safetensors file, mapped into memory: nothing of it is copied before it is asked for."""

    def __init__(self, path: str | Path) -> None:
        try:
            with open(path, "rb") as file:
                self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self.entries = _entries(self._view)
        except FileNotFoundError:
            raise HeadwayError(f"there is no file {path}.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HeadwayError(f"{path} is damaged or is not a safetensors file. Copy it anew.") from None

    def bytes(self, name: str) -> memoryview:
        entry = self.entries[name]
        return self._view[entry.first : entry.last]

    def array(self, name: str) -> "np.ndarray":
        """A tensor, as a view of the file that cannot be written to. There is none of bfloat16."""
        import numpy as np

        entry = self.entries[name]
        return np.frombuffer(self.bytes(name), dtype=f"<{KINDS[entry.dtype]}").reshape(entry.shape)

    @property
    def eight_bits(self) -> bool:
        """Whether its matrices are stored so."""
        return any(name.endswith(SCALE) for name in self.entries)


def read_weights(path: str | Path) -> "dict[str, np.ndarray | tuple[np.ndarray, np.ndarray]]":
    """Each weight as it is stored: an array, or the rows and the scales of one in eight bits."""
    stored = Stored(path)
    scales = {name for name in stored.entries if name.endswith(SCALE)}
    return {
        name: (stored.array(name), stored.array(name + SCALE)) if name + SCALE in scales else stored.array(name)
        for name in stored.entries
        if name not in scales
    }


def _entries(view: memoryview) -> dict[str, Entry]:
    """Where each tensor lies; a ValueError or its like if the file is not what it should be."""
    length = int.from_bytes(view[:8], "little")
    if not 0 < length <= min(HEADER_AT_MOST, len(view) - 8):
        raise ValueError
    table: dict[str, Any] = json.loads(bytes(view[8 : 8 + length]))
    table.pop("__metadata__", None)
    found = {}
    for name, entry in table.items():
        (first, last), shape = entry["data_offsets"], tuple(entry["shape"])
        held = math.prod(shape) * WIDTHS[entry["dtype"]]
        whole = all(type(number) is int and number >= 0 for number in (*shape, first, last))
        if not whole or last - first != held or not 0 <= first <= last <= len(view) - 8 - length:
            raise ValueError
        found[name] = Entry(entry["dtype"], shape, 8 + length + first, 8 + length + last)
    return found
