"""Rows of ids: padded to one length, and grouped by length within a budget."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.decode.batching import batch_by_size
from headway.decode.padding import pad_rows

CPU = torch.device("cpu")


def test_short_rows_are_padded_and_said_to_be() -> None:
    ids, valid = pad_rows([[5, 6, 7], [8], []], 0, CPU)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0], [0, 0, 0]]
    assert valid is not None
    assert valid.tolist() == [[True] * 3, [True, False, False], [False] * 3]


def test_rows_of_one_length_need_no_mask() -> None:
    ids, valid = pad_rows([[5, 6], [7, 8]], 0, CPU)
    assert ids.tolist() == [[5, 6], [7, 8]]
    assert valid is None


@given(st.lists(st.integers(1, 50)), st.integers(1, 100))
def test_batches_hold_everything_once_within_the_budget(sizes: list[int], budget: int) -> None:
    found = list(batch_by_size(range(len(sizes)), sizes.__getitem__, budget))
    assert sorted(row for batch in found for row in batch) == list(range(len(sizes)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(sizes[row] for row in batch) <= budget
    flat = [sizes[row] for batch in found for row in batch]
    assert flat == sorted(flat, reverse=True)


@pytest.mark.parametrize(
    ("budget", "expected"), [(8, [[0, 1], [2, 3]]), (4, [[0], [1], [2], [3]]), (99, [[0, 1, 2, 3]])]
)
def test_batches_are_filled(budget: int, expected: list[list[int]]) -> None:
    assert list(batch_by_size(range(4), lambda row: 4, budget)) == expected
