"""Clustered attention: similar queries attend as one (Vyas 2020)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor, nn

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.cache.kv import LayerCache
from headway.nn.context import Context
from headway.nn.layers.linear import project_together
from headway.nn.masks.masks import Mask
from headway.nn.mixers.attention import split_heads
from headway.nn.mixers.mixer import MixerConfig, check_even_heads, check_unpacked, head_width
from headway.nn.ops.clustered_attention import cluster_queries, clustered, dense_clustered, draw_planes
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class ClusteredAttention(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = clustered attention of xW_q, xW_k, xW_v"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # one query at a time has no others to be grouped with
        kind: str = "clustered"
        heads: int = number(8, low=1)
        clusters: int = number(100, low=1)  # groups of queries, each of which attends once
        top_k: int = number(32, low=0)  # keys of a group that each query weighs by itself; 0: none, the plain form
        bits: int = number(64, low=1, high=256)  # random projections whose signs are compared
        iterations: int = number(10, low=0, high=1000)  # of k-means
        seed: int = number(0, low=0)  # of the projections
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = True

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            return replace(self, d_k=d_k, d_v=self.d_v or d_k)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "full":
                raise ConfigError(
                    f'clustered supports only the mask "full", not "{mask.name}": a query attends as the mean of its '
                    "group, in which later queries are too. It can stand in an encoder. Choose another mixer here.",
                    "mask",
                )
            if position.applies_to == "scores":
                raise ConfigError(
                    f"{position.kind} changes the score of a query and a key, and queries attend in groups here. "
                    'Choose a position that is added, such as "sinusoidal", or that rotates, such as "rope".',
                    "position",
                )
            check_even_heads(self.d_k, position)

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            parameters = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, keys, values))
            return Cost(
                parameters=parameters + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=4 * scope.d_model * (keys + values),
                flops_by_length=(c._flops,),
            )

        def _flops(self, length: int, _: int) -> int:
            """Of k-means, of the means of groups, of their attention, and of the exact weights."""
            assert self.d_k and self.d_v
            clusters, top = min(self.clusters, length), min(self.top_k, length)
            comparisons = self.d_k + (self.iterations + 1) * clusters  # of signs, made and compared
            products = clusters * (2 * self.d_k + self.d_v) + top * (self.d_k + self.d_v)
            return 2 * self.heads * length * (self.bits * comparisons + products)

    planes: Tensor

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        keys, values = c.heads * c.d_k, c.heads * c.d_v
        self.query, self.key = (make_linear(scope.d_model, keys, scope, bias=c.bias) for _ in range(2))
        self.value = make_linear(scope.d_model, values, scope, bias=c.bias)
        self.output = make_linear(values, scope.d_model, scope, bias=c.bias)
        self.register_buffer("planes", draw_planes(c.d_k, c.bits, c.seed), persistent=False)

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        c, valid = self.config, ctx.queries.valid
        assert source is None and cache is None
        check_unpacked(c.kind, ctx.queries)
        q, k, v = (split_heads(y, c.heads) for y in project_together(x, self.query, self.key, self.value))
        q, k = ctx.transform_query(q), ctx.rotate(k, ctx.queries)  # (B, H, T, D)
        clustering = cluster_queries(q, self.planes, c.clusters, c.iterations, valid)
        if ctx.traced or ctx.captures("weights"):
            heads, weights = dense_clustered(q, k, v, clustering, c.top_k, valid)
            recorded = {"q": q, "k": k, "v": v, "group": clustering.group_of, "weights": weights}
            for name, value in recorded.items():
                ctx.record(name, value)
        else:
            heads = clustered(q, k, v, clustering, c.top_k, valid)  # (B, H, T, E)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result
