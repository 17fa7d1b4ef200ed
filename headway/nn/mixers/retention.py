"""Retention: linear attention with decay, whose state is one matrix per head (RetNet, Sun 2023; gated, Sun 2024)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.retention import (
    CHUNK_TOKENS,
    Form,
    accumulator_dtype,
    count_flops,
    fixed_log_decay,
    retain,
    retention_scores,
)
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory

GATE_TEMPERATURE = 16.0  # of gated decays: keeps them near 1


class Retention(nn.Module):
    """(silu(xW_g) ⊙ norm(retain(xW_q, xW_k / √d_k, xW_v))) W_o, with a norm for each head"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "retention"
        heads: int = number(8, low=1)
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = 2 · d_k
        gated: bool = False  # decays depend on the token (Sun 2024)
        form: Literal["auto", "parallel", "recurrent", "chunkwise"] = "auto"
        chunk: int = number(CHUNK_TOKENS, low=1)
        eps: float = number(1e-6, low=0)
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            return replace(self, d_k=d_k, d_v=self.d_v or 2 * d_k)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(
                    f'retention supports only the mask "causal", not "{mask.name}". Set mask = "causal", or choose the '
                    'mixer "attention".',
                    "mask",
                )
            if position.applies_to not in ("nothing", "input", "qk"):
                raise ConfigError(
                    f"{position.kind} changes attention scores, and retention has none. Choose a position that is "
                    'added, such as "sinusoidal", or that rotates, such as "rope", or "none": decays mark order too.',
                    "position",
                )
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            outputs = [keys, keys, values, values, *[c.heads] * c.gated]
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in outputs)
                + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=2 * scope.d_model * (sum(outputs) + values),
                flops_by_length=(c._flops,),
                cached_per_text=c.heads * c.d_k * c.d_v,
            )

        def _flops(self, length: int, _: int) -> int:
            assert self.d_k and self.d_v
            return self.heads * count_flops(length, self.d_k, self.d_v, self.form, self.chunk)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value, self.gate = (make_linear(scope.d_model, values, scope, bias=c.bias) for _ in range(2))
        self.decay = make_linear(scope.d_model, c.heads, scope, bias=c.bias) if c.gated else None
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        c = self.config
        assert source is None and c.d_k and c.d_v
        check_unpacked(c.kind, ctx.queries)
        q, k, v = (split_heads(project(x), c.heads) for project in (self.query, self.key, self.value))
        q, k = ctx.transform_query(q), ctx.rotate(k, ctx.queries) * c.d_k**-0.5  # (B, H, T, D)
        log_decay, valid = self._log_decay(x, ctx), ctx.queries.valid
        if valid is not None:
            k = k.masked_fill(~valid[:, None, :, None], 0.0)
            if c.gated or cache is not None:  # without a cache padding decays too, as it has a position
                log_decay = torch.where(valid[:, None], log_decay, 0.0)
        form: Form = "parallel" if ctx.traced else c.form
        total = None if cache is None else cache.get("total")
        output, total = retain(q, k, v, log_decay, total, form=form, chunk=c.chunk)
        if cache is not None:
            cache.advance(ctx.queries, total=total)
        if ctx.traced:
            for name, value in (("q", q), ("k", k), ("v", v), ("scores", retention_scores(q, k, log_decay))):
                ctx.record(name, value)
            ctx.record("decay", log_decay.exp().expand(*q.shape[:3]))
        normed = F.rms_norm(output, (c.d_v,), eps=c.eps).transpose(1, 2).flatten(2)  # (B, T, H·E)
        gate = F.silu(self.gate(x))
        joined = gate * normed
        ctx.record("gate", gate)
        ctx.record("joined", joined)
        result: Tensor = self.output(joined)
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)

    def _log_decay(self, x: Tensor, ctx: Context) -> Tensor:
        if self.decay is None:
            heads = self.config.heads
            decay: Tensor = ctx.compute_once(("fixed decay", heads), lambda: fixed_log_decay(heads, x.device))
            return decay
        gate: Tensor = self.decay(x).transpose(1, 2)  # (B, H, T)
        return F.logsigmoid(gate.to(accumulator_dtype(gate))) / GATE_TEMPERATURE
