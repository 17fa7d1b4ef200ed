"""A stored model in CTranslate2: a model directory in its format, made of our stored weights without copying them."""

import contextlib
import ctypes
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

from headway.decode.ctranslate2.weights import DTYPE_CODES, Ct2Layout, Ct2LayoutBuilder
from headway.decode.forking import ForkSafeLock, call_after_fork
from headway.decode.stored_config import JsonObject, refuse_malformed
from headway.device import available_cores
from headway.storage.tensor_file import TensorFile
from headway.text.tokenizer.special_tokens import SpecialTokens

BINARY_VERSION = 6  # of model.bin
SPEC_NAME = "TransformerSpec"  # of the model in it
SPEC_REVISION = 7
OWN_TOKENS = SpecialTokens(start=1, end=2)  # of every tokenizer of Headway; imported ones have others
MIN_POSITIONS = 256  # of the position table at first
CHUNKS_PER_WRITE = 256  # of os.writev


class Ct2Model:
    """Loaded when it is first needed, or in the background after `start`, with its `special_tokens` at that time."""

    def __init__(
        self, config: JsonObject, stored: TensorFile, compute: Literal["float32", "int8"], threads: int | None = None
    ) -> None:
        """config: `model` in config.json. UnsupportedModelError where CTranslate2 does not support a part of it."""
        self.compute = compute
        self.threads = threads
        self._config = config
        self._stored = stored
        self._positions = 0
        self._translator: Any = None
        self.special_tokens = OWN_TOKENS
        self._lock = ForkSafeLock()
        call_after_fork(self)
        with refuse_malformed():
            Ct2LayoutBuilder(config, stored, positions=1).build()

    def after_fork(self) -> None:
        """It is loaded again: the threads of the old one are in another process. It is never freed, since that would
        wait for them."""
        if self._translator is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._translator))
        self._translator, self._positions = None, 0

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of the source's and the target's."""
        return self._config["source_vocabulary"], self._config["vocabulary"]

    def start(self) -> None:
        """Begin to load it in a thread. `translator` waits until that is done."""

        def load() -> None:
            with contextlib.suppress(Exception):  # `translator` tries again, and raises it
                self.translator(MIN_POSITIONS)

        # Not a daemon thread: the temporary files that it writes for CTranslate2 must be removed at the end.
        threading.Thread(target=load).start()

    @property
    def workers(self) -> int:
        """One thread each: several threads at one sentence wait for each other at every product."""
        return self.threads or available_cores()

    def translator(self, positions: int) -> Any:
        """A ctranslate2.Translator with at least so many positions."""
        with self._lock:
            if positions > self._positions:
                self._translator, self._positions = None, 0  # first, so that there are never two in memory
                enough = max(MIN_POSITIONS, 1 << (positions - 1).bit_length())
                self._translator = self._load(Ct2LayoutBuilder(self._config, self._stored, enough).build())
                self._positions = enough
            return self._translator

    def _load(self, layout: Ct2Layout) -> Any:
        settings = {"device": "cpu", "compute_type": self.compute, "intra_threads": 1, "inter_threads": self.workers}
        small_files = {
            "config.json": _config_json(layout, self.special_tokens),
            "source_vocabulary.json": _vocabulary_json(self._config["source_vocabulary"]),
            "target_vocabulary.json": _vocabulary_json(self._config["vocabulary"]),
        }
        with contextlib.suppress(OSError), model_folder(small_files, layout) as folder:
            return translator_class()(folder, **settings)
        files = {**small_files, "model.bin": b"".join(model_chunks(layout))}
        return translator_class()("headway", files=files, **settings)


def translator_class() -> Any:
    """ctranslate2.Translator, from the compiled part of the package alone where possible: the rest of it imports
    asyncio, which takes several times as long."""
    package = sys.modules.get("ctranslate2")
    found = importlib.util.find_spec("ctranslate2") if package is None and os.name == "posix" else None
    if found is not None and "ctranslate2._ext" not in sys.modules:
        spec = importlib.machinery.PathFinder.find_spec("ctranslate2._ext", found.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            sys.modules["ctranslate2._ext"] = module  # so that importing the package later finds it
    return (sys.modules.get("ctranslate2._ext") or importlib.import_module("ctranslate2")).Translator


@contextlib.contextmanager
def model_folder(small_files: dict[str, bytes], layout: Ct2Layout) -> Iterator[str]:
    """A folder that looks like a model of CTranslate2, with its large file in memory alone (memfd). CTranslate2 would
    copy a file that it is given as bytes. OSError where the system has no files in memory."""
    import tempfile

    if not hasattr(os, "memfd_create"):
        raise OSError
    with tempfile.TemporaryDirectory(prefix="headway-") as name:
        for file, content in small_files.items():
            Path(name, file).write_bytes(content)
        memory = os.memfd_create("headway-model")
        try:
            _write_chunks(memory, model_chunks(layout))
            Path(name, "model.bin").symlink_to(f"/proc/{os.getpid()}/fd/{memory}")
            yield name
        finally:
            os.close(memory)


def _write_chunks(file: int, chunks: "list[bytes | memoryview]") -> None:
    for first in range(0, len(chunks), CHUNKS_PER_WRITE):
        left = chunks[first : first + CHUNKS_PER_WRITE]
        while left:
            written = os.writev(file, left)
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if left:
                left[0] = left[0][written:]


def model_chunks(layout: Ct2Layout) -> list[bytes | memoryview]:
    """model.bin in pieces: names, shapes and types between weights that are not copied."""
    chunks: list[bytes | memoryview] = [
        struct.pack("<I", BINARY_VERSION),
        _encode_name(SPEC_NAME),
        struct.pack("<I", SPEC_REVISION),
        struct.pack("<I", len(layout.variables)),
    ]
    for name, variable in sorted(layout.variables.items()):
        dimensions = struct.pack(f"<B{len(variable.shape)}I", len(variable.shape), *variable.shape)
        size = sum(len(part) for part in variable.parts)
        chunks.append(_encode_name(name) + dimensions + struct.pack("<BI", DTYPE_CODES[variable.dtype], size))
        chunks += variable.parts
    chunks.append(struct.pack("<I", len(layout.aliases)))
    chunks += [_encode_name(name) + _encode_name(other) for name, other in sorted(layout.aliases.items())]
    return chunks


def _config_json(layout: Ct2Layout, tokens: SpecialTokens) -> bytes:
    settings = {
        "unk_token": str(tokens.pad),
        "bos_token": str(tokens.start),
        "eos_token": str(tokens.end),
        "decoder_start_token": str(tokens.start),
        "add_source_bos": False,
        "add_source_eos": False,
        "layer_norm_epsilon": layout.eps,
    }
    return json.dumps(settings).encode()


def _vocabulary_json(size: int) -> bytes:
    """Its tokens are our ids as decimal numbers."""
    return json.dumps([str(token) for token in range(size)]).encode()


def _encode_name(text: str) -> bytes:
    encoded = text.encode() + b"\0"
    return struct.pack("<H", len(encoded)) + encoded
