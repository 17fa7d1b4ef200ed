"""A model's stored weights as CTranslate2's variables, by reference into the stored file. No torch, no numpy.

Ct2LayoutBuilder follows config.json, which is plain JSON here, part by part; see headway.decode.stored_config.
"""

import functools
import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from headway.decode.stored_config import (
    JsonObject,
    UnsupportedModelError,
    check_fields,
    check_part,
    require_equal,
    tile_parts,
)
from headway.storage.tensor_file import SCALE_SUFFIX, TensorFile

DTYPE_CODES = {"F32": 0, "I8": 1, "I16": 2, "I32": 3}  # CTranslate2's numbers
ACTIVATION_CODES = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3}
GATE_ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}


@dataclass
class Ct2Variable:
    """One tensor: its bytes are the concatenation of `parts`."""

    dtype: str
    shape: tuple[int, ...]
    parts: Sequence[bytes | memoryview]


@dataclass
class Ct2Layout:
    """All variables by CTranslate2's names, and further names of some."""

    eps: float
    variables: dict[str, Ct2Variable] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def set_attribute(self, name: str, dtype: str, value: float) -> None:
        code = {"F32": "<f", "I8": "<b", "I16": "<h", "I32": "<i"}[dtype]
        self.variables[name] = Ct2Variable(dtype, (), [struct.pack(code, value)])


