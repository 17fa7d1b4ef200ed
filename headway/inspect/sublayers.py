"""One sub-layer as the page shows it: its tensors, the equations that lead from one to the next, and its weights.

A mixer need not compute what the paper's attention computes. So an equation is named only where it holds for the
numbers of the trace: the page prints no other.

    norm      input = norm(x), with norm_gain and norm_bias; "same": input = x
    q, k, v   (unnormed_q, unrotated_q or q) = input · W + b, and k · key_scale and v of the source
    qk_norm   (unrotated_q or q) = norm(unnormed_q), with q_norm_gain and q_norm_bias; k likewise
    rotation  q = unrotated_q, each pair of channels turned by position · rate; k likewise, times key_scale
    product   scores = q · k · scale + score_bias
    decay     scores = q · k · (the decays of all steps between the two)
    softmax   weights = softmax(scores where the mask allows)
    sum       context = Σ weight · v + value_bias; without weights Σ score · v
    gated     joined = gate · rms(context) of each head
    concat    joined = the contexts of all heads
    normed    joined = norm(the contexts of all heads), with output_norm_gain and output_norm_bias
    output    output = joined · W + b
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.inspect.events import pack_floats
from headway.nn.layers.linear import Dense
from headway.nn.masks.masks import FULL, Mask, dense_mask, make_mask
from headway.nn.positions.positions import apply_rotary
from headway.nn.transformer import Transformer

TOLERANCE = 1e-4  # of an equation, relative to its largest number: rounding of float32
ORDER = ("self", "cross", "feedforward")  # of the sub-layers of a layer
LETTERS = {"q": "query", "k": "key", "v": "value", "g": "gate", "o": "output"}  # what the page calls the matrices
PER_QUERY_HEAD = ("q", "unnormed_q", "unrotated_q", "scores", "score_bias", "weights", "value_bias", "context", "decay")
PER_KEY_HEAD = ("k", "unnormed_k", "unrotated_k", "v")
NORMS = ("norm", "q_norm", "k_norm", "output_norm")
GAINS = tuple(f"{norm}_{name}" for norm in NORMS for name in ("gain", "bias"))
FLAT = (*GAINS, "rotation_rates", "rotation_amplitude")  # the same for all tokens
PLAIN = ("x", "input", "source", *FLAT, "gate", "joined", "output")
# Kinds whose queries, keys and values are the product of what comes in with one matrix each; the parts listed.
PROJECTING = {
    "attention": "qkvo",
    "ring": "qkvo",
    "shared_kv": "qo",  # keys and values are made once, below its layers
    "retention": "qkvgo",
    "general": "kvo",  # q is what comes in
    "additive": "qkvo",
    "hard_attention": "qkvo",
    "luong_local": "qkvo",
    "unlimiformer": "qkvo",
    "dcmha": "qkvo",
    "longnet": "qkvo",
}


@functools.lru_cache(maxsize=4)
def _resolve(config: Transformer.Config) -> Transformer.Config:
    """Kept, since every sub-layer and every column of its matrices asks."""
    return config.resolved()


class Parts(NamedTuple):
    """What the config puts into one sub-layer."""

    mixer: Any  # None in a feed-forward
    position: Any  # None in cross-attention, which has none
    mask: Mask
    norm: Any

    @classmethod
    def of(cls, config: Transformer.Config, path: str) -> "Parts":
        side, layer, *_, sub = path.split(".")
        stack, index = getattr(_resolve(config), side), int(layer)
        if sub == "self":
            mask = make_mask(stack.tiled("mask")[index])
            return cls(stack.tiled("mixer")[index], stack.tiled("position")[index], mask, config.norm)
        return cls(stack.tiled("cross")[index] if sub == "cross" else None, None, FULL, config.norm)

    @property
    def kind(self) -> str:
        return "" if self.mixer is None else self.mixer.kind

    @property
    def matrices(self) -> str:
        return PROJECTING.get(self.kind, "")

    def facts(self) -> dict[str, Any]:
        d_k = getattr(self.mixer, "d_k", None) or 1
        scale = getattr(self.mixer, "scale", None)
        is_retention = self.kind == "retention"
        return {
            "kind": self.kind,
            **_norm_facts("norm", self.norm),
            **_norm_facts("qk_norm", getattr(self.mixer, "qk_norm", None)),
            **_norm_facts("output_norm", getattr(self.mixer, "output_norm", None)),
            "scale": float(d_k**-0.5 if scale is None else scale),
            "key_scale": float(d_k**-0.5) if is_retention else 1.0,  # of keys, before they are kept
            "position": "none" if self.position is None else self.position.kind,
            "layout": getattr(self.position, "layout", "interleaved"),  # of the pairs of channels that are rotated
            "gate_eps": float(self.mixer.eps) if is_retention else 0.0,  # of the norm of each head before the gate
            "biased": [letter for letter in self.matrices if self._has_bias(letter)],
        }

    def _has_bias(self, letter: str) -> bool:
        return bool(getattr(self.mixer, "has_output_bias", self.mixer.bias) if letter == "o" else self.mixer.bias)


def _norm_facts(name: str, norm: Any) -> dict[str, Any]:
    """Its kind, "" where there is none, and its eps."""
    return {name: "" if norm is None else norm.kind, f"{name}_eps": float(getattr(norm, "eps", 0.0))}


def describe_sublayer(
    tensors: Mapping[str, Tensor],
    path: str,
    config: Transformer.Config,
    model: Transformer | None = None,
    head: int | None = None,
) -> dict[str, Any]:
    """The tensors of one sub-layer, such as decoder.0.cross, and `about`: what the config says, and the equations.

    x is the residual stream before it; `input` what enters it, where that is another; `source` what keys and values are
    made of, where that is not the input. head: of the tensors of heads only those of this head."""
    parts = Parts.of(config, path)
    facts = parts.facts()
    found = _gather_tensors(tensors, path)
    equations = find_equations(found, facts, parts.mask)
    if "concat" in equations and "joined" not in found:
        found["joined"] = found["context"].transpose(0, 1).flatten(1)
    has_queries = "q" in found
    equations += [letter for letter in parts.matrices if has_queries and letter != "o"]
    if "o" in parts.matrices and "joined" in found and _makes_output(found, path, model):
        equations.append("output")
    layers = [] if model is None else [_find_linear(model, path, letter) for letter in parts.matrices]
    about = {
        **facts,
        "equations": equations,
        "rounds": any(type(layer) is not Dense for layer in layers),  # 8 bits, or another kind of its own
        "heads": len(found["q"]) if has_queries else 1,
        "head": head,
    }
    needed_by = dict(zip(GAINS, ("norm", "norm", *["qk_norm"] * 4, "normed", "normed")))
    for name, equation in {**needed_by, "rotation_rates": "rotation", "gate": "gated"}.items():
        if equation not in equations:
            found.pop(name, None)
    if "same" in equations:
        found.pop("input")
    if head is not None:
        found = _select_head(found, head)
    names = [name for name in (*PLAIN, *PER_QUERY_HEAD, *PER_KEY_HEAD) if name in found and name != "context"]
    return {**{name: pack_floats(found[name]) for name in names}, "about": about}


def _gather_tensors(tensors: Mapping[str, Tensor], path: str) -> dict[str, Tensor]:
    side, layer, *inner, sub = path.split(".")
    own = "query." if inner else ""  # XLNet's second stream
    before = [f"{side}.{layer}.{own}{name}.stream" for name in ORDER[: ORDER.index(sub)]]
    before = [f"{side}.{int(layer) - 1}.{own}{name}.stream" for name in ORDER] + before
    earlier = [name for name in reversed(before) if name in tensors]
    x = tensors.get(earlier[0] if earlier else f"{side}.{own}embedded")
    names = (*PLAIN, *PER_QUERY_HEAD, *PER_KEY_HEAD)
    found = {name: tensors[f"{path}.{name}"] for name in names if f"{path}.{name}" in tensors}
    if x is not None:
        found["x"] = x
    source = f"{side}.{layer}.self.input" if own else "encoder.output" if sub == "cross" else ""
    if source in tensors:
        found["source"] = tensors[source]
    for name in FLAT:
        if name in found:
            found[name] = found[name].flatten()
    return found


def find_equations(found: dict[str, Tensor], facts: Mapping[str, Any], mask: Mask) -> list[str]:
    """Those of the list above that hold, but for products with weights, which a trace does not have. Adds `context`."""
    holds: list[str] = []
    if "input" in found and "x" in found:
        if _equal(found["input"], found["x"]):
            holds.append("same")
        elif _equal(found["input"], _apply_norm(found["x"], "norm", found, facts["norm"], facts["norm_eps"])):
            holds.append("norm")
    if not {"q", "k", "v"} <= found.keys():
        return holds
    q, heads = found["q"], len(found["q"])
    k, v = (_repeat_groups(found[name], heads) for name in ("k", "v"))
    if {"unnormed_q", "unnormed_k"} <= found.keys() and all(_norms_heads(letter, found, facts) for letter in "qk"):
        holds.append("qk_norm")
    if "rotation_rates" in found and "unrotated_q" in found:
        holds_for_k = "unrotated_k" not in found or _equal(
            found["k"], facts["key_scale"] * _rotate(found["unrotated_k"], found, facts)
        )
        if holds_for_k and _equal(q, _rotate(found["unrotated_q"], found, facts)):
            holds.append("rotation")
    scores, weights = found.get("scores"), found.get("weights")
    if scores is None or k.shape[1] != scores.shape[-1]:
        return holds
    products = q @ k.mT
    if "decay" in found:
        if _equal(scores, products * _decay_between(found["decay"])):
            holds.append("decay")
    elif _matches(scores, products * facts["scale"] + found.get("score_bias", 0.0)):
        holds.append("product")
    hidden = ~dense_mask(mask, *scores.shape[1:])
    if weights is not None and _equal(weights, scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num()):
        holds.append("softmax")
    shares = weights if weights is not None else scores
    context = shares @ v + found.get("value_bias", 0.0)
    joined = found.get("joined")
    side_by_side = context.transpose(0, 1).flatten(1)
    if joined is not None and "gate" in found:
        normed = F.rms_norm(context, context.shape[-1:], eps=facts["gate_eps"]).transpose(0, 1).flatten(1)
        if _equal(joined, found["gate"] * normed):
            holds += ["sum", "gated"]
    elif facts["kind"] in PROJECTING and facts["kind"] not in ("dcmha", "retention"):
        holds.append("sum")
        if joined is None or _equal(joined, side_by_side):
            holds.append("concat")
        elif _equal(
            joined, _apply_norm(side_by_side, "output_norm", found, facts["output_norm"], facts["output_norm_eps"])
        ):
            holds.append("normed")
    if "sum" in holds:
        found["context"] = context  # (H, T, E)
    return holds


def _norms_heads(letter: str, found: Mapping[str, Tensor], facts: Mapping[str, Any]) -> bool:
    """Whether queries or keys are the norm of what they were before it; a position may come after it."""
    normed = _apply_norm(found[f"unnormed_{letter}"], f"{letter}_norm", found, facts["qk_norm"], facts["qk_norm_eps"])
    return _equal(found.get(f"unrotated_{letter}", found[letter]), normed)


def _apply_norm(x: Tensor, name: str, found: Mapping[str, Tensor], kind: str, eps: float) -> Tensor:
    gain, bias = found.get(f"{name}_gain"), found.get(f"{name}_bias")
    if kind == "rmsnorm":
        return F.rms_norm(x, x.shape[-1:], gain, eps)
    if kind == "layernorm":
        return F.layer_norm(x, x.shape[-1:], gain, bias, eps)
    return x


def _rotate(x: Tensor, found: Mapping[str, Tensor], facts: Mapping[str, Any]) -> Tensor:
    angles = torch.arange(x.shape[1])[:, None] * found["rotation_rates"]  # (T, D / 2)
    amplitude = found["rotation_amplitude"]
    return apply_rotary(x, amplitude * angles.cos(), amplitude * angles.sin(), facts["layout"])


def _decay_between(decay: Tensor) -> Tensor:
    """(H, T) -> (H, T, T): the product of the decays behind a key, up to the query; 0 for later keys."""
    logs = decay.double().log().cumsum(-1)
    return (logs[:, :, None] - logs[:, None]).exp().tril().to(decay.dtype)


def _repeat_groups(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // len(x), dim=0)


def _matches(found: Tensor, computed: Tensor) -> bool:
    return found.shape == computed.shape and _equal(found, computed)


def _equal(found: Tensor, computed: Tensor) -> bool:
    """But for what both have behind a mask: infinite, or not a number."""
    if found.shape != computed.shape:
        return False
    both = found.isfinite() & computed.isfinite()
    if not both.any() or (found.isfinite() != computed.isfinite()).any():
        return False
    difference = (found - computed)[both].abs().max()
    return bool(difference <= TOLERANCE * (1 + found[both].abs().max()))


def _select_head(found: Mapping[str, Tensor], head: int) -> dict[str, Tensor]:
    heads = len(found["q"]) if "q" in found else 1
    if head >= heads:
        raise HeadwayError(f"there is no head {head} in this layer: it has {heads}, counted from 0.")
    selected = dict(found)
    for name in (*PER_QUERY_HEAD, *PER_KEY_HEAD):
        if name in found:
            own = head * len(found[name]) // heads
            selected[name] = found[name][own : own + 1]
    return selected


@torch.no_grad()
def _makes_output(found: Mapping[str, Tensor], path: str, model: Transformer | None) -> bool:
    """Whether the last matrix makes the output of `joined`: not where a part was switched off."""
    if model is None:
        return True
    return _equal(found["output"], _find_linear(model, path, "o")(found["joined"].to(model.device)).float().cpu())


def _find_linear(model: Transformer, path: str, letter: str) -> nn.Module:
    side, layer, *_, sub = path.split(".")
    mixer = model.stacks[side].layer_blocks[int(layer)].sublayers[sub]  # type: ignore[union-attr, index]
    found: nn.Module = getattr(mixer, LETTERS[letter])
    return found


@torch.no_grad()
def describe_column(model: Transformer, path: str, letter: str, head: int, channel: int) -> dict[str, Any]:
    """The weights that lead to one number: a column of the matrix `letter` of a sub-layer (q, k, v, g or o), and its
    bias. Channels of q, k, v are counted within the head."""
    parts = Parts.of(model.config, path)
    mixer, d_model = parts.mixer, model.config.d_model
    if letter not in parts.matrices:
        raise HeadwayError(f"{path} has no matrix {letter} that what comes in is multiplied with.")
    values = mixer.heads * mixer.d_v
    width = {"q": mixer.d_k, "k": mixer.d_k, "v": mixer.d_v, "g": values, "o": d_model}[letter]
    if head >= mixer.heads or channel >= width:
        raise HeadwayError(
            f"{path} has {mixer.heads} heads, and {letter} has {width} channels; head {head}, channel {channel} is not "
            "among them, counted from 0."
        )
    groups = getattr(mixer, "groups", mixer.heads) if letter in "kv" else mixer.heads
    index = channel if letter in "go" else head * groups // mixer.heads * width + channel
    layer = _find_linear(model, path, letter)
    if type(layer) is Dense:
        column = layer.weight[index]
        bias = 0.0 if layer.bias is None else float(layer.bias[index])
    else:  # what it makes of unit vectors: some kinds have no matrix that could be read
        inputs = values if letter == "o" else d_model
        units = torch.cat([torch.zeros(1, inputs), torch.eye(inputs)]).to(model.device)
        found = torch.cat([layer(some)[:, index] for some in units.split(256)])
        bias = float(found[0])
        column = found[1:] - found[0]
    return {"column": pack_floats(column.float().cpu()), "bias": bias}
