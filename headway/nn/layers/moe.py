"""Mixture of experts: several feed-forwards, of which each token visits a few. No token is ever dropped, so that what
becomes of one does not depend on its neighbours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make
from headway.nn.context import Context
from headway.nn.layers.linear import Dense
from headway.nn.statistics import Mean

Expert = Callable[[Tensor], Tensor]  # (n, d) -> (n, d)


class Routing(NamedTuple):
    """Where N tokens go. Padding goes to nobody: expert E, which does not exist, with weight 0."""

    logits: Tensor  # (N, E)
    chosen: Tensor  # (N, k) the experts of each token, best first
    weights: Tensor  # (N, k) how much each of them counts

    @property
    def experts(self) -> int:
        return self.logits.shape[1]

    @property
    def real(self) -> Tensor:
        """(N,) which tokens are no padding."""
        return self.chosen[:, 0] < self.experts

    @property
    def visits(self) -> Tensor:
        """(E,) how many tokens each expert gets. Does not ask the device."""
        return (self.chosen[..., None] == torch.arange(self.experts, device=self.chosen.device)).sum((0, 1))


def route(logits: Tensor, top: int, over: str = "chosen", valid: Tensor | None = None) -> Routing:
    """The `top` experts with the largest logits (N, E). The softmax of the weights runs over the chosen, so that they
    sum to 1, or over all experts. valid (N,): which tokens are real."""
    largest, chosen = logits.topk(top, dim=-1)
    weights = largest.softmax(-1) if over == "chosen" else logits.softmax(-1).gather(1, chosen)
    if valid is not None:
        chosen = chosen.masked_fill(~valid[:, None], logits.shape[1])
        weights = weights.masked_fill(~valid[:, None], 0.0)
    return Routing(logits, chosen, weights)


def naive(x: Tensor, routing: Routing, experts: Sequence[Expert]) -> Tensor:
    """Σ weightₑ · expertₑ(x) over the chosen, each step in sight: all experts read all tokens x (N, d)."""
    nobody = routing.weights.new_zeros(len(x), routing.experts + 1)
    weights = nobody.scatter(1, routing.chosen, routing.weights)  # (N, E + 1)
    read = torch.stack([expert(x) for expert in experts], dim=1)  # (N, E, d)
    return (weights[:, :-1, None] * read).sum(1).to(x.dtype)


def sparse(x: Tensor, routing: Routing, experts: Sequence[Expert]) -> Tensor:
    """The same, where each expert reads only the tokens that chose it. Asks the device once, how many those are."""
    order = routing.chosen.flatten().argsort(stable=True)  # (N·k,) choices, by expert; those of padding last
    counts = routing.visits.tolist()
    *parts, padding = torch.split(x[order // routing.chosen.shape[1]], [*counts, len(order) - sum(counts)])
    # An expert that nobody chose still runs in training: processes that train together wait for all gradients.
    learning = torch.is_grad_enabled()
    read = [expert(part) for expert, part in zip(experts, parts) if learning or len(part)]
    by_token = torch.cat([*read, torch.zeros_like(padding)])[order.argsort()].view(
        *routing.chosen.shape, -1
    )  # (N, k, d)
    return (routing.weights[..., None] * by_token).sum(1).to(x.dtype)


# In a compiled model it stays as it is: for each number of visits it would be compiled anew.
_sparse: Callable[[Tensor, Routing, Sequence[Expert]], Tensor] = torch.compiler.disable(sparse)  # type: ignore[no-untyped-call]


def balance_loss(routing: Routing) -> Tensor:
    """E · Σₑ fₑ·Pₑ, with fₑ the visits to expert e for each token and Pₑ its mean probability: k where all is even, more
    where the experts that are visited most are also the likeliest. Only P has a gradient."""
    tokens = routing.real.sum().clamp_min(1)
    likely = (routing.logits.softmax(-1) * routing.real[:, None]).sum(0) / tokens  # (E,)
    return routing.experts * (routing.visits / tokens * likely).sum()


def z_loss(routing: Routing) -> Tensor:
    """The mean of logsumexp(logits)²: keeps the logits small, where float arithmetic is fine."""
    squares = routing.logits.logsumexp(-1).square()
    return (squares * routing.real).sum() / routing.real.sum().clamp_min(1)


class MixtureOfExperts(nn.Module):
    """Σ weightₑ · expertₑ(x) over the `top` experts that the router likes best"""

    waits = True  # for the device to say how many tokens each expert gets, which no CUDA graph can do
    exact = ("router",)  # layers that are never rounded: a number rounded here is a token sent elsewhere

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "moe"
        experts: int = number(8, low=2)
        top: int = number(2, low=1)
        expert: Any = slot("feedforward", "swiglu")
        weights: Literal["chosen", "all"] | None = None  # what their softmax runs over: chosen; all where top = 1
        balance: float = number(0.01, low=0)  # weight of the balance loss in training, for each layer
        z: float = number(0.0, low=0)  # of the z-loss, likewise

        def resolved(self, scope: Scope) -> "MixtureOfExperts.Config":
            if self.top > self.experts:
                raise ConfigError(
                    f"a token cannot visit {self.top} of {self.experts} experts. Lower top, or raise experts.", "top"
                )
            if self.expert.kind == "moe":
                raise ConfigError(
                    "an expert cannot be a mixture of experts itself. Choose another feed-forward, and raise experts.",
                    "expert",
                )
            if self.top == 1 and self.weights == "chosen":
                raise ConfigError(
                    "the softmax over a single chosen expert is 1 whatever the router says, which then learns nothing "
                    'from the text. Set weights = "all", or top = 2.',
                    "weights",
                )
            try:
                expert = self.expert.resolved(scope)
            except ConfigError as error:
                raise error.inside("expert") from None
            return replace(self, expert=expert, weights=self.weights or ("all" if self.top == 1 else "chosen"))

        def cost(self, scope: Scope) -> Cost:
            """All experts are kept, and `top` of them run."""
            one = self.expert.cost(scope)
            router = Dense.Config().parameters(scope.d_model, self.experts, False)
            flops = self.top * one.flops_per_query + 2 * scope.d_model * self.experts
            return Cost(parameters=self.experts * one.parameters + router, flops_per_query=flops)

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        # Dense whatever the model's linear layers are.
        self.router = Dense(Dense.Config(), scope.d_model, c.experts, bias=False)
        self.experts = nn.ModuleList(make("feedforward", c.expert, scope) for _ in range(c.experts))
        names = getattr(self.experts[0], "adds", ())
        self.adds = tuple(f"experts.{index}.{name}" for index in range(c.experts) for name in names)

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        tokens = x.flatten(0, 1)  # (N, d)
        valid = None if ctx.queries.valid is None else ctx.queries.valid.flatten()
        routing = route(self._logits(tokens), self.config.top, self.config.weights or "chosen", valid)
        for name, value in (("router", routing.logits), ("chosen", routing.chosen), ("shares", routing.weights)):
            ctx.record(name, value.view(*x.shape[:2], -1))
        if self.training:
            self._tell(routing, ctx)
        experts = [lambda part, run=expert: run(part[None], ctx)[0] for expert in self.experts]
        return _sparse(tokens, routing, experts).view_as(x)

    def _logits(self, tokens: Tensor) -> Tensor:
        """In float32 at least: in bfloat16 many experts would seem equally good."""
        wide = torch.promote_types(tokens.dtype, torch.float32)
        with torch.autocast(tokens.device.type, enabled=False):
            return F.linear(tokens.to(wide), self.router.weight.to(wide))

    def _tell(self, routing: Routing, ctx: Context) -> None:
        c, visits = self.config, routing.visits
        if c.balance:
            ctx.report.losses.append(("balance", c.balance * balance_loss(routing)))
        if c.z:
            ctx.report.losses.append(("z", c.z * z_loss(routing)))
        ctx.report.statistics[f"{ctx.where}.load"] = Mean(visits, visits.sum())
