"""The Transformer: embed -> encoder -> decoder -> logits. No encoder is GPT; no decoder is BERT; both is the paper."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.schema import Node, number, slot
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.cache.kv import ModelState
from headway.nn.context import Context, Report
from headway.nn.init import initialise
from headway.nn.layers.embedding import Embedding
from headway.nn.sequence import Chosen, Memory, Packed, Places, places_after, places_from
from headway.nn.stack import Stack
from headway.nn.statistics import Statistics


class Output(NamedTuple):
    hidden: Tensor  # (B, T, d): what the head reads
    losses: list[tuple[str, Tensor]]  # what layers add to the objective
    statistics: Statistics  # what they tell of themselves


class Transformer(nn.Module):
    @dataclass(frozen=True, kw_only=True)
    class Config(Node):
        """Defaults are the paper's base model. layers = 0 removes a side."""

        d_model: int = number(512, low=1)
        vocabulary: int | None = number(None, low=1)  # the tokenizer's; of the target, if there are two
        source_vocabulary: int | None = number(None, low=1)  # = vocabulary
        dropout: float = number(0.1, low=0, high=1)
        norm: Any = slot("norm", "layernorm")
        linear: Any = slot("linear", "dense")
        embedding: Embedding.Config = Embedding.Config()
        encoder: Stack.Config = Stack.Config()
        decoder: Stack.Config = Stack.Config()
        head: Any = slot("head", "logits")

        def scope(self, side: Any) -> Scope:
            return Scope(
                d_model=self.d_model,
                dropout=self.dropout,
                norm=self.norm,
                linear=self.linear,
                side=side,
                layers=getattr(self, side).layers,
                other_layers=(self.decoder if side == "encoder" else self.encoder).layers,
            )

        def resolved(self) -> "Transformer.Config":
            """Derived values filled in, impossible combinations refused."""
            if not self.encoder.layers and not self.decoder.layers:
                raise ConfigError("encoder.layers and decoder.layers are both 0: nothing is left. Keep one side.")
            if self.head.kind == "pooled" and self.decoder.layers:
                raise ConfigError("a pooled head reads the first place of an encoder. Set decoder.layers = 0.", "head")
            source = self.source_vocabulary or self.vocabulary
            if self.embedding.tied == "all" and source != self.vocabulary and self.encoder.layers:
                raise ConfigError(
                    f"source and target have vocabularies of {source} and {self.vocabulary}, so one matrix cannot "
                    'serve both. Set tied = "target" or "none".',
                    "embedding.tied",
                )
            filled: dict[str, Any] = {"source_vocabulary": source}
            for side in ("encoder", "decoder"):
                listens = side == "decoder" and bool(self.encoder.layers)
                try:
                    filled[side] = getattr(self, side).resolved(self.scope(side), listens)
                except ConfigError as error:
                    raise error.inside(side) from None
            return replace(self, **filled)

        @property
        def sides(self) -> list[str]:
            return [side for side in ("encoder", "decoder") if getattr(self, side).layers]

        def costs(self) -> dict[str, Cost]:
            """By part: embedding, encoder, decoder, cross, head."""
            c = self.resolved()
            if c.vocabulary is None or c.source_vocabulary is None:
                raise ConfigError("the vocabulary is not known yet: set model.vocabulary.")
            top = c.scope(c.sides[-1])
            encoder, _ = c.encoder.cost(c.scope("encoder"))
            decoder, cross = c.decoder.cost(c.scope("decoder"))
            embedding = c.embedding.cost(top, c.vocabulary)
            if len(c.sides) == 2:
                other = 0 if c.embedding.tied == "all" else c.source_vocabulary
                embedding += c.embedding.cost(top, other)
            head = c.head.cost(top, c.vocabulary, c.embedding.tied != "none")
            return {
                "embedding": embedding,
                "encoder": encoder,
                "decoder": decoder,
                "cross": cross,
                "head": head,
            }

        def parameter_count(self) -> int:
            return sum(cost.parameters for cost in self.costs().values())

        def forward_flops(self, source: int, target: int) -> int:
            """Of one pair with this many tokens; only matrix products count. In attention every query meets as many keys
            as its mask lets any one query see: those of a window where it looks back only so far, else all of them, as
            kernels over a dense mask compute it (of a window they compute all, too). What causal, strided, fixed and
            bigbird hide is not taken off."""
            costs = self.costs()
            top = target if self.decoder.layers else source
            total = costs["encoder"].flops(source, source) if self.encoder.layers else 0
            if self.decoder.layers:
                total += costs["decoder"].flops(target, target) + costs["cross"].flops(target, source)
            return total + costs["head"].flops(top, 0)

        def kv_bytes_per_token(self, bytes_per_number: int = 4) -> int:
            """By how much what decoding keeps grows with each token. Layers that look back only so far, and those that keep
            a sum, add nothing: theirs is costs()["decoder"].kept_per_text, which does not grow."""
            return self.costs()["decoder"].kept_per_token * bytes_per_number

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = c = config.resolved()
        if c.vocabulary is None or c.source_vocabulary is None:
            raise ConfigError("the vocabulary is not known yet: set model.vocabulary, or train a tokenizer first.")
        self.embeddings, self.stacks = nn.ModuleDict(), nn.ModuleDict()
        words: nn.Embedding | None = None
        for side in reversed(c.sides):  # the last side first: it owns tied words
            size = c.source_vocabulary if side == "encoder" and len(c.sides) == 2 else c.vocabulary
            self.embeddings[side] = Embedding(c.embedding, c.scope(side), size, words)
            words = self.embeddings[side].table if c.embedding.tied == "all" else None  # type: ignore[assignment]
            self.stacks[side] = Stack(getattr(c, side), c.scope(side))
        self.head = c.head.build(c.scope(c.sides[-1]), c.vocabulary, c.embedding.tied != "none")
        initialise(self)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(
        self,
        ids: Tensor,
        valid: Tensor | Packed | None = None,
        *,
        segments: Tensor | None = None,
        report: Report | None = None,
    ) -> Memory:
        """Ids (B, S), and which of them are real (B, S), or how several texts lie in one line of them."""
        places = places_from(ids.shape[1], valid, ids.device)
        ctx = Context(places, report or Report())
        return Memory(self._run("encoder", ids, ctx, segments=segments), places)

    def decode(
        self,
        ids: Tensor,
        valid: Tensor | Packed | None = None,
        *,
        memory: Memory | None = None,
        state: ModelState | None = None,
        report: Report | None = None,
        last: bool = False,
    ) -> Tensor:
        """Ids (B, T) -> hidden (B, T, d). With a state, these ids follow those that it has seen. `last`: only that of
        each row's last real token, (B, 1, d), and nothing that serves others alone is computed."""
        real = valid.valid if isinstance(valid, Packed) else valid
        if state is None:
            places = places_from(ids.shape[1], valid, ids.device)
        else:
            places = places_after(state.lengths, state.end, ids.shape[1], real, state.uniform)
            memory = state.memory if memory is None else memory
        ctx = Context(places, report or Report())
        if memory is not None:
            ctx.memories["encoder"] = memory
        hidden = self._run("decoder", ids, ctx, state=state, last=Chosen(real) if last else None)
        if state is not None:
            state.advance(ids.shape[1], real)
        return hidden

    def forward(
        self,
        source: Tensor | None,
        target: Tensor | None,
        source_valid: Tensor | Packed | None = None,
        target_valid: Tensor | Packed | None = None,
        report: Report | None = None,
        state: ModelState | None = None,
    ) -> Output:
        report = report or Report()
        memory = None if source is None else self.encode(source, source_valid, report=report)
        if target is None:
            assert memory is not None
            return Output(memory.values, report.losses, report.statistics)
        hidden = self.decode(target, target_valid, memory=memory, state=state, report=report)
        return Output(hidden, report.losses, report.statistics)

    def logits(self, hidden: Tensor) -> Tensor:
        scores: Tensor = self.head(hidden, self.output_embedding)
        return scores

    def factors(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What logits are the product of, and what is added to it: a loss may take a part of them at a time."""
        parts: tuple[Tensor, Tensor, Tensor | None] = self.head.factors(hidden, self.output_embedding)
        return parts

    @property
    def output_embedding(self) -> Tensor:
        table: nn.Embedding = self.embeddings[self.config.sides[-1]].table  # type: ignore[assignment]
        return table.weight

    def new_state(self, batch: int, memory: Memory | None = None, *, learns: bool = False) -> ModelState:
        """`learns`: the weights will change before it is read again."""
        stack: Stack = self.stacks["decoder"]  # type: ignore[assignment]
        return ModelState(stack.new_states(batch, self.device, learns), memory, batch, self.device)

    def _run(
        self,
        side: str,
        ids: Tensor,
        ctx: Context,
        *,
        segments: Tensor | None = None,
        state: ModelState | None = None,
        last: Chosen | None = None,
    ) -> Tensor:
        stack = self.stacks[side]
        x = self.embeddings[side](ids, ctx.queries, stack, segments)
        ctx.where = side
        ctx.record("embedded", x)
        hidden: Tensor = stack(x, ctx, None if state is None else state.layers, last)
        return hidden


def valid_places(lengths: Tensor, longest: int) -> Tensor:
    """(B,) lengths -> (B, longest), true on real tokens."""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


__all__ = ["Memory", "Output", "Places", "Transformer", "valid_places"]
