"""Write a safetensors file tensor by tensor: memory holds one at a time."""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from headway.convert.weight_files import DTYPES
from headway.errors import HeadwayError
from headway.files.atomic import atomic_file

ALIGNMENT = 8  # of the first tensor; safetensors pads its header with spaces
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class TensorHeader(NamedTuple):
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_tensor_stream(path: Path, headers: Iterable[TensorHeader], tensors: Iterable[Tensor]) -> None:
    """Write these tensors, which come in the order of their headers and fit them, as one file, atomically."""
    headers = list(headers)
    table = {}
    offset = 0
    for header in headers:
        table[header.name] = {
            "dtype": NAMES[header.dtype],
            "shape": list(header.shape),
            "data_offsets": [offset, offset + header.bytes],
        }
        offset += header.bytes
    encoded = json.dumps({"__metadata__": {"format": "pt"}, **table}).encode()
    encoded += b" " * (-len(encoded) % ALIGNMENT)
    try:
        with atomic_file(path) as partial, partial.open("wb") as file:
            file.write(len(encoded).to_bytes(8, "little"))
            file.write(encoded)
            for header, tensor in zip(headers, tensors, strict=True):
                assert tuple(tensor.shape) == header.shape and tensor.dtype == header.dtype, header.name
                plain = tensor.detach().contiguous().flatten().view(torch.uint8)
                plain.numpy().tofile(file)
                del tensor, plain
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise HeadwayError(f"{path} cannot be written: {error.strerror}.") from None
