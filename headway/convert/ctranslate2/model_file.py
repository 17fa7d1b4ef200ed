"""The variables of CTranslate2's model.bin: weights, and settings as single numbers.

    version, specification, revision, variables, aliases       a variable: name, shape, type, bytes

It is read variable by variable. Integers of 8 or 16 bits are dequantised as CTranslate2 does when it computes in
float32: value · (1 / scale)."""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor

from headway.convert.architecture import ConversionError
from headway.convert.weight_files import read_buffer
from headway.errors import HeadwayError

VERSION = 6
MAX_VARIABLES = 100_000
MAX_RANK = 8
SCALE = "_scale"  # ends the name of what integers are multiplied by
TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16, 5: np.uint16}  # 5: the bits of a bfloat16


class Variable(NamedTuple):
    shape: tuple[int, ...]
    kind: int
    offset: int
    bytes: int


class ModelFile:
    """The variables of model.bin. Every size is checked against the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.variables: dict[str, Variable] = {}
        self.aliases: dict[str, str] = {}
        try:
            with path.open("rb") as file:
                self._read(file, path.stat().st_size)
        except (EOFError, struct.error, UnicodeDecodeError):
            raise HeadwayError(f"{path} is damaged or incomplete. Download it again.") from None
        except OSError as error:
            raise HeadwayError(f"{path} cannot be read: {error.strerror}.") from None

    def _read(self, file: BinaryIO, size: int) -> None:
        version = _number(file, "I")
        if version != VERSION:
            raise ConversionError(
                f"{self.path} is of version {version}, and Headway reads {VERSION}. Convert it again."
            )
        self.specification = _text(file)
        _number(file, "I")  # revision
        count = _number(file, "I")
        if count > MAX_VARIABLES:
            raise EOFError
        for _ in range(count):
            name, rank = _text(file), _number(file, "B")
            shape = tuple(_number(file, "I") for _ in range(min(rank, MAX_RANK)))
            kind, length = _number(file, "B"), _number(file, "I")
            if rank > MAX_RANK or kind not in TYPES or math.prod(shape) * np.dtype(TYPES[kind]).itemsize != length:
                raise EOFError
            self.variables[name] = Variable(shape, kind, file.tell(), length)
            if file.tell() + length > size:
                raise EOFError
            file.seek(length, 1)
        aliases = _number(file, "I")
        if aliases > MAX_VARIABLES:
            raise EOFError
        for _ in range(aliases):
            alias, name = _text(file), _text(file)
            if name not in self.variables:
                raise EOFError
            self.aliases[alias] = name

    def find(self, name: str) -> str:
        return self.aliases.get(name, name)

    def has(self, name: str) -> bool:
        return self.find(name) in self.variables

    def names(self) -> list[str]:
        return [*self.variables, *self.aliases]

    def read_array(self, name: str) -> np.ndarray:
        variable = self.variables[self.find(name)]
        data = read_buffer(self.path, variable.offset, variable.bytes)
        return np.frombuffer(data, TYPES[variable.kind]).reshape(variable.shape)

    def settings(self) -> dict[str, float]:
        """All variables that are single numbers, but for the scales of tensors."""
        names = [name for name in self.names() if not self.shape(name) and not self._is_scale(name)]
        return {name: self.read_array(name).item() for name in names}

    def scalar(self, name: str, default: float = 0) -> float:
        """A setting."""
        return self.read_array(name).item() if self.has(name) and not self.shape(name) else default

    def is_integer(self, name: str) -> bool:
        return self.variables[self.find(name)].kind in (1, 2, 3)

    def holds_integers(self) -> bool:
        """Whether tensors are quantised."""
        return any(variable.kind in (1, 2) and variable.shape for variable in self.variables.values())

    def shape(self, name: str) -> tuple[int, ...]:
        return self.variables[self.find(name)].shape

    # As a WeightSource: every tensor under each of its names, dequantised.
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        names = [name for name in self.names() if not self._is_scale(name)]
        return {name: self.shape(name) for name in names if self.shape(name)}

    def _is_scale(self, name: str) -> bool:
        return name.endswith(SCALE) and self.has(name.removesuffix(SCALE))

    def dtype(self, name: str) -> torch.dtype:
        kinds = {4: torch.float16, 5: torch.bfloat16}
        return kinds.get(self.variables[self.find(name)].kind, torch.float32)

    def read(self, name: str) -> Tensor:
        array, kind = self.read_array(name), self.variables[self.find(name)].kind
        if kind == 5:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if kind in (0, 4):
            return torch.from_numpy(array)
        scale = f"{self.find(name)}{SCALE}"
        if not self.has(scale) or self.shape(scale) not in ((), self.shape(name)[:1]):
            raise ConversionError(f"{self.path}: the integers of {name} have no scales.")
        factors = 1 / torch.from_numpy(self.read_array(scale)).float()
        values = torch.from_numpy(array).float()
        return values.mul_(factors.reshape(-1, *[1] * (values.dim() - 1)) if factors.dim() else factors)


def _number(file: BinaryIO, code: str) -> int:
    found = file.read(struct.calcsize(code))
    return int(struct.unpack(f"<{code}", found)[0])


def _text(file: BinaryIO) -> str:
    length = _number(file, "H")
    found = file.read(length)
    if len(found) < length:
        raise EOFError
    return found.rstrip(b"\0").decode("utf-8")
