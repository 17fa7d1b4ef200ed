"""DCMHA: multi-head attention whose heads are composed anew for every pair of tokens (DCFormer, Xiao 2024)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache, CrossKVCache, LayerCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import gather_kv, split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, head_width
from headway.nn.ops.attention import masked_softmax
from headway.nn.positions.positions import Position
from headway.nn.sequence import KeyValues, Memory

EPS = 1e-6  # of the norm of `down`


class HeadMixing(NamedTuple):
    """How one token, as a query or as a key, mixes the heads of a map: by a matrix of low rank, and a factor for each
    head."""

    down: Tensor  # (B, T, R, H) from heads to R numbers,
    up: Tensor  # (B, T, R, H) and back
    gate: Tensor  # (B, T, H)


def compose_heads(x: Tensor, query: HeadMixing, key: HeadMixing) -> Tensor:
    """Scores or weights (B, H, T, S) of each pair, plus what its query and its key make of those of all heads:

    x'_mts = x_mts + Σ_r Σ_n x_nts (down_trn up_trm + down'_srn up'_srm) + x_mts (gate_tm + gate'_sm)
    """
    by_query = torch.einsum("brts,btrm->bmts", torch.einsum("bnts,btrn->brts", x, query.down), query.up)
    by_key = torch.einsum("brts,bsrm->bmts", torch.einsum("bnts,bsrn->brts", x, key.down), key.up)
    gates = query.gate.transpose(1, 2)[:, :, :, None] + key.gate.transpose(1, 2)[:, :, None, :]  # (B, H, T, S)
    return x + by_query + by_key + x * gates


class HeadMixer(nn.Module):
    """down, up = gelu(xW₁)W₂, of which down is normed over the heads; gate = tanh(xW_g)"""

    initial_gains: ClassVar[Mapping[str, float]] = {"mix": 0.01, "gate": 0.005}  # nearly plain attention at first

    def __init__(self, heads: int, rank: int, hidden: int, scope: Scope) -> None:
        super().__init__()
        self.heads, self.rank = heads, rank
        self.hidden = make_linear(scope.d_model, hidden, scope, bias=False)
        self.mix = make_linear(hidden, 2 * rank * heads, scope, bias=False)
        self.gate = make_linear(scope.d_model, heads, scope, bias=False)

    def forward(self, x: Tensor) -> HeadMixing:
        mixed: Tensor = self.mix(F.gelu(self.hidden(x)))
        down, up = mixed.unflatten(-1, (2, self.rank, self.heads)).unbind(-3)  # (B, T, R, H) each
        return HeadMixing(F.rms_norm(down, (self.heads,), eps=EPS), up, self.gate(x).tanh())


class ComposedAttention(nn.Module):
    """W_o of heads whose scores are composed before the softmax, and whose weights are composed after it"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "dcmha"
        heads: int = number(8, low=1)
        rank: int = number(2, low=1)  # of the matrix by which a token mixes heads
        hidden: int | None = number(None, low=1)  # = 2 · rank · heads: width of the layer that makes the matrix
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = False
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            return replace(
                self,
                hidden=self.hidden or 2 * self.rank * self.heads,
                d_k=d_k,
                d_v=self.d_v or d_k,
                dropout=scope.dropout if self.dropout is None else self.dropout,
            )

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        @property
        def mixing_width(self) -> int:
            """Numbers for each token and head by which it mixes heads as a key, before and after the softmax."""
            return 2 * (2 * self.rank + 1)

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.hidden and c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            sizes = [(scope.d_model, c.hidden), (c.hidden, 2 * c.rank * c.heads), (scope.d_model, c.heads)]
            projections = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            mixers = 2 * 2 * sum(inputs * outputs for inputs, outputs in sizes)  # FLOPs of two: pre and post
            return Cost(
                parameters=projections
                + scope.linear_parameters(values, scope.d_model, c.bias)
                + 4 * sum(scope.linear_parameters(*size, bias=False) for size in sizes),
                flops_per_query=2 * scope.d_model * (keys + values) + mixers,
                flops_per_key=2 * scope.d_model * (keys + values) + mixers,
                flops_per_pair=2 * c.heads * (c.d_k + c.d_v) + 2 * 8 * c.rank * c.heads,
                cached_per_token=keys + values + c.heads * c.mixing_width,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.hidden and c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, values, scope, bias=c.bias)
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)
        names = ("pre_query", "pre_key", "post_query", "post_key")
        self.mixers = nn.ModuleDict({name: HeadMixer(c.heads, c.rank, c.hidden, scope) for name in names})

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        c = self.config
        kv = gather_kv(x, ctx, source, cache, lambda inputs: self._project(inputs, ctx))
        q = split_heads(self.query(x), c.heads)  # (B, H, T, D)
        heads = self._attend(q, self._mixings(x, "query"), kv, ctx)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result

    def new_cache(
        self,
        batch: int,
        device: torch.device,
        *,
        cross: bool = False,
        lookback: int | None = None,
        trainable: bool = False,
    ) -> LayerCache:
        return CrossKVCache(batch, device) if cross else new_self_cache(batch, device, lookback, trainable)

    def _attend(self, q: Tensor, mixings: list[HeadMixing], kv: KeyValues, ctx: Context) -> Tensor:
        """(B, H, T, E)"""
        c = self.config
        assert c.d_k and c.dropout is not None
        score_mod = ctx.bound_score_mod(q, kv.positions, c.d_k**-0.5)
        allowed = ctx.bound_mask(kv.positions, c.heads, kv.owner).dense(q.shape[0])  # (B or 1, H or 1, T, S)
        k, packed = kv.k.split([c.d_k, c.mixing_width], -1)
        pre_key, post_key = _unpack_mixings(packed, c.rank)
        q = ctx.transform_query(q)
        scores = q @ k.mT * c.d_k**-0.5  # (B, H, T, S)
        scores = scores if score_mod is None else score_mod(scores, q.shape[0])
        composed_scores = compose_heads(scores, mixings[0], pre_key)
        weights = masked_softmax(composed_scores, allowed)
        composed_weights = compose_heads(weights, mixings[1], post_key)
        dropped = F.dropout(composed_weights, c.dropout, self.training)
        output = dropped @ kv.v
        output = output if score_mod is None else output + score_mod.value_bias(dropped)
        for name, value in (("q", q), ("k", k), ("v", kv.v), ("scores", scores), ("composed_scores", composed_scores)):
            ctx.record(name, value)
        ctx.record("weights", weights)
        ctx.record("composed_weights", composed_weights)
        return output

    def _project(self, inputs: Memory, ctx: Context) -> tuple[Tensor, Tensor]:
        """Keys, with what they mix heads by behind each of them, and values: all that is cached."""
        k, v = (split_heads(x, self.config.heads) for x in project_together(inputs.values, self.key, self.value))
        packed = _pack_mixings(self._mixings(inputs.values, "key"))
        return torch.cat([ctx.rotate(k, inputs.positions), packed.to(k.dtype)], -1), v

    def _mixings(self, x: Tensor, side: str) -> list[HeadMixing]:
        """Before and after the softmax."""
        return [self.mixers[f"{when}_{side}"](x) for when in ("pre", "post")]


def _pack_mixings(mixings: list[HeadMixing]) -> Tensor:
    """(B, H, T, 2 · (2R + 1))"""
    parts = [part for one in mixings for part in (one.down, one.up, one.gate[:, :, None])]
    return torch.cat(parts, 2).permute(0, 3, 1, 2)


def _unpack_mixings(packed: Tensor, rank: int) -> list[HeadMixing]:
    parts = packed.permute(0, 2, 3, 1).split([rank, rank, 1] * 2, 2)  # (B, S, R or 1, H) each
    return [HeadMixing(down, up, gate[:, :, 0]) for down, up, gate in (parts[:3], parts[3:])]
