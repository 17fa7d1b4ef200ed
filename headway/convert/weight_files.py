"""Weight files of other toolkits, read tensor by tensor.

WeightSource is what a converter reads: names, shapes, and one tensor at a time. `open_weights` finds the files of a
Hugging Face directory: model.safetensors, several files with an index, or PyTorch's .bin, which is a pickle: read only
with consent, and then by a loader that accepts nothing but tensors."""

import json
import math
import mmap
import pickle
import re
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headway.errors import HeadwayError
from headway.storage.tensor_file import TensorEntry, TensorFile

SAFETENSORS = "model.safetensors"
PICKLES = "pytorch_model.bin"
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}
OLD_ENDS = re.compile(r"(?<=LayerNorm)\.(gamma|beta)$")
LARGE = 2**20  # bytes
DAMAGED = "is damaged or incomplete. Download it again."


class WeightSource(Protocol):
    """The tensors of a model, each read when it is asked for."""

    def shapes(self) -> Mapping[str, tuple[int, ...]]: ...
    def dtype(self, name: str) -> torch.dtype: ...
    def read(self, name: str) -> Tensor: ...


DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


class SafetensorsSource:
    """One safetensors file, or several."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._places: dict[str, tuple[Path, TensorEntry]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._dtypes: dict[str, torch.dtype] = {}
        for path in paths:
            try:
                file: Any = safe_open(path, framework="pt")
                entries: dict[str, TensorEntry] | None = None
                for name in file.keys():  # noqa: SIM118
                    part = file.get_slice(name)
                    if part.get_dtype() not in DTYPES:
                        raise HeadwayError(
                            f"{path}: the tensor {name} is of the type {part.get_dtype()}, which is not supported. "
                            f"Convert it to one of {', '.join(DTYPES)}."
                        )
                    entries = TensorFile(path).entries if entries is None else entries
                    self._places[name] = (path, entries[name])
                    self._shapes[name] = tuple(part.get_shape())
                    self._dtypes[name] = DTYPES[part.get_dtype()]
            except FileNotFoundError:
                raise HeadwayError(f"{path} is missing. Download the whole model again.") from None
            except (SafetensorError, OSError):
                raise HeadwayError(f"{path} {DAMAGED}") from None

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self._shapes

    def dtype(self, name: str) -> torch.dtype:
        return self._dtypes[name]

    def read(self, name: str) -> Tensor:
        """Read from the file and not from a map of it: pages of a map would stay in memory, as many as there are."""
        path, entry = self._places[name]
        data = read_buffer(path, entry.first, entry.last - entry.first)
        flat = (
            torch.frombuffer(data, dtype=self._dtypes[name]) if len(data) else torch.empty(0, dtype=self._dtypes[name])
        )
        return flat.reshape(self._shapes[name])


def read_buffer(path: Path, first: int, count: int) -> bytearray | mmap.mmap:
    """These bytes of a file, in memory that is given back as soon as nobody uses it: what the allocator of C frees, it
    may keep, and a model of a gigabyte then takes a gigabyte."""
    data = mmap.mmap(-1, count) if count > LARGE else bytearray(count)
    with path.open("rb") as file:
        file.seek(first)
        complete = file.readinto(data) == count
    if not complete:
        raise HeadwayError(f"{path} {DAMAGED}")
    return data


class TensorsSource:
    """Tensors in memory."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self._tensors[name].dtype

    def read(self, name: str) -> Tensor:
        return self._tensors[name]


@dataclass(frozen=True)
class RenamedSource:
    """The same tensors, some under other names."""

    source: WeightSource
    original: Mapping[str, str]  # the name in the source, by the new name

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        shapes = self.source.shapes()
        return {name: shapes[original] for name, original in self.original.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self.source.dtype(self.original[name])

    def read(self, name: str) -> Tensor:
        return self.source.read(self.original[name])


def complete_names(source: WeightSource, wanted: Collection[str], prefix: str) -> WeightSource:
    """The same tensors with the names that are wanted, where files spell them otherwise: without the prefix of the
    whole model, or, if they are old, with gamma and beta for the weight and bias of a norm."""
    original = {}
    for name in source.shapes():
        spelled = OLD_ENDS.sub(lambda found: OLD_NAMES[found[0]], name)
        original[f"{prefix}{spelled}" if spelled not in wanted and f"{prefix}{spelled}" in wanted else spelled] = name
    return source if all(name == new for new, name in original.items()) else RenamedSource(source, original)


def open_weights(folder: Path, allow_pickle: bool = False) -> WeightSource:
    """The weights of a Hugging Face directory."""
    index = folder / f"{SAFETENSORS}.index.json"
    if (folder / SAFETENSORS).exists():
        return SafetensorsSource([folder / SAFETENSORS])
    if index.exists():
        return SafetensorsSource(_read_index(index))
    pickles = [folder / PICKLES] if (folder / PICKLES).exists() else []
    if (folder / f"{PICKLES}.index.json").exists():
        pickles = _read_index(folder / f"{PICKLES}.index.json")
    if not pickles:
        raise HeadwayError(f"{folder} has no weights: neither {SAFETENSORS} nor {PICKLES} is there.")
    if not allow_pickle:
        raise HeadwayError(
            f"{folder} has its weights only in {PICKLES}, a pickle, which can hold programs. Look for a version with "
            f"{SAFETENSORS} (--revision), or allow it: --allow-pickle reads nothing but its tensors."
        )
    return PickleSource(pickles)


def _read_index(path: Path) -> list[Path]:
    """The files that an index names, all inside its own folder."""
    try:
        names = sorted(set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [path.parent / name for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HeadwayError(f"{path} {DAMAGED}") from None
    if outside := [name for name, file in zip(names, files) if file.parent != path.parent]:
        raise HeadwayError(f"{path} names the file {outside[0]!r} outside of its folder, which is not read.")
    return files


class PickleSource:
    """PyTorch's .bin, one file or several: tensors and nothing else. A file is mapped anew for each tensor, so that
    what was read before is no longer in memory; files from before PyTorch 1.6 cannot be mapped, and stay in memory."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths: dict[str, Path] = {}
        self._headers: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
        self._kept: dict[Path, dict[str, Tensor]] = {}
        for path in paths:
            tensors = _read_pickle(path)
            self._paths |= dict.fromkeys(tensors, path)
            self._headers |= {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
            if not zipfile.is_zipfile(path):
                self._kept[path] = tensors

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {name: shape for name, (shape, _) in self._headers.items()}

    def dtype(self, name: str) -> torch.dtype:
        return self._headers[name][1]

    def read(self, name: str) -> Tensor:
        path = self._paths[name]
        return self._kept[path][name] if path in self._kept else _read_pickle(path)[name]


def _read_pickle(path: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except FileNotFoundError:
        raise HeadwayError(f"{path} is missing. Download the whole model again.") from None
    except pickle.UnpicklingError:
        raise HeadwayError(f"{path} holds more than tensors, and is not read. Do not trust this file.") from None
    except Exception:  # torch.load raises many kinds for damaged files
        raise HeadwayError(f"{path} {DAMAGED}") from None
    if not isinstance(found, dict) or not all(isinstance(tensor, Tensor) for tensor in found.values()):
        raise HeadwayError(f"{path} is not a table of tensors, as the weights of a model are.")
    return found


def count_weights(source: WeightSource) -> int:
    return sum(math.prod(shape) for shape in source.shapes().values())
