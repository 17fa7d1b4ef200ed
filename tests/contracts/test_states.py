"""The contract of states, the same bodies for every causal mixer: however the tokens arrive, and whatever happens to
the state on the way, each token's output is that of one whole pass over the tokens that its row has really seen."""

import random

import pytest
import torch
from torch import Tensor

from contracts.cases import CASES, Case, every_case, mixer_forms, named
from contracts.toys import in_catalogue
from headway.nn.cache.kv import DecoderState, TruncationError
from headway.nn.cache.recurrent import RecurrentState
from headway.nn.masks.masks import make_mask
from headway.nn.transformer import Transformer, valid_mask

B, T = 3, 11
NEAR = {"rtol": 0.0, "atol": 1e-12}
each_case = pytest.mark.parametrize("case", CASES, ids=named)
with in_catalogue():
    FORMS = mixer_forms()


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


@pytest.mark.slow
@pytest.mark.parametrize("mixer", FORMS)
def test_any_chunking_is_the_whole_with_everything(mixer: str) -> None:
    for case in every_case(mixer):
        test_any_chunking_is_the_whole(case)


@each_case
@torch.no_grad()
def test_any_chunking_is_the_whole(case: Case) -> None:
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    for sizes in chunkings(T, 3):
        state = model.new_state(B)
        torch.testing.assert_close(feed(model, state, ids, sizes), whole, **NEAR)
        for layer in state.layers:
            assert all(one.lengths.tolist() == state.lengths.tolist() == [T] * B for one in layer.values())
        assert state.bytes > 0


@each_case
@torch.no_grad()
def test_nobody_hears_the_future(case: Case) -> None:
    model, ids = case.model(), some_ids(B, T)
    other = ids.clone()
    other[:, 6:] = some_ids(B, T - 6)
    torch.testing.assert_close(model.decode(other)[:, :6], model.decode(ids)[:, :6], **NEAR)


@each_case
@torch.no_grad()
def test_select_then_step_is_a_step_of_the_reordered_batch(case: Case) -> None:
    model, ids = case.model(), some_ids(B, 5)
    state = model.new_state(B)
    model.decode(ids, state=state)
    for rows in ([2, 0, 0, 1, 2], [4, 1, 3], [1]):  # grows, reorders, shrinks
        state.select(torch.tensor(rows))
        ids = torch.cat([ids[rows], some_ids(len(rows), 2)], dim=1)
        torch.testing.assert_close(feed(model, state, ids[:, -2:], [1, 1]), model.decode(ids)[:, -2:], **NEAR)
        assert len(state.lengths) == len(rows)


@each_case
@torch.no_grad()
def test_select_before_the_first_step(case: Case) -> None:
    model, ids = case.model(), some_ids(5, T)
    state = model.new_state(2)
    state.select(torch.tensor([0, 1, 1, 0, 1]))
    torch.testing.assert_close(feed(model, state, ids, [4, 7]), model.decode(ids), **NEAR)


@each_case
@pytest.mark.parametrize("ragged", [False, True], ids=["alike", "each row its own"])
@torch.no_grad()
def test_truncate_then_continue_is_as_if_nothing_had_followed(case: Case, ragged: bool) -> None:
    model, ids = case.model(), some_ids(B, T)
    state = model.new_state(B)
    feed(model, state, ids, [5, 1, 1, 4])
    lowest = int(state.min_length.max())
    wanted = [max(lowest, length) for length in ((9, 4, 7) if ragged else (7, 7, 7))]
    state.truncate(torch.tensor(wanted))
    assert state.lengths.tolist() == wanted
    more = some_ids(B, 3)
    continued = feed(model, state, more, [1, 2])
    for row, length in enumerate(wanted):
        whole = model.decode(torch.cat([ids[row, :length], more[row]])[None])
        torch.testing.assert_close(continued[row], whole[0, length:], **NEAR)


@each_case
@torch.no_grad()
def test_truncating_again_and_again(case: Case) -> None:
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
    torch.testing.assert_close(model.decode(ids[:, -2:], state=state), model.decode(ids)[:, -2:], **NEAR)


@each_case
@torch.no_grad()
def test_what_is_forgotten_is_refused_and_nothing_is_lost(case: Case) -> None:
    model, ids = case.model(), some_ids(B, T)
    state = model.new_state(B)
    feed(model, state, ids[:, :9], [4, 1, 4])
    lowest = int(state.min_length.max())
    only_attention = all(how.split("(")[0] == "attention" for how in case.mixer.split(" + "))
    if only_attention and not any("feedforward" in layer for layer in state.layers):
        assert lowest == 0, "keys and values of everything go back to anything"
    if lowest:
        with pytest.raises(TruncationError, match="snapshot"):
            state.truncate(torch.tensor([9, lowest - 1, 9]))
    assert state.lengths.tolist() == [9] * B
    torch.testing.assert_close(model.decode(ids[:, 9:], state=state), model.decode(ids)[:, 9:], **NEAR)


