"""What a recorder is told explains what was found."""

import pytest
import torch
from decode.tables import END, SPECIAL, Table

from headway.decode import BeamStep, Hypothesis, Search, decode

SOURCE = torch.arange(6)[:, None]
STRATEGIES = {
    "greedy": Search(beam_size=1, max_length=9),
    "beam": Search(beam_size=4, n_best=4, max_length=9),
    "repeats": Search(beam_size=4, n_best=4, max_length=9, no_repeat_ngram=1),
    "sample": Search(beam_size=1, sample=True, n_best=3, seed=1, max_length=9),
}


def replay(told: list[BeamStep], search: Search) -> list[Hypothesis]:
    """All that one row's search found, from its choices alone."""
    running, found = [([], [], 0.0)], []
    for step, choice in enumerate(told):
        assert choice.step == step
        assert choice.logps == sorted(choice.logps, reverse=True)
        grown = []
        for parent, token, total, fate in zip(choice.parents, choice.ids, choice.logps, choice.fates):
            ids, parts, before = running[parent]
            line = ([*ids, token], [*parts, total - before], total)
            assert (token == END) <= (fate in ("ends", "pruned"))
            if fate == "runs":
                grown.append(line)
            elif fate != "pruned":
                found.append((line, fate == "ends"))
        running = grown
    return [
        Hypothesis(ids[:-1] if ended else ids, total, search.score(total, len(ids)), parts, ended)
        for (ids, parts, total), ended in found
    ]


@pytest.mark.parametrize("search", STRATEGIES.values(), ids=STRATEGIES)
def test_it_explains_the_result(search):
    told: list[BeamStep] = []
    found = decode(Table(8), SOURCE, special_tokens=SPECIAL, search=search, record=told.append)
    assert found == decode(Table(8), SOURCE, special_tokens=SPECIAL, search=search)
    for row, hypotheses in enumerate(found):
        searches = {choice.copy for choice in told if choice.row == row}
        again = [
            hypothesis
            for copy in searches
            for hypothesis in replay([c for c in told if (c.row, c.copy) == (row, copy)], search)
        ]
        again = sorted(again, key=lambda hypothesis: -hypothesis.score)[: search.n_best]
        assert [h.ids for h in again] == [h.ids for h in hypotheses]
        for mine, theirs in zip(again, hypotheses):
            assert mine.finished == theirs.finished
            assert (mine.logp, mine.score) == (theirs.logp, theirs.score)
            assert mine.token_logps == pytest.approx(theirs.token_logps)


def test_at_most_a_beam_runs_and_the_rest_is_told_too():
    told: list[BeamStep] = []
    decode(Table(8), SOURCE, special_tokens=SPECIAL, search=Search(beam_size=3, max_length=9), record=told.append)
    assert all(choice.fates.count("runs") <= 3 for choice in told)
    assert all(len(choice.ids) <= 6 for choice in told)
    assert {fate for choice in told for fate in choice.fates} == {"runs", "ends", "cut", "pruned"}
    for row in range(len(SOURCE)):
        last = [choice for choice in told if choice.row == row][-1]
        assert "runs" not in last.fates
