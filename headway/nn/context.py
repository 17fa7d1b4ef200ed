"""What one forward pass knows: one object, handed to every layer."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from headway.nn.masks.masks import FULL, Mask, Pattern
from headway.nn.positions.positions import Position
from headway.nn.positions.score_mod import Bend, Looking
from headway.nn.sequence import Chosen, KeyValues, Memory, Places
from headway.nn.statistics import Statistics

Trace = dict[str, Tensor]


@dataclass
class Report:
    """What a forward pass tells beside its result."""

    losses: list[tuple[str, Tensor]] = field(default_factory=list)  # a layer adds, the trainer sums
    statistics: Statistics = field(default_factory=dict)  # a layer tells by a name of its own, the history shows
    trace: Trace | None = None  # a dict to fill, by explicit request
    watch: frozenset[str] = frozenset()  # names as in a trace: these are kept in `seen`, with their gradients
    seen: Trace = field(default_factory=dict)


@dataclass
class Context:
    queries: Places
    report: Report = field(default_factory=Report)
    mask: Mask = field(default_factory=lambda: FULL)  # of the sub-layer that is running
    position: Position | None = None  # likewise
    layer: int = 0  # which of those that share the position
    memories: dict[str, Memory] = field(default_factory=dict)  # "encoder" …: a layer publishes, later ones read
    published: dict[str, KeyValues] = field(default_factory=dict)  # likewise, of keys and values
    where: str = ""  # "decoder.3.self": names what is written into the trace
    once: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def inside(
        self, where: str, mask: Mask | None = None, position: Position | None = None, layer: int = 0
    ) -> "Context":
        """The same pass, as one sub-layer sees it; without a mask it sees everything."""
        # Not a default in the signature: a compiler finds globals, but not what stands there.
        return replace(self, where=where, mask=FULL if mask is None else mask, position=position, layer=layer)

    def narrowed(self, chosen: Chosen) -> "Context":
        """The same pass, as seen by one place of each row."""
        return replace(self, queries=chosen.places(self.queries), once={})

    def shared(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Computed by the first layer that asks, read by the others."""
        if key not in self.once:
            self.once[key] = make()
        return self.once[key]

    def pattern(self, keys: Places, heads: int, owner: str) -> Pattern:
        """The mask laid over these keys. `owner` names the keys: layers with the same ones share the pattern."""
        key = ("pattern", owner, keys.length, self.mask.name, heads)
        pattern = self.shared(key, lambda: Pattern(self.mask, self.queries, keys, heads))
        assert isinstance(pattern, Pattern)
        return pattern

    def bend(self, q: Tensor, keys: Places, scale: float) -> Bend | None:
        """What the position does to the scores of these queries, as they are before `ask`."""
        if self.position is None:
            return None
        score = self.position.score(Looking(q, self.queries, keys, self.mask, scale, self.layer))
        return None if score is None else Bend(score, self.queries, keys, q.shape[1])

    def ask(self, q: Tensor) -> Tensor:
        return q if self.position is None else self.position.ask(q, self.queries, self.layer)

    def turn(self, x: Tensor, places: Places) -> Tensor:
        return x if self.position is None else self.position.turn(x, places)

    def record(self, name: str, value: Tensor) -> None:
        if self.report.trace is not None:
            self.report.trace[f"{self.where}.{name}"] = value.detach()
        if self.watches(name):
            self.report.seen[f"{self.where}.{name}"] = value

    def watches(self, name: str) -> bool:
        return bool(self.report.watch) and f"{self.where}.{name}" in self.report.watch

    @property
    def traced(self) -> bool:
        return self.report.trace is not None