@each_case
@torch.no_grad()
def test_snapshot_and_restore_any_number_of_times(case: Case) -> None:
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    state = model.new_state(B)
    model.decode(ids[:, :5], state=state)
    saved = state.snapshot()
    for rows in ([0, 1, 2], [2, 2], [1]):  # what happens in between leaves no trace, in shape or content
        state.select(torch.tensor(rows))
        feed(model, state, some_ids(len(rows), 4), [1, 3])
        state.restore(saved)
        assert state.lengths.tolist() == [5] * B
    torch.testing.assert_close(feed(model, state, ids[:, 5:], [1, 5]), whole[:, 5:], **NEAR)
    state.restore(saved)
    torch.testing.assert_close(feed(model, state, ids[:, 5:], [4, 2]), whole[:, 5:], **NEAR)


@each_case
@pytest.mark.parametrize("trainable", [False, True], ids=["decoding", "learning"])
@pytest.mark.parametrize("ragged", [False, True], ids=["alike", "each row its own"])
@torch.no_grad()
def test_a_state_that_was_written_down_goes_on(case: Case, ragged: bool, trainable: bool) -> None:
    model, ids = case.model(), some_ids(3, 9)
    state = model.new_state(3, trainable=trainable)
    valid = valid_mask(torch.tensor([5, 3, 1]), 5) if ragged else None
    model.decode(ids[:, :5], valid, state=state)
    written = {name: tensor.clone() for name, tensor in state.tensors().items()}
    other = model.new_state(3, trainable=trainable)
    other.load(written)
    for start in (5, 7):
        found = model.decode(ids[:, start : start + 2], state=other)
        torch.testing.assert_close(found, model.decode(ids[:, start : start + 2], state=state), rtol=0, atol=1e-14)
    assert other.lengths.tolist() == state.lengths.tolist()


@each_case
@torch.no_grad()
def test_a_state_is_as_large_as_the_config_says(case: Case) -> None:
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
                    assert all(x.untyped_storage().nbytes() == x.nbytes for x in one.tensors().values())
    if not cost.cached_per_token:
        assert set(sizes) == {2 * 8 * cost.cached_per_text}
    if bounded:
        assert len(set(sizes)) == 1


@each_case
@torch.no_grad()
def test_a_state_that_keeps_inputs_hears_the_same(case: Case) -> None:
    model, ids = case.model(), some_ids(2, 11)
    state = model.new_state(2, trainable=True)
    torch.testing.assert_close(feed(model, state, ids, [3, 1, 5, 2]), model.decode(ids), rtol=0, atol=1e-12)


@each_case
def test_gradients_through_a_state_are_those_of_the_whole(case: Case) -> None:
    model, ids, towards = case.model(), some_ids(B, T), torch.randn(B, T, 16, dtype=torch.float64)
    names, weights = zip(*model.named_parameters())

    def gradients(hidden: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad((hidden * towards).sum(), weights, materialize_grads=True)

    whole = gradients(model.decode(ids))
    for sizes in chunkings(T, 1):
        ours = gradients(feed(model, model.new_state(B), ids, sizes))
        for name, one, other in zip(names, ours, whole):
            torch.testing.assert_close(
                one, other, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}"
            )
    assert any(gradient.abs().max() > 1e-3 for gradient in whole)


@each_case
def test_gradients_of_ragged_chunks_are_those_of_the_whole(case: Case) -> None:
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
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@each_case
def test_only_what_is_trained_needs_gradients(case: Case) -> None:
    """With all but one weight frozen, whichever it is, the state still serves the way back."""
    model, ids = case.model(), some_ids(B, 6)
    model.requires_grad_(False)
    for name, weight in model.named_parameters():
        if ".sublayers.self." not in name or not name.endswith("weight"):
            continue
        weight.requires_grad_(True)
        whole = torch.autograd.grad(model.decode(ids).square().sum(), weight)[0]
        steps = torch.autograd.grad(feed(model, model.new_state(B), ids, [2, 1, 3]).square().sum(), weight)[0]
        torch.testing.assert_close(steps, whole, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")
        weight.requires_grad_(False)


@each_case
def test_detach_stops_gradients_and_nothing_else(case: Case) -> None:
    model = case.model()
    early, late = torch.arange(5)[None].expand(2, 5), torch.arange(10, 13)[None].expand(2, 3)
    words = model.embeddings["decoder"].words.weight
    gradients, outputs = [], []
    for stops in (False, True):
        state = model.new_state(2)
        model.decode(early, state=state)
        if stops:
            state.detach()
        outputs.append(model.decode(late, state=state))
        gradients.append(torch.autograd.grad(outputs[-1].square().sum(), words)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert (gradients[0][:5].abs().sum(1) > 0).any(), "without it, early tokens hear of what came later"
    assert (gradients[1][:5] == 0).all()
    assert (gradients[1][10:13].abs().sum(1) > 0).all()


@each_case
def test_a_state_may_pass_from_training_to_evaluation_and_back(case: Case) -> None:
    model, ids = case.model(), some_ids(B, T)
    whole = model.decode(ids)
    state = model.new_state(B)
    first = model.decode(ids[:, :4], state=state)
    with torch.no_grad():
        middle = model.decode(ids[:, 4:7], state=state)
    last = model.decode(ids[:, 7:], state=state)
    torch.testing.assert_close(torch.cat([first, middle, last], dim=1), whole, **NEAR)
    (first.square().sum() + last.square().sum()).backward()  # nothing that it needs has been written over
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
