"""The contract of padding: what stands in it changes nothing, to the bit, at fixed shapes; how much of it there is and
what the other rows are changes nothing beyond rounding; it never enters a state, wherever in a chunk it stands."""

import torch
from torch import Tensor

from headway.contracts.cases import Case
from headway.contracts.results import require, require_close
from headway.nn.cache.kv import DecoderState
from headway.nn.transformer import Transformer, valid_mask

LENGTHS = torch.tensor([9, 4, 1])


def close(ours: Tensor, theirs: Tensor, near: float) -> None:
    """Within `near` of the size of the numbers."""
    require_close(ours, theirs, near * float(theirs.abs().max()))


@torch.no_grad()
def check_padding_content(case: Case) -> None:
    """What stands in padding changes nothing, to the bit, at fixed shapes."""
    model = case.model(torch.float32)
    ids, valid = torch.randint(29, (3, 9)), valid_mask(LENGTHS, 9)
    other = torch.where(valid, ids, torch.randint(29, (3, 9)))
    same = torch.equal(model.decode(ids, valid)[valid], model.decode(other, valid)[valid])
    require(same, "the same output whatever stands in padding", "another")
    follow = torch.randint(29, (3, 1))
    outputs = []
    for version in (ids, other):
        state = model.new_state(3)
        seen = [model.decode(version[:, a:b], valid[:, a:b], state=state) for a, b in ((0, 2), (2, 6), (6, 9))]
        outputs.append([torch.cat(seen, dim=1)[valid], model.decode(follow, state=state)])
    same = all(torch.equal(one, two) for one, two in zip(*outputs))
    require(same, "the same output through a state whatever stands in padding", "another")


@torch.no_grad()
def check_padding_amount(case: Case, dtype: torch.dtype, near: float) -> None:
    """How much padding there is changes nothing beyond rounding."""
    model, ids = case.model(dtype), torch.randint(29, (3, 23))
    expected = model.decode(ids[:, :9], valid_mask(LENGTHS, 9))[valid_mask(LENGTHS, 9)]
    for longer in (10, 23):
        valid = valid_mask(LENGTHS, longer)
        close(model.decode(ids[:, :longer], valid)[valid], expected, near)


@torch.no_grad()
def check_neighbours(case: Case, dtype: torch.dtype, near: float) -> None:
    """The other rows of a batch change nothing beyond rounding."""
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


@torch.no_grad()
def check_padded_state(case: Case, dtype: torch.dtype, near: float) -> None:
    """Padding before, between and after real tokens never enters a state; nor do rows of padding alone."""
    model = case.model(dtype)
    chunks = [torch.rand(4, size) < 0.6 for size in (3, 1, 5, 2, 1, 4)]
    chunks[2][1] = False
    for chunk in chunks:
        chunk[3] = False
    lengths = [int(sum(chunk[row].sum() for chunk in chunks)) for row in range(4)]
    rows = [torch.randint(29, (length,)) for length in lengths]
    outputs, state = ragged(model, rows, chunks)
    require(state.lengths.tolist() == lengths, f"lengths {lengths} without padding", state.lengths.tolist())
    for layer in state.layers:
        found = [one.lengths.tolist() for one in layer.values()]
        require(all(one == lengths for one in found), f"caches of {lengths} tokens, without padding", found)
    for ids, output in zip(rows[:3], outputs):
        close(output, model.decode(ids[None])[0], near)
    follow = torch.randint(29, (4, 1))
    step = model.decode(follow, state=state)
    for row in range(4):
        close(step[row], model.decode(torch.cat([rows[row], follow[row]])[None])[0, -1:], near)


@torch.no_grad()
def check_ragged_rows(case: Case) -> None:
    """Rows of different lengths are reordered, truncated and restored alike."""
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
            require_close(hidden, model.decode(ids[None])[0, -2:])
        return rows

    state.select(torch.tensor([2, 0, 0, 1]))
    longer = check([rows[2], rows[0], rows[0], rows[1]])
    lengths = torch.maximum(state.lengths - torch.tensor([1, 2, 0, 1]), state.min_length)
    state.truncate(lengths)
    check([row[:length] for row, length in zip(longer, lengths.tolist())])
    state.restore(saved)
    check(rows)
