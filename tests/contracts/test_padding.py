"""The contract of padding (headway.contracts.padding) holds for every causal mixer of the catalogue."""

import pytest
import torch

from contracts.cases import CASES, named
from headway.contracts.cases import Case
from headway.contracts.padding import (
    check_neighbours,
    check_padded_state,
    check_padding_amount,
    check_padding_content,
    check_ragged_rows,
)

each_case = pytest.mark.parametrize("case", CASES, ids=named)
PRECISIONS = [("f64", torch.float64, 1e-12), ("f32", torch.float32, 1e-5)]
each_case_and_precision = pytest.mark.parametrize(
    ("case", "dtype", "near"),
    [
        pytest.param(case, dtype, near, id=f"{named(case)}, {name}")
        for case in CASES
        for name, dtype, near in PRECISIONS
        if dtype == torch.float64 or not case.rounds
    ],
)


@each_case
def test_what_stands_in_padding_changes_nothing_to_the_bit(case: Case) -> None:
    check_padding_content(case)


@each_case_and_precision
def test_how_much_padding_there_is_changes_nothing(case: Case, dtype: torch.dtype, near: float) -> None:
    check_padding_amount(case, dtype, near)


@each_case_and_precision
def test_neighbours_change_nothing(case: Case, dtype: torch.dtype, near: float) -> None:
    check_neighbours(case, dtype, near)


@each_case_and_precision
def test_padding_never_enters_a_state(case: Case, dtype: torch.dtype, near: float) -> None:
    check_padded_state(case, dtype, near)


@each_case
def test_ragged_rows_live_through_select_truncate_and_restore(case: Case) -> None:
    check_ragged_rows(case)
