"""A Transformer that reads one token for each of N hypotheses, made for the CPU: products without padding, in float32 or
8 bits, and a past that stays where it is while beams change places (see past.py).

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway import native
from headway.decode.padded_past import PaddedPast, Padding
from headway.decode.past import words_of
from headway.decode.whole_past import WholePast, hear
from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward, SwiGLU
from headway.nn.heads import Logits
from headway.nn.int8 import Int8, quantise
from headway.nn.linear import Dense, Linear
from headway.nn.masks import CAUSAL, FULL, Mask
from headway.nn.norms import LayerNorm
from headway.nn.places import Places
from headway.nn.residual import Post, Pre
from headway.nn.transformer import Transformer

SIDES = ("encoder", "decoder")
WORDS = 1024  # of the source, encoded together
POSITIONS = ("none", "sinusoidal", "learned")  # that are added, and nothing else
Product = Callable[[Tensor], list[Tensor]]  # (N, inputs) -> (N, outputs) of each of the layers


def hindrance(model: Transformer) -> str:
    """Why this model cannot be read so; nothing if it can."""
    if model.config.sides != ["encoder", "decoder"]:
        return "it is no encoder with a decoder"
    if model.device.type != "cpu" or model.training or model.output_embedding.dtype != torch.float32:
        return "it is not on the CPU, in training, or not in float32"
    if not isinstance(model.head, Logits):
        return f"its head is {type(model.head).__name__}"
    for side, mask in (("encoder", FULL), ("decoder", CAUSAL)):
        reason = _hindrance(model.stacks[side], getattr(model.config, side), mask)
        if reason:
            return reason
    return ""


def _hindrance(stack: Any, config: Any, mask: Mask) -> str:
    for part in config.position:
        if part.kind not in POSITIONS:
            return f"its position is {part.kind}"
    if any(own is not mask for own in stack.masks):
        return f"it looks through {stack.masks[0].name}"
    if type(stack.ends) not in (Post, Pre):
        return f"its residual is {config.residual.kind}"
    for module in [part for block in stack.blocks for part in block.sublayers.values()]:
        if type(module) not in (Attention, FeedForward, SwiGLU):
            return f"it has a {type(module).__name__}"
        if any(type(part) is not Dense for part in module.children() if isinstance(part, Linear)):
            return "its linear layers are not dense"
        if isinstance(module, Attention) and module.config.d_k != module.config.d_v:
            return "its attention has keys and values of different widths"
    return ""


def together(compute: str, *layers: Any, positive: bool = False, relu: bool = False) -> Product:
    """What several layers make of one input. In float32 by the weights as they are now, in 8 bits as they were."""
    if compute == "float32":
        return lambda x: [F.relu(layer(x)) if relu else layer(x) for layer in layers]
    whole, scale = (torch.cat(list(part)) for part in zip(*(quantise(layer.weight) for layer in layers)))
    biases = [layer.bias for layer in layers if layer.bias is not None]
    joined = Int8(whole, scale, torch.cat(biases) if biases else None, positive=positive, relu=relu)
    sizes = [len(layer.weight) for layer in layers]
    return lambda x: list(torch.split(joined.rows(x), sizes, dim=1))


class Layer:
    def __init__(self, block: Any, compute: str) -> None:
        own, cross = block.sublayers["self"], dict(block.sublayers.items()).get("cross")
        self.residuals, self.own = block.residuals, own.config
        self.across: Any = None if cross is None else cross.config
        self.ask_hear = together(compute, own.query, own.key, own.value)
        self.say = together(compute, own.output)
        if cross is not None:
            self.ask = together(compute, cross.query)
            self.hear = together(compute, cross.key, cross.value)
            self.answer = together(compute, cross.output)
        self.feed = _feed(block.sublayers["feedforward"], compute)
        self.own_kernels = has_kernels(compute)

    def wrap(self, name: str, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        """As the residual around this part does it, without dropout."""
        residual = self.residuals[name]
        if type(residual) is Pre:
            return x + act(residual.norm(x))
        if self.own_kernels and type(residual.norm) is LayerNorm:
            return added_norm(x, act(x), residual.norm)
        result: Tensor = residual.norm(x + act(x))
        return result


def has_kernels(compute: str) -> bool:
    """Whether to use kernels of our own. In float32 PyTorch's do as well."""
    return compute != "float32" and native.library() is not None


