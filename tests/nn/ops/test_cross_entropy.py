"""The loss in pieces, as it is learned on the CPU, equals its definition."""

import pytest
import torch

from headway.nn.ops import cross_entropy


@pytest.mark.parametrize("rows", [1, 50, 1000])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_pieces_equal_the_whole(smoothing: float, biased: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cross_entropy.LOGITS_PER_CHUNK, "cpu", 97 * rows)
    torch.manual_seed(0)
    x, weight = torch.randn(60, 32), torch.randn(97, 32)
    bias = torch.randn(97) if biased else None
    labels = torch.randint(0, 97, (60,))
    labels[::7] = cross_entropy.IGNORE_INDEX
    parts = [part.requires_grad_() for part in (x, weight, bias) if part is not None]
    found = []
    for function in (cross_entropy.linear_cross_entropy, cross_entropy.naive):
        loss = function(x, weight, bias, labels, smoothing)
        found.append((loss, *torch.autograd.grad(loss * 0.3, parts)))
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_in_float64_it_is_exact(smoothing: float) -> None:
    """By hand: the mean of a label is 1 - ε for itself, and ε is shared by all words."""
    x, weight, bias = (torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in ((4, 3), (7, 3), (7,)))
    labels = torch.tensor([2, cross_entropy.IGNORE_INDEX, 0, 6])
    loss = cross_entropy.linear_cross_entropy(x, weight, bias, labels, smoothing)
    logps = (x @ weight.T + bias).log_softmax(-1)[labels >= 0]
    wanted = torch.full((3, 7), smoothing / 7, dtype=torch.float64)
    wanted[torch.arange(3), labels[labels >= 0]] += 1 - smoothing
    torch.testing.assert_close(loss, -(wanted * logps).sum(), rtol=1e-14, atol=0)
    loss_of = lambda *parts: cross_entropy.linear_cross_entropy(*parts, labels, smoothing)  # noqa: E731
    assert torch.autograd.gradcheck(loss_of, (x, weight, bias))


def test_without_labels_nothing_is_lost_and_nothing_moves() -> None:
    x, weight = torch.randn(5, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    loss = cross_entropy.linear_cross_entropy(x, weight, None, torch.full((5,), cross_entropy.IGNORE_INDEX))
    loss.backward()
    assert loss.item() == 0
    assert not x.grad.any() and not weight.grad.any()
