"""A beam that must say certain things (after Post & Vilar 2018).

Hypotheses compete with those that have said as many of the demanded ids; each such group has a share of the beam. What
has not said everything may not end."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headway.decode.constraints import Demands, State
from headway.decode.reference import candidates as choose
from headway.decode.reference.beam import Batch
from headway.decode.request import Task

NOTHING = Demands((), frozenset())


class Candidate(NamedTuple):
    total: float  # with all that came before
    logp: float
    token: int
    parent: int


def beam(logps: Tensor, batch: Batch, task: Task) -> choose.Picks:
    """2K candidates for each row: the K that go on, from all groups, then those that stand by. logps: (B·W, V)."""
    width, now = task.search.beam_size, batch.sums.shape[1]
    sums, lines = batch.sums.tolist(), batch.history.tolist()
    asked = [job.demands or NOTHING for job in batch.jobs]
    states = [[demands.state([t for t in ids if t >= 0]) for ids in own] for demands, own in zip(asked, lines)]
    owing = [demands.owes(state) for demands, own in zip(asked, states) for state in own]
    logps[torch.tensor(owing, device=logps.device), task.marks.end] = -torch.inf
    usual = choose.beam(logps, batch.sums, width)
    found = [
        {(p, t): Candidate(s, v, t, p) for s, v, t, p in zip(*row)}
        for row in zip(*(part.tolist() for part in (usual.sums, usual.logps, usual.ids, usual.parents)))
    ]
    values, best = (part.tolist() for part in logps.max(1))
    for row, (demands, own) in enumerate(zip(asked, states)):
        for parent, state in enumerate(own):
            line = row * now + parent
            further = {token: float(logps[line, token]) for token in demands.next(state)}
            for token, logp in {**further, best[line]: values[line]}.items():
                found[row][parent, token] = Candidate(sums[row][parent] + logp, logp, token, parent)
    chosen = [_shared_out(*one, width) for one in zip(found, asked, states)]
    return _as_picks(chosen, 2 * width, logps)


def _shared_out(
    found: dict[tuple[int, int], Candidate], demands: Demands, states: Sequence[State], width: int
) -> list[Candidate]:
    """K from the groups in turn, the furthest first, in order of their sums; then the others."""
    live = sorted((c for c in found.values() if c.total > -torch.inf), key=lambda c: -c.total)
    groups: dict[int, list[Candidate]] = defaultdict(list)
    for candidate in live:
        groups[demands.count(demands.after(states[candidate.parent], candidate.token))].append(candidate)
    taken: list[Candidate] = []
    turn = 0
    while len(taken) < min(width, len(live)):
        taken += [groups[count][turn] for count in sorted(groups, reverse=True) if turn < len(groups[count])]
        turn += 1
    first = sorted(taken[:width], key=lambda c: -c.total)
    kept = set(first)
    return [*first, *(c for c in live if c not in kept)][: 2 * width]


def _as_picks(chosen: Sequence[Sequence[Candidate]], count: int, like: Tensor) -> choose.Picks:
    nobody = Candidate(-torch.inf, -torch.inf, 0, 0)
    rows = [[*own, *[nobody] * (count - len(own))] for own in chosen]
    floats = torch.tensor([[c[:2] for c in row] for row in rows], dtype=torch.float32, device=like.device)
    whole = torch.tensor([[c[2:] for c in row] for row in rows], dtype=torch.long, device=like.device)
    return choose.Picks(floats[:, :, 0], floats[:, :, 1], whole[:, :, 0], whole[:, :, 1])
