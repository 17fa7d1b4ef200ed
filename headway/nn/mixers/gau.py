"""The gated attention unit (GAU, Hua 2022): attention with one head and no softmax, inside a gated linear unit. It
replaces both attention and feed-forward."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import AttentionCache
from headway.nn.cache.sliding_window import new_self_cache
from headway.nn.context import Context
from headway.nn.masks.masks import BoundMask, Mask
from headway.nn.mixers.attention import project_kv
from headway.nn.mixers.mixer import MixerConfig, check_even_heads
from headway.nn.ops.dropout import Dropout
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import BoundScoreMod
from headway.nn.sequence import Memory


def squared_relu_weights(
    q: Tensor, k: Tensor, mask: BoundMask, score_mod: BoundScoreMod | None = None, divisor: int | None = None
) -> Tensor:
    """max(0, score / n)² for the keys that the mask shows, else 0; n is the divisor, or how many keys a query sees.

    q (B, H, T, D), k (B, H, S, D) -> (B, H, T, S). Nothing is summed over the keys, so that a weight does not depend on
    the other keys but for n."""
    scores = q @ k.transpose(-1, -2)
    scores = scores.to(accumulator_dtype(scores))
    scores = scores if score_mod is None else score_mod(scores, q.shape[0])
    if mask.allows_all:
        return F.relu(scores / (divisor or k.shape[2])).square()
    allowed = mask.dense(q.shape[0])
    count = allowed.sum(-1, keepdim=True).clamp(min=1) if divisor is None else divisor
    return F.relu(scores / count).square().masked_fill(~allowed, 0.0)


class GatedAttentionUnit(nn.Module):
    """(silu(xW_u) ⊙ A silu(xW_v)) W_o with A = max(0, qkᵀ / n)², q and k = silu(xW_z), each scaled and shifted"""

    residual_outputs = ("output",)

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # its gates and its values are of the same tokens
        needs_norm: ClassVar[bool] = True  # its output grows with the sixth power of its input

        kind: str = "gau"
        d_k: int = number(128, low=1)  # of queries and keys
        hidden: int | None = number(None, low=1)  # = 2 · d_model: width of gates and values
        divisor: int | None = number(None, low=1)  # n, such as the longest text; = how many keys a query sees
        bias: bool = True
        dropout: float | None = number(None, low=0, high=1)  # = the model's

        def resolved(self, scope: Scope) -> Self:
            dropout = scope.dropout if self.dropout is None else self.dropout
            return replace(self, hidden=self.hidden or 2 * scope.d_model, dropout=dropout)

        @property
        def heads(self) -> int:
            return 1

        @property
        def d_v(self) -> int | None:
            """The width of a value, for positions that change values."""
            return self.hidden

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return mask.lookback is not None

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.hidden
            outputs = (c.hidden, c.hidden, c.d_k)
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in outputs)
                + scope.linear_parameters(c.hidden, scope.d_model, c.bias)
                + 4 * c.d_k,
                flops_per_query=2 * scope.d_model * (3 * c.hidden + c.d_k),
                flops_per_pair=2 * (c.d_k + c.hidden),
                cached_per_token=c.d_k + c.hidden,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.hidden
        self.gate, self.value = (make_linear(scope.d_model, c.hidden, scope, bias=c.bias) for _ in range(2))
        self.shared = make_linear(scope.d_model, c.d_k, scope, bias=c.bias)
        # Of queries and of keys. The second axis keeps Muon away: they are no matrices.
        self.scales = nn.Parameter(torch.ones(2, 1, c.d_k))
        self.offsets = nn.Parameter(torch.zeros(2, 1, c.d_k))
        self.output = make_linear(c.hidden, scope.d_model, scope, bias=c.bias)
        self.dropout = Dropout(c.dropout or 0.0)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: AttentionCache | None = None
    ) -> Tensor:
        assert source is None
        shared = F.silu(self.shared(x))  # (B, T, D)
        q = self._scaled(shared, 0)

        def project(inputs: Memory) -> tuple[Tensor, Tensor]:
            z = shared if inputs.values is x else F.silu(self.shared(inputs.values))
            return ctx.rotate(self._scaled(z, 1), inputs.positions), F.silu(self.value(inputs.values))[:, None]

        kv = project_kv(Memory(x, ctx.queries), "self", cache, project)
        score_mod = ctx.bound_score_mod(q, kv.positions, 1.0)
        mask = ctx.bound_mask(kv.positions, 1, kv.owner)
        weights = squared_relu_weights(ctx.transform_query(q), kv.k, mask, score_mod, self.config.divisor)
        for name, value in (("q", q), ("k", kv.k), ("v", kv.v), ("scores", weights)):
            ctx.record(name, value)
        weights = self.dropout(weights).to(kv.v.dtype)
        attended = weights @ kv.v  # (B, 1, T, hidden)
        if score_mod is not None:
            attended = attended + score_mod.value_bias(weights)
        result: Tensor = self.output(F.silu(self.gate(x)) * attended[:, 0])
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> AttentionCache:
        return new_self_cache(batch, device, lookback, trainable)

    def _scaled(self, z: Tensor, which: int) -> Tensor:
        """Queries (0) or keys (1) of the shared vectors: (B, T, D) -> (B, 1, T, D)"""
        return (z * self.scales[which] + self.offsets[which])[:, None]
