"""A Transformer that reads one token for each of N hypotheses, made for the CPU: products without padding, in float32 or
8 bits, and a past that stays where it is while beams change places (see past.py).

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.decode.cpu import native_tables as kernels
from headway.decode.cpu.cache import Kept, PaddedPast, Padding, WholePast, converse, words_of
from headway.nn.layers.feedforward import FeedForward, SwiGLU
from headway.nn.layers.heads import Logits
from headway.nn.layers.int8 import Int8, in_one_piece, quantise
from headway.nn.layers.linear import Dense, Linear
from headway.nn.layers.residual import Post, Pre
from headway.nn.masks.masks import CAUSAL, FULL, Mask
from headway.nn.mixers.attention import Attention
from headway.nn.ops import native
from headway.nn.positions.positions import Learned
from headway.nn.sequence import Places
from headway.nn.transformer import Transformer

SIDES = ("encoder", "decoder")
WORDS = 1024  # of the source, encoded together
POSITIONS = ("none", "sinusoidal", "learned")  # that are added, and nothing else


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


class Joined:
    """What several layers make of one input. In float32 by the weights as they are now, in 8 bits as they were."""

    def __init__(self, compute: str, *layers: Any, positive: bool = False, relu: bool = False) -> None:
        self.layers, self.relu, self.whole = layers, relu, None
        if compute == "float32":
            return
        whole, scale = (torch.cat(list(part)) for part in zip(*(quantise(layer.weight) for layer in layers)))
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.whole = Int8(whole, scale, torch.cat(biases) if biases else None, positive=positive, relu=relu)
        self.sizes = [len(layer.weight) for layer in layers]

    def __call__(self, x: Tensor) -> list[Tensor]:
        """(N, inputs) -> (N, outputs) of each"""
        if self.whole is not None:
            return list(torch.split(self.whole.rows(x), self.sizes, dim=1))
        return [F.relu(layer(x)) if self.relu else layer(x) for layer in self.layers]


class Layer:
    def __init__(self, block: Any, compute: str) -> None:
        own, cross = block.sublayers["self"], dict(block.sublayers.items()).get("cross")
        self.residuals, self.own = block.residuals, own.config
        self.across: Any = None if cross is None else cross.config
        self.ask_hear = Joined(compute, own.query, own.key, own.value)
        self.say = Joined(compute, own.output)
        if cross is not None:
            self.ask = Joined(compute, cross.query)
            self.answer = Joined(compute, cross.output)
        part = block.sublayers["feedforward"]
        self.activation = None if isinstance(part, SwiGLU) else part.activation
        relu = self.activation is F.relu
        self.gate = Joined(compute, part.gate, part.inner) if self.activation is None else None
        self.inner = Joined(compute, part.inner, relu=relu) if self.gate is None else None
        self.outer = Joined(compute, part.outer, positive=relu)
        if cross is not None:  # last: weights lie in this order, and a step needs all but these
            self.hear = Joined(compute, cross.key, cross.value)

    def feed(self, x: Tensor) -> Tensor:
        if self.gate is not None:
            gate, inner = self.gate(x)
            return self.outer(F.silu(gate) * inner)[0]
        assert self.inner is not None and self.activation is not None
        inner = self.inner(x)[0]
        return self.outer(inner if self.activation is F.relu else self.activation(inner))[0]

    def wrap(self, name: str, x: Tensor, act: Callable[[Tensor], Tensor]) -> Tensor:
        """As the residual around this part does it, without dropout."""
        residual = self.residuals[name]
        result: Tensor = residual.norm(x + act(x)) if type(residual) is Post else x + act(residual.norm(x))
        return result


def has_kernels(compute: str) -> bool:
    """Whether to use kernels of our own. In float32 PyTorch's do as well."""
    return compute != "float32" and native.library() is not None


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
        if self.own_kernels:
            layers = [layer for side in SIDES for layer in self.layers[side]]
            parts = [part.whole for layer in layers for part in vars(layer).values() if isinstance(part, Joined)]
            in_one_piece([part for part in (*parts, self.output) if part is not None])
        self.sides = self._sides() if self.own_kernels else None  # where each is one call

    def _sides(self) -> tuple[kernels.Side, kernels.Side] | None:
        encoder, decoder = (
            kernels.side_of(self.layers[side], self.model.embeddings[side], self.model.stacks[side]) for side in SIDES
        )
        return None if encoder is None or decoder is None else (encoder, decoder)

    @functools.cached_property
    def positions(self) -> float:
        """How many the decoder knows."""
        parts = [part for part in self.model.stacks["decoder"].positions if isinstance(part, Learned)]  # type: ignore[union-attr]
        return min((part.table.num_embeddings for part in parts), default=math.inf)

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> WholePast | PaddedPast:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        words = words_of(real.sum(1))
        settings = [layer.across for layer in self.layers["decoder"]]
        if self.sides is not None:
            kept = [Kept(words, c) for c in settings]
            kernels.encode(*self.sides, source[real], words, kept)
            return WholePast(words, kept)
        at_once = max(1, WORDS // source.shape[1])  # more would not stay in the caches
        x = torch.cat(
            [self._encode(*part) for part in zip(torch.split(source, at_once), torch.split(real, at_once))]
        )  # (M, d)
        sources: list[Any] = [tuple(layer.hear(x)) for layer in self.layers["decoder"]]
        if not self.own_kernels:
            return PaddedPast(words, sources, settings)
        return WholePast(words, [Kept(words, c).keep(words, *pair) for pair, c in zip(sources, settings)])

    def _encode(self, source: Tensor, real: Tensor) -> Tensor:
        """(P, S) -> (M, d), real words alone"""
        words = words_of(real.sum(1))
        x = self._embed("encoder", source[real], words.places)
        listen: Any = partial(converse, words) if self.own_kernels else Padding(words).hear
        for layer in self.layers["encoder"]:
            x = layer.wrap("self", x, lambda y, own=layer: own.say(listen(*own.ask_hear(y), own.own))[0])  # type: ignore[misc]
            x = layer.wrap("feedforward", x, layer.feed)
        result: Tensor = self.ends["encoder"].finish(x)
        return result

    def step(self, state: WholePast | PaddedPast, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        assert valid is None
        hidden = self.read(state, ids)
        return self.normalised(self.model.logits(hidden) if self.output is None else self.output.rows(hidden))

    def read(self, past: WholePast | PaddedPast, ids: Tensor) -> Tensor:
        """(N, T) -> (N, d) of the last"""
        for column in ids.unbind(1):
            hidden = self._read(past, column)
        return hidden

    def output_of(self, words: Tensor) -> Callable[[Tensor], Tensor]:
        """The scores of some words alone: (N, d) -> (N, U)"""
        _, weight, bias = self.model.factors(torch.zeros(1, self.model.config.d_model))
        weight, bias = weight[words], None if bias is None else bias[words]
        if self.output is None:
            return lambda x: F.linear(x, weight, bias)
        return Int8(*quantise(weight), bias).rows

    def normalised(self, logits: Tensor) -> Tensor:
        """log_softmax of (N, V), in place where it can be"""
        if not self.own_kernels:
            return logits.log_softmax(-1)
        native.call("hw_log_softmax", logits, *logits.shape)
        return logits

    def _read(self, past: WholePast | PaddedPast, ids: Tensor) -> Tensor:
        """One token of each, (N,) -> (N, d)"""
        past.begin()
        if self.sides is not None:
            return kernels.decode(self.sides[1], ids, past)
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
