"""The whole tree of a beam search, from what it told step by step: what ran on, what ended, what was pruned."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.decode.types import Choice, Fate


@dataclass(frozen=True)
class Node:
    """One hypothesis that the search looked at. `parent` is the place in the list of the one that it goes on from."""

    step: int
    parent: int | None
    ids: list[int]  # all that was produced, this token last
    logp: float  # of them together
    fate: Fate
    copy: int = 0  # which of several draws


def tree(beam: Sequence[Choice]) -> list[Node]:
    """Every hypothesis, step by step, the best of a step first."""
    nodes: list[Node] = []
    running: dict[int, list[int]] = {}  # by draw: the node in each slot
    for choice in beam:
        slots = running.get(choice.copy)
        grown = []
        for parent, token, logp, fate in zip(choice.parents, choice.ids, choice.logps, choice.fates):
            before = None if slots is None else slots[parent]
            ids = [token] if before is None else [*nodes[before].ids, token]
            if fate == "runs":
                grown.append(len(nodes))
            nodes.append(Node(choice.step, before, ids, logp, fate, choice.copy))
        running[choice.copy] = grown
    return nodes


def search_that_found(told: Sequence[Choice], produced: list[int]) -> list[Choice]:
    """Of several searches for one row, one after the other, the last that came to this output."""
    starts = [n for n, choice in enumerate(told) if choice.step == 0 and choice.copy == 0]
    searches = [list(told[start:stop]) for start, stop in zip(starts, [*starts[1:], len(told)])]
    for search in reversed(searches):
        if any(node.ids == produced and node.fate in ("ends", "cut") for node in tree(search)):
            return search
    return searches[-1] if searches else []
