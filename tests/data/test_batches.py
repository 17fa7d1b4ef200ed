"""Batches are counted in tokens, hold like lengths, and are the same whenever seed and epoch are."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.batches import (
    draw_chunk_starts,
    make_padded_batches,
    measure_padding,
    round_up_lengths,
    split_micro_batches,
)
from headway.files.prefetch import prefetch


def some_lengths(count: int = 2000) -> np.ndarray:
    """Two sides of like length, as in translation."""
    random = np.random.default_rng(3)
    source = random.integers(3, 60, count)
    return np.stack([source, np.maximum(3, source + random.integers(-4, 5, count))], axis=1)


def test_every_example_is_in_exactly_one_batch() -> None:
    lengths = some_lengths()
    batches = make_padded_batches(lengths, 512, [1, 0])
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 70), st.integers(1, 70)), min_size=1, max_size=60), st.integers(1, 300))
def test_no_batch_is_over_the_budget_but_for_a_single_row(rows: list[tuple[int, int]], budget: int) -> None:
    lengths = np.array(rows)
    batches = make_padded_batches(lengths, budget, [0, 0])
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        longest = int(round_up_lengths(lengths[batch]).max())
        assert len(batch) == 1 or len(batch) * longest <= budget


def test_the_budget_is_used() -> None:
    lengths = some_lengths()
    batches = make_padded_batches(lengths, 1024, [1, 0])
    filled = [len(batch) * int(round_up_lengths(lengths[batch]).max()) / 1024 for batch in batches]
    assert np.mean(filled) > 0.8


def test_like_lengths_come_together_and_little_is_padding() -> None:
    lengths = some_lengths()
    batches = make_padded_batches(lengths, 1024, [1, 0])
    assert measure_padding(batches, lengths) < 0.15
    mixed = np.array_split(np.random.default_rng(0).permutation(len(lengths)), len(batches))
    assert measure_padding(mixed, lengths) > 2 * measure_padding(batches, lengths)
    assert measure_padding([], lengths) == 0


def test_seed_and_epoch_decide() -> None:
    lengths = some_lengths()

    def drawn(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in make_padded_batches(lengths, 512, [seed, epoch])]

    assert drawn(1, 0) == drawn(1, 0)
    assert drawn(1, 0) != drawn(1, 1)
    assert drawn(1, 0) != drawn(2, 0)


def test_batches_do_not_come_sorted_by_length() -> None:
    lengths = some_lengths()
    means = [lengths[batch].mean() for batch in make_padded_batches(lengths, 512, [1, 0])]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.5


def test_rounding_goes_up_to_few_values() -> None:
    lengths = np.arange(0, 200)
    padded = round_up_lengths(lengths)
    assert (padded >= lengths).all()
    assert (padded > 0).all()
    assert len(set(padded.tolist())) < 40
    assert (np.diff(padded) >= 0).all()


def test_micro_batches_are_the_batch_in_pieces_that_fit() -> None:
    lengths = some_lengths()
    for batch in make_padded_batches(lengths, 2048, [1, 0])[:20]:
        pieces = split_micro_batches(batch, lengths, 256)
        assert np.concatenate(pieces).tolist() == batch.tolist()
        assert all(
            len(piece) == 1 or len(piece) * int(round_up_lengths(lengths[piece]).max()) <= 256 for piece in pieces
        )
    assert [len(piece) for piece in split_micro_batches(np.arange(3), np.full((3, 1), 100), 1)] == [1, 1, 1]


def blocks(stream: np.ndarray, length: int, seed: int, epoch: int) -> list[np.ndarray]:
    return [stream[start : start + length + 1] for start in draw_chunk_starts(len(stream), length, seed, epoch)]


def test_pieces_share_one_token_and_move_from_epoch_to_epoch() -> None:
    stream = np.arange(103)
    pieces = blocks(stream, 10, seed=0, epoch=0)
    assert all(len(piece) == 11 for piece in pieces)
    assert all(a[-1] == b[0] for a, b in pairwise(pieces))
    assert len(pieces) == 10
    starts = {int(blocks(stream, 10, 0, epoch)[0][0]) for epoch in range(20)}
    assert starts == {0, 1, 2}
    seen = np.unique(np.concatenate([piece for epoch in range(20) for piece in blocks(stream, 10, 0, epoch)]))
    assert seen.tolist() == stream.tolist()
    assert [piece.tolist() for piece in blocks(np.arange(5), 10, 0, 0)] == [[0, 1, 2, 3, 4]]


def test_prefetching_changes_nothing() -> None:
    assert list(prefetch(iter(range(50)), depth=3)) == list(range(50))


def test_what_goes_wrong_ahead_is_raised_here() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("out of ids")

    found = prefetch(items())
    assert next(found) == 1
    with pytest.raises(ValueError, match=r"out of ids"):
        next(found)


def test_a_reader_that_leaves_ends_the_thread() -> None:
    before = threading.active_count()
    found = prefetch(iter(range(10**9)), depth=2)
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon and thread.name.endswith("(work)"):
            thread.join(timeout=300)
    assert threading.active_count() <= before
