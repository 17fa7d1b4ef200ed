"""A stored model as the tables that our C kernels read, in int8: weights packed from the mapped file, without torch.

The numbers are those that decode/cpu makes of the same model in torch, to the last bit: matrices rounded again from
what they were stored as, norms and biases in float32, embeddings times their scales.
"""

import contextlib
import functools
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from headway.decode.ctranslate2.weights import Ct2LayoutBuilder
from headway.decode.forking import ForkSafeLock
from headway.decode.native.search import SearchModel
from headway.decode.stored_config import JsonObject, UnsupportedModelError, refuse_malformed, tile_parts
from headway.device import available_cores
from headway.errors import HeadwayError
from headway.nn.ops import native
from headway.nn.ops.int8_rows import dequantise_rows, pack_rows, packed_size, quantise_rows, requantise_rows
from headway.nn.ops.native.tables import ACTIVATIONS, AttentionTable, LayerTable, LinearTable, NormTable, StackStruct
from headway.storage.tensor_file import SCALE_SUFFIX, TensorFile

MIN_POSITIONS = 256  # of a table of sinusoids at first

Array = np.ndarray[Any, Any]


class NativeModel:
    """Loaded when it is first needed, or in the background after `start`."""

    def __init__(self, config: JsonObject, stored: TensorFile) -> None:
        """config: `model` in config.json. UnsupportedModelError where the kernels do not know a part of it."""
        with refuse_malformed():
            Ct2LayoutBuilder(config, stored, positions=1).build()  # knows how each weight must be
            for side in ("encoder", "decoder"):
                kinds = {part["kind"] for part in config[side]["feedforward"]} - ACTIVATIONS.keys()
                if kinds or len(config[side]["position"]) > 1:
                    what = f"feedforward {min(kinds)}" if kinds else "several positions"
                    raise UnsupportedModelError(f"there are no kernels for {what}")
        self._config = config
        self._stored = stored
        self._lock = ForkSafeLock()

    @property
    def vocabularies(self) -> tuple[int, int]:
        """The sizes of the source's and the target's."""
        return self._config["source_vocabulary"], self._config["vocabulary"]

    def start(self) -> None:
        """Begin to load it in a thread. `search_model` waits until that is done."""

        def load() -> None:
            with contextlib.suppress(Exception):  # `search_model` tries again, and raises it
                self.search_model()

        threading.Thread(target=load, daemon=True).start()

    def search_model(self) -> SearchModel:
        with self._lock:
            return self._search_model

    @functools.cached_property
    def _search_model(self) -> SearchModel:
        return ModelPacker(self._config, self._stored).pack()


