"""Test-time training: a recurrent layer whose state is a small model that learns from the text (TTT, Sun 2024)."""

from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, build_norm, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.retention import accumulator_dtype
from headway.nn.ops.test_time_training import InnerNorm, MiniBatches, TTTState, dual
from headway.nn.positions.positions import Position
from headway.nn.segments import SegmentLayout, lay_out_segments
from headway.nn.sequence import Memory

INNER_DEVIATION = 0.02  # of the first weights of an inner model
RATES = {"linear": 1.0, "mlp": 0.1}  # the paper's learning rates


class TTT(nn.Module):
    """norm(z) W_o, with z_t = q_t + norm_h(f(q_t; W_t)), where f is trained on the keys and values up to t"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        kind: str = "ttt"
        heads: int = number(8, low=1)
        inner: Literal["linear", "mlp"] = "linear"
        mini_batch: int = number(16, low=1)  # tokens whose gradients are taken at the same weights
        rate: float | None = number(
            None, low=0
        )  # = 1, or 0.1 for an mlp: the largest learning rate of a token, times d_k
        d_k: int | None = number(None, low=2)  # = d_model / heads
        d_inner: int | None = number(None, low=1)  # = 4 · d_k: hidden width of an mlp
        eps: float = number(1e-6, low=0)  # of the norms of heads
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            if d_k < 2:
                raise ConfigError(
                    f"heads = {self.heads} leaves one channel for each head, and a norm over one channel is constant. "
                    "Choose fewer heads, or give d_k.",
                    "heads",
                )
            if self.inner == "linear" and self.d_inner is not None:
                raise ConfigError(
                    'a linear inner model has no hidden width. Leave d_inner out, or set inner = "mlp".', "d_inner"
                )
            d_inner = (self.d_inner or 4 * d_k) if self.inner == "mlp" else None
            return replace(self, d_k=d_k, d_inner=d_inner, rate=RATES[self.inner] if self.rate is None else self.rate)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "causal":
                raise ConfigError(
                    f'TTT learns from all tokens so far, and supports only the mask "causal", not "{mask.name}". Set '
                    'mask = "causal", or choose the mixer "attention".',
                    "mask",
                )
            if position.applies_to not in ("nothing", "input", "qk"):
                raise ConfigError(
                    f"{position.kind} changes attention scores, and TTT has none. Choose a position that rotates, such "
                    'as "rope", or that is added, such as "sinusoidal", or "none".',
                    "position",
                )
            if position.counts_from_start:
                raise ConfigError(
                    f"{position.kind} scales queries and keys by factors that cancel only in their product, and TTT "
                    'uses them by themselves, too. Choose "rope".',
                    "position",
                )
            check_even_heads(self.d_k, position)

        def bounded(self, mask: Mask) -> bool:
            return True

        @property
        def layers(self) -> list[tuple[int, int]]:
            """Inputs and outputs of the layers of the inner model."""
            assert self.d_k
            return [(self.d_k, self.d_inner), (self.d_inner, self.d_k)] if self.d_inner else [(self.d_k, self.d_k)]

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k
            width, state = c.heads * c.d_k, c.heads * sum((inputs + 1) * outputs for inputs, outputs in c.layers)
            outputs = [width, width, width]
            return Cost(
                parameters=sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in outputs)
                + scope.linear_parameters(scope.d_model, c.heads)
                + scope.linear_parameters(width, scope.d_model, c.bias)
                + scope.norm.parameters(width)
                + state
                + 2 * width
                + c.mini_batch,
                flops_per_query=2 * scope.d_model * (4 * width + c.heads),
                flops_by_length=(c._flops,),
                cached_per_text=2 * state,
            )

        def _flops(self, length: int, _: int) -> int:
            """Matrix products of the dual form; the last mini-batch is padded, and leaves no sums behind."""
            assert self.d_k
            count = max(1, -(-length // self.mini_batch))
            size = length if count == 1 else self.mini_batch
            total = 0
            for index, (inputs, outputs) in enumerate(self.layers):
                matrix = (inputs + 1) * outputs
                forward = 2 * matrix + size * (inputs + 1 + outputs)  # of keys and of queries, and pairs
                back = inputs * outputs if index else 0
                total += count * size * (forward + back) + (count - 1) * size * matrix
            return 2 * self.heads * total

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k
        width = c.heads * c.d_k
        self.query, self.key, self.value = (make_linear(scope.d_model, width, scope, bias=c.bias) for _ in range(3))
        self.rate = make_linear(scope.d_model, c.heads, scope)
        weights = (INNER_DEVIATION * torch.randn(c.heads, inputs + 1, outputs) for inputs, outputs in c.layers)
        self.inner = nn.ParameterList(w.index_fill(1, torch.tensor(w.shape[1] - 1), 0.0) for w in weights)
        self.inner_gain = nn.Parameter(torch.ones(c.heads, 1, c.d_k))
        self.inner_bias = nn.Parameter(torch.zeros(c.heads, 1, c.d_k))
        self.steps = nn.Parameter(torch.zeros(c.mini_batch))  # added to 1, 1/2, 1/3 …
        self.norm = build_norm(scope.norm, width)
        self.output = make_linear(width, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        c = self.config
        assert source is None and c.rate is not None and c.d_k
        check_unpacked(c.kind, ctx.queries)
        before = None if cache is None else cache.lengths
        layout: SegmentLayout = ctx.compute_once(
            ("segments", c.mini_batch), lambda: lay_out_segments(ctx.queries, c.mini_batch, before)
        )
        q, k, v = (split_heads(y, c.heads) for y in project_together(x, self.query, self.key, self.value))
        inside = replace(ctx, queries=layout.within)
        q, k = inside.transform_query(q), ctx.rotate(k, layout.within)
        rates = c.rate / c.d_k * torch.sigmoid(split_heads(self.rate(x), c.heads))  # (B, H, T, 1)
        wide = accumulator_dtype(x)
        places = torch.arange(1, c.mini_batch + 1, device=x.device, dtype=wide)
        steps = torch.relu(1 / places + self.steps)  # (C,)
        queries, keys, values, grouped_rates = (layout.group(y.to(wide)) for y in (q, k, v, rates))
        batches = MiniBatches(
            q=queries,
            k=keys,
            v=values,
            rates=grouped_rates,
            steps=steps[layout.queries.positions][:, None, :, None],
            last_step=steps[-1],
            complete=layout.complete(c.mini_batch),
        )
        norm = InnerNorm(self.inner_gain.to(wide), self.inner_bias.to(wide), c.eps)
        with torch.autocast(x.device.type, enabled=False):  # it would round the inner model
            z, state = dual(batches, self._state(cache, len(x), wide), norm, keep=cache is not None)
        if cache is not None:
            assert state.sums is not None
            named = {f"layer{n}": layer for n, layer in enumerate(state.layers)}
            cache.advance(ctx.queries, **named, **{f"sum{n}": total for n, total in enumerate(state.sums)})
        z = layout.ungroup(z)
        for name, value in (("q", q), ("k", k), ("v", v), ("rates", rates.squeeze(-1)), ("z", z)):
            ctx.record(name, value)
        result: Tensor = self.output(self.norm(z.to(q.dtype).transpose(1, 2).flatten(2)))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)

    def _state(self, cache: RecurrentState | None, batch: int, dtype: torch.dtype) -> TTTState:
        numbers = range(len(self.inner))
        if cache is not None and cache.values:
            return TTTState(
                tuple(cache.values[f"layer{n}"] for n in numbers), tuple(cache.values[f"sum{n}"] for n in numbers)
            )
        return TTTState(tuple(layer.to(dtype).expand(batch, -1, -1, -1) for layer in self.inner), None)