class Ct2LayoutBuilder:
    """Maps the weights that a config describes, and checks that each has its shape and that none is left over."""

    def __init__(self, model: JsonObject, stored: TensorFile, positions: int) -> None:
        """positions: the size of the position table, where the model has no limit of its own."""
        self.model = check_fields("model", model)
        self.stored = stored
        self.max_positions = positions
        self.width = model["d_model"]
        self.norm = check_part("norm", model["norm"])
        check_part("linear", model["linear"])
        self.unused = {name for name in stored.entries if not name.endswith(SCALE_SUFFIX)}
        self.layout = Ct2Layout(float(self.norm["eps"]))

    def build(self) -> Ct2Layout:
        embedding = check_fields("embedding", self.model["embedding"])
        if embedding["segments"]:
            raise UnsupportedModelError("embedding.segments is not supported")
        head = check_part("head", self.model["head"])
        vocabulary = (self.model["vocabulary"],)
        self.add_matrix("decoder/embeddings/weight", ["embeddings.decoder.words.weight"], vocabulary, None)
        if embedding["tied"] in ("all", "inputs"):
            self.add_alias("encoder/embeddings_0/weight", "decoder/embeddings/weight")
        else:
            rows = (self.model["source_vocabulary"],)
            self.add_matrix("encoder/embeddings_0/weight", ["embeddings.encoder.words.weight"], rows, None)
        if embedding["tied"] in ("all", "target"):
            self.add_alias("decoder/projection/weight", "decoder/embeddings/weight")
        else:
            self.add_matrix("decoder/projection/weight", ["head.weight"], vocabulary, None)
        if head["bias"]:
            self.add_vector("decoder/projection/bias", ["head.bias"], vocabulary)
        for side in ("encoder", "decoder"):
            self.add_stack(side, check_fields(side, self.model[side]), embedding)
        if self.unused:
            raise UnsupportedModelError(f"the weight {min(self.unused)} is not part of what its config.json describes")
        return self.layout

    def add_stack(self, name: str, table: JsonObject, embedding: JsonObject) -> None:
        layers = table["layers"]
        layout = self.layout
        if not layers:
            raise UnsupportedModelError(f"translators without {name} are not supported")
        slots = ("mixer", "feedforward", *(["cross"] if name == "decoder" else []))
        parts = {slot: tile_parts("mixer" if slot == "cross" else slot, table[slot], layers) for slot in slots}
        for mask in tile_parts("mask", table["mask"], layers):
            if mask["kind"] != ("causal" if name == "decoder" else "full"):
                raise UnsupportedModelError(f"mask {mask['kind']} in the {name} is not supported")
        mixers = parts["mixer"] + parts.get("cross", [])
        residual = check_part("residual", table["residual"])["kind"]
        layout.set_attribute(f"{name}/num_heads", "I16", require_equal("heads", [mixer["heads"] for mixer in mixers]))
        layout.set_attribute(f"{name}/pre_norm", "I8", residual == "pre")
        activation = require_equal("feed-forwards", [_activation_code(ff["kind"]) for ff in parts["feedforward"]])
        layout.set_attribute(f"{name}/activation", "I8", activation)
        layout.set_attribute(f"{name}/scale_embeddings", "I8", embedding["scale"])
        self.add_positions(name, require_equal("positions", tile_parts("position", table["position"], layers)))
        if embedding["norm"]:
            self.add_norm(f"{name}/layernorm_embedding", f"embeddings.{name}.norm")
        if residual == "pre":
            self.add_norm(f"{name}/layer_norm", f"stacks.{name}.ends.norm")
        for index in range(layers):
            ours, theirs = f"stacks.{name}.blocks.{index}", f"{name}/layer_{index}"
            self.add_attention(f"{theirs}/self_attention", ours, "self", parts["mixer"][index])
            if name == "decoder":
                self.add_attention(f"{theirs}/attention", ours, "cross", parts["cross"][index])
            self.add_feedforward(f"{theirs}/ffn", ours, parts["feedforward"][index])

    def add_positions(self, side: str, position: JsonObject) -> None:
        name = f"{side}/position_encodings/encodings"
        kind = position["kind"]
        if kind == "learned":
            self.add_matrix(name, [f"stacks.{side}.positions.0.table.weight"], (position["max_positions"],), None)
            return
        table = Ct2Variable("F32", (self.max_positions, self.width), [bytes(4 * self.max_positions * self.width)])
        if kind == "sinusoidal":
            settings = position["base"], position["layout"], position.get("spacing", "open"), position.get("first", 0)
            table.parts = [sinusoid_bytes(self.max_positions, self.width, *settings)]
        self.layout.variables[name] = table

    def add_attention(self, name: str, ours: str, which: str, mixer: JsonObject) -> None:
        heads, groups, d_k = mixer["heads"], mixer["groups"], mixer["d_k"]
        if mixer["d_v"] != d_k:
            raise UnsupportedModelError(f"attention with d_v = {mixer['d_v']} beside d_k = {d_k} is not supported")
        sizes = {"query": (heads * d_k,), "key": (groups * d_k,), "value": (groups * d_k,), "output": (self.width,)}
        together = [["query", "key", "value"]] if which == "self" else [["query"], ["key", "value"]]
        for number, names in enumerate([*together, ["output"]]):
            inputs = heads * d_k if names == ["output"] else self.width
            self.add_linear(f"{name}/linear_{number}", f"{ours}.sublayers.{which}", names, sizes, mixer["bias"], inputs)
        self.layout.set_attribute(f"{name}/queries_scale", "F32", mixer["scale"])
        if groups != heads:
            self.layout.set_attribute(f"{name}/num_heads_kv", "I32", groups)
        if heads * d_k != self.width:
            self.layout.set_attribute(f"{name}/head_dim", "I32", d_k)
        self.add_norm(f"{name}/layer_norm", f"{ours}.residuals.{which}.norm")

    def add_feedforward(self, name: str, ours: str, table: JsonObject) -> None:
        hidden, bias = table["hidden"], table["bias"]
        gated = table["kind"] in GATE_ACTIVATIONS
        sizes = {"gate": (hidden,), "inner": (hidden,), "outer": (self.width,)}
        where = f"{ours}.sublayers.feedforward"
        self.add_linear(f"{name}/linear_0", where, ["gate" if gated else "inner"], sizes, bias, self.width)
        if gated:
            self.add_linear(f"{name}/linear_0_noact", where, ["inner"], sizes, bias, self.width)
        self.add_linear(f"{name}/linear_1", where, ["outer"], sizes, bias, hidden)
        self.add_norm(f"{name}/layer_norm", f"{ours}.residuals.feedforward.norm")

    def add_linear(
        self, name: str, where: str, layers: list[str], sizes: dict[str, tuple[int]], bias: bool, inputs: int
    ) -> None:
        """Several of our layers, one below the other, are one of CTranslate2's."""
        outputs = tuple(sizes[layer][0] for layer in layers)
        self.add_matrix(f"{name}/weight", [f"{where}.{layer}.weight" for layer in layers], outputs, inputs)
        if bias:
            self.add_vector(f"{name}/bias", [f"{where}.{layer}.bias" for layer in layers], outputs)

    def add_matrix(self, name: str, ours: list[str], rows: tuple[int, ...], inputs: int | None) -> None:
        width = self.width if inputs is None else inputs
        dtype = require_equal("weights", [self.check_weight(one, (count, width)) for one, count in zip(ours, rows)])
        parts = [self.stored.bytes(one) for one in ours]
        self.layout.variables[name] = Ct2Variable(dtype, (sum(rows), width), parts)
        if dtype == "I8":
            scales = array("f", b"".join(self.stored.bytes(one + SCALE_SUFFIX) for one in ours))
            theirs = array("f", [1 / scale if scale else 1.0 for scale in scales])  # CTranslate2 divides by its scales
            self.layout.variables[f"{name}_scale"] = Ct2Variable("F32", (sum(rows),), [theirs.tobytes()])

    def add_vector(self, name: str, ours: list[str], sizes: tuple[int, ...]) -> None:
        for one, size in zip(ours, sizes):
            if self.check_weight(one, (size,)) != "F32":
                raise UnsupportedModelError(f"the weight {one} is not stored in float32")
        self.layout.variables[name] = Ct2Variable("F32", (sum(sizes),), [self.stored.bytes(one) for one in ours])

    def add_norm(self, name: str, ours: str) -> None:
        self.add_vector(f"{name}/gamma", [f"{ours}.gain"], (self.width,))
        if self.norm["kind"] == "layernorm":
            self.add_vector(f"{name}/beta", [f"{ours}.bias"], (self.width,))

    def add_alias(self, name: str, other: str) -> None:
        self.layout.aliases[name] = other
        if f"{other}_scale" in self.layout.variables:
            self.layout.aliases[f"{name}_scale"] = f"{other}_scale"

    def check_weight(self, name: str, shape: tuple[int, ...]) -> str:
        """The dtype that a weight is stored in, after checking that it is there with this shape."""
        entry = self.stored.entries.get(name)
        if entry is None or entry.shape != shape:
            raise UnsupportedModelError(f"the weight {name} is not as its config.json describes it")
        scale = self.stored.entries.get(name + SCALE_SUFFIX)
        if entry.dtype == "I8" and (scale is None or (scale.dtype, scale.shape) != ("F32", shape[:1])):
            raise UnsupportedModelError(f"the weight {name} has no scale for each of its rows")
        if entry.dtype not in ("F32", "I8"):
            raise UnsupportedModelError(f"weights stored in {entry.dtype} are not supported")
        self.unused.discard(name)
        return entry.dtype


def _activation_code(kind: str) -> int:
    return ACTIVATION_CODES[GATE_ACTIVATIONS.get(kind, kind)]


@functools.lru_cache(maxsize=1)  # encoder and decoder have the same
def sinusoid_bytes(
    length: int, width: int, base: float, layout: str, spacing: str = "open", first_number: int = 0
) -> bytes:
    """The sinusoidal positions of headway.nn.positions.positions: (length, width) float32, computed in float64."""
    last = max(width - 2, 1) if spacing == "closed" else width
    rates = [base ** (-column / last) for column in range(0, width, 2)]
    table = array("f", bytes(4 * length * width))
    for position in range(length):
        angles = [(first_number + position) * rate for rate in rates]
        sines = array("f", map(math.sin, angles))
        cosines = array("f", map(math.cos, angles[: width // 2]))
        first = position * width
        if layout == "halves":
            table[first : first + width] = sines + cosines
        else:
            table[first : first + width : 2] = sines
            table[first + 1 : first + width : 2] = cosines
    return table.tobytes()
