"""The contract of states, for whatever stands in a decoder: however the tokens arrive, and whatever happens to the
state on the way, each token's output is that of one whole pass over the tokens that its row has really seen."""

import random
from typing import Any

import torch
from torch import Tensor

from headway.contracts.cases import Case
from headway.contracts.results import ContractError, require, require_close
from headway.nn.cache.kv import DecoderState, TruncationError
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.masks.masks import make_mask
from headway.nn.transformer import Transformer, valid_mask

B, T = 3, 11


def some_ids(*shape: int) -> Tensor:
    return torch.randint(29, shape)


def feed(model: Transformer, state: DecoderState, ids: Tensor, sizes: list[int]) -> Tensor:
    """ids in chunks of these sizes."""
    return torch.cat([model.decode(chunk, state=state) for chunk in ids.split(sizes, dim=1)], dim=1)


def chunkings(length: int, count: int) -> list[list[int]]:
    """One at a time, all at once, and some random ways between."""
    rng = random.Random(length)
    found = [[1] * length, [length]]
    for _ in range(count):
        cuts = sorted(rng.sample(range(1, length), rng.randint(1, length - 1)))
        found.append([b - a for a, b in zip([0, *cuts], [*cuts, length])])
    return found


@torch.no_grad()
def check_chunks(case: Case) -> None:
    """Fed in chunks of any size through one state, each token gives what one whole pass gives."""
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    for sizes in chunkings(T, 3):
        state = model.new_state(B)
        require_close(feed(model, state, ids, sizes), whole)
        for layer in state.layers:
            found = [one.lengths.tolist() for one in layer.values()]
            require(all(lengths == [T] * B for lengths in found), f"caches of {T} tokens a row", found)
        require(state.lengths.tolist() == [T] * B, f"a state of {T} tokens a row", state.lengths.tolist())
        require(state.bytes > 0, "a state that holds something", "0 bytes")


@torch.no_grad()
def check_future(case: Case) -> None:
    """Other tokens later in the text change nothing before them."""
    model, ids = case.model(), some_ids(B, T)
    other = ids.clone()
    other[:, 6:] = some_ids(B, T - 6)
    require_close(model.decode(other)[:, :6], model.decode(ids)[:, :6])


@torch.no_grad()
def check_select(case: Case) -> None:
    """After `select`, as beam search does it, a step is that of the reordered batch."""
    model, ids = case.model(), some_ids(B, 5)
    state = model.new_state(B)
    model.decode(ids, state=state)
    for rows in ([2, 0, 0, 1, 2], [4, 1, 3], [1]):  # grows, reorders, shrinks
        state.select(torch.tensor(rows))
        ids = torch.cat([ids[rows], some_ids(len(rows), 2)], dim=1)
        require_close(feed(model, state, ids[:, -2:], [1, 1]), model.decode(ids)[:, -2:])
        require(len(state.lengths) == len(rows), f"a state of {len(rows)} rows", len(state.lengths))


@torch.no_grad()
def check_select_first(case: Case) -> None:
    """`select` before the first step grows an empty state."""
    model, ids = case.model(), some_ids(5, T)
    state = model.new_state(2)
    state.select(torch.tensor([0, 1, 1, 0, 1]))
    require_close(feed(model, state, ids, [4, 7]), model.decode(ids))


@torch.no_grad()
def check_truncate(case: Case, ragged: bool) -> None:
    """After `truncate`, decoding goes on as if nothing had followed. ragged: each row to its own length."""
    model, ids = case.model(), some_ids(B, T)
    state = model.new_state(B)
    feed(model, state, ids, [5, 1, 1, 4])
    lowest = int(state.min_length.max())
    wanted = [max(lowest, length) for length in ((9, 4, 7) if ragged else (7, 7, 7))]
    state.truncate(torch.tensor(wanted))
    require(state.lengths.tolist() == wanted, f"lengths {wanted} after truncate", state.lengths.tolist())
    more = some_ids(B, 3)
    continued = feed(model, state, more, [1, 2])
    for row, length in enumerate(wanted):
        whole = model.decode(torch.cat([ids[row, :length], more[row]])[None])
        require_close(continued[row], whole[0, length:])


