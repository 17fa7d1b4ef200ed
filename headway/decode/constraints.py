"""What an output must say: phrases of ids, in any order, anywhere in it. Nothing here imports torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class State(NamedTuple):
    met: int = 0  # a bit for each phrase
    active: int = -1  # the phrase that is being said
    place: int = 0  # how much of it has been
    last: int = -1  # the phrase that has just been completed


@dataclass(frozen=True)
class Demands:
    """Of one row. A phrase that is broken off, or runs on within its last word, has not been said.

    inner: ids that go on with a word"""

    phrases: tuple[tuple[int, ...], ...]
    inner: frozenset[int]
    known: dict[tuple[int, ...], State] = field(default_factory=dict, compare=False)

    def state(self, ids: Sequence[int]) -> State:
        """After these ids. A beam grows by one at a time, so that all but the last are known."""
        key = tuple(ids)
        if key not in self.known:
            self.known[key] = self.after(self.state(key[:-1]), key[-1]) if key else State()
        return self.known[key]

    def after(self, state: State, token: int) -> State:
        met, active, place, last = state
        if last >= 0 and token in self.inner:
            met &= ~(1 << last)
        said = (*self.phrases[active][:place], token) if active >= 0 else (token,)
        left = [n for n in range(len(self.phrases)) if not met >> n & 1]
        for begun in (said, (token,)):
            for number in sorted(left, key=lambda n: (n != active, -len(self.phrases[n]))):
                phrase = self.phrases[number]
                if phrase == begun:
                    return State(met | 1 << number, -1, 0, number)
                if phrase[: len(begun)] == begun:
                    return State(met, number, len(begun), -1)
        return State(met)

    def count(self, state: State) -> int:
        """How many of the demanded ids have been said."""
        return sum(len(p) for n, p in enumerate(self.phrases) if state.met >> n & 1) + state.place

    def next(self, state: State) -> set[int]:
        """What would take a hypothesis on."""
        if state.active >= 0:
            return {self.phrases[state.active][state.place]}
        return {phrase[0] for n, phrase in enumerate(self.phrases) if not state.met >> n & 1}

    def owes(self, state: State) -> bool:
        return state.met != (1 << len(self.phrases)) - 1

    def lacks(self, ids: Sequence[int]) -> int:
        """How many of the demanded ids are not in an output."""
        return sum(map(len, self.phrases)) - self.count(self.state(ids))
