"""An encoder or a decoder of CTranslate2, from its variables: what our config says of it, and which tensor is which.

    decoder/num_heads  decoder/pre_norm …                      settings, one for all layers
    decoder/layer_0/self_attention/linear_0/weight             queries, keys and values, one below the other
    decoder/layer_0/attention/linear_0, linear_1, linear_2     to the source: queries; keys and values; output
    decoder/layer_0/ffn/linear_0, linear_0_noact, linear_1     gate or inner; inner of a gated one; outer

Every setting that the file has must be known: a new one may change what is computed."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.convert.architecture import (
    ConversionError,
    Json,
    final_norm,
    sublayer,
    sublayer_norm,
)
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.tensor_rules import RowSlice, TensorRule
from headway.nn.positions.positions import sinusoids

HEADS = 8  # where old files do not say
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
GATED_ACTIVATIONS = {1: "geglu_tanh", 2: "swiglu", 3: "geglu"}
ROTARY_SCALING = {0: "linear", 1: "longrope", 2: "llama3"}
ROTARY_BASE = 10000.0
COMPARED_POSITIONS = 4096
TABLE = "position_encodings/encodings"
BUCKETS = "self_attention/relative_attention_bias"
# Settings of a stack that are read here or elsewhere, or that change nothing.
STACK_SETTINGS = {
    "num_heads", "pre_norm", "activation", "scale_embeddings", "scale_outputs", "start_from_zero_embedding",
    "embeddings_merge", "multi_query_attention", "alignment_heads", "alignment_layer", "alibi",
    "alibi_use_positive_positions", "scale_alibi", "sliding_window",
}  # fmt: skip
ATTENTION_SETTINGS = {
    "queries_scale", "num_heads_kv", "head_dim", "sliding_window", "rotary_dim", "rotary_interleave", "rotary_base",
    "rotary_scaling_type", "rotary_scaling_factor", "rotary_low_freq_factor", "rotary_high_freq_factor",
    "relative_attention_max_distance",
}  # fmt: skip
MUST_BE_ZERO = {"alibi", "multi_query_attention"}
ATTENTIONS = {"self": "self_attention", "cross": "attention"}
# Our linear layers in each of theirs.
PARTS = {
    "self": (("query", "key", "value"), ("output",)),
    "cross": (("query",), ("key", "value"), ("output",)),
}
# The sinusoids that toolkits use: Marian's and Fairseq's, CTranslate2's own, which count from 1, and the paper's.
SINUSOIDS: tuple[Json, ...] = (
    {"kind": "sinusoidal", "layout": "halves"},
    {"kind": "sinusoidal", "layout": "halves", "spacing": "closed", "first": 2},
    {"kind": "sinusoidal", "layout": "halves", "spacing": "closed", "first": 1},
    {"kind": "sinusoidal", "layout": "halves", "spacing": "closed"},
    {"kind": "sinusoidal"},
)
OWN_SINUSOIDS = SINUSOIDS[2]


@dataclass(frozen=True, kw_only=True)
class StackDescription:
    """What is known of one side."""

    table: Json  # of our config
    rules: tuple[TensorRule, ...]
    unused: tuple[str, ...]  # tensors that hold nothing of their own
    positions: int | None  # that it learned; None: no limit
    has_rms_norm: bool


def read_stack(file: ModelFile, side: str, width: int) -> StackDescription:
    """width: d_model."""
    return StackReader(file, side, width).read()


class StackReader:
    def __init__(self, file: ModelFile, side: str, width: int) -> None:
        self.file, self.side, self.width = file, side, width
        found = file.settings().items()
        self.settings = {name.removeprefix(f"{side}/"): value for name, value in found if name.startswith(f"{side}/")}
        self.has_cross = file.has(f"{side}/layer_0/attention/linear_0/weight")

    def read(self) -> StackDescription:
        self.check_settings()
        layers = self.count_layers()
        pre_norm = self.file.has(f"{self.side}/layer_norm/gamma")
        if "pre_norm" in self.settings and bool(self.settings["pre_norm"]) != pre_norm:
            raise ConversionError(
                f"{self.file.path}: the {self.side} is pre-norm without a norm at its end, or post-norm with "
                "one, which is not supported."
            )
        mixers = [self.read_mixer(f"layer_{n}/self_attention") for n in range(layers)]
        position, position_rules, unused, positions = self.read_position(layers, mixers[0]["d_k"])
        window = self.read_window(layers)
        mask = "full" if self.side == "encoder" else "causal"
        table: Json = {
            "layers": layers,
            "position": position,
            "mask": f"{mask} & local({window})" if window else mask,
            "mixer": self.require_same(mixers, "attention"),
            "feedforward": self.require_same([self.read_feedforward(n) for n in range(layers)], "feed-forwards"),
            "residual": "pre" if pre_norm else "post",
        }
        if self.has_cross:
            cross = [self.read_mixer(f"layer_{n}/attention") for n in range(layers)]
            table["cross"] = self.require_same(cross, "attention to the source")
        rules = [rule for n in range(layers) for rule in self.layer_rules(n, table)]
        if pre_norm:
            rules += self.norm_rules(final_norm(self.side), f"{self.side}/layer_norm")
        return StackDescription(
            table=table,
            rules=(*rules, *position_rules),
            unused=unused,
            positions=positions,
            has_rms_norm=not self.file.has(f"{self.side}/layer_0/ffn/layer_norm/beta"),
        )

    def check_settings(self) -> None:
        """Raise ConversionError unless each setting is known, and has a value that Headway computes."""
        for name, value in self.settings.items():
            if name.endswith("/multiply_by_sqrt_depth"):
                continue  # of the embeddings: checked with them
            last = name.rpartition("/")[2]
            known = ATTENTION_SETTINGS if re.fullmatch(r"layer_\d+/(self_)?attention/\w+", name) else STACK_SETTINGS
            if last not in known or (known is STACK_SETTINGS and "/" in name):
                raise self.refuse(name, value)
            if last in MUST_BE_ZERO and value:
                raise self.refuse(name, value, ", only 0")

    def refuse(self, name: str, value: Any, more: str = "") -> ConversionError:
        return ConversionError(f"{self.file.path}: {self.side}/{name} = {value:g} is not supported{more}.")

    def count_layers(self) -> int:
        pattern = re.compile(rf"{self.side}/layer_(\d{{1,6}})/")
        numbers = {int(match[1]) for name in self.file.names() if (match := pattern.match(name))}
        if not numbers or numbers != set(range(len(numbers))):
            raise ConversionError(f"{self.file.path} lacks layers of the {self.side}. Download the model again.")
        return len(numbers)

    def require_same(self, found: Sequence[Any], what: str) -> Any:
        """One value for all layers."""
        if any(value != found[0] for value in found):
            raise ConversionError(f"{self.file.path}: layers of the {self.side} differ in their {what}.")
        return found[0]

    def size(self, name: str, default: int) -> int:
        value = self.settings.get(name, default)
        if value != int(value) or not 0 < value < 2**31:
            raise ConversionError(f"{self.file.path}: {self.side}/{name} = {value:g} is not a size. Download it again.")
        return int(value)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a matrix."""
        path = f"{self.side}/{name}"
        if not self.file.has(path) or len(self.file.shape(path)) != 2:
            raise ConversionError(f"{self.file.path} has no matrix {path}. Download the model again.")
        return self.file.shape(path)

    def has(self, name: str) -> bool:
        return self.file.has(f"{self.side}/{name}")

    # Attention.
    def read_mixer(self, path: str) -> Json:
        heads = self.size("num_heads", HEADS)
        groups = self.size(f"{path}/num_heads_kv", heads)
        scale = self.settings.get(f"{path}/queries_scale")
        d_k = self.read_head_width(path, heads, groups, is_scaled=scale is not None)
        last = "linear_2" if path.endswith("/attention") else "linear_1"
        bias, output_bias = self.has(f"{path}/linear_0/bias"), self.has(f"{path}/{last}/bias")
        self.check_rows(path, heads * d_k, groups * d_k)
        mixer: Json = {"kind": "attention", "heads": heads, "groups": groups, "d_k": d_k, "bias": bias}
        if output_bias != bias:
            mixer["output_bias"] = output_bias
        if scale is not None and not math.isclose(scale, d_k**-0.5, rel_tol=1e-6):
            mixer["scale"] = scale
        if self.has(f"{path}/q_norm/gamma"):
            mixer["qk_norm"] = {"kind": "rmsnorm"}  # the epsilon is that of all norms
        return mixer

    def read_head_width(self, path: str, heads: int, groups: int, is_scaled: bool) -> int:
        """head_dim, else that of the heads that the width is divided into. T5 has heads of another width, and says by
        what its scores are scaled."""
        usual = self.width // heads or 1
        if f"{path}/head_dim" not in self.settings and is_scaled and groups == heads:
            rows = self.shape(f"{path}/linear_0/weight")[0]
            usual = rows // (heads * (3 if path.endswith("self_attention") else 1)) or 1
        return self.size(f"{path}/head_dim", usual)

    def check_rows(self, path: str, queries: int, keys: int) -> None:
        """Raise ConversionError unless a matrix of several parts has the rows of all of them, and no more."""
        expected = {"linear_0": queries, "linear_1": 2 * keys}
        if path.endswith("self_attention"):
            expected = {"linear_0": queries + 2 * keys}
        for linear, rows in expected.items():
            found = self.shape(f"{path}/{linear}/weight")
            if found[0] != rows:
                raise ConversionError(
                    f"{self.file.path}: {self.side}/{path}/{linear}/weight has {found[0]} rows, and its settings "
                    f"(num_heads, num_heads_kv, head_dim) make {rows}."
                )

    def read_feedforward(self, layer: int) -> Json:
        path = f"layer_{layer}/ffn"
        gated = self.has(f"{path}/linear_0_noact/weight")
        kinds = GATED_ACTIVATIONS if gated else ACTIVATIONS
        activation = int(self.settings.get("activation", 0))
        if activation not in kinds:
            raise self.refuse("activation", activation, f" here, only {', '.join(map(str, kinds))}")
        linears = ("linear_0", "linear_1", *(("linear_0_noact",) if gated else ()))
        biases = {self.has(f"{path}/{linear}/bias") for linear in linears}
        if len(biases) > 1:
            raise ConversionError(
                f"{self.file.path}: some linear layers of {self.side}/{path} have a bias, others not, which is not "
                "supported."
            )
        hidden = self.shape(f"{path}/linear_0/weight")[0]
        return {"kind": kinds[activation], "hidden": hidden, "bias": biases.pop()}

    def read_window(self, layers: int) -> int:
        """Of which the last token is one; 0: all tokens are seen."""
        windows = [int(self.settings.get(f"layer_{n}/self_attention/sliding_window", 0)) for n in range(layers)]
        window: int = self.require_same(windows, "sliding windows")
        if window < 0 or (window and self.side == "encoder"):
            raise self.refuse("layer_0/self_attention/sliding_window", window)
        return window

    # Positions.
    def read_position(
        self, layers: int, head_width: int
    ) -> tuple[str | Json, tuple[TensorRule, ...], tuple[str, ...], int | None]:
        """The position, its tensors, those that hold nothing, and how many positions there are."""
        if self.has(f"layer_0/{BUCKETS}"):
            return self.read_buckets(layers)
        if "layer_0/self_attention/rotary_dim" in self.settings:
            found = [self.read_rotary(f"layer_{n}/self_attention", head_width) for n in range(layers)]
            return self.require_same(found, "rotary positions"), (), (), None
        name = f"{self.side}/{TABLE}"
        if not self.file.has(name):
            return OWN_SINUSOIDS, (), (), None
        table = self.file.read(name)
        sinusoid = find_sinusoid(table, self.width)
        if sinusoid is not None:
            return sinusoid, (), (name,), None
        return (
            f"learned({len(table)})",
            (TensorRule(f"stacks.{self.side}.positions.0.table.weight", name),),
            (),
            len(table),
        )

    def read_buckets(self, layers: int) -> tuple[str, tuple[TensorRule, ...], tuple[str, ...], None]:
        """T5's: one table of scores by distance for all layers."""
        names = [f"{self.side}/layer_{n}/{BUCKETS}" for n in range(layers)]
        distances = [self.settings.get(f"layer_{n}/{BUCKETS.replace('bias', 'max_distance')}") for n in range(layers)]
        own = [name for name in names if not self.file.has(name) or self.file.find(name) != self.file.find(names[0])]
        if own and not all(self.file.has(n) and torch.equal(self.file.read(n), self.file.read(names[0])) for n in own):
            raise ConversionError(
                f"{self.file.path}: {own[0]} is not that of the first layer, and Headway's t5 shares one table in all "
                "layers."
            )
        distance = self.require_same(distances, "relative positions")
        if distance is None:
            raise ConversionError(f"{self.file.path} does not say relative_attention_max_distance. Convert it again.")
        buckets = self.shape(f"layer_0/{BUCKETS}")[0]
        rule = TensorRule(f"stacks.{self.side}.positions.0.table", names[0])
        return f"t5({buckets}, {int(distance)})", (rule,), tuple(names[1:]), None

    def read_rotary(self, path: str, head_width: int) -> Json:
        rotated = self.settings[f"{path}/rotary_dim"]
        if rotated not in (0, head_width):
            raise self.refuse(f"{path}/rotary_dim", rotated, f", only that of whole heads ({head_width})")
        layout = "interleaved" if self.settings.get(f"{path}/rotary_interleave", 1) else "halves"
        base = float(self.settings.get(f"{path}/rotary_base", ROTARY_BASE))
        position: Json = {"kind": "rope", "base": base, "layout": layout}
        scaling = self.settings.get(f"{path}/rotary_scaling_type")
        if scaling is not None:
            if scaling != 0:
                raise ConversionError(
                    f"{self.file.path}: {self.side}/{path}/rotary_scaling_type = {scaling:g} "
                    f"({ROTARY_SCALING.get(int(scaling), 'unknown')}) is not supported, only 0 (linear): such a file "
                    "does not hold all that the original computes with. Import the original."
                )
            factor = float(self.settings.get(f"{path}/rotary_scaling_factor", 1.0))
            position["scaling"] = {"kind": "linear", "factor": factor}
        return position

    # Tensors.
    def layer_rules(self, layer: int, table: Json) -> list[TensorRule]:
        theirs = f"{self.side}/layer_{layer}"
        rules = []
        for which, name in ATTENTIONS.items():
            if which == "cross" and not self.has_cross:
                continue
            mixer = table["mixer" if which == "self" else "cross"]
            ours = sublayer(self.side, layer, which)
            keys = mixer["groups"] * mixer["d_k"]
            sizes = {"query": mixer["heads"] * mixer["d_k"], "key": keys, "value": keys}
            for number, parts in enumerate(PARTS[which]):
                rules += self.split_rules(ours, f"{theirs}/{name}/linear_{number}", parts, sizes)
            if "qk_norm" in mixer:
                rules += self.norm_rules(f"{ours}.query_norm", f"{theirs}/{name}/q_norm")
                rules += self.norm_rules(f"{ours}.key_norm", f"{theirs}/{name}/k_norm")
            rules += self.norm_rules(sublayer_norm(self.side, layer, which), f"{theirs}/{name}/layer_norm")
        ours = sublayer(self.side, layer, "feedforward")
        gated = self.file.has(f"{theirs}/ffn/linear_0_noact/weight")
        names = {"gate": "linear_0", "inner": "linear_0_noact"} if gated else {"inner": "linear_0"}
        for own, their in {**names, "outer": "linear_1"}.items():
            rules += self.split_rules(ours, f"{theirs}/ffn/{their}", (own,), {})
        return rules + self.norm_rules(sublayer_norm(self.side, layer, "feedforward"), f"{theirs}/ffn/layer_norm")

    def split_rules(self, ours: str, theirs: str, parts: Sequence[str], rows: dict[str, int]) -> list[TensorRule]:
        """Of one linear layer of theirs, which holds several of ours."""
        ends = ("weight", "bias") if self.file.has(f"{theirs}/bias") else ("weight",)
        rules = []
        first = 0
        for part in parts:
            cut = (RowSlice(first, rows[part]),) if len(parts) > 1 else ()
            rules += [TensorRule(f"{ours}.{part}.{end}", f"{theirs}/{end}", cut) for end in ends]
            first += rows.get(part, 0)
        return rules

    def norm_rules(self, ours: str, theirs: str) -> list[TensorRule]:
        """Of a norm: with a bias, or RMS norm without."""
        if not self.file.has(f"{theirs}/gamma"):
            raise ConversionError(
                f"{self.file.path} has no {theirs}/gamma: its norms stand elsewhere (parallel residuals, norms behind "
                "sub-layers, or none), which is not supported."
            )
        rules = [TensorRule(f"{ours}.gain", f"{theirs}/gamma")]
        return [*rules, TensorRule(f"{ours}.bias", f"{theirs}/beta")] if self.file.has(f"{theirs}/beta") else rules


def find_sinusoid(table: Tensor, width: int) -> Json | None:
    """The sinusoids in this table of positions; None if they were learned."""
    if table.dim() != 2 or table.shape[1] != width or width % 2:
        return None
    table, atol = table[:COMPARED_POSITIONS].double(), 1e-3 if table.dtype == torch.float32 else 2e-2
    for settings in SINUSOIDS:
        places = torch.arange(len(table)) + settings.get("first", 0)
        layout, spacing = settings.get("layout", "interleaved"), settings.get("spacing", "open")
        values = sinusoids(places, width, layout=layout, spacing=spacing)
        if torch.allclose(table, values, rtol=0, atol=atol):
            return settings
    return None
