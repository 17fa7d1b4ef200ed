"""The contract of padding, the same bodies for every causal mixer: what stands in it changes nothing, to the bit, at
fixed shapes; how much of it there is and who the neighbours are changes nothing beyond rounding; it never enters a
state, wherever in a chunk it stands."""

import pytest
import torch
from torch import Tensor

from contracts.cases import CASES, Case, named
from headway.nn.cache.kv import DecoderState
from headway.nn.transformer import Transformer, valid_mask

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
LENGTHS = torch.tensor([9, 4, 1])


def close(ours: Tensor, theirs: Tensor, near: float) -> None:
    """Within `near` of the size of the numbers."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=near * float(theirs.abs().max()))


@each_case
@torch.no_grad()
def test_what_stands_in_padding_changes_nothing_to_the_bit(case: Case) -> None:
    model = case.model(torch.float32)
    ids, valid = torch.randint(29, (3, 9)), valid_mask(LENGTHS, 9)
    other = torch.where(valid, ids, torch.randint(29, (3, 9)))
    assert not torch.equal(ids, other)
    assert torch.equal(model.decode(ids, valid)[valid], model.decode(other, valid)[valid])
    follow = torch.randint(29, (3, 1))
    outputs = []
    for version in (ids, other):
        state = model.new_state(3)
        seen = [model.decode(version[:, a:b], valid[:, a:b], state=state) for a, b in ((0, 2), (2, 6), (6, 9))]
        outputs.append([torch.cat(seen, dim=1)[valid], model.decode(follow, state=state)])
    assert all(torch.equal(one, two) for one, two in zip(*outputs))


@each_case_and_precision
@torch.no_grad()
def test_how_much_padding_there_is_changes_nothing(case: Case, dtype: torch.dtype, near: float) -> None:
    model, ids = case.model(dtype), torch.randint(29, (3, 23))
    expected = model.decode(ids[:, :9], valid_mask(LENGTHS, 9))[valid_mask(LENGTHS, 9)]
    for longer in (10, 23):
        valid = valid_mask(LENGTHS, longer)
        close(model.decode(ids[:, :longer], valid)[valid], expected, near)


@each_case_and_precision
@torch.no_grad()
def test_neighbours_change_nothing(case: Case, dtype: torch.dtype, near: float) -> None:
    model, ids, valid = case.model(dtype), torch.randint(29, (3, 9)), valid_mask(LENGTHS, 9)
    together = model.decode(ids, valid)
    state = model.new_state(3)
    model.decode(ids, valid, state=state)
    follow = torch.randint(29, (3, 2))
    after = model.decode(follow, state=state)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model.decode(torch.cat([ids[row, :length], follow[row]])[None])[0]
        close(together[row, :length], alone[:length], near)
        close(after[row], alone[length:], near)


def ragged(model: Transformer, rows: list[Tensor], chunks: list[Tensor]) -> tuple[list[Tensor], DecoderState]:
    """Feed each row's ids into the true places of these chunks; returns what came out at them, by row."""
    state = model.new_state(len(rows))
    fed = [0] * len(rows)
    found: list[list[Tensor]] = [[] for _ in rows]
    for valid in chunks:
        ids = torch.randint(29, valid.shape)
        for row, places in enumerate(valid):
            count = int(places.sum())
            ids[row, places] = rows[row][fed[row] : fed[row] + count]
            fed[row] += count
        hidden = model.decode(ids, valid, state=state)
        for row, places in enumerate(valid):
            found[row].append(hidden[row, places])
    return [torch.cat(parts) for parts in found], state


@each_case_and_precision
@torch.no_grad()
def test_padding_never_enters_a_state(case: Case, dtype: torch.dtype, near: float) -> None:
    """Padding before, between and after real tokens, rows of all padding, rows that never speak."""
    model = case.model(dtype)
    chunks = [torch.rand(4, size) < 0.6 for size in (3, 1, 5, 2, 1, 4)]
    chunks[2][1] = False
    for chunk in chunks:
        chunk[3] = False
    lengths = [int(sum(chunk[row].sum() for chunk in chunks)) for row in range(4)]
    rows = [torch.randint(29, (length,)) for length in lengths]
    outputs, state = ragged(model, rows, chunks)
    assert state.lengths.tolist() == lengths
    for layer in state.layers:
        assert all(one.lengths.tolist() == lengths for one in layer.values())
    for ids, output in zip(rows[:3], outputs):
        close(output, model.decode(ids[None])[0], near)
    follow = torch.randint(29, (4, 1))
    step = model.decode(follow, state=state)
    for row in range(4):
        close(step[row], model.decode(torch.cat([rows[row], follow[row]])[None])[0, -1:], near)


@each_case
@torch.no_grad()
def test_ragged_rows_live_through_select_truncate_and_restore(case: Case) -> None:
    model, valid = case.model(), valid_mask(LENGTHS, 9)
    ids = torch.randint(29, (3, 9))
    state = model.new_state(3)
    model.decode(ids, valid, state=state)
    saved = state.snapshot()
    rows = [ids[row, :length] for row, length in enumerate(LENGTHS.tolist())]

    def check(rows: list[Tensor]) -> list[Tensor]:
        follow = torch.randint(29, (len(rows), 2))
        after = model.decode(follow, state=state)
        rows = [torch.cat([row, more]) for row, more in zip(rows, follow)]
        for ids, hidden in zip(rows, after):
            torch.testing.assert_close(hidden, model.decode(ids[None])[0, -2:], rtol=0, atol=1e-12)
        return rows

    state.select(torch.tensor([2, 0, 0, 1]))
    longer = check([rows[2], rows[0], rows[0], rows[1]])
    lengths = torch.maximum(state.lengths - torch.tensor([1, 2, 0, 1]), state.min_length)
    state.truncate(lengths)
    check([row[:length] for row, length in zip(longer, lengths.tolist())])
    state.restore(saved)
    check(rows)
