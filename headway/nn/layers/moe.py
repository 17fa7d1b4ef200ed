"""Mixture of experts: several feed-forwards, and a router that dispatches each token to a few of them. No token is ever
dropped, so that a token's output does not depend on the other tokens of the batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make
from headway.nn.context import Context
from headway.nn.layers.linear import Dense
from headway.nn.statistics import PartialMean

Expert = Callable[[Tensor], Tensor]  # (n, d) -> (n, d)


class Routing(NamedTuple):
    """The experts of N tokens. Padding goes to expert E, which does not exist, with weight 0."""

    logits: Tensor  # (N, E)
    chosen: Tensor  # (N, k) the experts of each token, best first
    weights: Tensor  # (N, k) of their outputs

    @property
    def experts(self) -> int:
        return self.logits.shape[1]

    @property
    def valid(self) -> Tensor:
        """(N,) false on padding."""
        return self.chosen[:, 0] < self.experts

    @property
    def visits(self) -> Tensor:
        """(E,) tokens of each expert. No device sync."""
        return (self.chosen[..., None] == torch.arange(self.experts, device=self.chosen.device)).sum((0, 1))


def route(logits: Tensor, top: int, over: str = "chosen", valid: Tensor | None = None) -> Routing:
    """The `top` experts with the largest logits (N, E). The softmax of the weights runs over the chosen, so that they
    sum to 1, or over all experts. valid (N,): false on padding."""
    largest, chosen = logits.topk(top, dim=-1)
    weights = largest.softmax(-1) if over == "chosen" else logits.softmax(-1).gather(1, chosen)
    if valid is not None:
        chosen = chosen.masked_fill(~valid[:, None], logits.shape[1])
        weights = weights.masked_fill(~valid[:, None], 0.0)
    return Routing(logits, chosen, weights)


def naive(x: Tensor, routing: Routing, experts: Sequence[Expert]) -> Tensor:
    """Σ weightₑ · expertₑ(x) over the chosen, each step explicit: all experts process all tokens x (N, d)."""
    unrouted = routing.weights.new_zeros(x.shape[0], routing.experts + 1)
    weights = unrouted.scatter(1, routing.chosen, routing.weights)  # (N, E + 1)
    outputs = torch.stack([expert(x) for expert in experts], dim=1)  # (N, E, d)
    return (weights[:, :-1, None] * outputs).sum(1).to(x.dtype)


def sparse(x: Tensor, routing: Routing, experts: Sequence[Expert]) -> Tensor:
    """The same, where each expert processes only its own tokens. One device sync, for their numbers."""
    order = routing.chosen.flatten().argsort(stable=True)  # (N·k,) assignments by expert; those of padding last
    counts = routing.visits.tolist()
    *parts, padding = torch.split(x[order // routing.chosen.shape[1]], [*counts, len(order) - sum(counts)])
    # An expert without tokens still runs in training: data-parallel processes wait for all gradients.
    training = torch.is_grad_enabled()
    outputs = [expert(part) for expert, part in zip(experts, parts) if training or len(part)]
    by_token = torch.cat([*outputs, torch.zeros_like(padding)])[order.argsort()].view(
        *routing.chosen.shape, -1
    )  # (N, k, d)
    return (routing.weights[..., None] * by_token).sum(1).to(x.dtype)


@cache
def _uncompiled_sparse() -> Callable[[Tensor, Routing, Sequence[Expert]], Tensor]:
    """Not compiled: it would be recompiled for each number of visits. Made on demand, since it imports the compiler,
    which takes more memory than a small model."""
    return torch.compiler.disable(sparse)  # type: ignore[no-untyped-call, no-any-return]


def balance_loss(routing: Routing) -> Tensor:
    """E · Σₑ fₑ·Pₑ, with fₑ the visits to expert e per token and Pₑ its mean probability: k if balanced, more if the
    most visited experts are also the most probable. Only P has a gradient."""
    tokens = routing.valid.sum().clamp_min(1)
    likely = (routing.logits.softmax(-1) * routing.valid[:, None]).sum(0) / tokens  # (E,)
    return routing.experts * (routing.visits / tokens * likely).sum()


def z_loss(routing: Routing) -> Tensor:
    """The mean of logsumexp(logits)²: keeps the logits small, where floats are precise."""
    squares = routing.logits.logsumexp(-1).square()
    return (squares * routing.valid).sum() / routing.valid.sum().clamp_min(1)


class MixtureOfExperts(nn.Module):
    """Σ weightₑ · expertₑ(x) over the `top_k` experts with the largest router logits"""

    syncs_device = True  # for the number of tokens of each expert, which no CUDA graph can do
    keep_float = ("router",)  # never quantised: rounding would send tokens to other experts

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "moe"
        experts: int = number(8, low=2)
        top_k: int = number(2, low=1)
        expert: Any = slot("feedforward", "swiglu")
        weights: Literal["chosen", "all"] | None = (
            None  # = chosen, or all where top_k = 1: what their softmax runs over
        )
        balance_loss: float = number(0.01, low=0)  # weight of the balance loss in training, for each layer
        z_loss: float = number(0.0, low=0)  # of the z-loss, likewise

        def resolved(self, scope: Scope) -> "MixtureOfExperts.Config":
            if self.top_k > self.experts:
                raise ConfigError(
                    f"top_k = {self.top_k} exceeds experts = {self.experts}. Lower top_k, or raise experts.", "top_k"
                )
            if self.expert.kind == "moe":
                raise ConfigError(
                    "an expert cannot itself be a mixture of experts. Choose another feed-forward, and raise experts.",
                    "expert",
                )
            if self.expert.kind == "none":
                raise ConfigError(
                    'an expert is a feed-forward, not "none". Choose another, such as "swiglu".', "expert"
                )
            if self.top_k == 1 and self.weights == "chosen":
                raise ConfigError(
                    "with top_k = 1 the softmax over the chosen expert is always 1, so the router would get no "
                    'gradient from the text. Set weights = "all", or top_k = 2.',
                    "weights",
                )
            if getattr(self.expert, "reads_previous", False):
                raise ConfigError(
                    f"an expert gets tokens out of order, and {self.expert.kind} reads the token before each. Choose "
                    "another feed-forward.",
                    "expert",
                )
            try:
                expert = self.expert.resolved(scope)
            except ConfigError as error:
                raise error.inside("expert") from None
            return replace(self, expert=expert, weights=self.weights or ("all" if self.top_k == 1 else "chosen"))

        def cost(self, scope: Scope) -> Cost:
            """All experts have parameters, `top_k` of them have FLOPs."""
            one = self.expert.cost(scope)
            router = Dense.Config().parameters(scope.d_model, self.experts, False)
            flops = self.top_k * one.flops_per_query + 2 * scope.d_model * self.experts
            return Cost(parameters=self.experts * one.parameters + router, flops_per_query=flops)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        # Dense, whatever kind the model's other linear layers are.
        self.router = Dense(Dense.Config(), scope.d_model, c.experts, bias=False)
        self.experts = nn.ModuleList(make("feedforward", c.expert, scope) for _ in range(c.experts))
        names = getattr(self.experts[0], "residual_outputs", ())
        self.residual_outputs = tuple(f"experts.{index}.{name}" for index in range(c.experts) for name in names)
        self._sparse = _uncompiled_sparse()

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        tokens = x.flatten(0, 1)  # (N, d)
        valid = None if ctx.queries.valid is None else ctx.queries.valid.flatten()
        routing = route(self._logits(tokens), self.config.top_k, self.config.weights or "chosen", valid)
        for name, value in (("router", routing.logits), ("chosen", routing.chosen), ("shares", routing.weights)):
            ctx.record(name, value.view(*x.shape[:2], -1))
        if self.training:
            self._report(routing, ctx)
        experts = [lambda part, run=expert: run(part[None], ctx)[0] for expert in self.experts]
        return self._sparse(tokens, routing, experts).view_as(x)

    def _logits(self, tokens: Tensor) -> Tensor:
        """In float32 at least: in bfloat16 many experts would tie."""
        wide = torch.promote_types(tokens.dtype, torch.float32)
        with torch.autocast(tokens.device.type, enabled=False):
            return F.linear(tokens.to(wide), self.router.weight.to(wide))

    def _report(self, routing: Routing, ctx: Context) -> None:
        c, visits = self.config, routing.visits
        if c.balance_loss:
            ctx.report.losses.append(("balance", c.balance_loss * balance_loss(routing)))
        if c.z_loss:
            ctx.report.losses.append(("z", c.z_loss * z_loss(routing)))
        ctx.report.statistics[f"{ctx.path}.load"] = PartialMean(visits, visits.sum())