@torch.no_grad()
def check_repeated_truncate(case: Case) -> None:
    """As speculation does: some tokens guessed, some of them taken back, many times over."""
    model, kept = case.model(), some_ids(B, 4)
    state = model.new_state(B)
    model.decode(kept, state=state)
    for _ in range(4):
        guessed = some_ids(B, 3)
        model.decode(guessed, state=state)
        length = max(kept.shape[1] + 1, int(state.min_length.max()))
        state.truncate(torch.full((B,), length))
        kept = torch.cat([kept, guessed], dim=1)[:, :length]
    ids = torch.cat([kept, some_ids(B, 2)], dim=1)
    require_close(model.decode(ids[:, -2:], state=state), model.decode(ids)[:, -2:])


@torch.no_grad()
def check_refused_truncate(case: Case) -> None:
    """What a state has forgotten is refused with a TruncationError, and nothing is lost by it."""
    model, ids = case.model(), some_ids(B, T)
    state = model.new_state(B)
    feed(model, state, ids[:, :9], [4, 1, 4])
    lowest = int(state.min_length.max())
    only_attention = all(how.split("(")[0] == "attention" for how in case.mixer.split(" + "))
    if only_attention and not any("feedforward" in layer for layer in state.layers):
        require(
            lowest == 0,
            "keys and values of everything, which can be truncated to nothing",
            f"a least length of {lowest}",
        )
    if lowest:
        try:
            state.truncate(torch.tensor([9, lowest - 1, 9]))
        except TruncationError as error:
            require("snapshot" in str(error), "an error that names the snapshot", str(error))
        else:
            raise ContractError("a TruncationError below min_length", "no error")
    require(state.lengths.tolist() == [9] * B, "lengths that a refused truncate leaves", state.lengths.tolist())
    require_close(model.decode(ids[:, 9:], state=state), model.decode(ids)[:, 9:])


@torch.no_grad()
def check_snapshot(case: Case) -> None:
    """`restore` takes a state back to its snapshot, any number of times."""
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    state = model.new_state(B)
    model.decode(ids[:, :5], state=state)
    saved = state.snapshot()
    for rows in ([0, 1, 2], [2, 2], [1]):  # what happens in between leaves no trace, in shape or content
        state.select(torch.tensor(rows))
        feed(model, state, some_ids(len(rows), 4), [1, 3])
        state.restore(saved)
        require(state.lengths.tolist() == [5] * B, "the lengths of the snapshot", state.lengths.tolist())
    require_close(feed(model, state, ids[:, 5:], [1, 5]), whole[:, 5:])
    state.restore(saved)
    require_close(feed(model, state, ids[:, 5:], [4, 2]), whole[:, 5:])


@torch.no_grad()
def check_stored_state(case: Case, ragged: bool, trainable: bool) -> None:
    """A state that was written as tensors and loaded goes on the same."""
    model, ids = case.model(), some_ids(3, 9)
    state = model.new_state(3, trainable=trainable)
    valid = valid_mask(torch.tensor([5, 3, 1]), 5) if ragged else None
    model.decode(ids[:, :5], valid, state=state)
    written = {name: tensor.clone() for name, tensor in state.tensors().items()}
    other = model.new_state(3, trainable=trainable)
    other.load(written)
    for start in (5, 7):
        found = model.decode(ids[:, start : start + 2], state=other)
        require_close(found, model.decode(ids[:, start : start + 2], state=state), 1e-14)
    require(other.lengths.tolist() == state.lengths.tolist(), "the lengths of the stored state", other.lengths.tolist())


@torch.no_grad()
def check_state_size(case: Case) -> None:
    """Where it keeps the same of every text: that; where it forgets: no more after a long text than after a longer."""
    model = case.model()
    cost, decoder = model.config.costs()["decoder"], model.config.decoder
    bounded = all(mixer.bounded(make_mask(mask)) for mixer, mask in zip(*map(decoder.tiled, ("mixer", "mask"))))
    state, sizes = model.new_state(2), []
    for _ in range(4):
        model.decode(some_ids(2, 6), state=state)
        sizes.append(state.bytes)
        for layer in state.layers:
            for one in layer.values():
                if isinstance(one, RecurrentState):  # no part of something larger
                    alone = all(x.untyped_storage().nbytes() == x.nbytes for x in one.tensors().values())
                    require(alone, "tensors of their own in a recurrent state", "views of larger ones")
    if not cost.cached_per_token:
        expected = 2 * 8 * cost.cached_per_text
        require(set(sizes) == {expected}, f"{expected} bytes by cost().cached_per_text", f"{sizes} bytes")
    if bounded:
        require(len(set(sizes)) == 1, "a state of one size: bounded() is True", f"{sizes} bytes")


