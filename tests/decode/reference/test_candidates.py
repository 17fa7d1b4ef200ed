import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import NoRepeatNGramLogitsProcessor

from headway.decode.banned_tokens import ban_end, ban_ids, ban_repeats
from headway.decode.reference.candidates import pick_greedy, stable_topk


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 4), st.integers(1, 1200), st.integers(1, 9), st.integers(2, 30), st.integers(0, 10**6))
def test_the_best_are_those_of_a_stable_sort(rows, size, count, levels, seed):
    scores = torch.randint(0, levels, (rows, size), generator=torch.Generator().manual_seed(seed)).float()
    scores = torch.where(scores == 0, -torch.inf, scores)
    values, index = stable_topk(scores, count)
    expected, places = scores.sort(dim=1, descending=True, stable=True)
    assert torch.equal(values, expected[:, :count])
    assert torch.equal(index, places[:, :count])


@pytest.mark.parametrize("holes", [1, 3, 300])
@pytest.mark.parametrize("size", [5, 300, 1000])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_not_a_number_comes_first(count, size, holes):
    for value in (0.0, -torch.inf):
        scores = torch.full((1, size), value)
        scores[0, -holes:] = torch.nan
        values, index = stable_topk(scores, count)
        assert values.isnan().sum() == min(count, holes, size)
        assert len(set(index[0].tolist())) == min(count, size)


def test_greedy_takes_the_first_of_equals():
    picks = pick_greedy(torch.tensor([[-3.0, -1.0, -1.0, -2.0]]), torch.tensor([[-5.0]]))
    assert (picks.ids.item(), picks.sums.item()) == (1, -6.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(0, 14), st.integers(0, 10**6))
def test_repeats_are_those_of_hugging_face(size, length, seed):
    generator = torch.Generator().manual_seed(seed)
    history = torch.randint(0, 4, (5, length), generator=generator)
    ours = torch.zeros(5, 4)
    theirs = NoRepeatNGramLogitsProcessor(size)(history, ours.clone())
    ban_repeats(ours, history, size)
    assert torch.equal(ours, theirs)
    padded = torch.cat([torch.full((5, 3), -1), history], dim=1)
    again = torch.zeros(5, 4)
    ban_repeats(again, padded, size)
    assert torch.equal(again, ours)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bans(dtype):
    logps = torch.zeros(2, 3, dtype=dtype)
    ban_ids(logps, torch.tensor([0, 0]))
    ban_end(logps, 2, torch.tensor([True, False]))
    inf = torch.inf
    assert logps.tolist() == [[-inf, 0.0, -inf], [-inf, 0.0, 0.0]]
