"""Constrained decoding: phrases of ids that an output must contain, in any order, anywhere. Nothing here imports torch.

The beam search that satisfies them is reference/constrained_beam.py."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class ConstraintState(NamedTuple):
    """How far a hypothesis has come with its phrases."""

    met: int = 0  # a bit for each phrase
    active: int = -1  # the phrase that it is in the middle of
    progress: int = 0  # how many ids of that phrase are there
    last: int = -1  # the phrase that it has just completed


@dataclass(frozen=True)
class PhraseConstraints:
    """The phrases of one row. A phrase that is broken off, or whose last word goes on, does not count.

    inner: ids that continue a word; open_ended: the numbers of phrases whose last word nothing continues, because its
    script has no spaces"""

    phrases: tuple[tuple[int, ...], ...]
    inner: frozenset[int]
    open_ended: frozenset[int] = frozenset()
    states: dict[tuple[int, ...], ConstraintState] = field(default_factory=dict, compare=False)  # of all seen so far

    def state(self, ids: Sequence[int]) -> ConstraintState:
        """After these ids. A beam grows by one id at a time, so that the state of all but the last is known."""
        key = tuple(ids)
        if key not in self.states:
            self.states[key] = self.advance(self.state(key[:-1]), key[-1]) if key else ConstraintState()
        return self.states[key]

    def advance(self, state: ConstraintState, token: int) -> ConstraintState:
        """The state after one more token."""
        met, active, progress, last = state
        if last >= 0 and last not in self.open_ended and token in self.inner:
            met &= ~(1 << last)
        continued = (*self.phrases[active][:progress], token) if active >= 0 else (token,)
        unmet = [n for n in range(len(self.phrases)) if not met >> n & 1]
        for begun in (continued, (token,)):
            for number in sorted(unmet, key=lambda n: (n != active, -len(self.phrases[n]))):
                phrase = self.phrases[number]
                if phrase == begun:
                    return ConstraintState(met | 1 << number, -1, 0, number)
                if phrase[: len(begun)] == begun:
                    return ConstraintState(met, number, len(begun), -1)
        return ConstraintState(met)

    def count_met(self, state: ConstraintState) -> int:
        """How many ids of the phrases are there, those of an unfinished phrase included."""
        return sum(len(p) for n, p in enumerate(self.phrases) if state.met >> n & 1) + state.progress

    def next_ids(self, state: ConstraintState) -> set[int]:
        """The ids that would make progress."""
        if state.active >= 0:
            return {self.phrases[state.active][state.progress]}
        return {phrase[0] for n, phrase in enumerate(self.phrases) if not state.met >> n & 1}

    def is_unmet(self, state: ConstraintState) -> bool:
        """Whether some phrase is missing: such a hypothesis may not end."""
        return state.met != (1 << len(self.phrases)) - 1

    def count_missing(self, ids: Sequence[int]) -> int:
        """How many ids of the phrases are not in an output."""
        return sum(map(len, self.phrases)) - self.count_met(self.state(ids))
