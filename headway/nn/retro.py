"""RETRO: a decoder that retrieves. Neighbours of each chunk of the text are encoded, and the next chunk attends to them
(Borgeaud 2022).

    tokens of chunk u ─► an index ─► neighbours: chunks like it, with what follows them    headway.retrieval
    neighbours ─► embedding ─► encoder, which attends to the stream of chunk u ─► memory "neighbours"
    layers first, first + every …   self-attention ─► chunked cross-attention ─► feed-forward

The encoder runs in the first of these layers, behind its self-attention, whose stream of chunk u it attends to. With a
state, a chunk is complete with its last token: the caller then hands over its neighbours. Without any neighbours the
model is the decoder alone.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.cache.retrieval_state import RetrievalState
from headway.nn.chunked_cross import GROUPS, ChunkedCross, NeighbourGroups, group_positions
from headway.nn.context import Context, ForwardReport
from headway.nn.derived_cross import attention_like
from headway.nn.masks.masks import FULL
from headway.nn.mixers.attention import Attention
from headway.nn.positions.positions import Position
from headway.nn.segments import lay_out_segments
from headway.nn.sequence import EmbeddedNeighbours, Memory, TokenPositions, positions_from_start
from headway.nn.stack import Stack


class Retro(nn.Module):
    """An encoder of neighbours, for chunked cross-attention in some layers of a decoder"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "retro"
        chunk: int = number(64, low=2, high=4096)  # tokens
        neighbours: int = number(2, low=1, high=1024)  # of each chunk; each has as many tokens again, which follow it
        first: int | None = number(None, low=1)  # = layers / 2: the first layer with chunked cross-attention
        every: int = number(3, low=1)  # and then each n-th
        layers: int = number(2, low=1, high=1000)  # of the encoder
        conditioned: bool = True  # the encoder attends to the chunk that was searched for
        attention: Any = slot("mixer", None)  # = like the decoder's
        feedforward: Any = slot("feedforward", None)  # = that of the decoder's first layer
        residual: Any = slot("residual", None)  # = the decoder's
        position: Any = slot("position", "rope")  # of neighbours, and of tokens that attend to them

        @property
        def tokens(self) -> int:
            """Of one neighbour."""
            return 2 * self.chunk

        def resolved(self, scope: Scope, stack: Stack.Config) -> Self:
            """Derived values filled in, impossible combinations refused. `stack`: of the decoder."""
            self._check(scope, stack)
            attention: Any = self.attention or attention_like(stack.mixer) or Attention.Config()
            feedforward: Any = self.feedforward or stack.feedforward[0]
            first = self.first or max(1, scope.layers // 2)
            if first > scope.layers:
                raise ConfigError(
                    f"layer {first} is to attend to neighbours first, and there are {scope.layers}. Lower it.", "first"
                )
            if not isinstance(attention, Attention.Config):
                raise ConfigError(
                    f'{attention.kind} cannot attend to neighbours. Set attention = "attention(…)".', "attention"
                )
            filled = replace(
                self,
                first=first,
                attention=attention.resolved(scope),
                feedforward=feedforward.resolved(scope),
                residual=self.residual or stack.residual,
                position=self.position.resolved(scope, [attention]),
            )
            filled.encoder(scope)  # raises what its parts refuse
            return filled

        def _check(self, scope: Scope, stack: Stack.Config) -> None:
            if scope.side != "decoder" or scope.other_layers:
                raise ConfigError(
                    "only a decoder without an encoder, a language model, retrieves neighbours. Leave retrieval out."
                )
            for name, used in (
                ("memory_tokens", stack.memory_tokens is not None),
                ("streams", stack.streams == 2),
                ("distinct_layers", stack.distinct_layers not in (None, stack.layers)),
            ):
                if used:
                    raise ConfigError(f"a decoder with {name} cannot retrieve neighbours. Leave one of both out.")
            if self.position.applies_to == "scores":
                raise ConfigError(
                    f"{self.position.kind} changes scores by layer, and neighbours are attended to by two kinds of "
                    'layers. Choose "rope", "sinusoidal", "learned" or "none".',
                    "position",
                )

        def attending(self, scope: Scope) -> list[int]:
            """Indices of the layers with chunked cross-attention."""
            assert self.first is not None
            return list(range(self.first - 1, scope.layers, self.every))

        def encoder_scope(self, scope: Scope) -> Scope:
            return replace(scope, side="encoder", layers=self.layers, other_layers=scope.layers, layer=0)

        def encoder(self, scope: Scope) -> Stack.Config:
            """Of the neighbours: bidirectional, with cross-attention to the chunk."""
            stack = Stack.Config(
                layers=self.layers,
                position=(self.position,),
                mixer=(self.attention,),
                feedforward=(self.feedforward,),
                residual=self.residual,
            ).resolved(self.encoder_scope(scope), None)
            return replace(stack, cross=(self.attention,)) if self.conditioned else stack

        def cost(self, scope: Scope) -> Cost:
            """Of everything that retrieval adds to the decoder."""
            c = self
            encoder, conditioning = c.encoder(scope).cost(c.encoder_scope(scope))
            attention, count = c.attention.cost(scope), len(c.attending(scope))
            size = c.neighbours * c.tokens

            def flops(queries: int, keys: int) -> int:
                each = encoder.flops(c.tokens, c.tokens) + conditioning.flops(c.tokens, c.chunk)
                of_chunk: int = c.neighbours * each + count * attention.flops(c.chunk, size)
                return queries // c.chunk * of_chunk

            wiring = count * c.residual.parameters(scope, "mixer")
            return Cost(
                parameters=encoder.parameters + conditioning.parameters + count * attention.parameters + wiring,
                flops_by_length=(flops,),
                cached_per_text=(c.chunk + size) * scope.d_model + count * size * attention.cached_per_token,
            )

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config = config
        self.attending = config.attending(scope)
        self.encoder = Stack(config.encoder(scope), config.encoder_scope(scope))

    def make_sublayer(self, scope: Scope) -> ChunkedCross:
        """The chunked cross-attention of one layer."""
        return ChunkedCross(self.config.attention, scope)

    def new_state(self, batch: int, device: torch.device) -> RetrievalState:
        return RetrievalState(batch, device, self.config.chunk)

    def read(self, stream: Tensor, ctx: Context, state: RetrievalState | None) -> None:
        """Encode the neighbours of complete chunks, and say in ctx which tokens attend to which. `stream` (B, T, d): of
        the first layer that attends to them, behind its self-attention."""
        if state is None:
            self._read_whole(stream, ctx)
        else:
            self._read_more(stream, ctx, state)

    def _read_whole(self, stream: Tensor, ctx: Context) -> None:
        m, given = self.config.chunk, ctx.retrieved
        count = stream.shape[1] // m
        if given is None or not count:
            return
        given = given.take(count)
        encoded, valid = self._encode(given, stream[:, : count * m].unflatten(1, (count, m)), ctx)
        queries = group_positions(torch.arange(m, device=stream.device)[None], m)
        self._publish(ctx, NeighbourGroups(m, count, self._flatten(encoded, valid), self._inner(ctx, queries)))

    def _read_more(self, stream: Tensor, ctx: Context, state: RetrievalState) -> None:
        m, tokens = self.config.chunk, ctx.queries
        batch, length, width = stream.shape
        before = state.lengths
        added = tokens.valid.sum(1) if tokens.valid is not None else torch.full_like(before, length)
        complete = (before + added) // m - before // m  # (B,) chunks that end among these tokens
        count = max(complete.tolist(), default=0)
        layout = lay_out_segments(tokens, m, before)
        aligned = layout.align(stream[:, None])  # (B, 1, N, L, d)
        if state.pending is not None:
            aligned = layout.continue_segment(aligned, state.pending[:, None])
        pending = layout.last_segment(aligned, m)[:, 0]
        size = self.config.neighbours * self.config.tokens
        encoded, valid = stream.new_zeros(batch, 0, size, width), before.new_zeros(batch, 0, size, dtype=torch.bool)
        if count:
            given = ctx.retrieved
            if given is None:
                encoded = stream.new_zeros(batch, count, size, width)
                valid = before.new_zeros(batch, count, size, dtype=torch.bool)
            else:
                encoded, valid = self._encode(given.take(count), aligned[:, 0, :count], ctx)
                real = torch.arange(count, device=before.device) < complete[:, None]
                valid = valid & real[:, :, None]
        encoded, valid = state.extend(encoded, valid)  # (B, 1 + count, S, d)
        rows = torch.arange(batch, device=before.device)
        changed = count > 0 or state.neighbours is None
        latest = (encoded[rows, complete], valid[rows, complete]) if changed else (None, None)
        state.advance(added, pending, *latest)
        # Tokens attend to the neighbours of the chunk that is complete with them: groups are shifted by one token.
        shifted = TokenPositions(tokens.positions + 1, tokens.valid, tokens.end + 1)
        groups = lay_out_segments(shifted, m, before + 1)
        first = (((before + 1) % m == 0) & (complete > 0)).long()  # the first token of the row completes a chunk
        wanted = (first[:, None] + torch.arange(groups.count, device=before.device)).clamp(max=count)
        memory = self._flatten(encoded[rows[:, None], wanted], valid[rows[:, None], wanted])
        slots = (
            groups.within.positions if groups.count == 1 else torch.arange(groups.length, device=before.device)[None]
        )
        inner = self._inner(ctx, group_positions(slots, m))
        self._publish(ctx, NeighbourGroups(m, groups.count, memory, inner, groups, state.version))

    def _encode(self, given: EmbeddedNeighbours, chunks: Tensor, ctx: Context) -> tuple[Tensor, Tensor]:
        """Neighbours (B, C, K, R, d) of chunks (B, C, m, d) -> (B, C, K · R, d), and which are real (B, C, K · R)."""
        batch, count, neighbours, tokens, width = given.values.shape
        positions = positions_from_start(tokens, given.valid.flatten(0, 2), chunks.device)
        report = ForwardReport(losses=ctx.report.losses, statistics=ctx.report.statistics)
        inside = Context(positions, report, cross_position=self._position)
        source = chunks.reshape(batch * count, -1, width).repeat_interleave(neighbours, 0)
        inside.memories["encoder"] = Memory(source, positions_from_start(source.shape[1], None, chunks.device))
        encoded = self.encoder(given.values.flatten(0, 2), inside)  # (B · C · K, R, d)
        shape = (batch, count, neighbours * tokens)
        return encoded.view(*shape, width), given.valid.reshape(shape)

    @property
    def _position(self) -> Position | None:
        """What rotates queries and keys of attention to neighbours, and by neighbours."""
        position: Any = self.encoder.positions[0]
        return position if self.config.position.applies_to == "qk" else None

    def _inner(self, ctx: Context, queries: TokenPositions) -> Context:
        return replace(ctx, queries=queries, mask=FULL, position=self._position, layer=0, memo={})

    @staticmethod
    def _flatten(encoded: Tensor, valid: Tensor) -> Memory:
        """(B, N, S, d) -> (B · N, S, d). Each neighbour of a chunk has the positions 0, 1, 2 …"""
        return Memory(encoded.flatten(0, 1), positions_from_start(valid.shape[2], valid.flatten(0, 1), valid.device))

    def _publish(self, ctx: Context, groups: NeighbourGroups) -> None:
        tokens = self.config.tokens
        memory, positions = groups.memory
        counted = (positions.positions % tokens, tokens)
        groups.memory = Memory(memory, positions._replace(positions=counted[0], end=tokens, in_order=False))
        ctx.memories["neighbours"] = groups.memory
        ctx.memo[GROUPS] = groups
