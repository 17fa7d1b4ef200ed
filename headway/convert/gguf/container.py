"""The container of GGUF: metadata and the table of tensors. Nothing is allocated by a number that the file claims."""

import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from headway.convert.architecture import ConversionError
from headway.convert.gguf.dequantisation import KINDS, QuantisationKind, dequantise
from headway.convert.weight_files import read_buffer
from headway.errors import HeadwayError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
MAX_ENTRIES = 100_000  # of metadata, of tensors
MAX_DIMENSIONS = 4


class TensorPlace(NamedTuple):
    shape: tuple[int, ...]
    kind: QuantisationKind
    offset: int
    bytes: int


@dataclass(frozen=True)
class GgufFile:
    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorPlace]

    @classmethod
    def open(cls, path: Path) -> "GgufFile":
        with _explain(path), path.open("rb") as file:
            return _read(path, GgufReader(file, path.stat().st_size))

    def read(self, name: str) -> Tensor:
        place = self.tensors[name]
        with _explain(self.path):
            raw = read_buffer(self.path, place.offset, place.bytes)
        return dequantise(torch.frombuffer(raw, dtype=torch.uint8), place.kind).reshape(place.shape)

    def dtype(self, name: str) -> torch.dtype:
        return self.tensors[name].kind.dtype


@contextmanager
def _explain(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, struct.error, UnicodeDecodeError):
        raise HeadwayError(f"{path} is damaged or incomplete. Download it again.") from None
    except OSError as error:
        raise HeadwayError(f"{path} cannot be read: {error.strerror}.") from None


class GgufReader:
    """Reads values one after the other, never beyond the end."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size

    def take(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise EOFError
        return self.file.read(count)

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(code)))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self.number(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            raise EOFError
        inner, count = self.number("I"), self.number("Q")
        if inner in SCALARS:
            code = SCALARS[inner]
            if count > self.size:
                raise EOFError
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(code))))
        if inner != STRING:
            raise EOFError
        texts = []
        for _ in range(count):  # ends at the end of the file: each text takes at least eight bytes
            texts.append(self.text())
        return texts


def _read(path: Path, reader: GgufReader) -> GgufFile:
    if reader.take(4) != MAGIC:
        raise HeadwayError(f"{path} is not a GGUF file: it does not begin with {MAGIC.decode()}.")
    version, count, entries = reader.number("I"), reader.number("Q"), reader.number("Q")
    if version not in VERSIONS:
        raise ConversionError(f"{path} has version {version} of GGUF, and Headway reads 2 and 3 (little-endian).")
    if max(count, entries) > MAX_ENTRIES:
        raise EOFError
    metadata = {}
    for _ in range(entries):
        name = reader.text()
        metadata[name] = reader.value(reader.number("I"))
    places = []
    for _ in range(count):
        name = reader.text()
        dimensions = reader.number("I")
        if not 0 < dimensions <= MAX_DIMENSIONS:
            raise EOFError
        shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]  # theirs begins with the innermost
        places.append((name, shape, reader.number("I"), reader.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 0 < alignment <= 2**16:
        raise EOFError
    start = -(-reader.file.tell() // alignment) * alignment
    tensors = {}
    for name, shape, number, offset in places:
        kind = KINDS.get(number)
        if kind is None:
            known = ", ".join(kind.name for kind in KINDS.values())
            raise ConversionError(f"{path}: the tensor {name} is of the type {number} of GGUF. Headway reads {known}.")
        blocks, rest = divmod(math.prod(shape), kind.values)
        size = blocks * kind.bytes
        if rest or shape[-1] % kind.values or start + offset + size > reader.size:
            raise EOFError
        tensors[name] = TensorPlace(shape, kind, start + offset, size)
    return GgufFile(path, metadata, tensors)
