"""Luong's local attention: the numbers of a loop over its definition, and some that were worked out by hand. No other
implementation was at hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.nn.context import Context
from headway.nn.masks.masks import FULL
from headway.nn.ops.local_window import count_keys, gaussian, within_window
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import valid_mask
from parity.mixing import identity, make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def defined(module: Any, x: Tensor, y: Tensor, heads: int, length: int) -> tuple[Tensor, Tensor]:
    """Weights and centres of one row x (T, d) over `length` keys of y, number by number; length 0: up to itself."""
    c = module.config
    q, k, h = (
        (layer(z).view(len(z), heads, -1)) for layer, z in ((module.query, x), (module.key, y), (module.centre, x))
    )
    weights, centres = torch.zeros(heads, len(x), len(y)).double(), torch.zeros(heads, len(x)).double()
    for i in range(heads):
        for t in range(len(x)):
            seen = length or t + 1
            p = seen * torch.sigmoid((module.to_centre[i, :, 0] * torch.tanh(h[t, i])).sum())
            inside = [s for s in range(seen) if abs(s - p) <= c.max_distance]
            scores = torch.stack([(q[t, i] * k[s, i]).sum() / math.sqrt(q.shape[-1]) for s in inside])
            for s, share in zip(inside, scores.softmax(0)):
                weights[i, t, s] = share * torch.exp(-((s - p) ** 2) / (2 * (c.max_distance / 2) ** 2))
            centres[i, t] = p
    return weights, centres


def test_it_is_the_definition_over_a_source() -> None:
    """Each row by its own length: padding is no part of S."""
    module = make_mixer("luong_local(2, max_distance=2)", 8)
    x, y = (torch.randn(3, length, 8, dtype=torch.float64) for length in (4, 9))
    lengths = [9, 5, 1]
    found = run_mixer(module, x, source=y, valid=valid_mask(torch.tensor(lengths), 9)).trace
    for row, length in enumerate(lengths):
        weights, centres = defined(module, x[row], y[row], 2, length)
        torch.testing.assert_close(found["weights"][row], weights, **EXACT)
        torch.testing.assert_close(found["centre"][row], centres, **EXACT)


@pytest.mark.parametrize(("mask", "length"), [("causal", 0), ("full", 7)])
def test_it_is_the_definition_over_itself(mask: str, length: int) -> None:
    """Where the future is hidden, S is the number of keys up to the query."""
    module = make_mixer("luong_local(2, max_distance=3)", 8)
    x = torch.randn(1, 7, 8, dtype=torch.float64)
    found = run_mixer(module, x, mask=mask).trace
    weights, centres = defined(module, x[0], x[0], 2, length)
    torch.testing.assert_close(found["weights"][0], weights, **EXACT)
    torch.testing.assert_close(found["centre"][0], centres, **EXACT)


def test_numbers_by_hand() -> None:
    """All scores equal, S = 9 and D = 2. With sigmoid(0) = 1/2 the centre is 4.5: keys 3, 4, 5 and 6 share the softmax,
    and lie 1.5, 0.5, 0.5 and 1.5 away, with σ = 1: weights exp(-1.125) / 4 and exp(-0.125) / 4."""
    module = make_mixer("luong_local(1, max_distance=2, bias=false)", 4)
    for layer in (module.query, module.centre):
        nn.init.zeros_(layer.weight)
    x, y = torch.ones(1, 1, 4).double(), torch.randn(1, 9, 4).double()
    near, far = math.exp(-0.125) / 4, math.exp(-1.125) / 4
    weights = run_mixer(module, x, source=y).trace["weights"]
    expected = torch.tensor([0, 0, 0, far, near, near, far, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(weights[0, 0, 0], expected, **EXACT)


def test_monotonic_is_a_window_around_the_own_position_without_a_gaussian() -> None:
    """Of a source that is shorter than the target, the last window: D = 1, S = 3."""
    module = make_mixer("luong_local(1, max_distance=1, centre='monotonic', bias=false)", 4)
    nn.init.zeros_(module.query.weight)
    module.load_state_dict(module.state_dict() | {"value.weight": identity(4), "output.weight": identity(4)})
    assert [name for name, _ in module.named_parameters()] == [
        "query.weight",
        "key.weight",
        "value.weight",
        "output.weight",
    ]
    x, y = torch.randn(1, 5, 4).double(), torch.randn(1, 4, 4).double()
    found = run_mixer(module, x, source=y, valid=valid_mask(torch.tensor([3]), 4))
    half, third = 1 / 2, 1 / 3
    rows = [[half, half, 0, 0], [third, third, third, 0], [0, half, half, 0], [0, half, half, 0], [0, half, half, 0]]
    torch.testing.assert_close(found.trace["weights"][0, 0], torch.tensor(rows, dtype=torch.float64), **EXACT)
    torch.testing.assert_close(found.output[0, 2], (y[0, 1] + y[0, 2]) / 2, **EXACT)


def test_the_centre_learns_from_the_gaussian() -> None:
    """Its gradient is that of the Gaussian, by torch's numerical check; the window has none."""
    centre = torch.rand(1, 2, 3, 1, dtype=torch.float64, requires_grad=True)
    keys = torch.arange(5)[None]
    assert torch.autograd.gradcheck(lambda p: gaussian(p, keys, 3), (centre,))
    assert not within_window(centre, keys, 3).requires_grad


def test_packed_texts_have_lengths_of_their_own() -> None:
    index = torch.tensor([[0, 0, 0, 1, 1, 1]], dtype=torch.int32)
    starts, ends = torch.tensor([0, 3], dtype=torch.int32), torch.tensor([3, 5], dtype=torch.int32)
    positions, valid = torch.tensor([[0, 1, 2, 0, 1, 2]]), torch.arange(6)[None] < 5
    packed = positions_from_start(
        6, PackedPositions(positions, valid, PackedTexts(index, starts, ends), 3), index.device
    )
    assert count_keys(packed, packed).tolist() == [[3, 3, 3, 2, 2, 2]]
    plain = positions_from_start(4, valid_mask(torch.tensor([4, 1]), 4), index.device)
    assert count_keys(Context(plain, mask=FULL).queries, plain).tolist() == [[4], [1]]


def test_far_keys_keep_their_place_in_bfloat16() -> None:
    """bfloat16 has 8 bits: a centre near 1000 would be off by 4 if it were rounded."""
    module = make_mixer("luong_local(1, max_distance=2, bias=false)", 4).bfloat16()
    x, y = torch.randn(1, 3, 4).bfloat16(), torch.randn(1, 1200, 4).bfloat16()
    nn.init.constant_(module.to_centre, 0.75)
    trace = run_mixer(module, x, source=y).trace
    assert trace["centre"].dtype == torch.float32
    for t in range(3):
        seen = trace["weights"][0, 0, t].nonzero()[:, 0]
        assert 3 <= len(seen) <= 5 and (seen - trace["centre"][0, 0, t]).abs().max() <= 2


def test_odd_heads_cannot_be_rotated() -> None:
    assert refusal("luong_local(4, d_k=3)", position="rope").where == "decoder.position"
