"""The gated convolution: the numbers and gradients of F.conv1d and F.glu; padding; what it keeps."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from nn.building import small
from torch import Tensor

from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def convolved(module: Any, x: Tensor, left: int, right: int) -> Tensor:
    """glu(conv1d(x)) with our weights in torch's order: (outputs, inputs, taps)."""
    width = x.shape[2]
    weight = module.filters.weight.view(2 * width, -1, width).transpose(1, 2)
    return F.glu(F.conv1d(F.pad(x.mT, (left, right)), weight, module.filters.bias).mT, -1)


@pytest.mark.parametrize(("width", "mask"), [(1, "full"), (3, "full"), (5, "full"), (1, "causal"), (4, "causal")])
@pytest.mark.parametrize("length", [1, 2, 9])
def test_it_is_torchs(width: int, mask: str, length: int) -> None:
    module = make_mixer(f"convolution({width})", 6)
    left, right = (width // 2, width // 2) if mask == "full" else (width - 1, 0)
    x, towards = torch.randn(2, 2, length, 6, dtype=torch.float64)
    found = []
    for ours in (True, False):
        leaf = x.clone().requires_grad_()
        output = run_mixer(module, leaf, mask=mask).output if ours else convolved(module, leaf, left, right)
        wanted = (leaf, *module.parameters())
        found.append([output, *torch.autograd.grad((output * towards).sum(), wanted)])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, **EXACT)


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_padding_is_as_the_end_of_a_text(mask: str) -> None:
    module, lengths = make_mixer("convolution(5)", 6), [7, 3, 1]
    x = torch.randn(3, 7, 6, dtype=torch.float64)
    found = run_mixer(module, x, valid=valid_mask(torch.tensor(lengths), 7), mask=mask).output
    for row, length in enumerate(lengths):
        alone = run_mixer(module, x[row : row + 1, :length], mask=mask).output[0]
        torch.testing.assert_close(found[row, :length], alone, **EXACT)


@torch.no_grad()
def test_it_keeps_the_last_inputs_alone() -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": "convolution(4)", "position": "none"})).double().eval()
    ids, state = torch.randint(29, (2, 20)), model.new_state(2)
    steps = torch.cat([model.decode(part, state=state) for part in ids.split([1, 1, 2, 9, 1, 6], 1)], 1)
    torch.testing.assert_close(steps, model.decode(ids), **EXACT)
    kept = [x for name, x in state.tensors().items() if name.endswith("inputs")]
    assert [x.shape for x in kept] == [(2, 3, 16)] * 2
    far, near = ids.clone(), ids.clone()
    far[:, 20 - 1 - 6 - 1] += 1  # two layers of four tokens see seven
    near[:, 20 - 1 - 6] += 1
    same, other = (model.decode(one % 29)[:, -1] for one in (far, near))
    assert torch.equal(same, model.decode(ids)[:, -1]) and not torch.equal(other, same)


@pytest.mark.parametrize(
    ("mixer", "slots", "where", "says"),
    [
        ("convolution", {"mask": "causal & local(2)"}, "mask", "whatever the mask"),
        ("convolution", {"position": "rope"}, "position", "a convolution has none"),
        ("convolution(4)", {"side": "encoder"}, "mask", "its width is odd, not 4"),
    ],
)
def test_it_refuses_what_it_cannot_do(mixer: str, slots: dict[str, Any], where: str, says: str) -> None:
    error = refusal(mixer, **slots)
    assert error.where == f"{slots.get('side', 'decoder')}.{where}"
    assert says in error.message
