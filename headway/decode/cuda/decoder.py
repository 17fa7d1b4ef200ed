"""One decoding step of a Transformer in tensors of fixed shape, for CUDA graphs: CudaDecoder and its KV cache.

All beams of a row are queries of that row, so that they share its keys: nothing is repeated for a beam. Beams never
move: a table of owners says which beam wrote the position that a hypothesis continues.

B rows    K beams of each    L positions at most, of which the first `span` are attended to    S source tokens
H heads    G groups of keys    D size of a head
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from headway.decode.cuda.position_tables import PositionTables, SelfAttentionSpec, StepTables
from headway.nn.context import Context
from headway.nn.layers.feedforward import FeedForward, GatedFeedForward
from headway.nn.layers.linear import Dense
from headway.nn.masks.masks import CAUSAL, Mask
from headway.nn.mixers.attention import Attention, split_heads
from headway.nn.ops.attention import WITHOUT_CUDNN
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory, TokenPositions
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer, has_hooks

SUPPORTED_POSITIONS = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")  # that depend on positions alone
ENCODER_POSITIONS = ("none", "sinusoidal", "learned", "rope", "t5")  # that need nothing from the host
MAX_SCORE_TABLE_LENGTH = 1024  # of an output for which a bias of every pair of positions is kept
MAX_GRAPH_TOKENS = 1 << 14  # of a source batch that is encoded in a graph: with more, the host is not the bottleneck


def unsupported(model: Transformer, max_length: int) -> str:
    """Why CudaDecoder cannot run this model, up to this length; "" if it can."""
    if "decoder" not in model.stacks:
        return "it has no decoder"
    if model.training:
        return "it is in training"
    if has_hooks(model):
        return "it has hooks, and its layers are not called one by one"
    stack: Stack = model.stacks["decoder"]  # type: ignore[assignment]
    if stack.memory_tokens is not None:
        return "it has memory tokens"
    if stack.query_stream is not None:
        return "it has two streams"
    blocks: list[Any] = list(stack.blocks)
    positions: Any = model.config.decoder.position
    for part in positions:
        if part.kind not in SUPPORTED_POSITIONS:
            return f"its position is {part.kind}"
        if part.kind == "learned" and max_length > part.max_positions:
            return f"it learned {part.max_positions} positions"
    biased = any(part.applies_to == "scores" for part in positions) or any(mask is not CAUSAL for mask in stack.masks)
    if biased and max_length > MAX_SCORE_TABLE_LENGTH:
        return f"its positions or masks change scores, and outputs may exceed {MAX_SCORE_TABLE_LENGTH} tokens"
    if stack.shares_weights:
        return "its layers share weights"
    if any("feedforward" not in block.sublayers for block in blocks):
        return "it has layers without a feed-forward"
    for name, module in [part for block in blocks for part in block.sublayers.items()]:
        if type(module) not in ((FeedForward, GatedFeedForward) if name == "feedforward" else (Attention,)):
            return f"it has a {type(module).__name__}"
        if isinstance(module, Attention) and not (
            isinstance(module.query, Dense) and module.config.d_k == module.config.d_v
        ):
            return "its attention has keys and values of different widths, or weights that are not dense"
        if isinstance(module, Attention) and module.has_norms:
            return "its attention has norms inside"
    return ""


def encoder_unsupported(model: Transformer, rows: int, width: int) -> str:
    """Why encoding so many rows and tokens, whatever they are, is not part of a graph; "" if it can be and pays."""
    if "encoder" not in model.stacks:
        return "it has no encoder"
    if not 0 < rows * width <= MAX_GRAPH_TOKENS:
        return f"there are more than {MAX_GRAPH_TOKENS} tokens, or none"
    stack: Stack = model.stacks["encoder"]  # type: ignore[assignment]
    if stack.memory_tokens is not None:
        return "it has memory tokens"
    if stack.query_stream is not None:
        return "it has two streams"
    if model.config.encoder.frontend is not None:
        return "its encoder reads no tokens"
    positions: Any = model.config.encoder.position
    for part in positions:
        if part.kind not in ENCODER_POSITIONS or (part.kind == "learned" and width > part.max_positions):
            return f"its position is {part.kind}"
    if any(mask.interval is None for mask in stack.masks):
        return f"its mask is {stack.masks[0].name}"
    blocks: list[Any] = list(stack.blocks)
    for module in [module for block in blocks for module in block.sublayers.values()]:
        if type(module) not in (Attention, FeedForward, GatedFeedForward):
            return f"it has a {type(module).__name__}"
        if type(module) is Attention and not (isinstance(module.query, Dense) and module.config.kernel != "flex"):
            return "its attention is not dense, or uses FlexAttention"
    return ""


class BeamKVCache(NamedTuple):
    """The KV cache of the beams of B rows. Written in place: its tensors keep their addresses."""

    now: Tensor  # (1,) the position of the tokens that are read next
    owners: Tensor  # (B, K, L + 1) which beam wrote the position that this one continues; -1: none yet
    self_kv: list[Tensor]  # of each layer, keys and values: (2, B, G, L, K, D)
    cross_kv: list[Tensor]  # likewise, of the source: (2, B, G, S, D)
    source_bias: Tensor  # (B, 1, 1, S) 0 where the source is real, else -inf
    beams: Tensor  # (K,) 0, 1, 2 …

    @property
    def length(self) -> int:
        return self.owners.shape[2] - 1


class CrossKVProjection:
    """The projections to keys and values for the cross-attention of all layers, in one product."""

    def __init__(self, layers: list[Attention]) -> None:
        self.parts: list[Any] = [part for layer in layers for part in (layer.key, layer.value)]
        self.sizes = [2 * len(part.weight) for part in self.parts[::2]]
        has_bias = any(part.bias is not None for part in self.parts)
        self.weight = torch.cat([part.weight for part in self.parts]).detach() if self.parts else None
        self.bias = torch.cat(self._biases()).detach() if has_bias else None

    def _biases(self) -> list[Tensor]:
        return [torch.zeros_like(part.weight[:, 0]) if part.bias is None else part.bias for part in self.parts]

    def refresh(self) -> None:
        """Copy the weights again, to the same addresses: they may have been trained."""
        if self.weight is not None:
            torch.cat([part.weight for part in self.parts], out=self.weight)
        if self.bias is not None:
            torch.cat(self._biases(), out=self.bias)

    def store(self, memory: Memory, cross_kv: list[Tensor], source_bias: Tensor) -> None:
        """Encoder output into the first rows of cross_kv, (2, B, G, S, D) each, and of source_bias (B, 1, 1, S)."""
        rows, size = memory.values.shape[:2]
        source_bias.fill_(-torch.inf)
        source_bias[rows:, :, :, 0].zero_()  # a fully masked row would give NaN
        real = memory.positions.valid
        if real is None:
            source_bias[:rows, :, :, :size].zero_()
        else:
            source_bias[:rows, 0, 0, :size].masked_fill_(real, 0.0)
        if self.weight is None:
            return
        projected = torch.split(F.linear(memory.values, self.weight, self.bias), self.sizes, dim=-1)
        for part, to in zip(projected, cross_kv):
            heads = part.view(rows, size, 2, to.shape[2], -1)  # (B, S, 2, G, D)
            to[:, :rows, :, :size] = heads.permute(2, 0, 3, 1, 4)


class CudaLayer:
    """One decoder layer, its projections to queries, keys and values joined into one product."""

    def __init__(self, block: Any, mask: Mask, position: Position) -> None:
        self.residuals = block.residuals
        self.sublayers = block.sublayers
        self.attention: Attention = block.sublayers["self"]
        self.cross: Any = dict(block.sublayers.items()).get("cross")
        c = self.attention.config
        assert c.groups and c.d_k and c.scale is not None  # a model's config is resolved
        self.spec = SelfAttentionSpec(mask, position, c.heads, c.d_k, c.scale)
        self.groups = c.groups
        self.parts: list[Any] = [self.attention.query, self.attention.key, self.attention.value]
        self.weight = torch.cat([part.weight for part in self.parts]).detach()
        self.bias = torch.cat([part.bias for part in self.parts]).detach() if c.bias else None

    def refresh(self) -> None:
        """Copy the weights again, to the same addresses: they may have been trained."""
        torch.cat([part.weight for part in self.parts], out=self.weight)
        if self.bias is not None:
            torch.cat([part.bias for part in self.parts], out=self.bias)

    def new_self_kv(self, rows: int, beam: int, length: int) -> Tensor:
        return self.weight.new_zeros(2, rows, self.groups, length, beam, self.spec.d_k)

    def new_cross_kv(self, rows: int, length: int) -> Tensor:
        assert self.cross is not None
        c = self.cross.config
        return self.weight.new_zeros(2, rows, c.groups, length, c.d_k)

    def self_attend(self, x: Tensor, kv: Tensor, step: StepTables) -> Tensor:
        """Self-attention of x (B, K, d), whose keys and values are added to the cache."""
        heads, groups = self.spec.heads, self.groups
        qkv = split_heads(F.linear(x, self.weight, self.bias), heads + 2 * groups)  # (B, H + 2G, K, D)
        if self.spec.rotary_key is not None:
            rotated = step.rotate(qkv[:, : heads + groups], self.spec)
            qkv = torch.cat([rotated, qkv[:, heads + groups :]], dim=1)
        size = (len(x), 2, groups, 1, *qkv.shape[2:])
        kv.index_copy_(3, step.now, qkv[:, heads:].view(size).transpose(0, 1))  # (2, B, G, 1, K, D)
        keys, values = kv[:, :, :, : step.span].flatten(3, 4)  # (B, G, span · K, D)
        output = _attend(qkv[:, :heads], keys, values, step.bias(self.spec), self.spec.scale)
        return self.attention.output(output)  # type: ignore[no-any-return]

    def cross_attend(self, x: Tensor, kv: Tensor, source_bias: Tensor) -> Tensor:
        """Attention of x (B, K, d) to the source."""
        assert self.cross is not None
        c = self.cross.config
        q = split_heads(self.cross.query(x), c.heads)  # (B, H, K, D)
        bias = source_bias.expand(-1, -1, x.shape[1], -1)
        return self.cross.output(_attend(q, kv[0], kv[1], bias, c.scale))  # type: ignore[no-any-return]

    def feed_forward(self, x: Tensor, ctx: Context) -> Tensor:
        part = self.sublayers["feedforward"]
        if type(part) is FeedForward and part.activation is F.relu and type(part.inner) is Dense:
            bias, weight = part.inner.bias, part.inner.weight
            if bias is not None:  # a product that ends in relu is one kernel
                inner = torch._addmm_activation(bias, x.flatten(0, 1), weight.t()).view(*x.shape[:2], -1)
                return part.outer(inner)  # type: ignore[no-any-return]
        return part(x, ctx)  # type: ignore[no-any-return]

    def wrap(self, name: str, s: Any, sublayer: Callable[[Tensor], Tensor]) -> Any:
        """The residual connection and norm around a sublayer."""
        return self.residuals[name].wrap(s, sublayer)


class CudaDecoder:
    """A Transformer that reads one token for each of B·K hypotheses."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.stack: Stack = model.stacks["decoder"]  # type: ignore[assignment]
        parts = zip(self.stack.blocks, self.stack.masks, self.stack.position_of)
        self.layers = [CudaLayer(block, mask, self.stack.positions[which]) for block, mask, (which, _) in parts]  # type: ignore[arg-type]
        self.cross_projection = CrossKVProjection([layer.cross for layer in self.layers if layer.cross is not None])
        self._tables: dict[int, PositionTables] = {}

    def new_cache(self, rows: int, beam: int, length: int, source: int) -> BeamKVCache:
        device, weight = self.model.device, self.layers[0].weight
        return BeamKVCache(
            torch.zeros(1, dtype=torch.long, device=device),
            torch.full((rows, beam, length + 1), -1, device=device),
            [layer.new_self_kv(rows, beam, length) for layer in self.layers],
            [layer.new_cross_kv(rows, source) for layer in self.layers if layer.cross is not None],
            torch.zeros(rows, 1, 1, source, dtype=weight.dtype, device=device),
            torch.arange(beam, device=device),
        )

    def refresh(self) -> None:
        for layer in self.layers:
            layer.refresh()
        self.cross_projection.refresh()

    def tables(self, length: int) -> PositionTables:
        if length not in self._tables:
            specs = [layer.spec for layer in self.layers]
            self._tables[length] = PositionTables(self.model, specs, length, self.layers[0].weight.dtype)
        return self._tables[length]

    def encoder_unsupported(self, rows: int, source: int) -> str:
        return encoder_unsupported(self.model, rows, source)

    def store_source(self, memory: Memory, cache: BeamKVCache) -> None:
        """Keys and values of the encoder output of the first rows, into the cache."""
        self.cross_projection.store(memory, cache.cross_kv, cache.source_bias)

    def logits(self, ids: Tensor, cache: BeamKVCache, span: int) -> Tensor:
        """Of what follows ids (B, K), which are at position cache.now: (B · K, V)."""
        tables = self.tables(cache.length)
        positions = TokenPositions(cache.now[None], None, cache.length)
        x = self.model.embeddings["decoder"](ids, positions, tables)  # (B, K, d)
        ctx = Context(positions)
        step = StepTables(tables, cache.owners[:, :, :span], cache.beams, cache.now)
        s = self.stack.ends.start(x)
        for index, layer in enumerate(self.layers):
            s = layer.wrap("self", s, partial(layer.self_attend, kv=cache.self_kv[index], step=step))
            if layer.cross is not None:
                cross_attend = partial(layer.cross_attend, kv=cache.cross_kv[index], source_bias=cache.source_bias)
                s = layer.wrap("cross", s, cross_attend)
            s = layer.wrap("feedforward", s, partial(layer.feed_forward, ctx=ctx))
        return self.model.logits(self.stack.ends.finish(s).flatten(0, 1))


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """q (B, H, K, D), k and v (B, G, N, D), bias (B, H or 1, K, N) -> (B, K, H · D). Heads that share keys are taken
    together, as if they were beams: fused kernels know no groups."""
    batch, heads, beam, width = q.shape
    groups = k.shape[1]
    if groups < heads:
        q = q.reshape(batch, groups, -1, width)
        bias = bias.expand(-1, heads, -1, -1).reshape(batch, groups, -1, k.shape[2])
    with sdpa_kernel(WITHOUT_CUDNN):
        output = F.scaled_dot_product_attention(q, k, v, bias.expand(-1, groups, -1, -1), scale=scale)
    return output.reshape(batch, heads, beam, width).transpose(1, 2).flatten(2)
