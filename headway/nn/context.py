"""The context of a forward pass, handed to every layer; it also collects traces, losses and statistics."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor, nn

from headway.nn.masks.masks import FULL, BoundMask, Mask
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import BoundScoreMod, ScoreModInputs
from headway.nn.sequence import EmbeddedNeighbours, KeyValues, LastToken, Memory, TokenPositions
from headway.nn.statistics import LayerStatistics

Trace = dict[str, Tensor]


@dataclass
class ForwardReport:
    """What a forward pass yields beside its result."""

    losses: list[tuple[str, Tensor]] = field(default_factory=list)  # auxiliary: layers append, the trainer sums
    statistics: LayerStatistics = field(default_factory=dict)  # by a name of the layer's own, for the training history
    trace: Trace | None = None  # a dict to fill; None: record nothing
    capture: frozenset[str] = frozenset()  # names as in a trace: these go to `captured`, with their gradients
    captured: Trace = field(default_factory=dict)


@dataclass
class Context:
    queries: TokenPositions
    report: ForwardReport = field(default_factory=ForwardReport)
    mask: Mask = field(default_factory=lambda: FULL)  # of the current sub-layer
    position: Position | None = None  # likewise
    layer: int = 0  # index among the layers that share the position
    memories: dict[str, Memory] = field(default_factory=dict)  # by name: what cross-attention attends to
    published: dict[str, KeyValues] = field(default_factory=dict)  # keys and values that later layers share, by name
    retrieved: EmbeddedNeighbours | None = None  # of the chunks that are complete in this pass (RETRO)
    cross_position: Position | None = None  # that rotates queries and keys of cross-attention, where anything does
    predicted: TokenPositions | None = None  # of the query stream, in a stack with two (XLNet)
    stream: Literal["", "content", "query"] = ""  # which of the two this is; "": there is only one
    path: str = ""  # "decoder.3.self": prefix of the names in the trace
    memo: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def for_sublayer(
        self, path: str, mask: Mask | None = None, position: Position | None = None, layer: int = 0
    ) -> "Context":
        """The same pass, for one sub-layer; without a mask it sees everything."""
        # Not a default in the signature: torch.compile finds globals, but not defaults.
        return replace(self, path=path, mask=FULL if mask is None else mask, position=position, layer=layer)

    def for_last_token(self, last: LastToken) -> "Context":
        """The same pass, with the last token of each row as the only query."""
        return replace(self, queries=last.select_positions(self.queries), memo={})

    def compute_once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Computed by the first layer that needs it, reused by the others."""
        if key not in self.memo:
            self.memo[key] = make()
        return self.memo[key]

    def bound_mask(self, keys: TokenPositions, heads: int, owner: str) -> BoundMask:
        """The mask applied to these keys. `owner` names the keys: layers with the same ones share it."""
        key = ("mask", owner, keys.length, self.mask.name, heads)
        mask = self.compute_once(key, lambda: BoundMask(self.mask, self.queries, keys, heads))
        assert isinstance(mask, BoundMask)
        return mask

    def bound_score_mod(self, q: Tensor, keys: TokenPositions, scale: float) -> BoundScoreMod | None:
        """What the position does to the scores of these queries, given as they are before `transform_query`."""
        if self.position is None:
            return None
        inputs = ScoreModInputs(q, self.queries, keys, self.mask, scale, self.layer)
        score_mod = self.position.score_mod(inputs)
        return None if score_mod is None else BoundScoreMod(score_mod, self.queries, keys, q.shape[1])

    def transform_query(self, q: Tensor) -> Tensor:
        if self.position is None:
            return q
        transformed = self.position.transform_query(q, self.queries, self.layer)
        if transformed is not q:
            self.record("unrotated_q", q)
            self._record_rotation(q)
        return transformed

    def rotate(self, x: Tensor, tokens: TokenPositions) -> Tensor:
        """Keys, or vectors that are both keys and queries."""
        if self.position is None:
            return x
        rotated = self.position.rotate(x, tokens)
        if rotated is not x:
            self.record("unrotated_k", x)
        return rotated

    def _record_rotation(self, q: Tensor) -> None:
        """By which angle each pair of channels turns from one position to the next."""
        rotation = None if self.position is None or not self.traced else self.position.rotation(q)
        if rotation is not None:
            self.record("rotation_rates", rotation[0][None])  # (1, D / 2)
            self.record("rotation_amplitude", rotation[0].new_full((1, 1), rotation[1]))

    def record(self, name: str, value: Tensor) -> None:
        if self.report.trace is not None:
            self.report.trace[f"{self.path}.{name}"] = value.detach()
        if self.captures(name):
            self.report.captured[f"{self.path}.{name}"] = value

    def record_norm(self, name: str, norm: nn.Module | None) -> None:
        """The learned factors and summands of a norm, by which it can be computed again: NAME_gain, NAME_bias."""
        for parameter, value in [] if norm is None or not self.traced else norm.named_parameters():
            self.record(f"{name}_{parameter}", value[None])  # (1, d)

    def captures(self, name: str) -> bool:
        return bool(self.report.capture) and f"{self.path}.{name}" in self.report.capture

    @property
    def traced(self) -> bool:
        return self.report.trace is not None
