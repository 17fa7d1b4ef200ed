"""Worked example 7: attention without residuals and feed-forward collapses towards rank one with depth; with them it
does not. The measure is that of Dong et al. 2021."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import headway
from headway.inspect.rank_collapse import measure_collapse, measure_trace_collapse, rank_one_distance

SEEDS = (0, 1, 2)
BOTH = ("attention", "feedforward")


def test_the_measure() -> None:
    """0 where all places are the same, 1 where their mean is 0, the same however large the numbers are."""
    row = torch.randn(8, dtype=torch.float64)
    assert rank_one_distance(row.expand(5, 8)) < 1e-15
    x = torch.randn(5, 8, dtype=torch.float64)
    assert rank_one_distance(x - x.mean(0)) == pytest.approx(1)
    assert rank_one_distance(1000 * x) == pytest.approx(rank_one_distance(x))
    by_hand = torch.tensor([[3.0, 0.0], [1.0, 2.0]])  # mean (2, 1), left (1, -1), (-1, 1)
    assert rank_one_distance(by_hand) == pytest.approx(math.sqrt(2 * 2) / math.sqrt(4 * 3))


@pytest.mark.parametrize("seed", SEEDS)
def test_bare_attention_collapses_doubly_exponentially(seed: int) -> None:
    distances = measure_collapse(("attention",), "none", layers=8, seed=seed)
    assert distances[0] > 0.9
    assert distances[-1] < 1e-14
    above = [d for d in distances if d > 1e-12]  # below it only rounding is left
    assert len(above) >= 4
    assert all(after < before for before, after in pairwise(above))
    # Not only smaller with each layer, but by a larger factor each time.
    factors = [before / after for before, after in pairwise(above)]
    assert all(later > 2 * earlier for earlier, later in pairwise(factors))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_feedforward_alone_does_not_help(seed: int) -> None:
    assert measure_collapse(BOTH, "none", layers=8, seed=seed)[-1] < 1e-14


@pytest.mark.parametrize("seed", SEEDS)
def test_residuals_and_feedforward_stop_it(seed: int) -> None:
    """The six layers of the paper, and a deep stack with the norm before the sub-layer."""
    assert measure_collapse(BOTH, "post", layers=6, seed=seed)[-1] > 0.15
    deep = measure_collapse(BOTH, "pre", layers=24, seed=seed)
    assert deep[-1] > 0.15
    assert deep[-1] > 0.5 * deep[12], "what is lost is lost early"
    assert measure_collapse(("attention",), "pre", layers=24, seed=seed)[-1] > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_norm_after_the_sublayer_only_slows_it(seed: int) -> None:
    """Before training, a deep post-norm stack loses its differences too: by a steady factor a layer."""
    distances = measure_collapse(BOTH, "post", layers=24, seed=seed)
    assert 1e-5 < distances[-1] < 0.01


def test_chance_is_left_as_it_was() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = measure_collapse(layers=1)
    torch.testing.assert_close(torch.rand(3), expected)
    assert measure_collapse(layers=1) == first
    assert measure_collapse(layers=1, seed=1) != first


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_trained_translator_does_not_collapse(translator_dir: Path, side: str) -> None:
    trace = headway.load(translator_dir).trace("The dog sees a red house.")
    distances = measure_trace_collapse(trace, side)
    inner = ["self", "feedforward"] if side == "encoder" else ["self", "cross", "feedforward"]
    assert list(distances) == [f"{side}.embedded", *(f"{side}.0.{name}" for name in inner)]
    assert min(distances.values()) > 0.5
    embedded = trace.tensors[f"{side}.embedded"].double()
    assert distances[f"{side}.embedded"] == rank_one_distance(embedded)
