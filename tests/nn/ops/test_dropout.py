"""Dropout by a hash, and by few bits: as good as PyTorch's, in the ways that matter."""

from collections.abc import Callable

import pytest
import torch

from headway.nn.ops.dropout import CompiledReluDropout, Dropout, hashed_dropout, random_dropout

WAYS = pytest.mark.parametrize("way", [hashed_dropout, random_dropout])
Way = Callable[[torch.Tensor, float], torch.Tensor]


@WAYS
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_so_many_are_dropped_and_the_mean_stays(way: Way, p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(400, 500)
    kept = way(x, p)
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)], rel=1e-4)
    assert (kept == 0).double().mean().item() == pytest.approx(p, abs=0.004)  # 4 deviations of 200,000 draws
    for axis in (0, 1):  # and as many in every row and column
        share = (kept == 0).double().mean(axis)
        assert share.std().item() == pytest.approx((p * (1 - p) / x.shape[axis]) ** 0.5, rel=0.15)


@WAYS
def test_neighbours_rows_and_draws_know_nothing_of_each_other(way: Way) -> None:
    torch.manual_seed(1)
    x = torch.ones(512, 512)
    first, second = ((way(x, 0.5) == 0).double() - 0.5 for _ in range(2))
    for one, other in [
        (first, second),
        (first[1:], first[:-1]),
        (first[:, 1:], first[:, :-1]),
        (first[:, 64:], first[:, :-64]),
        (first[256:], first[:256]),
    ]:
        assert abs((one * other).mean().item() * 4) < 0.01  # a correlation; 5 deviations of 260,000


@WAYS
def test_gradients_go_where_values_went(way: Way) -> None:
    x = torch.randn(30, 41, requires_grad=True)
    y = way(x, 0.3)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad == 0, y == 0) and grad.max().item() == pytest.approx(1 / 0.7, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [1e-9, 0.4, 1 - 1e-9])
def test_what_is_drawn_follows_from_the_seed(dtype: torch.dtype, p: float) -> None:
    x, found = torch.ones(7, 9, dtype=dtype), []
    for seed in (4, 4, 5):
        torch.manual_seed(seed)
        found.append(random_dropout(x, p))
    assert found[0].dtype == dtype and torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2]) == (p != 0.4)  # next to nothing is dropped, or next to everything


def test_nothing_is_dropped_where_nothing_is_learned() -> None:
    x, layer = torch.randn(5, 5), Dropout(0.5)
    assert torch.equal(layer.eval()(x), x)
    assert (layer.train()(x) == 0).any()
    assert Dropout(0.0).train()(x) is x


def test_a_dropped_relu_is_relu_and_dropout_with_their_gradients() -> None:
    x, g = (torch.randn(50, 60, dtype=torch.float64, requires_grad=True) for _ in range(2))
    found = []
    for function in (lambda: CompiledReluDropout.apply(x, 0.3), lambda: torch.nn.functional.dropout(x.relu(), 0.3)):
        torch.manual_seed(3)
        y = function()
        found.append((y, torch.autograd.grad(y, x, g.detach())[0]))
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
