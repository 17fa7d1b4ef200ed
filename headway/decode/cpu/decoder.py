"""A Transformer made for decoding on the CPU: one token for each of N hypotheses, without padding, in float32 or int8,
with a KV cache in which beams never move (see cache.py).

P sentences in memory, of which B are searched    W hypotheses of each    N = B · W    M source tokens, packed
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.decode.cpu import native_tables
from headway.decode.cpu.cache import (
    FloatKVCache,
    Int8CrossKV,
    Int8KVCache,
    PaddedSentences,
    attend_within_sentences,
    pack_sentences,
)
from headway.decode.reference.model import BUILD_LOCK, ModelStepper
from headway.nn.layers.feedforward import FeedForward, GatedFeedForward
from headway.nn.layers.heads import LogitsHead
from headway.nn.layers.int8 import Int8Linear, join_weights, quantise_weight
from headway.nn.layers.linear import Dense, Linear
from headway.nn.layers.residual import PostNorm, PreNorm
from headway.nn.masks.masks import CAUSAL, FULL, Mask
from headway.nn.mixers.attention import Attention
from headway.nn.ops import native
from headway.nn.positions.positions import Learned
from headway.nn.sequence import TokenPositions
from headway.nn.transformer import Transformer, has_hooks

SIDES = ("encoder", "decoder")
TOKENS_PER_ENCODER_BATCH = 1024  # of the source, encoded together
ACTIVATIONS = {"relu": F.relu, "silu": F.silu}  # that a linear layer applies to its outputs; others follow it
SUPPORTED_POSITIONS = ("none", "sinusoidal", "learned")  # those that are only added to the embeddings


def unsupported(model: Transformer) -> str:
    """Why CpuDecoder cannot run this model; "" if it can."""
    if model.config.sides != ["encoder", "decoder"]:
        return "it is no encoder with a decoder"
    if model.device.type != "cpu" or model.training or model.output_embedding.dtype != torch.float32:
        return "it is not on the CPU, in training, or not in float32"
    if not isinstance(model.head, LogitsHead):
        return f"its head is {type(model.head).__name__}"
    if model.head.scale != 1:
        return "its head scales its input"
    if has_hooks(model):
        return "it has hooks, and its layers are not called one by one"
    for side, mask in (("encoder", FULL), ("decoder", CAUSAL)):
        reason = _stack_unsupported(model.stacks[side], getattr(model.config, side), mask)
        if reason:
            return reason
    return ""


def _stack_unsupported(stack: Any, config: Any, mask: Mask) -> str:
    if stack.memory_tokens is not None:
        return "it has memory tokens"
    if stack.query_stream is not None:
        return "it has two streams"
    if config.frontend is not None:
        return "its encoder reads no tokens"
    for part in config.position:
        if part.kind not in SUPPORTED_POSITIONS:
            return f"its position is {part.kind}"
    if any(own is not mask for own in stack.masks):
        return f"its mask is {stack.masks[0].name}"
    if type(stack.ends) not in (PostNorm, PreNorm):
        return f"its residual is {config.residual.kind}"
    if stack.shares_weights:
        return "its layers share weights"
    if any("feedforward" not in block.sublayers for block in stack.blocks):
        return "it has layers without a feed-forward"
    for module in [part for block in stack.blocks for part in block.sublayers.values()]:
        if type(module) not in (Attention, FeedForward, GatedFeedForward):
            return f"it has a {type(module).__name__}"
        if any(type(part) is not Dense for part in module.children() if isinstance(part, Linear)):
            return "its linear layers are not dense"
        if isinstance(module, Attention) and module.config.d_k != module.config.d_v:
            return "its attention has keys and values of different widths"
        if getattr(module, "has_norms", False):
            return "its attention or feed-forward has norms inside"
    return ""


def native_unsupported(compute: str) -> str:
    """Why our own kernels are not used; "" if they are."""
    if compute == "float32":
        return "PyTorch's are as fast in float32"
    return "" if native.load_library() is not None else "they could not be compiled"


def cpu_decoder_of(stepper: ModelStepper) -> "CpuDecoder | str":
    """The stepper's model as a CpuDecoder, built once; or why it cannot be."""
    with BUILD_LOCK:
        if stepper.cpu_decoder is None:
            stepper.cpu_decoder = unsupported(stepper.model) or CpuDecoder(stepper.model, stepper.compute)
    built: CpuDecoder | str = stepper.cpu_decoder
    return built