def added_norm(x: Tensor, y: Tensor, norm: LayerNorm) -> Tensor:
    """norm(x + y), both (N, d)"""
    out = torch.empty_like(x)
    native.call("hw_norm", x, y, *x.shape, norm.gain, norm.bias, norm.eps, torch.empty_like(x[0]), out)
    return out


def _feed(part: Any, compute: str) -> Callable[[Tensor], Tensor]:
    if isinstance(part, SwiGLU):
        both, outer = together(compute, part.gate, part.inner), together(compute, part.outer)

        def gated(x: Tensor) -> Tensor:
            gate, inner = both(x)
            return outer(F.silu(gate) * inner)[0]

        return gated
    relu = part.activation is F.relu
    inner = together(compute, part.inner, relu=relu)
    outer = together(compute, part.outer, positive=relu)
    return lambda x: outer(inner(x)[0] if relu else part.activation(inner(x)[0]))[0]


class Lean:
    """The model as a stepper: what the search asks of it, see stepper.py."""

    def __init__(self, model: Transformer, compute: str = "float32") -> None:
        self.model, self.device, self.vocabulary = model, model.device, model.config.vocabulary or 0
        stacks: dict[str, Any] = {side: model.stacks[side] for side in SIDES}
        self.layers = {side: [Layer(block, compute) for block in stack.blocks] for side, stack in stacks.items()}
        self.ends = {side: stack.ends for side, stack in stacks.items()}
        _, weight, bias = model.factors(torch.zeros(1, model.config.d_model))
        self.output = None if compute == "float32" else Int8(*quantise(weight), bias)
        self.own_kernels = has_kernels(compute)

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> WholePast | PaddedPast:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        at_once = max(1, WORDS // source.shape[1])  # more would not stay in the caches
        x = torch.cat(
            [self._encode(*part) for part in zip(torch.split(source, at_once), torch.split(real, at_once))]
        )  # (M, d)
        words = words_of(real.sum(1))
        sources: list[Any] = [tuple(layer.hear(x)) for layer in self.layers["decoder"]]
        settings = [layer.across for layer in self.layers["decoder"]]
        return WholePast(words, sources, settings) if self.own_kernels else PaddedPast(words, sources, settings)

    def _encode(self, source: Tensor, real: Tensor) -> Tensor:
        """(P, S) -> (M, d), real words alone"""
        words = words_of(real.sum(1))
        x = self._embed("encoder", source[real], words.places)
        listen: Any = partial(hear, words) if self.own_kernels else Padding(words).hear
        for layer in self.layers["encoder"]:
            x = layer.wrap("self", x, lambda y, own=layer: own.say(listen(*own.ask_hear(y), own.own))[0])  # type: ignore[misc]
            x = layer.wrap("feedforward", x, layer.feed)
        result: Tensor = self.ends["encoder"].finish(x)
        return result

    def step(self, state: WholePast | PaddedPast, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        assert valid is None
        for column in ids.unbind(1):
            hidden = self._read(state, column)
        if self.output is None:
            return self.model.logits(hidden).log_softmax(-1)
        logits = self.output.rows(hidden)
        if not self.own_kernels:
            return logits.log_softmax(-1)
        native.call("hw_log_softmax", logits, *logits.shape)
        return logits

    def _read(self, past: WholePast | PaddedPast, ids: Tensor) -> Tensor:
        """One token of each, (N,) -> (N, d)"""
        past.begin()
        x = self._embed("decoder", ids, torch.tensor([past.length - 1]))
        for index, layer in enumerate(self.layers["decoder"]):

            def listen(y: Tensor, index: int = index, layer: Layer = layer) -> Tensor:
                q, k, v = layer.ask_hear(y)
                return layer.say(past.listen(index, q, k, v, layer.own))[0]

            def listen_across(y: Tensor, index: int = index, layer: Layer = layer) -> Tensor:
                return layer.answer(past.listen_across(index, layer.ask(y)[0], layer.across))[0]

            x = layer.wrap("self", x, listen)
            x = layer.wrap("cross", x, listen_across)
            x = layer.wrap("feedforward", x, layer.feed)
        result: Tensor = self.ends["decoder"].finish(x)
        return result

    def _embed(self, side: str, ids: Tensor, places: Tensor) -> Tensor:
        """ids (M,) at places (M or 1,) -> (M, d)"""
        embedding, stack = self.model.embeddings[side], self.model.stacks[side]
        result: Tensor = embedding(ids[None], Places(places[None], None, int(places.max()) + 1), stack)[0]
        return result
