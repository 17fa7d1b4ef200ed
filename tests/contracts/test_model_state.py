"""The state of a whole model that listens to an encoder: beam-like growth before and between steps, reordering,
shrinking, going back; sources of different lengths; what is asked of a model without anything to hear."""

import pytest
import torch
from torch import Tensor

from headway.contracts.cases import Case
from headway.nn.sequence import Memory
from headway.nn.transformer import Transformer, valid_mask

CASES = [
    Case("attention(4)"),
    Case("attention(4, 2)", "rope", "causal & local(3)", "pre"),
    Case("attention(4, 1, d_k=6, d_v=10)", "alibi", "causal", "residual_dual"),
    Case("decay + ring(4)", "learned"),
    Case("retention(4, chunk=2)", "rope", "causal", "pre"),
    Case("attention(2)", linear="bitnet"),
]
SOURCES = torch.tensor([7, 3, 5])
NEAR = {"rtol": 0.0, "atol": 1e-12}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.mixer)


def listening(case: Case) -> tuple[Transformer, Tensor, Memory]:
    if case.mixer == "decay + ring(4)":  # each of them with the mask it takes
        decoder = {"layers": 2, "mixer": ["decay", "ring(4)"], "mask": ["causal", "causal & local(4)"]}
    else:
        decoder = case.config().to_dict()["decoder"]
    encoder = {"layers": 1, "mixer": "attention(4)", "feedforward": "relu(24)"}
    model = case.model(encoder=encoder, decoder=decoder)
    source = torch.randint(29, (3, 7))
    return model, source, model.encode(source, valid_mask(SOURCES, 7))


def alone(model: Transformer, source: Tensor, row: int, ids: Tensor) -> Tensor:
    """What the decoder makes of ids after one source, without padding, neighbours or a state."""
    memory = model.encode(source[row : row + 1, : SOURCES[row]])
    return model.decode(ids[None], memory=memory)[0]


@each_case
@torch.no_grad()
def test_a_beam_lives_on_one_state(case: Case) -> None:
    model, source, memory = listening(case)
    state = model.new_state(3, memory)
    owner = torch.tensor([0, 0, 1, 1, 2, 2])
    state.select(owner)  # before anything was heard
    history = torch.randint(29, (6, 1))
    for keep in ([0, 1, 2, 3, 4, 5], [1, 1, 3, 2, 4, 4], [0, 3, 2, 5], [3, 1], [1, 1, 1], [0]):
        hidden = model.decode(history[:, -1:], state=state)
        for place, row in enumerate(owner.tolist()):
            expected = alone(model, source, row, history[place])[-1:]
            torch.testing.assert_close(hidden[place], expected, **NEAR)
        rows = torch.tensor(keep)
        state.select(rows)
        owner = owner[rows]
        history = torch.cat([history[rows], torch.randint(29, (len(keep), 1))], dim=1)
    assert history.shape == (1, 7)


@each_case
@torch.no_grad()
def test_forced_prefixes_of_different_lengths(case: Case) -> None:
    model, source, memory = listening(case)
    lengths = torch.tensor([2, 5, 1])
    ids, valid = torch.randint(29, (3, 5)), valid_mask(torch.tensor([2, 5, 1]), 5)
    state = model.new_state(3, memory)
    first = model.decode(ids, valid, state=state)
    follow = torch.randint(29, (3, 2))
    steps = torch.cat([model.decode(follow[:, t : t + 1], state=state) for t in range(2)], dim=1)
    for row, length in enumerate(lengths.tolist()):
        expected = alone(model, source, row, torch.cat([ids[row, :length], follow[row]]))
        torch.testing.assert_close(first[row, :length], expected[:length], **NEAR)
        torch.testing.assert_close(steps[row], expected[length:], **NEAR)