class ModelPacker:
    """Reads the weights by their names, and packs all matrices into one block of memory, in the order in which a step
    reads them."""

    def __init__(self, config: JsonObject, stored: TensorFile) -> None:
        self.config = config
        self.stored = stored
        self.kept: list[Any] = []  # arrays that tables point to
        self.matrices: list[tuple[LinearTable, list[Array]]] = []  # their rows, which are to be packed

    def pack(self) -> SearchModel:
        tied = self.config["embedding"]["tied"]
        target = self.read_matrix("embeddings.decoder.words.weight")
        source = target if tied in ("all", "inputs") else self.read_matrix("embeddings.encoder.words.weight")
        encoder = NativeStack(self, "encoder", source)
        decoder = NativeStack(self, "decoder", target)
        name = "head" if tied in ("inputs", "none") else "embeddings.decoder.words"
        output = self.add_linear([name], "head" if self.config["head"]["bias"] else "")
        self._pack_matrices()
        learned = [part["max_positions"] for part in self.config["decoder"]["position"] if part["kind"] == "learned"]
        return SearchModel(encoder, decoder, output, min(learned, default=math.inf))

    def _pack_matrices(self) -> None:
        """In several threads: the kernels release Python's lock."""
        joined = [rows[0] if len(rows) == 1 else np.concatenate(rows) for _, rows in self.matrices]
        block = native.zeros([sum(map(packed_size, joined))], np.int8)
        parts = np.split(block, np.cumsum([packed_size(rows) for rows in joined])[:-1])
        tables = [table for table, _ in self.matrices]

        def pack_matrix(table: LinearTable, rows: Array, part: Array) -> Array:
            _, offsets = pack_rows(rows, bool(table.positive), part)
            table.weight, table.offsets = native.address_of(part), native.address_of(offsets)
            return offsets

        with ThreadPoolExecutor(available_cores()) as pool:
            self.kept += [block, *pool.map(pack_matrix, tables, joined, parts)]

    def read_vector(self, name: str) -> Array:
        return np.ascontiguousarray(self.stored.array(name), np.float32)

    def read_matrix(self, name: str) -> Array:
        """In float32."""
        stored = self.stored.array(name)
        if stored.dtype == np.int8:
            return dequantise_rows(stored, self.stored.array(name + SCALE_SUFFIX))
        return np.ascontiguousarray(stored, np.float32)

    def read_rows(self, name: str) -> tuple[Array, Array]:
        """A matrix in int8, and the scales of its rows."""
        stored = self.stored.array(name)
        if stored.dtype == np.int8:
            return requantise_rows(stored, self.stored.array(name + SCALE_SUFFIX))
        return quantise_rows(stored)

    def keep(self, array: Array) -> int:
        """Its address."""
        self.kept.append(array)
        address: int = native.address_of(array)
        return address

    def add_linear(
        self, names: list[str], bias_name: str | None = None, *, positive: bool = False, activation: str = ""
    ) -> LinearTable:
        """Layers with the same input, as one. bias_name: of another layer that has the bias; "": there is none."""
        rows, scales = zip(*(self.read_rows(f"{name}.weight") for name in names))
        biases = [f"{name}.bias" for name in (names if bias_name is None else [bias_name])]
        bias = [self.read_vector(name) for name in biases if name in self.stored.entries]
        table = LinearTable(
            None, self.keep(np.concatenate(scales)), None, self.keep(np.concatenate(bias)) if bias else None,
            rows[0].shape[1], sum(map(len, rows)), positive, ACTIVATIONS[activation],
        )  # fmt: skip
        self.matrices.append((table, list(rows)))
        return table

    def norm_table(self, name: str) -> NormTable:
        parts = [f"{name}.gain", f"{name}.bias"]
        return NormTable(*(self.keep(self.read_vector(p)) if p in self.stored.entries else None for p in parts))


class NativeStack:
    """An encoder or a decoder; see search.StackTables."""

    def __init__(self, packer: ModelPacker, side: str, embedding: Array) -> None:
        config = packer.config
        stack = config[side]
        layers = stack["layers"]
        self.config = config
        self.kept = packer.kept
        self.embedding = embedding
        self.width: int = config["d_model"]
        self.position = stack["position"][0]
        self.learned = None
        if self.position["kind"] == "learned":
            self.learned = packer.read_matrix(f"stacks.{side}.positions.0.table.weight")
        self.pre_norm = stack["residual"]["kind"] == "pre"
        self.embedding_norm = packer.norm_table(f"embeddings.{side}.norm")
        self.final_norm = packer.norm_table(f"stacks.{side}.ends.norm")
        slots = {"self": tile_parts("mixer", stack["mixer"], layers)}
        if side == "decoder":
            slots["cross"] = tile_parts("mixer", stack["cross"], layers)
        kinds = [part["kind"] for part in tile_parts("feedforward", stack["feedforward"], layers)]
        # Filled in when all matrices are packed: the fields of a structure are copies.
        self._layers = [
            NativeLayer(packer, f"stacks.{side}.blocks.{index}", {name: slots[name][index] for name in slots}, kind)
            for index, kind in enumerate(kinds)
        ]
        linears = [linear for layer in self._layers for linear in layer.linears.values()]
        self.max_width = max(max(linear.inputs, linear.outputs) for linear in linears)
        self._positions = np.zeros((0, self.width), np.float32)

    @functools.cached_property
    def tables(self) -> list[LayerTable]:
        return [layer.table() for layer in self._layers]

    def table(self, length: int) -> StackStruct:
        positions = self._position_table(length)
        layers = (LayerTable * len(self.tables))(*self.tables)
        scale = self.width**0.5 if self.config["embedding"]["scale"] else 1.0
        table = StackStruct(
            native.address_of(self.embedding), native.address_of(positions), self.embedding_norm, self.final_norm,
            layers, len(layers), self.width, self.max_width, self.pre_norm, scale, self.config["norm"]["eps"],
        )  # fmt: skip
        table.kept = positions
        return table

    def _position_table(self, length: int) -> Array:
        """At least so many positions."""
        if self.learned is not None:
            if length > len(self.learned):
                raise HeadwayError(
                    f"this model learned {len(self.learned)} positions and was given {length} tokens. Shorten the text."
                )
            return self.learned
        positions = self._positions
        if length > len(positions):
            size = max(MIN_POSITIONS, 1 << (length - 1).bit_length())
            if self.position["kind"] == "none":
                positions = np.zeros((size, self.width), np.float32)
            else:
                positions = make_sinusoids(size, self.width, self.position)
            self._positions = positions
        return positions


