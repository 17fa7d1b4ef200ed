"""What only a GPU can show: kernels equal the naive form there, bf16 trains without NaN, decoding agrees with the CPU.

Run with: pytest -m gpu tests/gpu
"""

import pytest
import torch

from headway.decode import decode
from headway.decode.model import ModelStepper
from headway.decode.settings import Marks, Search
from headway.nn.attend import attend
from headway.nn.masks import Pattern, make_mask
from headway.nn.places import places_from
from headway.nn.transformer import Transformer
from headway.train.loss import batch_loss
from headway.train.objectives import Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns of itself, in each version of something else
]


def small_model() -> Transformer:
    stack = {"layers": 2, "mixer": "attention(4)", "residual": "pre"}
    return Transformer(Transformer.Config(d_model=64, vocabulary=128, encoder=stack, decoder=stack))


@pytest.mark.parametrize("rule", ["causal", "causal & local(64)"])
def test_flex_equals_naive_with_gradients(rule: str) -> None:
    device = torch.device("cuda")
    q, k, v = (torch.randn(2, 4, 256, 32, device=device, requires_grad=True) for _ in range(3))
    places = places_from(256, None, device)
    results = []
    for kernel in ("flex", "math"):
        out = attend(q, k, v, mask=Pattern(make_mask(rule), places, places, 4), kernel=kernel)
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for fast, naive in zip(*results):
        assert (fast - naive).norm() / naive.norm() < 2e-3  # tf32 inside the kernel


def test_bf16_trains_without_nan() -> None:
    torch.manual_seed(0)
    model = small_model().cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    source, target = torch.randint(4, 128, (2, 16, 12), device="cuda")
    valid = torch.arange(12, device="cuda") < torch.randint(3, 13, (16, 1), device="cuda")
    batch = Batch(source, valid, target, valid, target.masked_fill(~valid, -100), int(valid.sum()), 0)
    losses = []
    for _ in range(60):
        with torch.autocast("cuda", torch.bfloat16):
            loss = batch_loss(model, batch, 0.1).loss / batch.labelled
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss))
    assert all(loss == loss for loss in losses)
    assert losses[-1] < 0.5 * losses[0]


def test_decoding_agrees_with_the_cpu() -> None:
    torch.manual_seed(0)
    model = small_model().eval()
    source = torch.randint(4, 128, (8, 9))
    marks, search = Marks(start=1, end=2, suppress=(0, 3)), Search(beam_size=4, max_length=20)
    here = decode(ModelStepper(model), source, marks=marks, search=search)
    there = decode(ModelStepper(model.cuda()), source.cuda(), marks=marks, search=search)
    assert [row[0].ids for row in here] == [row[0].ids for row in there]
