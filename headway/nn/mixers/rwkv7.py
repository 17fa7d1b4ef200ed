"""The time mixing of RWKV-7, "Goose": a matrix per head, in which every token corrects one value (Peng 2025)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_running_state, check_unpacked, head_width
from headway.nn.ops.delta_rule import CHUNK_TOKENS, MAX_CHUNK_TOKENS, MIN_LOG_DECAY, DeltaInputs, apply_delta_rule
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.token_shift import initial_shares, mix_previous, shift_tokens
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory

SHARE_EXPONENTS = {"receptance": 0.2, "decay": 0.9, "key": 0.7, "value": 0.7, "rate": 0.9, "gate": 0.2}


class LowRank(nn.Module):
    """activation(xA)B + bias: a change of x of low rank"""

    def __init__(self, rank: int, scope: Scope, activation: Callable[[Tensor], Tensor], bias: Tensor | None) -> None:
        super().__init__()
        self.inner = make_linear(scope.d_model, rank, scope, bias=False)
        self.outer = make_linear(rank, scope.d_model, scope, bias=False)
        self.activation = activation
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = self.outer(self.activation(self.inner(x)))
        return change if self.bias is None else change + self.bias


class RWKV7(nn.Module):
    """((norm(S r) + (r ⊙ bonus · k) v) ⊙ gate) W_o, with S by the delta rule and a norm for each head"""

    residual_outputs = ("value", "output")

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "rwkv7"
        heads: int = number(8, low=1)
        decay_rank: int | None = number(None, low=1)  # = 2.5 · √d_model, rounded to a multiple of 32, at least 32
        rate_rank: int | None = number(None, low=1)  # likewise
        value_rank: int | None = number(None, low=1)  # = 1.7 · √d_model, likewise
        gate_rank: int | None = number(None, low=1)  # = 5 · √d_model, likewise
        form: Literal["auto", "recurrent", "chunkwise"] = "auto"
        chunk: int = number(CHUNK_TOKENS, low=1, high=MAX_CHUNK_TOKENS)
        eps: float = number(64e-5, low=0)

        def resolved(self, scope: Scope) -> Self:
            head_width(self.heads, None, scope)
            factors = {"decay_rank": 2.5, "rate_rank": 2.5, "value_rank": 1.7, "gate_rank": 5.0}
            ranks = {name: max(32, round(by * scope.d_model**0.5 / 32) * 32) for name, by in factors.items()}
            return replace(self, **{name: getattr(self, name) or rank for name, rank in ranks.items()})

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_running_state(self.kind, mask, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            c, d = self.resolved(scope), scope.d_model
            assert c.decay_rank and c.rate_rank and c.value_rank and c.gate_rank
            ranks = [c.decay_rank, c.rate_rank, c.gate_rank] + [c.value_rank] * (not scope.first_of_kind)
            pairs = sum(
                scope.linear_parameters(d, rank, False) + scope.linear_parameters(rank, d, False) for rank in ranks
            )
            vectors = len(SHARE_EXPONENTS) + (len(ranks) - 1) + 5  # shares; biases; scales, bonus and norm
            return Cost(
                parameters=4 * scope.linear_parameters(d, d, False) + pairs + vectors * d,
                flops_per_query=8 * d * d + 4 * d * sum(ranks),
                flops_by_length=(lambda length, _: c.heads * c._flops(length, d // c.heads),),
                cached_per_text=d + d * d // c.heads,
            )

        def _flops(self, length: int, width: int) -> int:
            """Of the delta rule over this many tokens, for one head: matrix products."""
            if self.form == "recurrent" or (self.form == "auto" and length == 1):
                return 4 * length * width**2
            chunks, rest = divmod(length, self.chunk)
            sizes = [(chunks, self.chunk), (1, rest)] if rest else [(chunks, self.chunk)]
            return sum(2 * n * (7 * size**2 * width + 5 * size * width**2 + width**3) for n, size in sizes)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.decay_rank and c.rate_rank and c.value_rank and c.gate_rank
        d, depth = scope.d_model, scope.layer / max(1, scope.layers - 1)
        self.receptance, self.key, self.value, self.output = (make_linear(d, d, scope, bias=False) for _ in range(4))
        exponent = 1 - scope.layer / scope.layers
        self.shares = nn.ParameterDict(  # of the previous token in the input of each projection
            {name: nn.Parameter(initial_shares(d, by * exponent)) for name, by in SHARE_EXPONENTS.items()}
        )
        slow_to_fast = 6 * torch.linspace(0, 1, d) ** (1 + depth**0.3) - 5.5
        self.decay = LowRank(c.decay_rank, scope, torch.tanh, slow_to_fast)
        self.rate = LowRank(c.rate_rank, scope, nn.Identity(), torch.zeros(d))
        self.gate = LowRank(c.gate_rank, scope, torch.sigmoid, None)
        self.first_share = (  # of the first layer's values in those of this layer
            None if scope.first_of_kind else LowRank(c.value_rank, scope, nn.Identity(), torch.ones(d))
        )
        self.erase_scale = nn.Parameter(torch.full((d,), 0.85))
        self.rate_scale = nn.Parameter(torch.ones(d))
        self.bonus = nn.Parameter(torch.zeros(d))
        self.gain, self.bias = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked("rwkv7", ctx.queries)
        c = self.config
        previous, last = shift_tokens(x, ctx.queries, None if cache is None else cache.get("last"))
        inputs = {name: mix_previous(x, previous, share) for name, share in self.shares.items()}
        r, v = self.receptance(inputs["receptance"]), self._values(inputs["value"], ctx)
        k, erase, rate, log_decay = self._keys(inputs, ctx)
        given = DeltaInputs(*(split_heads(part, c.heads) for part in (r, k, v, erase, rate, log_decay)))
        given = given._replace(erase=F.normalize(given.erase, dim=-1))  # (B, H, T, D)
        state = None if cache is None else cache.get("state")
        output, state = apply_delta_rule(given, state, form=c.form, chunk=c.chunk)
        if cache is not None:
            cache.advance(ctx.queries, last=last, state=state)
        if ctx.traced:
            for name, value in (*given._asdict().items(), ("read", output)):
                ctx.record(name, value)
        normed = F.layer_norm(output, output.shape[-1:], eps=c.eps).transpose(1, 2).flatten(2)  # (B, T, d)
        own = (given.r * given.k * split_heads(self.bonus[None, None], c.heads)).sum(-1, keepdim=True) * given.v
        mixed = normed * self.gain + self.bias + own.transpose(1, 2).flatten(2)
        result: Tensor = self.output(mixed.to(x.dtype) * self.gate(inputs["gate"]))
        return result

    def _values(self, x: Tensor, ctx: Context) -> Tensor:
        """Those of the first layer of this kind, or between them and this layer's own: the value residual."""
        v: Tensor = self.value(x)
        first: Tensor = ctx.compute_once(("rwkv7", "values of the first layer"), lambda: v)
        if self.first_share is None:
            return v
        return torch.lerp(v, first, torch.sigmoid(self.first_share(x)).to(v.dtype))

    def _keys(self, inputs: dict[str, Tensor], ctx: Context) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(B, T, d) each, in float32 at least: what is added, what is erased, how much of it, and the log decay."""
        k = self.key(inputs["key"])
        k = k.to(accumulator_dtype(k))
        rate = torch.sigmoid(self.rate(inputs["rate"]).to(k.dtype))
        log_decay = MIN_LOG_DECAY * torch.sigmoid(self.decay(inputs["decay"]).to(k.dtype))
        erase, k = k * self.erase_scale, k * (1 + (rate - 1) * self.rate_scale)
        if ctx.queries.valid is not None:  # padding has no effect
            padding = ~ctx.queries.valid[..., None]
            k, erase, log_decay = (part.masked_fill(padding, 0.0) for part in (k, erase, log_decay))
        return k, erase, rate, log_decay

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)