@torch.no_grad()
def check_trainable_state(case: Case) -> None:
    """A trainable state, which may keep inputs, gives the same outputs."""
    model, ids = case.model(), some_ids(2, 11)
    state = model.new_state(2, trainable=True)
    require_close(feed(model, state, ids, [3, 1, 5, 2]), model.decode(ids))


def check_gradients(case: Case) -> None:
    """Gradients through a state, fed in chunks, are those of one whole pass."""
    model, ids, towards = case.model(), some_ids(B, T), torch.randn(B, T, 16, dtype=torch.float64)
    names, weights = zip(*model.named_parameters())

    def gradients(hidden: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((hidden * towards).sum(), weights, materialize_grads=True)

    whole = gradients(model.decode(ids))
    for sizes in chunkings(T, 1):
        ours = gradients(feed(model, model.new_state(B), ids, sizes))
        for name, one, other in zip(names, ours, whole):
            require_close(one, other, 1e-10, 1e-10, name)
    largest = max(float(gradient.abs().max()) for gradient in whole)
    require(largest > 1e-3, "gradients above 0.001", f"at most {largest:g}")


def check_ragged_gradients(case: Case) -> None:
    """The same with rows of different lengths."""
    model = case.model()
    lengths, towards = [5, 2], torch.randn(2, 5, 16, dtype=torch.float64)
    ids, valid = some_ids(2, 5), valid_mask(torch.tensor(lengths), 5)
    weights = list(model.parameters())
    state = model.new_state(2)
    hidden = torch.cat([model.decode(ids[:, a:b], valid[:, a:b], state=state) for a, b in ((0, 3), (3, 5))], dim=1)
    ours = torch.autograd.grad((hidden * towards)[valid].sum(), weights, materialize_grads=True)
    alone = [(model.decode(ids[row : row + 1, :n])[0] * towards[row, :n]).sum() for row, n in enumerate(lengths)]
    theirs = torch.autograd.grad(alone[0] + alone[1], weights, materialize_grads=True)
    for one, other in zip(ours, theirs):
        require_close(one, other, 1e-10, 1e-10)


def check_frozen_weights(case: Case) -> None:
    """With all but one weight frozen, whichever it is, the state still serves the backward pass."""
    model, ids = case.model(), some_ids(B, 6)
    model.requires_grad_(False)
    for name, weight in model.named_parameters():
        if ".sublayers.self." not in name or not name.endswith("weight"):
            continue
        weight.requires_grad_(True)
        whole = torch.autograd.grad(model.decode(ids).square().sum(), weight)[0]
        steps = torch.autograd.grad(feed(model, model.new_state(B), ids, [2, 1, 3]).square().sum(), weight)[0]
        require_close(steps, whole, 1e-10, 1e-10, name)
        weight.requires_grad_(False)


def check_detach(case: Case) -> None:
    """`detach` stops gradients at earlier tokens, and changes no output."""
    model = case.model()
    early, late = torch.arange(5)[None].expand(2, 5), torch.arange(10, 13)[None].expand(2, 3)
    embeddings: Any = model.embeddings["decoder"]
    words = embeddings.words.weight
    gradients, outputs = [], []
    for stops in (False, True):
        state = model.new_state(2)
        model.decode(early, state=state)
        if stops:
            state.detach()
        outputs.append(model.decode(late, state=state))
        gradients.append(torch.autograd.grad(outputs[-1].square().sum(), words)[0])
    require(torch.equal(outputs[0], outputs[1]), "the same output after detach", "another")
    require(bool((gradients[0][:5].abs().sum(1) > 0).any()), "gradients at early tokens without detach", "none")
    require(bool((gradients[1][:5] == 0).all()), "no gradients at early tokens after detach", "some")
    require(bool((gradients[1][10:13].abs().sum(1) > 0).all()), "gradients at late tokens after detach", "none at some")


def check_no_grad_between(case: Case) -> None:
    """A state may pass from training to evaluation and back."""
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    state = model.new_state(B)
    first = model.decode(ids[:, :4], state=state)
    with torch.no_grad():
        middle = model.decode(ids[:, 4:7], state=state)
    last = model.decode(ids[:, 7:], state=state)
    require_close(torch.cat([first, middle, last], dim=1), whole)
    (first.square().sum() + last.square().sum()).backward()  # nothing that it needs has been written over
    finite = all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
    require(finite, "finite gradients", "NaN or infinity")
