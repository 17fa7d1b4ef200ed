"""Kolmogorov-Arnold feed-forwards: the numbers of efficient-kan; what its bases are, what it refuses, and that its
products go through the model's linear layers."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import Context
from headway.nn.layers.bitlinear import BitLinear
from headway.nn.layers.int8 import Int8Linear, quantise_model
from headway.nn.layers.kan import KAN
from headway.nn.layers.linear import ScaledDense
from headway.nn.ops.splines import spline_bases
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.train.muon import Muon

EXACT = {"rtol": 0.0, "atol": 1e-12}


def feedforward(d_model: int = 16, linear: str = "dense", **settings: Any) -> KAN:
    scope = Scope(d_model=d_model, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", linear))
    torch.manual_seed(3)
    module = KAN(KAN.Config(**settings), scope).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return module


def context(x: Tensor) -> Context:
    return Context(positions_from_start(x.shape[1], None, x.device))


def golden_feedforward() -> tuple[KAN, dict[str, Tensor], dict[str, Any]]:
    tensors, config = golden("kan")
    width, hidden, _ = config["layers"]
    low, high = config["grid_range"]
    module = feedforward(
        width, hidden=hidden, grid=config["grid_size"], order=config["spline_order"], low=low, high=high
    )
    weights = {}
    for number, name in enumerate(("inner", "outer")):
        place = f"w.layers.{number}"
        weights[f"{name}.base.weight"] = tensors[f"{place}.base_weight"]
        weights[f"{name}.spline.weight"] = tensors[f"{place}.spline_weight"].flatten(1)
        weights[f"{name}.spline.scaler"] = tensors[f"{place}.spline_scaler"][..., None]
    module.load_state_dict(weights, strict=True)
    return module, tensors, config


def test_it_computes_the_numbers_of_efficient_kan() -> None:
    module, tensors, config = golden_feedforward()
    x, (low, high) = tensors["in.x"], config["grid_range"]
    bases = spline_bases(x, config["grid_size"], config["spline_order"], low, high)
    torch.testing.assert_close(bases, tensors["out.bases"], **EXACT)
    torch.testing.assert_close(module.inner(x), tensors["out.layer0"], **EXACT)
    torch.testing.assert_close(module(x, context(x)), tensors["out.net"], **EXACT)


def recursion(x: Tensor, knots: Tensor, k: int, order: int) -> Tensor:
    """Basis k of this degree, as textbooks write it, over any knots."""
    if order == 0:
        return ((knots[k] <= x) & (x < knots[k + 1])).to(x.dtype)
    rising = (x - knots[k]) / (knots[k + order] - knots[k])
    falling = (knots[k + order + 1] - x) / (knots[k + order + 1] - knots[k + 1])
    return rising * recursion(x, knots, k, order - 1) + falling * recursion(x, knots, k + 1, order - 1)


@pytest.mark.parametrize(("grid", "order", "low", "high"), [(1, 1, -1.0, 1.0), (5, 3, -1.0, 1.0), (4, 2, 0.5, 3.5)])
def test_bases_are_those_of_the_recursion(grid: int, order: int, low: float, high: float) -> None:
    """Values, gradients, and what holds of B-splines: they sum to 1 inside, and vanish beyond the continued knots."""
    step = (high - low) / grid
    knots = low + step * torch.arange(-order, grid + order + 1, dtype=torch.float64)
    x = torch.linspace(knots[0].item() - 1, knots[-1].item() + 1, 173, dtype=torch.float64, requires_grad=True)
    found = spline_bases(x, grid, order, low, high)
    expected = torch.stack([recursion(x, knots, k, order) for k in range(grid + order)], dim=-1)
    torch.testing.assert_close(found, expected, **EXACT)
    towards = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((bases * towards).sum(), x)[0] for bases in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    inside = (x >= low) & (x < high)
    torch.testing.assert_close(found[inside].sum(-1), torch.ones_like(x[inside]), **EXACT)
    outside = (x < knots[0]) | (x >= knots[-1])
    assert outside.any() and (found[outside] == 0).all()


def test_bases_are_computed_in_float32_at_least() -> None:
    """In bfloat16 the distance to a knot would have three digits."""
    x = torch.linspace(-1.5, 1.5, 301).bfloat16()
    exact = spline_bases(x.double(), 5, 3, -1.0, 1.0)
    assert spline_bases(x, 5, 3, -1.0, 1.0).dtype == torch.bfloat16
    torch.testing.assert_close(spline_bases(x, 5, 3, -1.0, 1.0), exact.bfloat16(), rtol=2**-8, atol=1e-6)


def test_far_inputs_pass_through_the_base_alone() -> None:
    module = feedforward(hidden=7)
    x = torch.full((1, 2, 16), 5.0, dtype=torch.float64)
    torch.testing.assert_close(module.inner(x), module.inner.base(torch.nn.functional.silu(x)), **EXACT)


def test_gradients_reach_everything() -> None:
    module, tensors, _ = golden_feedforward()
    x = tensors["in.x"]
    module(x, context(x)).square().sum().backward()
    assert len(list(module.parameters())) == 6
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 1e-3, name


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_a_folded_scaler_changes_nothing(name: str) -> None:
    module, _, _ = golden_feedforward()
    spline = getattr(module, name).spline
    assert isinstance(spline, ScaledDense)
    x = torch.randn(3, spline.weight.shape[1], dtype=torch.float64)
    torch.testing.assert_close(spline.fold()(x), spline(x), **EXACT)
    groups = spline.scaler.shape[1]
    longhand = torch.einsum(
        "ng,og->no", x, spline.weight * spline.scaler[..., 0].repeat_interleave(x.shape[1] // groups, 1)
    )
    torch.testing.assert_close(spline(x), longhand, **EXACT)


@torch.no_grad()
def test_eight_bits_reach_the_splines() -> None:
    model = Transformer(small(decoder=0, sides={"feedforward": "kan(24)"})).eval()
    part = quantise_model(model).stacks["encoder"].blocks[0].sublayers["feedforward"]  # type: ignore[union-attr, index]
    layers = [part.inner.base, part.inner.spline, part.outer.base, part.outer.spline]  # type: ignore[union-attr]
    assert all(isinstance(layer, Int8Linear) for layer in layers)


def test_bitnet_reaches_the_splines() -> None:
    module = feedforward(linear="bitnet", hidden=7)
    assert all(isinstance(layer, BitLinear) for layer in (module.inner.base, module.inner.spline))
    assert not any(name.endswith("scaler") for name, _ in module.named_parameters())


def test_muon_leaves_the_scaler_to_adam() -> None:
    model = Transformer(small(decoder=0, sides={"feedforward": "kan(24)"}))
    muon, *_ = make_part("optimiser", "muon").build(model)  # type: ignore[attr-defined]
    assert isinstance(muon, Muon)
    taken = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {
        name.rpartition(".")[2] for name, p in model.named_parameters() if "feedforward" in name and id(p) in taken
    }
    assert names == {"weight"}


def test_derived_values() -> None:
    resolved = small(decoder=0, sides={"feedforward": "kan"}).resolved().encoder.feedforward[0]
    assert (resolved.hidden, resolved.scaler, resolved.dropout) == (8, True, 0.0)  # 4 · 16 / 9, rounded up
    bits = small(decoder=0, sides={"feedforward": "kan"}, linear="bitnet").resolved().encoder.feedforward[0]
    assert bits.scaler is False


@pytest.mark.parametrize(
    ("settings", "linear", "message"),
    [
        ("low=1.0, high=1.0", "dense", "low = 1.0 is not below high = 1.0"),
        ("low=-1e308, high=1e308", "dense", "by a finite distance"),
        ("scaler=true", "bitnet", 'which linear = "bitnet" rounds. Set scaler = false'),
        ("grid=0", "dense", "at least 1"),
        ("order=0", "dense", "at least 1"),
    ],
)
def test_what_is_refused(settings: str, linear: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(decoder=0, sides={"feedforward": f"kan({settings})"}, linear=linear).resolved()
