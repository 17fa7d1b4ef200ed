"""A model as CTranslate2 reads it, made of the stored weights as they lie in their file. No torch, no numpy.

`variables` follows config.json, which is plain JSON here, part by part. Only what it knows to the last setting is
served; anything else is Unknown, with the reason, and left to the torch engine, which also words the errors of damaged
directories.
"""

import functools
import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.storage.tensor_file import SCALE, Stored

Table = dict[str, Any]
TYPES = {"F32": 0, "I8": 1, "I16": 2, "I32": 3}  # as CTranslate2 numbers them
ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "swiglu": 2}
FIELDS = {  # of each part that is known: a setting that is not listed may mean anything
    "model": "d_model vocabulary source_vocabulary dropout norm linear embedding encoder decoder head",
    "embedding": "tied scale norm segments",
    "encoder": "layers position mask mixer feedforward residual",
    "decoder": "layers position mask mixer cross feedforward residual",
    "norm layernorm": "eps",
    "norm rmsnorm": "eps",
    "linear dense": "",
    "position sinusoidal": "base layout",
    "position learned": "longest",
    "position none": "",
    "mask full": "",
    "mask causal": "",
    "mixer attention": "heads groups d_k d_v bias dropout scale kernel",
    "feedforward relu": "hidden bias dropout",
    "feedforward gelu": "hidden bias dropout",
    "feedforward gelu_tanh": "hidden bias dropout",
    "feedforward silu": "hidden bias dropout",
    "feedforward swiglu": "hidden bias dropout",
    "residual post": "",
    "residual pre": "",
    "head logits": "bias",
}


class Unknown(Exception):
    """What CTranslate2 does not know of a model."""


@dataclass
class Variable:
    """One tensor: its bytes are those of the parts, one after the other."""

    dtype: str
    shape: tuple[int, ...]
    parts: Sequence[bytes | memoryview]


@dataclass
class Layout:
    """All variables by CTranslate2's names, and those that are others under a second name."""

    eps: float
    variables: dict[str, Variable] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def attribute(self, name: str, dtype: str, value: float) -> None:
        code = {"F32": "<f", "I8": "<b", "I16": "<h", "I32": "<i"}[dtype]
        self.variables[name] = Variable(dtype, (), [struct.pack(code, value)])


def part(slot: str, table: Any) -> Table:
    """A part of a kind that is known, with no other settings than are known."""
    kind = table["kind"]
    if f"{slot} {kind}" not in FIELDS:
        raise Unknown(f"{slot} {kind} is not known to CTranslate2")
    return checked(f"{slot} {kind}", {name: value for name, value in table.items() if name != "kind"}) | {"kind": kind}


def checked(name: str, table: Table) -> Table:
    if set(table) != set(FIELDS[name].split()):
        raise Unknown(f"the settings of {name} are not those that this Headway writes")
    return table


