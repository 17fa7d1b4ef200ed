"""Our modules as programs of tensors alone, which torch.export and the ONNX exporter can trace.

    EncoderProgram     input_ids, attention_mask                          -> hidden, or logits without a decoder
    CrossProgram       encoder_hidden_states                              -> keys and values of every cross-attention
    DecoderProgram     input_ids, encoder_attention_mask, keys and values -> logits, the grown keys and values
    LanguageProgram    input_ids, attention_mask, keys and values         -> likewise, without an encoder

They use the modules and the weights of the model itself; only the caches are others. Batch and lengths are free.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.convert.export.traced.cache import TracedContext, TracedKVCache
from headway.nn.cache.kv import CrossKVCache
from headway.nn.layers.moe import MixtureOfExperts, naive
from headway.nn.sequence import Memory, TokenPositions
from headway.nn.transformer import Transformer


class CacheShape(NamedTuple):
    """The keys and values that one layer of a decoder keeps: (B, groups, tokens, key_width or value_width)."""

    layer: int
    name: str  # of the cache: "self", "shared" or "cross"
    groups: int
    key_width: int
    value_width: int

    @property
    def is_cross(self) -> bool:
        return self.name == "cross"


class EncoderProgram(nn.Module):
    """The encoder; with its head, where the model has no decoder."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding, self.stack = model.embeddings["encoder"], model.stacks["encoder"]
        self.table: Any = self.embedding.table  # a tied one is registered by the other side
        self.head = None if model.config.decoder.layers else model.head

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        tokens = positions_in_rows(attention_mask)
        hidden = run_stack(self.embedding, self.stack, input_ids, tokens, None)
        return hidden if self.head is None else self.head(hidden, self.table.weight)


class CrossProgram(nn.Module):
    """What every cross-attention keeps of the encoder output."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        stack: Any = model.stacks["decoder"]
        self.cross = nn.ModuleList(block.sublayers["cross"] for block in stack.layer_blocks)

    def forward(self, encoder_hidden_states: Tensor) -> list[Tensor]:
        tokens = positions_after_past(0, encoder_hidden_states.shape[1], encoder_hidden_states.device)
        memory, ctx = Memory(encoder_hidden_states, tokens), TracedContext(tokens)
        pairs = [cross._project(memory, ctx) for cross in self.cross]  # type: ignore[operator]
        return [tensor for pair in pairs for tensor in pair]


class DecoderProgram(nn.Module):
    """The decoder of a translator. `past`: keys and values as `cache_shapes` lists them; those of the source stay."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding: Any = model.embeddings["decoder"]
        self.stack, self.head = model.stacks["decoder"], model.head
        self.cache_shapes = list_cache_shapes(model)
        self.first_own = next(n for n, shape in enumerate(self.cache_shapes) if not shape.is_cross)

    def forward(self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        before, device = past[2 * self.first_own].shape[2], input_ids.device
        queries = positions_after_past(before, input_ids.shape[1], device)
        keys = positions_after_past(0, before + input_ids.shape[1], device)
        caches, growing = make_caches(self, past, keys, positions_in_rows(encoder_attention_mask))
        hidden = run_stack(self.embedding, self.stack, input_ids, queries, caches)
        return [self.head(hidden, self.embedding.table.weight), *(x for cache in growing for x in cache.present)]


class LanguageProgram(nn.Module):
    """A language model. attention_mask (B, P + T) is 0 on padding, which takes no position."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.embedding: Any = model.embeddings["decoder"]
        self.stack, self.head = model.stacks["decoder"], model.head
        self.cache_shapes = list_cache_shapes(model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        before, length = past[0].shape[2], input_ids.shape[1]
        end = before + length
        valid = attention_mask.bool()
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)  # (B, P + T)
        new = torch.arange(length, device=input_ids.device) + before  # a slice would be bound to there being a past
        queries = TokenPositions(positions.index_select(1, new), valid.index_select(1, new), end)
        caches, growing = make_caches(self, past, TokenPositions(positions, valid, end), None)
        hidden = run_stack(self.embedding, self.stack, input_ids, queries, caches)
        return [self.head(hidden, self.embedding.table.weight), *(x for cache in growing for x in cache.present)]


def make_traceable(model: Transformer) -> None:
    """Choose, in place, the form of each layer that runs the same operations whatever the sizes are."""
    for module in model.modules():
        config: Any = getattr(module, "config", None)
        if hasattr(config, "kernel"):
            module.config = replace(config, kernel="math")
        if isinstance(module, MixtureOfExperts):
            module._sparse = naive
    model.eval().requires_grad_(False)


def list_cache_shapes(model: Transformer) -> list[CacheShape]:
    """Of all layers of the decoder: each layer's own keys and values, then those of its source."""
    stack: Any = model.stacks["decoder"]
    shapes = []
    for layer, caches in enumerate(stack.new_caches(1, torch.device("cpu"), False)):
        for name in sorted(caches, key=["self", "shared", "cross"].index):
            c = stack.layer_blocks[layer].sublayers["self" if name == "shared" else name].config
            shapes.append(CacheShape(layer, name, getattr(c, "groups", c.heads), c.d_k, c.d_v))
    return shapes


def make_caches(
    program: Any, past: list[Tensor], keys: TokenPositions, source: TokenPositions | None
) -> tuple[list[dict[str, Any]], list[TracedKVCache]]:
    """The caches of each layer by name, and those that grow. `keys`: positions of the past and the new tokens."""
    caches: list[dict[str, Any]] = [{} for _ in program.stack.layer_blocks]
    growing = []
    for shape, k, v in zip(program.cache_shapes, past[::2], past[1::2]):
        cache: CrossKVCache | TracedKVCache
        if shape.is_cross:
            assert source is not None
            cache = CrossKVCache(0, k.device)
            cache.append(k, v, source)
        else:
            cache = TracedKVCache((k, v), keys)
            growing.append(cache)
        caches[shape.layer][shape.name] = cache
    return caches, growing


def positions_in_rows(mask: Tensor) -> TokenPositions:
    """0, 1, 2 … in each row of a mask (B, T) that is 0 on padding."""
    return positions_after_past(0, mask.shape[1], mask.device)._replace(valid=mask.bool())


def positions_after_past(before: int, length: int, device: torch.device) -> TokenPositions:
    """Of `length` tokens that follow `before` others in every row. Not `in_order`, which chooses other kernels."""
    return TokenPositions((torch.arange(length, device=device) + before)[None], None, before + length)


def run_stack(embedding: Any, stack: Any, ids: Tensor, queries: TokenPositions, caches: Any) -> Tensor:
    hidden: Tensor = stack(embedding(ids, queries, stack), TracedContext(queries), caches)
    return hidden
