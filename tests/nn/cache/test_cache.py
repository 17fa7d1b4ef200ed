"""Keys and values by themselves: written in place only without gradients, room that doubles, rows of their own length;
and the kept keys and values of another text."""

import pytest
import torch
from torch import Tensor

from headway.nn.cache.kv import CrossKVCache, KVCache
from headway.nn.sequence import TokenPositions, positions_after, positions_from_start

CPU = torch.device("cpu")


def some(length: int, rows: int = 2) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 3, length, 4), torch.randn(rows, 3, length, 5)


def append(state: KVCache, k: Tensor, v: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor, TokenPositions]:
    places = positions_after(state.lengths, state.end, k.shape[2], valid, state.uniform)
    return state.append(k, v, places)


@torch.no_grad()
def test_without_gradients_it_writes_in_place_and_doubles() -> None:
    state = KVCache(2, CPU)
    everything = some(200)
    addresses, capacities = [], []
    for t in range(200):
        keys, values, places = append(state, *(x[:, :, t : t + 1] for x in everything))
        addresses.append(keys.data_ptr())
        capacities.append(state.buffers[0].shape[2])
        assert keys.shape[2] == values.shape[2] == places.length == t + 1
    assert torch.equal(keys, everything[0]) and torch.equal(values, everything[1])
    assert len(set(addresses)) == len(set(capacities)) == 4
    assert sorted(set(capacities)) == [32, 64, 128, 256]
    assert state.bytes == 2 * 3 * 256 * (4 + 5) * 4


def test_with_gradients_it_never_writes_in_place() -> None:
    state = KVCache(2, CPU)
    before: list[tuple[Tensor, Tensor]] = []
    for length in (3, 1, 2):
        keys, _, _ = append(state, *(x.requires_grad_() for x in some(length)))
        for earlier, copy in before:
            assert earlier.data_ptr() != keys.data_ptr()
            assert torch.equal(earlier, copy) and earlier._version == copy._version
        before = [(x, x.detach()) for x in state.buffers]
    assert state.buffers[0].shape[2] == 6


def test_frozen_keys_are_copied_too_while_gradients_flow() -> None:
    """The gradient of a query needs the keys it saw, though the keys themselves learn nothing."""
    state, q = KVCache(2, CPU), torch.randn(2, 3, 1, 4, requires_grad=True)
    loss = torch.zeros(())
    for _ in range(3):
        keys, _, _ = append(state, *some(1))
        loss = loss + (q @ keys.mT).square().sum()
    loss.backward()
    assert q.grad is not None and q.grad.isfinite().all()


def test_rows_of_their_own_length() -> None:
    state, (k, v) = KVCache(3, CPU), some(4, rows=3)
    valid = torch.tensor([[True, False, True, True], [False, False, False, False], [False, True, False, False]])
    keys, values, places = append(state, k, v, valid)
    assert state.lengths.tolist() == [3, 0, 1]
    assert places.valid is not None
    assert places.valid.tolist() == [[True, True, True], [False, False, False], [True, False, False]]
    assert torch.equal(keys[0, :, :3], k[0, :, [0, 2, 3]])
    assert torch.equal(values[2, :, :1], v[2, :, [1]])
    keys, _, places = append(state, *(more := some(1, rows=3)))
    assert state.lengths.tolist() == [4, 1, 2]
    assert torch.equal(keys[1, :, 0], more[0][1, :, 0]) and torch.equal(keys[2, :, 1], more[0][2, :, 0])
    assert places.valid is not None and places.valid.sum(1).tolist() == [4, 1, 2]


@torch.no_grad()
def test_padding_takes_up_no_room() -> None:
    state, valid = KVCache(2, CPU), torch.tensor([[False, True, False], [False, False, False]])
    for _ in range(30):
        keys, _, places = append(state, *some(3), valid)
        append(state, *some(3), valid.flip(0))
    assert state.lengths.tolist() == [30, 30]
    assert keys.shape[2] == places.length == state.end == 30
    assert state.buffers[0].shape[2] <= 64


@torch.no_grad()
def test_truncating_makes_rows_alike_again() -> None:
    state, (k, v) = KVCache(2, CPU), some(5)
    append(state, k, v, torch.tensor([[True] * 5, [True] * 3 + [False] * 2]))
    assert not state.uniform
    state.truncate(torch.tensor([2, 2]))
    assert state.uniform and state.end == 2
    keys, _, places = append(state, k, v)
    assert places.valid is None
    assert torch.equal(keys, torch.cat([k[:, :, :2], k], dim=2))
    state.truncate(torch.tensor([100, 6]))
    assert state.lengths.tolist() == [7, 6], "never longer than it is"


@torch.no_grad()
def test_a_snapshot_is_a_copy() -> None:
    state = KVCache(2, CPU)
    append(state, *some(3))
    saved = state.snapshot()
    copies = [x.clone() for x in saved.buffers]
    append(state, *some(3))
    state.truncate(torch.tensor([0, 0]))
    append(state, *some(3))
    assert all(torch.equal(x, y) for x, y in zip(saved.buffers, copies))
    assert saved.lengths.tolist() == [3, 3]


@torch.no_grad()
def test_another_text_is_taken_in_once() -> None:
    state = CrossKVCache(2, CPU)
    assert state.bytes == 0
    k, v = some(6)
    valid = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    state.append(k, v, positions_from_start(6, valid, CPU))
    state.select(torch.tensor([1, 1, 0]))
    state.truncate(torch.tensor([0, 0, 0]))
    assert state.kv is not None
    keys, values, places = state.kv
    assert torch.equal(keys, k[[1, 1, 0]]) and torch.equal(values, v[[1, 1, 0]])
    assert places.valid is not None and places.valid.sum(1).tolist() == [2, 2, 6]
    assert state.bytes == keys.nbytes + values.nbytes
    assert state.min_length.tolist() == [0, 0, 0]


@pytest.mark.parametrize("filled", [False, True])
def test_detaching_another_text(filled: bool) -> None:
    state = CrossKVCache(2, CPU)
    if filled:
        state.append(*(x.requires_grad_() for x in some(2)), positions_from_start(2, None, CPU))
    state.detach()
    assert state.kv is None or not any(x.requires_grad for x in state.kv[:2])
    assert (state.kv is not None) == filled
