"""The scan: both forms are the recurrence itself, with their gradients, whatever the length and the decays; it is exact
over long texts, keeps no more than a and h, and takes far fewer steps than there are tokens."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.nn.ops import scan as scan_module
from headway.nn.ops.scan import MAX_ONE_CHUNK_TOKENS, MAX_RECURRENT_TOKENS, chunked, recurrent, scan

NEAR = {"rtol": 0.0, "atol": 1e-12}
LENGTHS = [1, 2, 7, MAX_ONE_CHUNK_TOKENS, MAX_ONE_CHUNK_TOKENS + 1, 64, 101]
SHAPES = {"each its own": (2, 0, 3, 2), "constant": (1, 1, 1, 1), "a channel": (1, 1, 3, 1), "a token": (2, 0, 1, 1)}


def inputs(length: int, decays: str = "each its own", initial: bool = True) -> dict[str, Any]:
    shape = [size or length for size in SHAPES[decays]]
    return {
        "a": torch.rand(shape, dtype=torch.float64),
        "b": torch.randn(2, length, 3, 2, dtype=torch.float64),
        "initial": torch.randn(2, 3, 2, dtype=torch.float64) if initial else None,
    }


def defined(a: Tensor, b: Tensor, initial: Tensor | None) -> Tensor:
    """Each state as a sum over all earlier tokens, with the products of the decays between."""
    a = a.expand_as(b)
    states = []
    for t in range(b.shape[1]):
        terms = [a[:, s + 1 : t + 1].prod(1) * b[:, s] for s in range(t + 1)]
        terms += [] if initial is None else [a[:, : t + 1].prod(1) * initial]
        states.append(torch.stack(terms).sum(0))
    return torch.stack(states, 1)


@pytest.mark.parametrize("initial", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize("decays", SHAPES)
@pytest.mark.parametrize("length", [1, 2, 41])
def test_every_form_is_the_definition(length: int, decays: str, initial: bool) -> None:
    given = inputs(length, decays, initial)
    expected = defined(**given)
    for states, final in (recurrent(**given), chunked(**given), scan(**given)):
        torch.testing.assert_close(states, expected, **NEAR)
        torch.testing.assert_close(final, expected[:, -1], **NEAR)


def gradients(form: Any, given: dict[str, Any], *, of_final: bool = True) -> tuple[Tensor, ...]:
    leaves = [x.detach().clone().requires_grad_() for x in given.values() if x is not None]
    states, final = scan(*leaves, form=form)
    generator = torch.Generator().manual_seed(4)
    towards = torch.randn(states.shape, dtype=torch.float64, generator=generator)
    loss = (states * towards).sum() + (final.square().sum() if of_final else 0)
    return states, final, *torch.autograd.grad(loss, leaves)


@pytest.mark.parametrize("of_final", [False, True])
@pytest.mark.parametrize("decays", SHAPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_forms_are_equal_with_their_gradients(length: int, decays: str, of_final: bool) -> None:
    given = inputs(length, decays)
    expected = gradients("recurrent", given, of_final=of_final)
    for form in ("chunked", "auto"):
        torch.testing.assert_close(gradients(form, given, of_final=of_final), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0, 1e-300], ids=["0", "1", "-1", "tiny"])
@pytest.mark.parametrize("length", [5, 64, 101])
def test_no_decay_is_divided_by(length: int, decay: float) -> None:
    """Everywhere, and here and there: where it is 0 a state starts anew, and the gradient of a decay is not lost."""
    for everywhere in (True, False):
        given = inputs(length)
        where = torch.ones(length, dtype=torch.bool) if everywhere else torch.arange(length) % 5 == 2
        given["a"][:, where] = decay
        expected = gradients("recurrent", given)
        torch.testing.assert_close(gradients("chunked", given), expected, rtol=1e-11, atol=1e-11)
        if decay == 0:
            assert torch.equal(expected[0][:, where], given["b"][:, where])


def test_gradients_are_those_of_finite_differences_twice() -> None:
    leaves = [torch.rand(1, *shape, dtype=torch.float64, requires_grad=True) for shape in ((40, 1), (40, 2), (2,))]
    assert torch.autograd.gradcheck(chunked, leaves)
    assert torch.autograd.gradgradcheck(chunked, leaves)


def test_parts_follow_each_other() -> None:
    given = inputs(101)
    whole, last = scan(**given)
    state, parts = given["initial"], []
    for start, end in ((0, 1), (1, 40), (40, 90), (90, 101)):
        states, state = scan(given["a"][:, start:end], given["b"][:, start:end], state)
        parts.append(states)
    torch.testing.assert_close(torch.cat(parts, 1), whole, **NEAR)
    torch.testing.assert_close(state, last, **NEAR)


@pytest.mark.parametrize("form", ["recurrent", "chunked"])
def test_a_token_with_decay_1_and_nothing_to_add_is_not_there(form: Any) -> None:
    given = inputs(60)
    real = torch.arange(60) % 3 != 1
    given["a"][:, ~real], given["b"][:, ~real] = 1.0, 0.0
    states, final = scan(**given, form=form)
    expected, last = recurrent(given["a"][:, real], given["b"][:, real], given["initial"])
    torch.testing.assert_close(states[:, real], expected, **NEAR)
    torch.testing.assert_close(final, last, **NEAR)


def test_auto_goes_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for name in ("recurrent", "chunked"):
        form = getattr(scan_module, name)
        monkeypatch.setattr(scan_module, name, lambda *given, n=name, f=form: (called.append(n), f(*given))[1])
    for length in (1, MAX_RECURRENT_TOKENS, MAX_RECURRENT_TOKENS + 1):
        scan(**inputs(length))
    assert called == ["recurrent", "recurrent", "chunked"]


def test_long_texts_stay_exact_in_float32() -> None:
    a, b = 1 - 0.01 * torch.rand(1, 5000, 4, dtype=torch.float64), torch.randn(1, 5000, 4, dtype=torch.float64)
    expected, _ = recurrent(a, b)
    states, _ = scan(a.float(), b.float())
    assert (states.double() - expected).norm() / expected.norm() < 1e-5


def test_bfloat16_keeps_states_in_float32() -> None:
    """A decay near 1 is 1 in bfloat16, and a sum of many small terms stops growing."""
    a, b = torch.full((1, 1, 1), 0.999), torch.full((1, 4000, 1), 0.01, dtype=torch.bfloat16)
    states, final = scan(a, b)
    assert states.dtype == torch.bfloat16 and final.dtype == torch.float32
    assert float(final) == pytest.approx(float(recurrent(a.double(), b.double())[1]), rel=1e-4)


class Operations(TorchDispatchMode):
    """Counts operations, and notes the largest tensor that any of them made."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.largest = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        result = func(*args, **(kwargs or {}))
        self.largest = max(self.largest, result.numel() if isinstance(result, Tensor) else 0)
        return result


def test_steps_grow_with_the_root_of_the_length_and_tensors_with_the_length() -> None:
    counts = []
    for length in (1000, 16_000):
        a, b = (torch.rand(1, length, 2, requires_grad=True) for _ in range(2))
        with Operations() as seen:
            scan(a, b)[0].sum().backward()
        counts.append(seen.count)
        assert seen.largest <= 2 * length
    assert counts[1] < 5 * counts[0] and counts[1] < 16_000 / 4


def test_the_backward_pass_keeps_decays_and_states_alone() -> None:
    a, b = (torch.rand(1, 500, 8, requires_grad=True) for _ in range(2))
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x), x)[1], lambda x: x):
        scan(a, b)
    assert sum(x.numel() for x in kept) <= 2 * 500 * 8 + 8


def test_the_last_state_keeps_no_others_in_memory() -> None:
    _, final = scan(**inputs(100))
    assert final.untyped_storage().nbytes() == final.nbytes
