"""How a static search takes in its source: by the encoder, and then as keys and values of all layers that listen.

One decoding step of a Transformer in tensors that keep their shape. All beams of a row are queries of that row, so
that they share its keys: nothing is repeated for a beam, and none moves when beams change places.

B rows    K beams of each    L positions at most, of which the first `reach` are looked at    S source tokens
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import sdpa_kernel

from headway.decode.cuda.position_tables import Step, Tables, View
from headway.nn.context import Context
from headway.nn.layers.feedforward import FeedForward, SwiGLU
from headway.nn.layers.linear import Dense
from headway.nn.masks.masks import CAUSAL, Mask
from headway.nn.mixers.attention import Attention, split
from headway.nn.ops.attention import UNPLANNED
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory, Places
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer

RECORDED = 1 << 14  # tokens: with more, the device takes longer than the host does
ENCODER_POSITIONS = ("none", "sinusoidal", "learned", "rope", "t5")  # that ask the host nothing


def can_read(model: Transformer, rows: int, width: int) -> bool:
    """Whether encoding so many rows and tokens, whatever they hold, can be recorded, and is worth it."""
    if "encoder" not in model.stacks or not 0 < rows * width <= RECORDED:
        return False
    stack: Stack = model.stacks["encoder"]  # type: ignore[assignment]
    positions: Any = model.config.encoder.position
    if any(
        part.kind not in ENCODER_POSITIONS or (part.kind == "learned" and width > part.longest) for part in positions
    ):
        return False
    blocks: list[Any] = list(stack.blocks)
    modules = [module for block in blocks for module in block.sublayers.values()]
    dense = all(isinstance(m.query, Dense) and m.config.kernel != "flex" for m in modules if type(m) is Attention)
    plain = all(mask.span is not None for mask in stack.masks)
    return dense and plain and all(type(m) in (Attention, FeedForward, SwiGLU) for m in modules)


class Ears:
    """The keys and values of all layers, in one product."""

    def __init__(self, layers: list[Attention]) -> None:
        parts: list[Any] = [part for layer in layers for part in (layer.key, layer.value)]
        self.parts, self.sizes = parts, [2 * len(part.weight) for part in parts[::2]]
        self.weight = torch.cat([part.weight for part in parts]).detach() if parts else None
        self.bias = torch.cat(self._biases()).detach() if any(part.bias is not None for part in parts) else None

    def _biases(self) -> list[Tensor]:
        return [torch.zeros_like(part.weight[:, 0]) if part.bias is None else part.bias for part in self.parts]

    def refresh(self) -> None:
        """Copy the weights again, to where they were: somebody may have trained them."""
        if self.weight is not None:
            torch.cat([part.weight for part in self.parts], out=self.weight)
        if self.bias is not None:
            torch.cat(self._biases(), out=self.bias)

    def hear(self, memory: Memory, kept: list[Tensor], heard: Tensor) -> None:
        """Into the first rows of kept, (2, B, G, S, D) each, and heard (B, 1, 1, S); the other rows hear something."""
        rows, size = memory.values.shape[:2]
        heard.fill_(-torch.inf)
        heard[rows:, :, :, 0].zero_()  # whoever hears nothing would be no number
        real = memory.places.valid
        if real is None:
            heard[:rows, :, :, :size].zero_()
        else:
            heard[:rows, 0, 0, :size].masked_fill_(real, 0.0)
        if self.weight is None:
            return
        said = torch.split(F.linear(memory.values, self.weight, self.bias), self.sizes, dim=-1)
        for part, to in zip(said, kept):
            apart = part.view(rows, size, 2, to.shape[2], -1)  # (B, S, 2, G, D)
            to[:, :rows, :, :size] = apart.permute(2, 0, 3, 1, 4)


POSITIONS = ("none", "sinusoidal", "learned", "rope", "alibi", "t5")  # that depend on nothing but places
TABLES = 1024  # the longest output for which a bend of every pair of places is kept


class Past(NamedTuple):
    """What the beams of B rows have read. Written in place, so that its tensors stay where they are."""

    now: Tensor  # (1,) the position of the tokens that are read next
    owners: Tensor  # (B, K, L + 1) which beam wrote what this one takes for its past; -1: nobody yet
    own: list[Tensor]  # of each layer, keys and values: (2, B, G, L, K, D)
    source: list[Tensor]  # likewise, of the source: (2, B, G, S, D)
    heard: Tensor  # (B, 1, 1, S) 0 where the source is real, else -inf
    beams: Tensor  # (K,) 0, 1, 2 …

    @property
    def length(self) -> int:
        return self.owners.shape[2] - 1


def hindrance(model: Transformer, longest: int) -> str:
    """Why this model cannot be decoded so, up to this length; nothing if it can."""
    if "decoder" not in model.stacks:
        return "it has no decoder"
    if model.training:
        return "it is in training"
    stack: Stack = model.stacks["decoder"]  # type: ignore[assignment]
    blocks: list[Any] = list(stack.blocks)
    config, modules = model.config.decoder, [part for block in blocks for part in block.sublayers.items()]
    positions: Any = config.position
    for part in positions:
        if part.kind not in POSITIONS:
            return f"its position is {part.kind}"
        if part.kind == "learned" and longest > part.longest:
            return f"it learned {part.longest} positions"
    bends = any(part.acts == "bends" for part in positions) or any(mask is not CAUSAL for mask in stack.masks)
    if bends and longest > TABLES:
        return f"its scores are bent over more than {TABLES} places"
    for name, module in modules:
        if type(module) not in ((FeedForward, SwiGLU) if name == "feedforward" else (Attention,)):
            return f"it has a {type(module).__name__}"
        if isinstance(module, Attention) and not (
            isinstance(module.query, Dense) and module.config.d_k == module.config.d_v
        ):
            return "its attention has keys and values of different widths, or weights that are not dense"
    return ""


class Layer:
    """One layer, its projections of queries, keys and values joined into one product."""

    def __init__(self, block: Any, mask: Mask, position: Position) -> None:
        self.residuals, self.sublayers = block.residuals, block.sublayers
        own: Attention = block.sublayers["self"]
        c = own.config
        assert c.groups and c.d_k and c.scale is not None  # a model's config is resolved
        self.view = View(mask, position, c.heads, c.d_k, c.scale)
        self.groups = c.groups
        parts: list[Any] = [own.query, own.key, own.value]
        self.own = own
        self.cross: Any = dict(block.sublayers.items()).get("cross")
        self.parts = parts
        self.weight = torch.cat([part.weight for part in parts]).detach()
        self.bias = torch.cat([part.bias for part in parts]).detach() if own.config.bias else None

    def refresh(self) -> None:
        """Copy the weights again, to where they were: somebody may have trained them."""
        torch.cat([part.weight for part in self.parts], out=self.weight)
        if self.bias is not None:
            torch.cat([part.bias for part in self.parts], out=self.bias)

    def past(self, rows: int, beam: int, length: int) -> Tensor:
        return self.weight.new_zeros(2, rows, self.groups, length, beam, self.view.d_k)

    def source(self, rows: int, length: int) -> Tensor:
        assert self.cross is not None
        c = self.cross.config
        return self.weight.new_zeros(2, rows, c.groups, length, c.d_k)

    def listen(self, x: Tensor, past: Tensor, step: Step) -> Tensor:
        """Self-attention of x (B, K, d), which it writes into the past."""
        heads, groups = self.view.heads, self.groups
        joined = split(F.linear(x, self.weight, self.bias), heads + 2 * groups)  # (B, H + 2G, K, D)
        if self.view.turn is not None:
            turned = step.turn(joined[:, : heads + groups], self.view)
            joined = torch.cat([turned, joined[:, heads + groups :]], dim=1)
        size = (len(x), 2, groups, 1, *joined.shape[2:])
        past.index_copy_(3, step.now, joined[:, heads:].view(size).transpose(0, 1))  # (2, B, G, 1, K, D)
        keys, values = past[:, :, :, : step.reach].flatten(3, 4)  # (B, G, reach · K, D)
        return self.own.output(_attend(joined[:, :heads], keys, values, step.bias(self.view), self.view.scale))  # type: ignore[no-any-return]

    def listen_across(self, x: Tensor, source: Tensor, heard: Tensor) -> Tensor:
        """Attention of x (B, K, d) to the source."""
        assert self.cross is not None
        c, asking = self.cross.config, self.cross.query(x)
        asked, bias = split(asking, c.heads), heard.expand(-1, -1, x.shape[1], -1)  # (B, H, K, D)
        return self.cross.output(_attend(asked, source[0], source[1], bias, c.scale))  # type: ignore[no-any-return]

    def feed(self, x: Tensor, ctx: Context) -> Tensor:
        part = self.sublayers["feedforward"]
        if type(part) is FeedForward and part.activation is F.relu and type(part.inner) is Dense:
            bias, weight = part.inner.bias, part.inner.weight
            if bias is not None:  # a product that ends in relu is one kernel
                return part.outer(torch._addmm_activation(bias, x.flatten(0, 1), weight.t()).view(*x.shape[:2], -1))  # type: ignore[no-any-return]
        return part(x, ctx)  # type: ignore[no-any-return]

    def wrap(self, name: str, s: Any, act: Callable[[Tensor], Tensor]) -> Any:
        """As the residual around this part does it."""
        return self.residuals[name].wrap(s, act)


class Folded:
    """A Transformer that reads one token for each of B·K hypotheses."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.stack: Stack = model.stacks["decoder"]  # type: ignore[assignment]
        parts = zip(self.stack.blocks, self.stack.masks, self.stack.position_of)
        self.layers = [Layer(block, mask, self.stack.positions[which]) for block, mask, (which, _) in parts]  # type: ignore[arg-type]
        self.ears = Ears([layer.cross for layer in self.layers if layer.cross is not None])
        self._tables: dict[int, Tables] = {}

    def new_past(self, rows: int, beam: int, length: int, source: int) -> Past:
        device, weight = self.model.device, self.layers[0].weight
        return Past(
            torch.zeros(1, dtype=torch.long, device=device),
            torch.full((rows, beam, length + 1), -1, device=device),
            [layer.past(rows, beam, length) for layer in self.layers],
            [layer.source(rows, source) for layer in self.layers if layer.cross is not None],
            torch.zeros(rows, 1, 1, source, dtype=weight.dtype, device=device),
            torch.arange(beam, device=device),
        )

    def refresh(self) -> None:
        for layer in self.layers:
            layer.refresh()
        self.ears.refresh()

    def tables(self, length: int) -> Tables:
        if length not in self._tables:
            views = [layer.view for layer in self.layers]
            self._tables[length] = Tables(self.model, views, length, self.layers[0].weight.dtype)
        return self._tables[length]

    def can_read(self, rows: int, source: int) -> bool:
        return can_read(self.model, rows, source)

    def hear(self, memory: Memory, past: Past) -> None:
        """Take in what the encoder said of the first rows."""
        self.ears.hear(memory, past.source, past.heard)

    def logits(self, ids: Tensor, past: Past, reach: int) -> Tensor:
        """Of what follows ids (B, K), which stand at past.now: (B · K, V)."""
        tables = self.tables(past.length)
        places = Places(past.now[None], None, past.length)
        x = self.model.embeddings["decoder"](ids, places, tables)  # (B, K, d)
        ctx, step = Context(places), Step(tables, past.owners[:, :, :reach], past.beams, past.now)
        s = self.stack.ends.start(x)
        for index, layer in enumerate(self.layers):
            s = layer.wrap("self", s, partial(layer.listen, past=past.own[index], step=step))
            if layer.cross is not None:
                s = layer.wrap("cross", s, partial(layer.listen_across, source=past.source[index], heard=past.heard))
            s = layer.wrap("feedforward", s, partial(layer.feed, ctx=ctx))
        return self.model.logits(self.stack.ends.finish(s).flatten(0, 1))


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float) -> Tensor:
    """q (B, H, K, D), k and v (B, G, N, D), bias (B, H or 1, K, N) -> (B, K, H · D). Heads that share keys ask together,
    as if they were beams: fused kernels know of no groups."""
    batch, heads, beam, width = q.shape
    groups = k.shape[1]
    if groups < heads:
        q = q.reshape(batch, groups, -1, width)
        bias = bias.expand(-1, heads, -1, -1).reshape(batch, groups, -1, k.shape[2])
    with sdpa_kernel(UNPLANNED):
        heard = F.scaled_dot_product_attention(q, k, v, bias.expand(-1, groups, -1, -1), scale=scale)
    return heard.reshape(batch, heads, beam, width).transpose(1, 2).flatten(2)
