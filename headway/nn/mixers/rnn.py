"""A recurrent network as a mixer: GRU (Cho 2014) or LSTM (Hochreiter 1997), in both directions in an encoder."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.context import Context
from headway.nn.layers.linear import Dense
from headway.nn.masks.masks import Mask
from headway.nn.mixers.mixer import MixerConfig, check_running_state, check_unpacked
from headway.nn.ops.rnn import GATES, CellWeights, State, new_state, reverse_texts, run_fused, run_steps
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class RNN(nn.Module):
    """Concat(rnn(x), rnn(x backwards) backwards) W_o; in a decoder rnn(x) W_o"""

    residual_outputs = ("output",)  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False
        kind: str = "rnn"
        cell: Literal["gru", "lstm"] = "gru"
        hidden: int | None = number(None, low=1)  # = d_model, in each direction
        bidirectional: bool | None = None  # = in an encoder
        bias: bool = True
        kernel: Literal["auto", "math"] = "auto"  # PyTorch's loop where it can be used; ours, token by token

        def resolved(self, scope: Scope) -> Self:
            both = scope.side == "encoder" if self.bidirectional is None else self.bidirectional
            return replace(self, hidden=self.hidden or scope.d_model, bidirectional=both)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if not self.bidirectional:
                check_running_state("an rnn of one direction", mask, position)
                return
            if mask.name != "full":
                raise ConfigError(
                    f'an rnn of both directions sees the whole text, and the mask "{mask.name}" hides some of it. Set '
                    'bidirectional = false and mask = "causal", or mask = "full" in an encoder.',
                    "mask",
                )
            if position.applies_to not in ("nothing", "input"):
                raise ConfigError(
                    f"{position.kind} changes queries, keys or scores, and an rnn has none. Choose a position that is "
                    'added, such as "sinusoidal", or "none": an rnn sees order by itself.',
                    "position",
                )

        def bounded(self, mask: Mask) -> bool:
            return True

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.hidden
            gates, directions = GATES[c.cell] * c.hidden, 2 if c.bidirectional else 1
            one = sum(scope.linear_parameters(size, gates, c.bias) for size in (scope.d_model, c.hidden))
            return Cost(
                parameters=directions * one + scope.linear_parameters(directions * c.hidden, scope.d_model, c.bias),
                flops_per_query=2 * directions * (gates * (scope.d_model + c.hidden) + c.hidden * scope.d_model),
                cached_per_text=c.hidden * (1 if c.cell == "gru" else 2),
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.hidden
        count = 2 if c.bidirectional else 1
        self.directions = nn.ModuleList(RNNDirection(c, scope) for _ in range(count))
        self.output = make_linear(count * c.hidden, scope.d_model, scope, bias=c.bias)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: RecurrentState | None = None
    ) -> Tensor:
        assert source is None
        check_unpacked("rnn", ctx.queries)
        valid = ctx.queries.valid
        if self.config.bidirectional:
            forward, backward = self.directions
            later, _ = backward(reverse_texts(x, valid), None, None)
            hidden = torch.cat([forward(x, None, None)[0], reverse_texts(later, valid)], -1)
        else:
            # Without a cache padding is at the end of a row: nothing follows whose state it could change.
            hidden, state = self.directions[0](x, _read_state(cache), None if cache is None else valid)
            if cache is not None:
                cache.advance(ctx.queries, **dict(zip(("h", "c"), state)))
        ctx.record("hidden", hidden)
        result: Tensor = self.output(hidden.to(x.dtype))
        return result

    def new_cache(
        self, batch: int, device: torch.device, *, lookback: int | None = None, trainable: bool = False
    ) -> RecurrentState:
        return RecurrentState(batch, device)


class RNNDirection(nn.Module):
    """One direction; its two layers have the weights of torch.nn.GRU and torch.nn.LSTM"""

    def __init__(self, config: RNN.Config, scope: Scope) -> None:
        super().__init__()
        assert config.hidden
        self.cell, self.hidden, self.kernel = config.cell, config.hidden, config.kernel
        gates = GATES[config.cell] * config.hidden
        self.input = make_linear(scope.d_model, gates, scope, bias=config.bias)
        self.recurrent = make_linear(config.hidden, gates, scope, bias=config.bias)

    def forward(self, x: Tensor, state: State | None, valid: Tensor | None) -> tuple[Tensor, State]:
        """valid: which tokens may change the state; None: all."""
        state = new_state(self.cell, x, self.hidden) if state is None else state
        weights = self._fused_weights() if valid is None and x.shape[1] > 1 else None
        if weights is not None:
            return run_fused(self.cell, x, state, weights)
        return run_steps(self.cell, self.input(x), state, self.recurrent, valid)

    def _fused_weights(self) -> CellWeights | None:
        """What PyTorch's loop needs; None: it cannot be used, because linear layers of another kind do more."""
        into, again = self.input, self.recurrent
        if self.kernel == "math" or type(into) is not Dense or type(again) is not Dense:
            return None
        return CellWeights(into.weight, again.weight, tuple(b for b in (into.bias, again.bias) if b is not None))


def _read_state(cache: RecurrentState | None) -> State | None:
    """Of the tokens before; None before the first."""
    found = [] if cache is None else [cache.get(name) for name in ("h", "c")]
    return tuple(part for part in found if part is not None) or None
