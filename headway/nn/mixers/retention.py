"""Retention: a mixer whose past fades, and is kept as one matrix a head (Sun 2023)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import Recurrent
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split
from headway.nn.mixers.mixer import MixerConfig, head_width, refuse_odd
from headway.nn.ops.retention import CHUNK, TOGETHER, Form, fixed_decay, kept_dtype, retain, scores
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory

TEMPERATURE = 16.0  # of gated decays: it keeps them near 1


class Retention(nn.Module):
    """(silu(xW_g) ⊙ norm(retain(xW_q, xW_k / √d_k, xW_v))) W_o, the norm over each head by itself"""

    adds = ("value", "output")  # the layers whose weights a residual for depth starts smaller

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "retention"
        heads: int = number(8, low=1)
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = 2 · d_k
        gated: bool = False  # each token says how much of the past it keeps (Sun 2024)
        form: Literal["auto", "parallel", "recurrent", "chunkwise"] = "auto"
        chunk: int = number(CHUNK, low=1)
        eps: float = number(1e-6, low=0)
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            return replace(self, d_k=d_k, d_v=self.d_v or 2 * d_k)

        def refuse(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(
                    f'retention hears all of the past, which fades, and nothing else: "{mask.name}" asks for something '
                    'different. Set mask = "causal", or choose the mixer "attention".',
                    "mask",
                )
            if position.acts not in ("nowhere", "adds", "turns"):
                raise ConfigError(
                    f"{position.kind} changes the scores before a softmax, and retention has none. Choose a position "
                    'that is added, as "sinusoidal", or that turns, as "rope", or "none": its decays mark order too.',
                    "position",
                )
            refuse_odd(self.d_k, position)

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
                kept_per_text=c.heads * c.d_k * c.d_v,
            )

        def _flops(self, length: int, _: int) -> int:
            """Of `retain`: matrix products over this many tokens."""
            assert self.d_k and self.d_v
            pair, state = self.d_k + self.d_v, self.d_k * self.d_v
            if self.form == "recurrent" or (self.form == "auto" and length == 1):
                return 2 * self.heads * length * state
            if self.form == "parallel" or length <= self.chunk:
                return 2 * self.heads * length * (length * pair + state)
            chunks, rest = divmod(length, self.chunk)
            joined = [min(TOGETHER, chunks - first) for first in range(0, chunks, TOGETHER)]
            between = (length - rest + sum(n * (n + 1) for n in joined)) * state if chunks > 1 else 0
            within = (length - rest) * (self.chunk * pair + state) + rest * (rest * pair + 2 * state)
            return 2 * self.heads * (within + between)

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
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, state: Recurrent | None = None
    ) -> Tensor:
        c = self.config
        assert source is None and c.d_k and c.d_v
        q, k, v = (split(project(x), c.heads) for project in (self.query, self.key, self.value))
        q, k = ctx.turn(q, ctx.queries), ctx.turn(k, ctx.queries) * c.d_k**-0.5  # (B, H, T, D)
        log_decay, valid = self._log_decay(x, ctx), ctx.queries.valid
        if valid is not None:
            k = k.masked_fill(~valid[:, None, :, None], 0.0)
            if c.gated or state is not None:  # without a state padding has its place in time, as it has a position
                log_decay = torch.where(valid[:, None], log_decay, 0.0)
        form: Form = "parallel" if ctx.traced else c.form
        total = None if state is None else state.get("total")
        heard, total = retain(q, k, v, log_decay, total, form=form, chunk=c.chunk)
        if state is not None:
            state.advance(ctx.queries, total=total)
        if ctx.traced:
            for name, value in (("q", q), ("k", k), ("v", v), ("scores", scores(q, k, log_decay))):
                ctx.record(name, value)
            ctx.record("decay", log_decay.exp().expand(*q.shape[:3]))
        normed = F.rms_norm(heard, (c.d_v,), eps=c.eps).transpose(1, 2).flatten(2)  # (B, T, H·E)
        result: Tensor = self.output(F.silu(self.gate(x)) * normed)
        return result

    def new_state(
        self, batch: int, device: torch.device, *, listens: bool = False, reach: int | None = None, learns: bool = False
    ) -> Recurrent:
        return Recurrent(batch, device)

    def _log_decay(self, x: Tensor, ctx: Context) -> Tensor:
        if self.decay is None:
            heads = self.config.heads
            decay: Tensor = ctx.shared(("fixed decay", heads), lambda: fixed_decay(heads, x.device))
            return decay
        kept: Tensor = self.decay(x).transpose(1, 2)  # (B, H, T)
        return F.logsigmoid(kept.to(kept_dtype(kept))) / TEMPERATURE
