"""The time mixing of RWKV-4: a running average of the values in every channel, in place of attention (Peng 2023)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_running_state, check_unpacked
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.token_shift import initial_shares, mix_previous, shift_tokens
from headway.nn.ops.wkv import NO_WEIGHT, WeightedAverage, wkv, wkv_weights
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class RWKV4(nn.Module):
    """(sigmoid(r) ⊙ wkv(k, v)) W_o; r, k and v from the token and the one before"""

    residual_outputs = ("value", "output")

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "rwkv4"
        form: Literal["auto", "recurrent", "chunkwise"] = "auto"

        def check(self, mask: Mask, position: Position.Config) -> None:
            check_running_state(self.kind, mask, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            d = scope.d_model
            return Cost(
                parameters=4 * scope.linear_parameters(d, d, False) + 5 * d,
                flops_per_query=8 * d * d,
                cached_per_text=3 * d,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.form = config.form
        d, depth = scope.d_model, scope.layer / max(1, scope.layers - 1)
        self.receptance, self.key, self.value, self.output = (make_linear(d, d, scope, bias=False) for _ in range(4))
        exponent = 1 - scope.layer / scope.layers
        # Of the previous token in the input of each projection.
        self.receptance_share = nn.Parameter(initial_shares(d, 0.5 * exponent))
        self.key_share = nn.Parameter(initial_shares(d, exponent))
        self.value_share = nn.Parameter(initial_shares(d, exponent))
        channels = torch.linspace(0, 1, d)
        self.log_decay = nn.Parameter(8 * channels ** (0.7 + 1.3 * depth) - 5)  # some channels remember for long
        self.bonus = nn.Parameter(torch.arange(d).remainder(3) * 0.5 - 1.7)  # of the token itself

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked("rwkv4", ctx.queries)
        previous, last = shift_tokens(x, ctx.queries, None if cache is None else cache.get("last"))
        r = self.receptance(mix_previous(x, previous, self.receptance_share))
        k = self.key(mix_previous(x, previous, self.key_share))
        v = self.value(mix_previous(x, previous, self.value_share))
        decay, valid = self.log_decay.exp()[None, None], ctx.queries.valid  # (1, 1, d)
        if valid is not None:
            k = k.to(accumulator_dtype(k)).masked_fill(~valid[..., None], NO_WEIGHT)
            decay = decay * valid[..., None]  # (B, T, d)
        state = _read_state(cache)
        output, after = wkv(k, v, decay, self.bonus, state, form=self.form)
        if cache is not None:
            cache.advance(ctx.queries, last=last, mean=after.mean, log_weight=after.log_weight)
        if ctx.traced:
            for name, value in (("receptance", r.sigmoid()), ("k", k), ("v", v), ("wkv", output)):
                ctx.record(name, value)
            ctx.record("weights", wkv_weights(k, decay, self.bonus, state)[:, None])
        result: Tensor = self.output(torch.sigmoid(r) * output)
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)


def _read_state(cache: RecurrentState | None) -> WeightedAverage | None:
    mean = None if cache is None else cache.get("mean")
    log_weight = None if cache is None else cache.get("log_weight")
    return None if mean is None or log_weight is None else WeightedAverage(mean, log_weight)
