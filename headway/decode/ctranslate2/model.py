"""A stored model in CTranslate2: its own files are made of the weights as they lie in theirs, and handed to it."""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from headway.decode.ctranslate2.weights import TYPES, Layout, Reader, Table, Unknown
from headway.device import cores
from headway.storage.tensor_file import Stored

VERSION, SPEC, REVISION = 6, "TransformerSpec", 7  # of model.bin, and of what it describes
PAD, START, END = 0, 1, 2  # as every tokenizer of Headway numbers them
REACH = 256  # positions that are marked at first
AT_ONCE = 256  # pieces written in one call
BROKEN = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError, struct.error)


_NOTHING: Any = None


class Ct2Model:
    """Loaded when it is first asked for, or ahead of that by `start`."""

    def __init__(
        self, table: Table, stored: Stored, compute: Literal["float32", "int8"], threads: int | None = None
    ) -> None:
        """table: the model of a config.json. Raises Unknown where CTranslate2 does not know a part of it."""
        self.compute, self.threads = compute, threads
        self._table, self._stored = table, stored
        self._reach, self._loaded, self._lock = 0, _NOTHING, threading.Lock()
        try:
            Reader(table, stored, reach=1).read()
        except BROKEN:
            raise Unknown("its config.json is not as this Headway writes it") from None

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of the source's and the target's."""
        return self._table["source_vocabulary"], self._table["vocabulary"]

    def start(self) -> None:
        """Begin to load: whoever asks for it waits until that is done."""

        def load() -> None:
            with contextlib.suppress(Exception):  # whoever asks for it tries again, and is told
                self.translator(REACH)

        threading.Thread(
            target=load
        ).start()  # not as a daemon: what it writes for CTranslate2 is to be gone at the end

    @property
    def workers(self) -> int:
        """A thread each: several at one sentence wait for each other at every product."""
        return self.threads or cores()

    def translator(self, reach: int) -> Any:
        """CTranslate2's own, with at least so many positions."""
        with self._lock:
            if reach > self._reach:
                self._loaded, self._reach = _NOTHING, 0  # first, so that there are never two
                room = max(REACH, 1 << (reach - 1).bit_length())
                self._loaded, self._reach = self._load(Reader(self._table, self._stored, room).read()), room
            return self._loaded

    def _load(self, layout: Layout) -> Any:
        settings = {"device": "cpu", "compute_type": self.compute, "intra_threads": 1, "inter_threads": self.workers}
        small = {
            "config.json": _settings(layout),
            "source_vocabulary.json": _vocabulary(self._table["source_vocabulary"]),
            "target_vocabulary.json": _vocabulary(self._table["vocabulary"]),
        }
        with contextlib.suppress(OSError), folder_of(small, layout) as folder:
            return translator_class()(folder, **settings)
        return translator_class()("headway", files={**small, "model.bin": b"".join(chunks(layout))}, **settings)


def translator_class() -> Any:
    """ctranslate2.Translator, from the compiled part of the package by itself where that can be had: the rest of it is
    asyncio and what that imports, which takes several times as long."""
    whole = sys.modules.get("ctranslate2")
    found = importlib.util.find_spec("ctranslate2") if whole is None and os.name == "posix" else None
    if found is not None and "ctranslate2._ext" not in sys.modules:
        part = importlib.machinery.PathFinder.find_spec("ctranslate2._ext", found.submodule_search_locations)
        if part is not None and part.loader is not None:
            module = importlib.util.module_from_spec(part)
            part.loader.exec_module(module)
            sys.modules["ctranslate2._ext"] = module  # so that importing the whole finds it
    return (sys.modules.get("ctranslate2._ext") or importlib.import_module("ctranslate2")).Translator


@contextlib.contextmanager
def folder_of(small: dict[str, bytes], layout: Layout) -> Iterator[str]:
    """A folder that looks like a model of CTranslate2, with its large file in memory alone. Given the file itself
    CTranslate2 would copy it once more. An OSError where there is no such thing as a file in memory."""
    import tempfile

    if not hasattr(os, "memfd_create"):
        raise OSError
    with tempfile.TemporaryDirectory(prefix="headway-") as name:
        for file, content in small.items():
            Path(name, file).write_bytes(content)
        memory = os.memfd_create("headway-model")
        try:
            _write(memory, chunks(layout))
            Path(name, "model.bin").symlink_to(f"/proc/{os.getpid()}/fd/{memory}")
            yield name
        finally:
            os.close(memory)


def _write(file: int, pieces: "list[bytes | memoryview]") -> None:
    for first in range(0, len(pieces), AT_ONCE):
        left = pieces[first : first + AT_ONCE]
        while left:
            written = os.writev(file, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]


def chunks(layout: Layout) -> list[bytes | memoryview]:
    """model.bin in pieces: names, shapes and types between weights that are not copied."""
    found: list[bytes | memoryview] = [struct.pack("<I", VERSION), _name(SPEC), struct.pack("<I", REVISION)]
    found.append(struct.pack("<I", len(layout.variables)))
    for name, variable in sorted(layout.variables.items()):
        dimensions = struct.pack(f"<B{len(variable.shape)}I", len(variable.shape), *variable.shape)
        size = sum(len(part) for part in variable.parts)
        found.append(_name(name) + dimensions + struct.pack("<BI", TYPES[variable.dtype], size))
        found += variable.parts
    found.append(struct.pack("<I", len(layout.aliases)))
    found += [_name(name) + _name(other) for name, other in sorted(layout.aliases.items())]
    return found


def _settings(layout: Layout) -> bytes:
    settings = {
        "unk_token": str(PAD),
        "bos_token": str(START),
        "eos_token": str(END),
        "decoder_start_token": str(START),
        "add_source_bos": False,
        "add_source_eos": False,
        "layer_norm_epsilon": layout.eps,
    }
    return json.dumps(settings).encode()


def _vocabulary(size: int) -> bytes:
    """Its tokens are our ids, written out."""
    return json.dumps([str(token) for token in range(size)]).encode()


def _name(text: str) -> bytes:
    encoded = text.encode() + b"\0"
    return struct.pack("<H", len(encoded)) + encoded
