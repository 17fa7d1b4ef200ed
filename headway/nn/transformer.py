"""The Transformer: embed -> encoder -> decoder -> logits. Without an encoder a GPT, without a decoder a BERT."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config.own_kinds import import_owner
from headway.config.schema import Node, number, slot
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope, make
from headway.nn.cache.kv import DecoderState
from headway.nn.context import Context, ForwardReport
from headway.nn.derived_cross import DerivedCross
from headway.nn.frontends.frontend import FrontEnd, MediaBatch, check_head
from headway.nn.init import initialise
from headway.nn.layers.embedding import Embedding
from headway.nn.length_predictor import LengthPredictor
from headway.nn.query_stream import decode_mutually, order_tokens
from headway.nn.sequence import (
    EmbeddedNeighbours,
    FactorisationOrder,
    InsertedVectors,
    LastToken,
    Memory,
    Neighbours,
    PackedPositions,
    TokenPositions,
    positions_after,
    positions_from_start,
)
from headway.nn.stack import Stack
from headway.nn.statistics import LayerStatistics


class ModelOutput(NamedTuple):
    hidden: Tensor  # (B, T, d): input of the output head
    losses: list[tuple[str, Tensor]]  # auxiliary losses of layers
    statistics: LayerStatistics  # reported by layers


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
        predicted_length: int | None = number(None, low=1)  # longest target of a decoder that writes all of it at once
        reasoner: Any = slot("reasoner", None)  # no graphs beside the text

        def scope(self, side: Any) -> Scope:
            return Scope(
                d_model=self.d_model,
                dropout=self.dropout,
                norm=self.norm,
                linear=self.linear,
                side=side,
                layers=getattr(self, side).layers,
                other_layers=(self.decoder if side == "encoder" else self.encoder).layers,
                autoregressive=self.predicted_length is None,
                nodes=self.has_reasoner,
            )

        def resolved(self) -> "Transformer.Config":
            """Derived values filled in, impossible combinations refused."""
            if not self.encoder.layers and not self.decoder.layers:
                raise ConfigError("encoder.layers and decoder.layers are both 0. Give at least one side layers.")
            if self.head.kind in ("pooled", "tags", "embedding") and self.decoder.layers:
                raise ConfigError(
                    f'the head "{self.head.kind}" reads the output of an encoder. Set decoder.layers = 0.', "head"
                )
            if self.predicted_length is not None:
                if not (self.encoder.layers and self.decoder.layers):
                    raise ConfigError(
                        "the length of a target is predicted from its source: this needs an encoder and a decoder. "
                        "Leave it out.",
                        "predicted_length",
                    )
                if self.decoder.memory_tokens is not None:
                    raise ConfigError(
                        "memory tokens in a decoder need one that writes token after token. Leave predicted_length "
                        "out.",
                        "predicted_length",
                    )
            if self.has_reasoner and not self.decoder.layers:
                raise ConfigError("a reasoner has a decoder that listens to it. Set decoder.layers.", "reasoner")
            try:
                self.norm.check(self.d_model, self.sides)
            except ConfigError as error:
                raise error.inside("norm") from None
            media = self.encoder.frontend if self.encoder.layers else None
            if media is not None and media.reads != "text":
                check_head(media, self.head, writes_text=bool(self.decoder.layers))
                source = self.vocabulary
            else:
                source = self.source_vocabulary or self.vocabulary
            if self.embedding.ties_sides and source != self.vocabulary and self.encoder.layers:
                raise ConfigError(
                    f"source and target have vocabularies of {source} and {self.vocabulary}, so they cannot share one "
                    'embedding. Set tied = "target" or "none".',
                    "embedding.tied",
                )
            self._check_norm()
            filled: dict[str, Any] = {"source_vocabulary": source}
            filled["reasoner"] = self.reasoner if self.has_reasoner else None
            for side in ("encoder", "decoder"):
                encoder = self.encoder if side == "decoder" and self.encoder.layers else None
                try:
                    filled[side] = getattr(self, side).resolved(self.scope(side), encoder)
                except ConfigError as error:
                    raise error.inside(side) from None
            return replace(self, **filled)

        @property
        def has_reasoner(self) -> bool:
            return self.reasoner is not None and self.reasoner.kind != "none"

        @property
        def derived_cross(self) -> DerivedCross | None:
            """The cross-attention that is derived, if this model has any that it does not give."""
            needed = self.encoder.layers and self.decoder.layers and not self.decoder.cross
            return self.decoder.derived_cross(self.encoder) if needed else None

        def _check_norm(self) -> None:
            stacks: list[Stack.Config] = [getattr(self, side) for side in self.sides]
            parts: list[Any] = [part for stack in stacks for part in (*stack.mixer, *stack.feedforward)]
            parts += [part.expert for part in parts if hasattr(part, "expert")]
            unbounded = [part.kind for part in parts if getattr(part, "needs_norm", False)]
            if unbounded and self.norm.kind == "none":
                raise ConfigError(
                    f"without norms the outputs of {unbounded[0]} would grow beyond all bounds from layer to layer. "
                    'Set norm = "layernorm" or another.',
                    "norm",
                )

        def vocabulary_sizes(self) -> tuple[int, int]:
            """Of the target and of the source; 0 of a model that reads and writes no text."""
            if self.decoder.layers or self.encoder.frontend is None:
                if self.vocabulary is None:
                    raise ConfigError("model.vocabulary is not set. Set it, or train a tokenizer first.")
                return self.vocabulary, self.source_vocabulary or self.vocabulary
            return 0, 0

        @property
        def sides(self) -> list[str]:
            return [side for side in ("encoder", "decoder") if getattr(self, side).layers]

        def costs(self) -> dict[str, Cost]:
            """By part: embedding, encoder, decoder, cross, head; and reasoner, where there is one."""
            c = self.resolved()
            vocabulary, source_vocabulary = c.vocabulary_sizes()
            top = c.scope(c.sides[-1])
            encoder, _ = c.encoder.cost(c.scope("encoder"))
            decoder, cross = c.decoder.cost(c.scope("decoder"))
            embedding = c.embedding.cost(top, vocabulary)
            if c.encoder.frontend is not None and c.encoder.layers:
                embedding = c.encoder.frontend.cost(c.scope("encoder")) + (embedding if c.decoder.layers else Cost())
            elif len(c.sides) == 2:
                other = 0 if c.embedding.ties_sides else source_vocabulary
                embedding += c.embedding.cost(top, other)
            head = c.head.cost(top, vocabulary, c.embedding.ties_output)
            if c.predicted_length is not None:
                head += LengthPredictor.cost(c.predicted_length, c.scope("encoder"))
            costs = {
                "embedding": embedding,
                "encoder": encoder,
                "decoder": decoder,
                "cross": cross,
                "head": head,
            }
            if c.reasoner is not None:
                costs["reasoner"] = c.reasoner.cost(top, c.vocabulary)
            return costs

        def parameter_count(self) -> int:
            return sum(cost.parameters for cost in self.costs().values())

        def forward_flops(self, source: int, target: int) -> int:
            """Of one pair with this many tokens; only matrix products count. In attention every query counts as many
            keys as its mask lets any one query see: those of a sliding window, else all of them, as kernels over a
            dense mask compute it (which compute all of them under a window, too). What causal, strided, fixed and
            bigbird masks hide is not subtracted."""
            costs = self.costs()
            top = target if self.decoder.layers else source
            total = costs["encoder"].flops(source, source) if self.encoder.layers else 0
            if self.encoder.layers and self.encoder.frontend is not None:
                total += costs["embedding"].flops(source, source)
            if self.decoder.layers:
                total += costs["decoder"].flops(target, target) + costs["cross"].flops(target, source)
            return total + costs["head"].flops(top, 0)

        def kv_bytes_per_token(self, bytes_per_number: int = 4) -> int:
            """By how much the caches of decoding grow with each token. Sliding windows and recurrent states do not
            grow: theirs is costs()["decoder"].cached_per_text."""
            return self.costs()["decoder"].cached_per_token * bytes_per_number

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = c = config.resolved()
        vocabulary, source_vocabulary = c.vocabulary_sizes()
        self.embeddings, self.stacks = nn.ModuleDict(), nn.ModuleDict()
        tied_table: nn.Embedding | None = None
        for side in reversed(c.sides):  # the last side first: it owns a tied table
            front_end = getattr(c, side).frontend
            if front_end is None:
                size = source_vocabulary if side == "encoder" and len(c.sides) == 2 else vocabulary
                self.embeddings[side] = Embedding(c.embedding, c.scope(side), size, tied_table)
                tied_table = self.embeddings[side].table if c.embedding.ties_sides else None  # type: ignore[assignment]
            else:
                self.embeddings[side] = make("frontend", front_end, c.scope(side))
            self.stacks[side] = Stack(getattr(c, side), c.scope(side))
        longest = c.predicted_length
        self.length_predictor = None if longest is None else LengthPredictor(longest, c.scope("encoder"))
        self.head = c.head.build(c.scope(c.sides[-1]), vocabulary, c.embedding.ties_output)
        self.reasoner: Any = None
        if c.reasoner is not None:
            self.reasoner = import_owner("reasoner", c.reasoner.kind)(c.reasoner, c.scope("decoder"), vocabulary)
        initialise(self)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(
        self,
        ids: Tensor | MediaBatch,
        valid: Tensor | PackedPositions | None = None,
        *,
        segments: Tensor | None = None,
        inserted: InsertedVectors | None = None,
        report: ForwardReport | None = None,
    ) -> Memory:
        """Ids (B, S) -> encoder output. `valid` (B, S) is false on padding, or says how texts are packed into one
        row. `segments` (B, S): which of two texts each token belongs to, 0 or 1 (BERT's token types). `inserted`:
        vectors in the place of the embeddings of some ids.

        With another front end than tokens: pictures or sounds, which say themselves what is padding."""
        front_end = self.embeddings["encoder"]
        if isinstance(front_end, FrontEnd):
            memory: Memory = front_end(ids, self.stacks["encoder"])
            ctx = Context(memory.positions, report or ForwardReport())
            return Memory(self._run_stack("encoder", memory.values, ctx), memory.positions)
        if not isinstance(ids, Tensor):
            raise HeadwayError(f"this model reads tokens: give ids (B, S), not a {type(ids).__name__}.")
        tokens = positions_from_start(ids.shape[1], valid, ids.device)
        ctx = Context(tokens, report or ForwardReport())
        return Memory(self._run("encoder", ids, ctx, segments=segments, inserted=inserted), tokens)

    def decode(
        self,
        ids: Tensor,
        valid: Tensor | PackedPositions | FactorisationOrder | None = None,
        *,
        memory: Memory | None = None,
        nodes: Memory | None = None,
        state: DecoderState | None = None,
        inserted: InsertedVectors | None = None,
        report: ForwardReport | None = None,
        last: bool = False,
        neighbours: Neighbours | None = None,
    ) -> Tensor:
        """Ids (B, T) -> hidden (B, T, d). With a state, these ids follow those that it has processed. `inserted`:
        vectors in the place of the embeddings of some ids, as of a picture. `last`: only for each row's last real
        token, (B, 1, d); what serves only the others is not computed. `neighbours`: for a decoder that retrieves, those
        of each chunk that is complete with these ids. `nodes`: of a graph, by the reasoner.

        With a FactorisationOrder, for which it needs two streams: hidden (B, K, d) of the tokens to be predicted."""
        order = valid if isinstance(valid, FactorisationOrder) else None
        if order is None and self.config.decoder.content == "mutual":
            assert not isinstance(valid, PackedPositions | FactorisationOrder)
            return decode_mutually(self, ids, valid, state, report, last)
        real = valid.valid if isinstance(valid, PackedPositions | FactorisationOrder) else valid
        if state is None:
            tokens = positions_from_start(
                ids.shape[1], valid if isinstance(valid, PackedPositions) else real, ids.device
            )
        else:
            tokens = positions_after(state.lengths, state.end, ids.shape[1], real, state.uniform)
            memory = state.memory if memory is None else memory
            nodes = state.nodes if nodes is None else nodes
        predicted = None
        if order is not None:
            tokens, predicted = order_tokens(tokens, order)
        ctx = Context(tokens, report or ForwardReport(), predicted=predicted)
        if memory is not None:
            ctx.memories["encoder"] = memory
        if neighbours is not None:
            ctx.retrieved = self._embed_neighbours(neighbours)
        if nodes is not None:
            ctx.memories["nodes"] = nodes
        wanted = LastToken(real) if last else None
        hidden = self._run("decoder", ids, ctx, state=state, inserted=inserted, last=wanted)
        if state is not None:
            state.advance(ids.shape[1], real)
        return hidden

    def forward(
        self,
        source: Tensor | MediaBatch | None,
        target: Tensor | None,
        source_valid: Tensor | PackedPositions | None = None,
        target_valid: Tensor | PackedPositions | FactorisationOrder | None = None,
        report: ForwardReport | None = None,
        state: DecoderState | None = None,
        segments: Tensor | None = None,
        neighbours: Neighbours | None = None,
    ) -> ModelOutput:
        report = report or ForwardReport()
        memory = None if source is None else self.encode(source, source_valid, segments=segments, report=report)
        if target is None:
            assert memory is not None
            return ModelOutput(memory.values, report.losses, report.statistics)
        if self.length_predictor is not None and memory is not None:
            assert isinstance(target_valid, Tensor), "lengths are those of padded targets"
            report.losses.append(("length", self.length_predictor.loss(memory, target_valid.sum(1))))
        hidden = self.decode(target, target_valid, memory=memory, state=state, report=report, neighbours=neighbours)
        return ModelOutput(hidden, report.losses, report.statistics)

    def logits(self, hidden: Tensor) -> Tensor:
        reads_media = isinstance(self.embeddings[self.config.sides[-1]], FrontEnd)
        scores: Tensor = self.head(hidden, None if reads_media else self.output_embedding)
        return scores

    def factors(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """The factors of the logits, and their bias: a loss can compute them in chunks."""
        if not hasattr(self.head, "factors"):
            raise HeadwayError(
                f'this model has the head "{self.config.head.kind}", which predicts no tokens. Use LanguageModel.embed '
                'or train a model with the head "masked".'
            )
        parts: tuple[Tensor, Tensor, Tensor | None] = self.head.factors(hidden, self.output_embedding)
        return parts

    @property
    def output_embedding(self) -> Tensor:
        table: nn.Embedding = self.embeddings[self.config.sides[-1]].table  # type: ignore[assignment]
        return table.weight

    def new_state(
        self, batch: int, memory: Memory | None = None, *, nodes: Memory | None = None, trainable: bool = False
    ) -> DecoderState:
        """Empty caches for all layers. `trainable`: the weights change before the state is read again."""
        stack: Stack = self.stacks["decoder"]  # type: ignore[assignment]
        return DecoderState(stack.new_caches(batch, self.device, trainable), memory, batch, self.device, nodes)

    def _embed_neighbours(self, neighbours: Neighbours) -> EmbeddedNeighbours:
        retrieval: Any = self.stacks["decoder"].retrieval
        if retrieval is None:
            raise HeadwayError("this model retrieves nothing: it was made without decoder.retrieval.")
        ids, valid = (part.flatten(0, 2) for part in neighbours)  # (B · C · K, R)
        tokens = positions_from_start(ids.shape[1], valid, ids.device)
        vectors: Tensor = self.embeddings["decoder"](ids, tokens, retrieval.encoder)
        return EmbeddedNeighbours(vectors.unflatten(0, neighbours.ids.shape[:3]), neighbours.valid)

    def _run(
        self,
        side: str,
        ids: Tensor,
        ctx: Context,
        *,
        segments: Tensor | None = None,
        inserted: InsertedVectors | None = None,
        state: DecoderState | None = None,
        last: LastToken | None = None,
    ) -> Tensor:
        x = self.embeddings[side](ids, ctx.queries, self.stacks[side], segments, inserted)
        return self._run_stack(side, x, ctx, state, last)

    def _run_stack(
        self, side: str, x: Tensor, ctx: Context, state: DecoderState | None = None, last: LastToken | None = None
    ) -> Tensor:
        ctx.path = side
        ctx.record("embedded", x)
        hidden: Tensor = self.stacks[side](x, ctx, None if state is None else state.layers, last)
        return hidden


def has_hooks(model: nn.Module) -> bool:
    """Whether a part has a hook, which runs only where that part is called."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def valid_mask(lengths: Tensor, max_length: int) -> Tensor:
    """(B,) lengths -> (B, max_length), true on real tokens, false on padding."""
    return torch.arange(max_length, device=lengths.device) < lengths[:, None]


__all__ = ["Memory", "ModelOutput", "TokenPositions", "Transformer", "has_hooks", "valid_mask"]
