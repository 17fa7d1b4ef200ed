"""Reformer: attention among tokens that locality-sensitive hashing puts together (Kitaev 2020)."""

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
from headway.nn.mixers.mixer import MixerConfig, check_unpacked, head_width
from headway.nn.ops.lsh_attention import chunked_lsh, dense_lsh, draw_rotations, hash_tokens
from headway.nn.positions.positions import Position
from headway.nn.sequence import Memory


class Reformer(nn.Module):
    """Concat(head₁ … head_h)W_o with head_i = LSH attention of xW_qk, which are queries and keys, and xW_v"""

    residual_outputs = ("value", "output")  # whose initial weights DeepNorm scales down

    @dataclass(frozen=True, kw_only=True)
    class Config(MixerConfig):
        cross_attends: ClassVar[bool] = False  # queries and keys are the same vectors
        kind: str = "reformer"
        heads: int = number(8, low=1)
        chunk: int = number(64, low=1)  # tokens that attend to each other, and to as many before them
        buckets: int = number(64, low=2, high=1 << 20)  # of each round of hashing; even
        rounds: int = number(2, low=1, high=1 << 10)  # of hashing
        seed: int = number(0, low=0)  # of the rotations by which tokens are hashed
        d_k: int | None = number(None, low=1)  # = d_model / heads
        d_v: int | None = number(None, low=1)  # = d_k
        bias: bool = False

        def resolved(self, scope: Scope) -> Self:
            d_k = head_width(self.heads, self.d_k, scope)
            if self.buckets % 2:
                raise ConfigError(
                    f"buckets = {self.buckets} is odd, and a rotation makes them in pairs of opposite directions. Give "
                    "an even number.",
                    "buckets",
                )
            return replace(self, d_k=d_k, d_v=self.d_v or d_k)

        def check(self, mask: Mask, position: Position.Config) -> None:
            if mask.name != "full":
                raise ConfigError(
                    f'reformer supports only the mask "full", not "{mask.name}": chunks are cut from the whole text '
                    "after sorting it, so that later tokens decide which earlier ones meet. It can stand in an "
                    "encoder. Choose another mixer here.",
                    "mask",
                )
            if position.applies_to not in ("nothing", "input"):
                raise ConfigError(
                    f"{position.kind} treats queries and keys by their positions, and reformer hashes one vector for "
                    'both. Choose a position that is added, such as "sinusoidal".',
                    "position",
                )

        def cost(self, scope: Scope) -> Cost:
            c = self.resolved(scope)
            assert c.d_k and c.d_v
            keys, values = c.heads * c.d_k, c.heads * c.d_v
            parameters = sum(scope.linear_parameters(scope.d_model, size, c.bias) for size in (keys, values))
            return Cost(
                parameters=parameters + scope.linear_parameters(values, scope.d_model, c.bias),
                flops_per_query=2 * scope.d_model * (keys + 2 * values),
                flops_by_length=(c._flops,),
            )

        def _flops(self, length: int, _: int) -> int:
            """Of hashing, and of the pairs that meet: each chunk with itself and with the one before."""
            assert self.d_k and self.d_v
            hashing = length * self.d_k * self.rounds * (self.buckets // 2)
            pairs = -(-length // self.chunk) * self.rounds * 2 * self.chunk**2
            return 2 * self.heads * (hashing + pairs * (self.d_k + self.d_v))

    rotations: Tensor

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = c = config.resolved(scope)
        assert c.d_k and c.d_v
        self.query_key = make_linear(scope.d_model, c.heads * c.d_k, scope, bias=c.bias)
        self.value = make_linear(scope.d_model, c.heads * c.d_v, scope, bias=c.bias)
        self.output = make_linear(c.heads * c.d_v, scope.d_model, scope, bias=c.bias)
        rotations = draw_rotations(c.heads, c.d_k, c.rounds, c.buckets, c.seed)
        self.register_buffer("rotations", rotations, persistent=False)  # the seed is in the config

    def forward(
        self, x: Tensor, ctx: Context, *, source: Memory | None = None, cache: LayerCache | None = None
    ) -> Tensor:
        c, valid = self.config, ctx.queries.valid
        assert source is None and cache is None
        check_unpacked(c.kind, ctx.queries)
        qk, v = (split_heads(y, c.heads) for y in project_together(x, self.query_key, self.value))  # (B, H, T, D)
        buckets = hash_tokens(qk, self.rotations, valid)  # (B, H, R, T)
        if ctx.traced or ctx.captures("weights"):
            heads, weights = dense_lsh(qk, v, buckets, c.chunk, valid)
            for name, value in (("qk", qk), ("v", v), ("buckets", buckets), ("weights", weights)):
                ctx.record(name, value)
        else:
            heads = chunked_lsh(qk, v, buckets, c.chunk, valid)  # (B, H, T, E)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result