@each_case
@torch.no_grad()
def test_going_back_keeps_what_was_heard(case: Case) -> None:
    model, source, memory = listening(case)
    ids = torch.randint(29, (3, 6))
    state = model.new_state(3, memory)
    empty = state.snapshot()
    model.decode(ids[:, :2], state=state)
    saved = state.snapshot()
    model.decode(torch.randint(29, (3, 3)), state=state)
    state.restore(saved)
    late = model.decode(ids[:, 2:], state=state)
    state.restore(empty)
    whole = model.decode(ids, state=state)
    for row in range(3):
        expected = alone(model, source, row, ids[row])
        torch.testing.assert_close(late[row], expected[2:], **NEAR)
        torch.testing.assert_close(whole[row], expected, **NEAR)


@each_case
@torch.no_grad()
def test_what_was_heard_is_written_down_too(case: Case) -> None:
    model, source, memory = listening(case)
    ids = torch.randint(29, (3, 6))
    state = model.new_state(3, memory)
    model.decode(ids[:, :2], state=state)
    other = model.new_state(3)
    other.load({name: tensor.clone() for name, tensor in state.tensors().items()})
    late = model.decode(ids[:, 2:], state=other)
    for row in range(3):
        torch.testing.assert_close(late[row], alone(model, source, row, ids[row])[2:], **NEAR)
    empty = model.new_state(3, memory)
    again = model.new_state(3, memory)
    again.load(empty.tensors())
    torch.testing.assert_close(model.decode(ids, state=again), model.decode(ids, state=empty), **NEAR)


@torch.no_grad()
def test_truncated_to_nothing_it_starts_anew() -> None:
    model, source, memory = listening(CASES[0])
    state = model.new_state(3, memory)
    model.decode(torch.randint(29, (3, 4)), state=state)
    state.truncate(torch.zeros(3, dtype=torch.long))
    ids = torch.randint(29, (3, 4))
    hidden = model.decode(ids, state=state)
    for row in range(3):
        torch.testing.assert_close(hidden[row], alone(model, source, row, ids[row]), **NEAR)


@each_case
def test_gradients_reach_the_encoder_through_a_state(case: Case) -> None:
    model, source, _ = listening(case)
    ids, valid = torch.randint(29, (3, 4)), valid_mask(SOURCES, 7)
    weights = list(model.parameters())
    whole = torch.autograd.grad(
        model.decode(ids, memory=model.encode(source, valid)).square().sum(), weights, materialize_grads=True
    )
    state = model.new_state(3, model.encode(source, valid))
    hidden = torch.cat([model.decode(ids[:, t : t + 1], state=state) for t in range(4)], dim=1)
    steps = torch.autograd.grad(hidden.square().sum(), weights, materialize_grads=True)
    for one, other in zip(steps, whole):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@each_case
@torch.no_grad()
def test_padding_of_the_source_changes_nothing_to_the_bit(case: Case) -> None:
    model, source, memory = listening(case)
    valid, ids = valid_mask(SOURCES, 7), torch.randint(29, (3, 4))
    other = model.encode(torch.where(valid, source, (source + 1) % 29), valid)
    assert torch.equal(other.values[valid], memory.values[valid])
    assert torch.equal(model.decode(ids, memory=other), model.decode(ids, memory=memory))


@torch.no_grad()
def test_an_empty_source_is_heard_as_nothing() -> None:
    """A row of padding only: cross-attention gives its bias there, and nothing is NaN."""
    model, source, _ = listening(CASES[0])
    memory = model.encode(source, valid_mask(torch.tensor([7, 0, 5]), 7))
    assert model.decode(torch.randint(29, (3, 4)), memory=memory).isfinite().all()


def test_a_decoder_with_nothing_to_hear_says_so() -> None:
    model, _, _ = listening(CASES[0])
    ids = torch.randint(29, (3, 4))
    with pytest.raises(ValueError, match=r"pass memory=model.encode"):
        model.decode(ids)
    with pytest.raises(ValueError, match=r"pass memory=model.encode"):
        model.decode(ids, state=model.new_state(3))
