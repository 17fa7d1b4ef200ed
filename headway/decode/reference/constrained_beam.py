"""Constrained decoding: a beam search whose outputs must contain certain phrases (after Post & Vilar 2018, dynamic beam
allocation).

Hypotheses compete only with those that have as many ids of the phrases; each such group has a share of the beam. A
hypothesis that lacks a phrase may not end. The phrases and their state are in headway.decode.constraints.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headway.decode.constraints import ConstraintState, PhraseConstraints
from headway.decode.reference.beam import Beam
from headway.decode.reference.candidates import Candidates, pick_beam
from headway.decode.request import SearchTask

NO_CONSTRAINTS = PhraseConstraints((), frozenset())


class Candidate(NamedTuple):
    total: float  # log-probability with all tokens before
    logp: float
    token: int
    parent: int


def pick_constrained(logps: Tensor, beam: Beam, task: SearchTask) -> Candidates:
    """2K candidates for each row: the K that go on, from all groups, then spare ones. logps: (B·W, V)."""
    width = task.search.beam_size
    now = beam.sums.shape[1]
    sums, history = beam.sums.tolist(), beam.history.tolist()
    constraints = [job.constraints or NO_CONSTRAINTS for job in beam.jobs]
    states = [
        [phrases.state([t for t in ids if t >= 0]) for ids in hypotheses]
        for phrases, hypotheses in zip(constraints, history)
    ]
    unmet = [phrases.is_unmet(state) for phrases, own in zip(constraints, states) for state in own]
    logps[torch.tensor(unmet, device=logps.device), task.special_tokens.end] = -torch.inf
    usual = pick_beam(logps, beam.sums, width)
    found = [
        {(p, t): Candidate(s, v, t, p) for s, v, t, p in zip(*row)}
        for row in zip(*(part.tolist() for part in (usual.sums, usual.logps, usual.ids, usual.parents)))
    ]
    top_logps, top_ids = (part.tolist() for part in logps.max(1))
    for row, (phrases, own) in enumerate(zip(constraints, states)):
        for parent, state in enumerate(own):
            slot = row * now + parent
            progressing = {token: float(logps[slot, token]) for token in phrases.next_ids(state)}
            for token, logp in {**progressing, top_ids[slot]: top_logps[slot]}.items():
                found[row][parent, token] = Candidate(sums[row][parent] + logp, logp, token, parent)
    chosen = [_allocate_beam(*row, width) for row in zip(found, constraints, states)]
    return _as_candidates(chosen, 2 * width, logps.device)


def _allocate_beam(
    found: dict[tuple[int, int], Candidate],
    constraints: PhraseConstraints,
    states: Sequence[ConstraintState],
    width: int,
) -> list[Candidate]:
    """K from the groups in turn, the furthest first, in order of their sums; then the others."""
    existing = sorted((c for c in found.values() if c.total > -torch.inf), key=lambda c: -c.total)
    groups: dict[int, list[Candidate]] = defaultdict(list)
    for candidate in existing:
        state = constraints.advance(states[candidate.parent], candidate.token)
        groups[constraints.count_met(state)].append(candidate)
    taken: list[Candidate] = []
    turn = 0
    while len(taken) < min(width, len(existing)):
        taken += [groups[count][turn] for count in sorted(groups, reverse=True) if turn < len(groups[count])]
        turn += 1
    first = sorted(taken[:width], key=lambda c: -c.total)
    in_beam = set(first)
    return [*first, *(c for c in existing if c not in in_beam)][: 2 * width]


def _as_candidates(chosen: Sequence[Sequence[Candidate]], count: int, device: torch.device) -> Candidates:
    missing = Candidate(-torch.inf, -torch.inf, 0, 0)
    rows = [[*own, *[missing] * (count - len(own))] for own in chosen]
    floats = torch.tensor([[c[:2] for c in row] for row in rows], dtype=torch.float32, device=device)
    integers = torch.tensor([[c[2:] for c in row] for row in rows], dtype=torch.long, device=device)
    return Candidates(floats[:, :, 0], floats[:, :, 1], integers[:, :, 0], integers[:, :, 1])
