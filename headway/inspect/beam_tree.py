"""The tree of a beam search, from its recorded steps: hypotheses that ran on, ended, or were pruned."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.decode.types import BeamStep, Fate


@dataclass(frozen=True)
class BeamNode:
    """One hypothesis that the search considered. `parent` is the index in the list of the one that it extends."""

    step: int
    parent: int | None
    ids: list[int]  # all tokens so far, its own last
    logp: float  # sum over its tokens
    fate: Fate
    copy: int = 0  # which of several samples


def build_tree(beam: Sequence[BeamStep]) -> list[BeamNode]:
    """Every hypothesis, step by step, the best of a step first."""
    nodes: list[BeamNode] = []
    running: dict[int, list[int]] = {}  # by sample: the node in each slot of the beam
    for step in beam:
        slots = running.get(step.copy)
        survivors = []
        for parent, token, logp, fate in zip(step.parents, step.ids, step.logps, step.fates):
            previous = None if slots is None else slots[parent]
            ids = [token] if previous is None else [*nodes[previous].ids, token]
            if fate == "runs":
                survivors.append(len(nodes))
            nodes.append(BeamNode(step.step, previous, ids, logp, fate, step.copy))
        running[step.copy] = survivors
    return nodes


def find_search(steps: Sequence[BeamStep], produced: list[int]) -> list[BeamStep]:
    """Of several searches of one row, one after the other, the last that found this output."""
    starts = [n for n, step in enumerate(steps) if step.step == 0 and step.copy == 0]
    searches = [list(steps[start:stop]) for start, stop in zip(starts, [*starts[1:], len(steps)])]
    for search in reversed(searches):
        if any(node.ids == produced and node.fate in ("ends", "cut") for node in build_tree(search)):
            return search
    return searches[-1] if searches else []