def tiled(slot: str, parts: list[Any], layers: int) -> list[Table]:
    if not parts or layers % len(parts):
        raise Unknown(f"{slot} does not fit {layers} layers")
    known = [part(slot, entry) for entry in parts]
    return known * (layers // len(known))


def alike(what: str, values: Sequence[Any]) -> Any:
    if any(value != values[0] for value in values):
        raise Unknown(f"{what} that differ from layer to layer are not known to CTranslate2")
    return values[0]


class Reader:
    """Follows a config through the weights, and sees to it that each is used and has the shape it should have."""

    def __init__(self, model: Table, stored: Stored, reach: int) -> None:
        """reach: so many positions are marked, where the model could mark any number."""
        self.model, self.stored, self.reach = checked("model", model), stored, reach
        self.width = model["d_model"]
        self.norm = part("norm", model["norm"])
        part("linear", model["linear"])
        self.unused = {name for name in stored.entries if not name.endswith(SCALE)}
        self.layout = Layout(float(self.norm["eps"]))

    def read(self) -> Layout:
        embedding = checked("embedding", self.model["embedding"])
        if embedding["segments"]:
            raise Unknown("embedding.segments is not known to CTranslate2")
        head = part("head", self.model["head"])
        self.matrix("decoder/embeddings/weight", ["embeddings.decoder.words.weight"], (self.model["vocabulary"],), None)
        if embedding["tied"] == "all":
            self.alias("encoder/embeddings_0/weight", "decoder/embeddings/weight")
        else:
            words = (self.model["source_vocabulary"],)
            self.matrix("encoder/embeddings_0/weight", ["embeddings.encoder.words.weight"], words, None)
        if embedding["tied"] != "none":
            self.alias("decoder/projection/weight", "decoder/embeddings/weight")
        else:
            self.matrix("decoder/projection/weight", ["head.weight"], (self.model["vocabulary"],), None)
        if head["bias"]:
            self.vector("decoder/projection/bias", ["head.bias"], (self.model["vocabulary"],))
        for side in ("encoder", "decoder"):
            self.side(side, checked(side, self.model[side]), embedding)
        if self.unused:
            raise Unknown(f"the weight {min(self.unused)} has no place in it")
        return self.layout

    def side(self, name: str, table: Table, embedding: Table) -> None:
        layers, layout = table["layers"], self.layout
        if not layers:
            raise Unknown(f"a model without {name} is not a translator of CTranslate2")
        slots = ("mixer", "feedforward", *(["cross"] if name == "decoder" else []))
        parts = {slot: tiled("mixer" if slot == "cross" else slot, table[slot], layers) for slot in slots}
        for mask in tiled("mask", table["mask"], layers):
            if mask["kind"] != ("causal" if name == "decoder" else "full"):
                raise Unknown(f"mask {mask['kind']} in the {name} is not known to CTranslate2")
        mixers = parts["mixer"] + parts.get("cross", [])
        residual = part("residual", table["residual"])["kind"]
        layout.attribute(f"{name}/num_heads", "I16", alike("heads", [mixer["heads"] for mixer in mixers]))
        layout.attribute(f"{name}/pre_norm", "I8", residual == "pre")
        activation = alike("feed-forwards", [ACTIVATIONS[ff["kind"]] for ff in parts["feedforward"]])
        layout.attribute(f"{name}/activation", "I8", activation)
        layout.attribute(f"{name}/scale_embeddings", "I8", embedding["scale"])
        self.positions(name, alike("positions", tiled("position", table["position"], layers)))
        if embedding["norm"]:
            self.add_norm(f"{name}/layernorm_embedding", f"embeddings.{name}.norm")
        if residual == "pre":
            self.add_norm(f"{name}/layer_norm", f"stacks.{name}.ends.norm")
        for index in range(layers):
            ours, theirs = f"stacks.{name}.blocks.{index}", f"{name}/layer_{index}"
            self.attention(f"{theirs}/self_attention", ours, "self", parts["mixer"][index])
            if name == "decoder":
                self.attention(f"{theirs}/attention", ours, "cross", parts["cross"][index])
            self.feedforward(f"{theirs}/ffn", ours, parts["feedforward"][index])

    def positions(self, side: str, position: Table) -> None:
        name, kind = f"{side}/position_encodings/encodings", position["kind"]
        if kind == "learned":
            self.matrix(name, [f"stacks.{side}.positions.0.table.weight"], (position["longest"],), None)
            return
        made = Variable("F32", (self.reach, self.width), [bytes(4 * self.reach * self.width)])
        if kind == "sinusoidal":
            made.parts = [sinusoids(self.reach, self.width, position["base"], position["layout"])]
        self.layout.variables[name] = made

    def attention(self, name: str, ours: str, which: str, mixer: Table) -> None:
        heads, groups, d_k = mixer["heads"], mixer["groups"], mixer["d_k"]
        if mixer["d_v"] != d_k:
            raise Unknown(f"attention with d_v = {mixer['d_v']} beside d_k = {d_k} is not known to CTranslate2")
        sizes = {"query": (heads * d_k,), "key": (groups * d_k,), "value": (groups * d_k,), "output": (self.width,)}
        together = [["query", "key", "value"]] if which == "self" else [["query"], ["key", "value"]]
        for number, names in enumerate([*together, ["output"]]):
            inputs = heads * d_k if names == ["output"] else self.width
            self.linear(f"{name}/linear_{number}", f"{ours}.sublayers.{which}", names, sizes, mixer["bias"], inputs)
        self.layout.attribute(f"{name}/queries_scale", "F32", mixer["scale"])
        if groups != heads:
            self.layout.attribute(f"{name}/num_heads_kv", "I32", groups)
        if heads * d_k != self.width:
            self.layout.attribute(f"{name}/head_dim", "I32", d_k)
        self.add_norm(f"{name}/layer_norm", f"{ours}.residuals.{which}.norm")

    def feedforward(self, name: str, ours: str, table: Table) -> None:
        hidden, bias, gated = table["hidden"], table["bias"], table["kind"] == "swiglu"
        sizes = {"gate": (hidden,), "inner": (hidden,), "outer": (self.width,)}
        where = f"{ours}.sublayers.feedforward"
        self.linear(f"{name}/linear_0", where, ["gate" if gated else "inner"], sizes, bias, self.width)
        if gated:
            self.linear(f"{name}/linear_0_noact", where, ["inner"], sizes, bias, self.width)
        self.linear(f"{name}/linear_1", where, ["outer"], sizes, bias, hidden)
        self.add_norm(f"{name}/layer_norm", f"{ours}.residuals.feedforward.norm")

    def linear(
        self, name: str, where: str, layers: list[str], sizes: dict[str, tuple[int]], bias: bool, inputs: int
    ) -> None:
        """Several of our layers, one below the other, are one of theirs."""
        outputs = tuple(sizes[layer][0] for layer in layers)
        self.matrix(f"{name}/weight", [f"{where}.{layer}.weight" for layer in layers], outputs, inputs)
        if bias:
            self.vector(f"{name}/bias", [f"{where}.{layer}.bias" for layer in layers], outputs)

    def matrix(self, name: str, ours: list[str], rows: tuple[int, ...], inputs: int | None) -> None:
        width = self.width if inputs is None else inputs
        dtype = alike("weights", [self.take(one, (count, width)) for one, count in zip(ours, rows)])
        parts = [self.stored.bytes(one) for one in ours]
        self.layout.variables[name] = Variable(dtype, (sum(rows), width), parts)
        if dtype == "I8":
            scales = array("f", b"".join(self.stored.bytes(one + SCALE) for one in ours))
            theirs = array("f", [1 / scale if scale else 1.0 for scale in scales])  # what a weight was multiplied by
            self.layout.variables[f"{name}_scale"] = Variable("F32", (sum(rows),), [theirs.tobytes()])

    def vector(self, name: str, ours: list[str], sizes: tuple[int, ...]) -> None:
        for one, size in zip(ours, sizes):
            if self.take(one, (size,)) != "F32":
                raise Unknown(f"the weight {one} is not stored in float32")
        self.layout.variables[name] = Variable("F32", (sum(sizes),), [self.stored.bytes(one) for one in ours])

    def add_norm(self, name: str, ours: str) -> None:
        self.vector(f"{name}/gamma", [f"{ours}.gain"], (self.width,))
        if self.norm["kind"] == "layernorm":
            self.vector(f"{name}/beta", [f"{ours}.bias"], (self.width,))

    def alias(self, name: str, other: str) -> None:
        self.layout.aliases[name] = other
        if f"{other}_scale" in self.layout.variables:
            self.layout.aliases[f"{name}_scale"] = f"{other}_scale"

    def take(self, name: str, shape: tuple[int, ...]) -> str:
        """How a weight is stored, once it is sure that it is the one that is meant."""
        entry = self.stored.entries.get(name)
        if entry is None or entry.shape != shape:
            raise Unknown(f"the weight {name} is not as its config.json describes it")
        scale = self.stored.entries.get(name + SCALE)
        if entry.dtype == "I8" and (scale is None or (scale.dtype, scale.shape) != ("F32", shape[:1])):
            raise Unknown(f"the weight {name} has no scale for each of its rows")
        if entry.dtype not in ("F32", "I8"):
            raise Unknown(f"weights stored in {entry.dtype} are not known to CTranslate2")
        self.unused.discard(name)
        return entry.dtype


@functools.lru_cache(maxsize=1)  # the decoder's are the encoder's
def sinusoids(length: int, width: int, base: float, layout: str) -> bytes:
    """The table that headway.nn.positions.positions adds: (length, width), computed in float64."""
    rates = [base ** (-column / width) for column in range(0, width, 2)]
    table = array("f", bytes(4 * length * width))
    for place in range(length):
        angles = [place * rate for rate in rates]
        sines, cosines = array("f", map(math.sin, angles)), array("f", map(math.cos, angles[: width // 2]))
        first = place * width
        if layout == "halves":
            table[first : first + width] = sines + cosines
        else:
            table[first : first + width : 2], table[first + 1 : first + width : 2] = sines, cosines
    return table.tobytes()
