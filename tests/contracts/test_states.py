"""The contract of states (headway.contracts.states) holds for every causal mixer of the catalogue, and for two that are
not in it."""

import pytest

from contracts.cases import CASES, every_case, mixer_forms, named
from contracts.toys import in_catalogue
from headway.contracts.cases import Case
from headway.contracts.states import (
    check_chunks,
    check_detach,
    check_frozen_weights,
    check_future,
    check_gradients,
    check_no_grad_between,
    check_ragged_gradients,
    check_refused_truncate,
    check_repeated_truncate,
    check_select,
    check_select_first,
    check_snapshot,
    check_state_size,
    check_stored_state,
    check_trainable_state,
    check_truncate,
)

each_case = pytest.mark.parametrize("case", CASES, ids=named)
with in_catalogue():
    FORMS = mixer_forms()


@pytest.mark.slow
@pytest.mark.parametrize("mixer", FORMS)
def test_any_chunking_is_the_whole_with_everything(mixer: str) -> None:
    for case in every_case(mixer):
        check_chunks(case)


@each_case
def test_any_chunking_is_the_whole(case: Case) -> None:
    check_chunks(case)


@each_case
def test_nobody_hears_the_future(case: Case) -> None:
    check_future(case)


@each_case
def test_select_then_step_is_a_step_of_the_reordered_batch(case: Case) -> None:
    check_select(case)


@each_case
def test_select_before_the_first_step(case: Case) -> None:
    check_select_first(case)


@each_case
@pytest.mark.parametrize("ragged", [False, True], ids=["alike", "each row its own"])
def test_truncate_then_continue_is_as_if_nothing_had_followed(case: Case, ragged: bool) -> None:
    check_truncate(case, ragged)


@each_case
def test_truncating_again_and_again(case: Case) -> None:
    check_repeated_truncate(case)


@each_case
def test_what_is_forgotten_is_refused_and_nothing_is_lost(case: Case) -> None:
    check_refused_truncate(case)


@each_case
def test_snapshot_and_restore_any_number_of_times(case: Case) -> None:
    check_snapshot(case)


@each_case
@pytest.mark.parametrize("trainable", [False, True], ids=["decoding", "learning"])
@pytest.mark.parametrize("ragged", [False, True], ids=["alike", "each row its own"])
def test_a_state_that_was_written_down_goes_on(case: Case, ragged: bool, trainable: bool) -> None:
    check_stored_state(case, ragged, trainable)


@each_case
def test_a_state_is_as_large_as_the_config_says(case: Case) -> None:
    check_state_size(case)


@each_case
def test_a_state_that_keeps_inputs_hears_the_same(case: Case) -> None:
    check_trainable_state(case)


@each_case
def test_gradients_through_a_state_are_those_of_the_whole(case: Case) -> None:
    check_gradients(case)


@each_case
def test_gradients_of_ragged_chunks_are_those_of_the_whole(case: Case) -> None:
    check_ragged_gradients(case)


@each_case
def test_only_what_is_trained_needs_gradients(case: Case) -> None:
    check_frozen_weights(case)


@each_case
def test_detach_stops_gradients_and_nothing_else(case: Case) -> None:
    check_detach(case)


@each_case
def test_a_state_may_pass_from_training_to_evaluation_and_back(case: Case) -> None:
    check_no_grad_between(case)