class FusedLinear:
    """Several linear layers with the same input. In float32 with the weights as they are now; in int8 as one layer,
    with the weights as they were when it was made."""

    def __init__(self, compute: str, *layers: Any, positive: bool = False, activation: str = "") -> None:
        """positive: no input is below 0. activation: of the outputs, a key of ACTIVATIONS."""
        self.layers = layers
        self.activation = activation
        self.int8: Int8Linear | None = None
        if compute == "float32":
            return
        weight, scale = (torch.cat(list(part)) for part in zip(*(quantise_weight(layer.weight) for layer in layers)))
        biases = [layer.bias for layer in layers if layer.bias is not None]
        bias = torch.cat(biases) if biases else None
        self.int8 = Int8Linear(weight, scale, bias, positive=positive, activation=activation)
        self.sizes = [len(layer.weight) for layer in layers]

    def __call__(self, x: Tensor) -> list[Tensor]:
        """(N, inputs) -> (N, outputs) of each"""
        if self.int8 is not None:
            return list(torch.split(self.int8.forward_rows(x), self.sizes, dim=1))
        outputs = [layer(x) for layer in self.layers]
        return [ACTIVATIONS[self.activation](y) for y in outputs] if self.activation else outputs


class CpuLayer:
    """One layer of the encoder or the decoder: its projections, and the configs of its attention."""

    def __init__(self, block: Any, compute: str) -> None:
        own = block.sublayers["self"]
        cross = dict(block.sublayers.items()).get("cross")
        feedforward = block.sublayers["feedforward"]
        self.residuals = block.residuals
        self.self_config = own.config
        self.cross_config: Any = None if cross is None else cross.config
        # In int8 weights lie in memory in the order of these attributes: that in which a step reads them.
        self.qkv = FusedLinear(compute, own.query, own.key, own.value)
        self.output = FusedLinear(compute, own.output)
        if cross is not None:
            self.cross_query = FusedLinear(compute, cross.query)
            self.cross_output = FusedLinear(compute, cross.output)
        self.activation = None if isinstance(feedforward, GatedFeedForward) else feedforward.activation
        activation = next((name for name, known in ACTIVATIONS.items() if known is self.activation), "")
        self.gate_activation = getattr(feedforward, "gate_activation", None)
        self.gate = FusedLinear(compute, feedforward.gate, feedforward.inner) if self.activation is None else None
        self.inner = FusedLinear(compute, feedforward.inner, activation=activation) if self.gate is None else None
        self.outer = FusedLinear(compute, feedforward.outer, positive=activation == "relu")
        if cross is not None:  # last: only encoding needs them
            self.cross_kv = FusedLinear(compute, cross.key, cross.value)

    def feed_forward(self, x: Tensor) -> Tensor:
        if self.gate is not None and self.gate_activation is not None:
            gate, inner = self.gate(x)
            return self.outer(self.gate_activation(gate) * inner)[0]
        assert self.inner is not None and self.activation is not None
        inner = self.inner(x)[0]
        return self.outer(inner if self.inner.activation else self.activation(inner))[0]

    def wrap(self, name: str, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """The residual connection and norm around a sublayer, without dropout."""
        residual = self.residuals[name]
        is_post = type(residual) is PostNorm
        result: Tensor = residual.norm(x + sublayer(x)) if is_post else x + sublayer(residual.norm(x))
        return result


class CpuDecoder:
    """The model as a Stepper (see headway.decode.reference.model)."""

    def __init__(self, model: Transformer, compute: str = "float32") -> None:
        self.model = model
        self.device = model.device
        self.vocabulary = model.config.vocabulary or 0
        stacks: dict[str, Any] = {side: model.stacks[side] for side in SIDES}
        self.layers = {side: [CpuLayer(block, compute) for block in stack.blocks] for side, stack in stacks.items()}
        self.ends = {side: stack.ends for side, stack in stacks.items()}
        _, weight, bias = model.factors(torch.zeros(1, model.config.d_model))
        self.output = None if compute == "float32" else Int8Linear(*quantise_weight(weight), bias)
        self.native = not native_unsupported(compute)
        if self.native:
            layers = [layer for side in SIDES for layer in self.layers[side]]
            parts = [part.int8 for layer in layers for part in vars(layer).values() if isinstance(part, FusedLinear)]
            join_weights([part for part in (*parts, self.output) if part is not None])
        self.stack_tables = self._make_stack_tables() if self.native else None  # None: layer by layer, from Python

    def _make_stack_tables(self) -> tuple[native_tables.StackTableBuilder, native_tables.StackTableBuilder] | None:
        """Of encoder and decoder, where the kernels know all their parts: then each is one call."""
        encoder, decoder = (
            native_tables.make_stack_tables(self.layers[side], self.model.embeddings[side], self.model.stacks[side])
            for side in SIDES
        )
        return None if encoder is None or decoder is None else (encoder, decoder)

    @functools.cached_property
    def max_positions(self) -> float:
        """How many positions the decoder has learned; inf: any number."""
        parts = [part for part in self.model.stacks["decoder"].positions if isinstance(part, Learned)]  # type: ignore[union-attr]
        return min((part.table.num_embeddings for part in parts), default=math.inf)

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Int8KVCache | FloatKVCache:
        assert source is not None
        real = torch.ones_like(source, dtype=torch.bool) if valid is None else valid
        packed = pack_sentences(real.sum(1))
        configs = [layer.cross_config for layer in self.layers["decoder"]]
        if self.stack_tables is not None:
            cross_kv = [Int8CrossKV(packed, config) for config in configs]
            native_tables.encode_source(*self.stack_tables, source[real], packed, cross_kv)
            return Int8KVCache(packed, cross_kv)
        rows_at_once = max(1, TOKENS_PER_ENCODER_BATCH // source.shape[1])  # more would not stay in the CPU's caches
        parts = zip(torch.split(source, rows_at_once), torch.split(real, rows_at_once))
        x = torch.cat([self._encode(*part) for part in parts])  # (M, d)
        pairs: list[Any] = [tuple(layer.cross_kv(x)) for layer in self.layers["decoder"]]
        if not self.native:
            return FloatKVCache(packed, pairs, configs)
        stored = [Int8CrossKV(packed, config).store(packed, *pair) for pair, config in zip(pairs, configs)]
        return Int8KVCache(packed, stored)

    def _encode(self, source: Tensor, real: Tensor) -> Tensor:
        """(P, S) -> encoder output (M, d), of the real tokens alone"""
        packed = pack_sentences(real.sum(1))
        x = self._embed("encoder", source[real], packed.positions)
        attend: Any = partial(attend_within_sentences, packed) if self.native else PaddedSentences(packed).attend
        for layer in self.layers["encoder"]:

            def self_attend(y: Tensor, layer: CpuLayer = layer) -> Tensor:
                return layer.output(attend(*layer.qkv(y), layer.self_config))[0]

            x = layer.wrap("self", x, self_attend)
            x = layer.wrap("feedforward", x, layer.feed_forward)
        result: Tensor = self.ends["encoder"].finish(x)
        return result

    def step(self, state: Int8KVCache | FloatKVCache, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        assert valid is None
        hidden = self.hidden(state, ids)
        return self.log_softmax(self.model.logits(hidden) if self.output is None else self.output.forward_rows(hidden))

    def hidden(self, cache: Int8KVCache | FloatKVCache, ids: Tensor) -> Tensor:
        """(N, T) -> decoder output (N, d) of the last"""
        for column in ids.unbind(1):
            hidden = self._decode_token(cache, column)
        return hidden

    def output_layer_of(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        """The output layer for some tokens alone: (N, d) -> logits (N, U)"""
        _, weight, bias = self.model.factors(torch.zeros(1, self.model.config.d_model))
        weight = weight[tokens]
        bias = None if bias is None else bias[tokens]
        if self.output is None:
            return lambda x: F.linear(x, weight, bias)
        return Int8Linear(*quantise_weight(weight), bias).forward_rows

    def log_softmax(self, logits: Tensor) -> Tensor:
        """Of (N, V); in place with our own kernels"""
        if not self.native:
            return logits.log_softmax(-1)
        native.call("hw_log_softmax", logits, *logits.shape)
        return logits

    def _decode_token(self, cache: Int8KVCache | FloatKVCache, ids: Tensor) -> Tensor:
        """One token of each hypothesis, (N,) -> (N, d)"""
        cache.begin_step()
        if self.stack_tables is not None:
            assert isinstance(cache, Int8KVCache)
            return native_tables.decode_step(self.stack_tables[1], ids, cache)
        x = self._embed("decoder", ids, torch.tensor([cache.length - 1]))
        for index, layer in enumerate(self.layers["decoder"]):

            def self_attend(y: Tensor, index: int = index, layer: CpuLayer = layer) -> Tensor:
                q, k, v = layer.qkv(y)
                return layer.output(cache.self_attend(index, q, k, v, layer.self_config))[0]

            def cross_attend(y: Tensor, index: int = index, layer: CpuLayer = layer) -> Tensor:
                q = layer.cross_query(y)[0]
                return layer.cross_output(cache.cross_attend(index, q, layer.cross_config))[0]

            x = layer.wrap("self", x, self_attend)
            x = layer.wrap("cross", x, cross_attend)
            x = layer.wrap("feedforward", x, layer.feed_forward)
        result: Tensor = self.ends["decoder"].finish(x)
        return result

    def _embed(self, side: str, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (M,) at positions (M or 1,) -> (M, d)"""
        embedding, stack = self.model.embeddings[side], self.model.stacks[side]
        where = TokenPositions(positions[None], None, int(positions.max()) + 1)
        result: Tensor = embedding(ids[None], where, stack)[0]
        return result
