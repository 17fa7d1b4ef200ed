"""BitNet's rounding, linear layer and packing against Hugging Face's. Theirs rounds in float32 whatever it is given."""

import importlib
from unittest import mock

import pytest
import torch
from torch import Tensor

from headway.nn.layers.bitlinear import (
    BitLinear,
    pack_ternary,
    packed_state_dict,
    round_to_int8,
    round_to_ternary,
    unpack_ternary,
)

with mock.patch("torch.compile", lambda function: function):  # it takes seconds, and warns of itself
    theirs = importlib.import_module("transformers.integrations.bitnet")

NEAR = {"rtol": 1e-5, "atol": 1e-5}


def straight(rounded: tuple[Tensor, Tensor]) -> Tensor:
    numbers, scale = rounded
    return numbers * scale


@pytest.mark.parametrize("size", [1e-7, 0.02, 1.0, 300.0])
def test_rounding(size: float) -> None:
    """Sizes below their smallest scale too."""
    for ours, function in ((round_to_ternary, theirs.WeightQuant), (round_to_int8, theirs.ActQuant)):
        x = (torch.randn(3, 40, 64) * size).requires_grad_()
        expected = function.apply(x)
        torch.testing.assert_close(straight(ours(x)), expected, rtol=1e-5, atol=1e-5 * size)
        assert expected.detach().abs().max() > 0 or size < 1e-6
        towards = torch.randn_like(x)
        (one,), (other,) = (torch.autograd.grad((y * towards).sum(), x) for y in (straight(ours(x)), expected))
        torch.testing.assert_close(one, other, **NEAR)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "normed"])
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
def test_a_layer_and_its_gradients(norm: bool, bias: bool) -> None:
    reference = theirs.AutoBitLinear(64, 40, bias=bias, online_quant=True, use_rms_norm=norm, rms_norm_eps=1e-6)
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, parameter.mean().item(), 0.3)
    ours = BitLinear(BitLinear.Config(norm="rmsnorm(1e-6)" if norm else "none"), 64, 40, bias=bias)
    names = {"weight": "weight", "bias": "bias", "norm.gain": "rms_norm.weight"}
    state = reference.state_dict()
    ours.load_state_dict({name: state[names[name]] for name in ours.state_dict()})
    x = torch.randn(2, 7, 64, requires_grad=True)
    towards = torch.randn(2, 7, 40)
    outputs, gradients = [], []
    for layer in (ours, reference):
        outputs.append(layer(x))
        gradients.append(torch.autograd.grad((outputs[-1] * towards).sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(*outputs, **NEAR)
    wanted = dict(zip(["x", *dict(reference.named_parameters())], gradients[1]))
    found = dict(zip(["x", *dict(ours.named_parameters())], gradients[0]))
    assert len(found) == len(wanted) == 2 + norm + bias
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[names.get(name, name)], **NEAR)


@pytest.mark.parametrize("outputs", [4, 40, 100])
def test_packing(outputs: int) -> None:
    weight = torch.randint(-1, 2, (outputs, 24)).float()
    packed = theirs.pack_weights(weight.clone())  # theirs adds one to what it is given
    assert torch.equal(pack_ternary(weight), packed)
    assert torch.equal(unpack_ternary(packed, outputs), theirs.unpack_weights(packed, dtype=torch.float32))


@torch.no_grad()
def test_a_packed_layer() -> None:
    whole = BitLinear(BitLinear.Config(), 64, 40)
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours = BitLinear(BitLinear.Config(packed=True), 64, 40)
    ours.load_state_dict(packed_state_dict(whole))
    reference = theirs.BitLinear(64, 40, bias=True, dtype=torch.float32)
    reference.weight, reference.weight_scale, reference.bias = ours.packed, 1 / ours.scale[None], ours.bias.data
    x = torch.randn(2, 7, 64)
    torch.testing.assert_close(ours(x), reference(x), **NEAR)
