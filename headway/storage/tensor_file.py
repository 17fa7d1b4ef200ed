"""TensorFile: an mmap reader of safetensors files, for readers that need no torch.

A matrix may be stored in int8: its rows as I8 under its name, the scale of each row as F32 under name + SCALE_SUFFIX.
"""

import json
import math
import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.errors import HeadwayError

if TYPE_CHECKING:
    import numpy as np

SCALE_SUFFIX = ".row_scale"
DTYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
NUMPY_DTYPES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U8": "u1", "BOOL": "?",
}  # fmt: skip
MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library


class TensorEntry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    first: int  # byte offset in the file
    last: int  # one behind the last byte


class TensorFile:
    """A safetensors file mapped into memory: tensors are views, and nothing is read before it is used."""

    def __init__(self, path: str | Path) -> None:
        try:
            with open(path, "rb") as file:
                self._view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self.entries = _read_header(self._view)
        except FileNotFoundError:
            raise HeadwayError(f"there is no file {path}.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise HeadwayError(f"{path} is damaged or not a safetensors file. Copy it again.") from None

    def bytes(self, name: str) -> memoryview:
        entry = self.entries[name]
        return self._view[entry.first : entry.last]

    def array(self, name: str) -> "np.ndarray":
        """A tensor as a read-only view of the file. NumPy has no bfloat16: KeyError."""
        import numpy as np

        entry = self.entries[name]
        return np.frombuffer(self.bytes(name), dtype=f"<{NUMPY_DTYPES[entry.dtype]}").reshape(entry.shape)

    @property
    def is_int8(self) -> bool:
        """Whether matrices are stored in int8."""
        return any(name.endswith(SCALE_SUFFIX) for name in self.entries)


def read_weights(path: str | Path) -> "dict[str, np.ndarray | tuple[np.ndarray, np.ndarray]]":
    """Each weight as it is stored: an array, or for an int8 matrix its rows and their scales."""
    file = TensorFile(path)
    scales = {name for name in file.entries if name.endswith(SCALE_SUFFIX)}
    return {
        name: (file.array(name), file.array(name + SCALE_SUFFIX)) if name + SCALE_SUFFIX in scales else file.array(name)
        for name in file.entries
        if name not in scales
    }


def _read_header(view: memoryview) -> dict[str, TensorEntry]:
    """Where each tensor lies. Raises ValueError, KeyError or TypeError if the header is not valid."""
    length = int.from_bytes(view[:8], "little")
    if not 0 < length <= min(MAX_HEADER_BYTES, len(view) - 8):
        raise ValueError
    table: dict[str, Any] = json.loads(bytes(view[8 : 8 + length]))
    table.pop("__metadata__", None)
    entries = {}
    for name, entry in table.items():
        first, last = entry["data_offsets"]
        shape = tuple(entry["shape"])
        size = math.prod(shape) * DTYPE_BYTES[entry["dtype"]]
        are_sizes = all(type(number) is int and number >= 0 for number in (*shape, first, last))
        if not are_sizes or last - first != size or not 0 <= first <= last <= len(view) - 8 - length:
            raise ValueError
        entries[name] = TensorEntry(entry["dtype"], shape, 8 + length + first, 8 + length + last)
    return entries