class NativeLayer:
    """The matrices and norms of one layer."""

    def __init__(self, packer: ModelPacker, name: str, mixers: dict[str, JsonObject], activation: str) -> None:
        self.mixers = mixers
        self.norms = {
            part: packer.norm_table(f"{name}.residuals.{part}.norm") for part in ("self", "cross", "feedforward")
        }

        def add(attention: str, *parts: str) -> LinearTable:
            return packer.add_linear([f"{name}.sublayers.{attention}.{part}" for part in parts])

        self.linears = {"qkv": add("self", "query", "key", "value"), "output": add("self", "output")}
        if "cross" in mixers:
            self.linears |= {"cross_query": add("cross", "query"), "cross_output": add("cross", "output")}
        inner, outer = (f"{name}.sublayers.feedforward.{part}" for part in ("inner", "outer"))
        self.linears["inner"] = packer.add_linear([inner], activation=activation)
        self.linears["outer"] = packer.add_linear([outer], positive=activation == "relu")
        if "cross" in mixers:  # last: only encoding needs them
            self.linears["cross_kv"] = add("cross", "key", "value")

    def table(self) -> LayerTable:
        linears = self.linears
        table = LayerTable(self._attention("self", linears["qkv"], LinearTable(), linears["output"]))
        if "cross" in self.mixers:
            table.cross_attention = self._attention(
                "cross", linears["cross_query"], linears["cross_kv"], linears["cross_output"]
            )
        table.inner = linears["inner"]
        table.outer = linears["outer"]
        table.norm = self.norms["feedforward"]
        return table

    def _attention(self, name: str, query: LinearTable, key_value: LinearTable, output: LinearTable) -> AttentionTable:
        mixer = self.mixers[name]
        sizes = [mixer[size] for size in ("heads", "groups", "d_k")]
        return AttentionTable(query, key_value, output, self.norms[name], *sizes, mixer["scale"])


def make_sinusoids(length: int, width: int, position: JsonObject) -> Array:
    """The sinusoidal positions of headway.nn.positions.positions: (length, width) float32, computed in float64."""
    is_closed = position.get("spacing") == "closed"
    steps = np.linspace(0, 1, width // 2) if is_closed else np.arange(0, width, 2, dtype=np.float64) / width
    numbers = np.arange(length, dtype=np.float64) + position.get("first", 0)
    angles = numbers[:, None] * position["base"] ** -steps
    sines, cosines = np.sin(angles), np.cos(angles)
    if position["layout"] == "halves":
        table = np.concatenate([sines, cosines[:, : width // 2]], axis=1)
    else:
        table = np.stack([sines, cosines], axis=2).reshape(length, -1)[:, :width]
    return np.ascontiguousarray(table, np.float32)
