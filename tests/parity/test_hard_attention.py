"""Hard attention: one key a query, with the numbers and the gradients of torch's own gumbel_softmax(hard=True)."""

import pytest
import torch
import torch.nn.functional as F
from nn.building import small
from torch import Tensor

from headway.nn.layers.linear import Dense
from headway.nn.ops.hard_attention import choose_keys, gumbel_noise
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, refusal, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


def some_scores() -> Tensor:
    torch.manual_seed(5)
    return torch.randn(2, 3, 4, 7, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_it_computes_what_torch_computes(temperature: float) -> None:
    """The same draws, the same choices, the same gradients."""
    scores, towards = some_scores(), torch.randn(2, 3, 4, 7, dtype=torch.float64)
    torch.manual_seed(1)
    theirs = F.gumbel_softmax(scores, tau=temperature, hard=True)
    torch.manual_seed(1)
    ours, _ = choose_keys(scores + gumbel_noise(scores), None, temperature)
    torch.testing.assert_close(ours, theirs, **EXACT)
    gradients = [torch.autograd.grad((weights * towards).sum(), scores)[0] for weights in (ours, theirs)]
    torch.testing.assert_close(*gradients, **EXACT)
    assert gradients[0].abs().max() > 1e-3


def test_without_noise_it_is_the_best_key() -> None:
    scores, mask = some_scores(), torch.rand(2, 1, 4, 7) < 0.5
    mask[0, 0, 1] = False
    hard, soft = choose_keys(scores, mask)
    best = scores.masked_fill(~mask, -torch.inf).argmax(-1)
    expected = F.one_hot(best, 7).double() * mask.any(-1, keepdim=True)
    assert torch.equal(hard, expected), "to the bit: exactly one, and zeros"
    assert not hard[0, :, 1].any()
    (hard * torch.arange(7)).sum().backward()
    slope = scores.grad
    assert slope is not None and slope.isfinite().all() and slope[~mask.expand_as(slope)].abs().max() == 0
    fresh = scores.detach().requires_grad_()
    (choose_keys(fresh, mask)[1] * torch.arange(7)).sum().backward()
    torch.testing.assert_close(slope, fresh.grad, **EXACT)
    torch.testing.assert_close(soft.sum(-1), mask.any(-1).double().expand(2, 3, 4), **EXACT)


def test_draws_follow_the_weights() -> None:
    torch.manual_seed(2)
    scores = torch.tensor([2.0, 0.0, 1.0, -1.0]).expand(40_000, 4)
    drawn = choose_keys(scores + gumbel_noise(scores), None)[0].mean(0)
    torch.testing.assert_close(drawn, scores[0].softmax(-1), rtol=0, atol=0.01)


def test_a_layer_reads_one_value_for_each_query() -> None:
    module = make_mixer("hard_attention(2)", 8)
    x, source = (torch.randn(2, length, 8, dtype=torch.float64) for length in (3, 5))
    found = run_mixer(module, x, source=source, valid=valid_mask(torch.tensor([5, 2]), 5))
    q, k, v, weights = (found.trace[name] for name in ("q", "k", "v", "weights"))
    assert set(weights.unique().tolist()) == {0.0, 1.0} and not weights[1, :, :, 2:].any()
    best = (q @ k.mT).masked_fill(~valid_mask(torch.tensor([5, 2]), 5)[:, None, None], -torch.inf).argmax(-1)
    heads = v.gather(2, best[..., None].expand(-1, -1, -1, 4)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(found.output, module.output(heads), **EXACT)
    soft = found.trace["soft_weights"]
    torch.testing.assert_close(soft[0], (q[0] @ k[0].mT / 2).softmax(-1), **EXACT)


def test_only_training_draws_and_its_seed_decides() -> None:
    model = Transformer(small(decoder={"mixer": "hard_attention(4, choice='gumbel')"}))
    ids = torch.randint(29, (2, 8))

    def outputs(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return model(ids, ids).hidden

    model.train()
    assert torch.equal(outputs(1), outputs(1)) and not torch.equal(outputs(1), outputs(2))
    model.eval()
    assert torch.equal(outputs(1), outputs(2))


def test_what_chooses_is_never_rounded() -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": "hard_attention(4)"}, linear="bitnet"))
    layer = model.stacks["decoder"].blocks[0].sublayers["self"]
    assert type(layer.query) is Dense is type(layer.key) and type(layer.value) is not Dense
    assert model.config.parameter_count() == sum(p.numel() for p in model.parameters())


def test_a_temperature_is_above_zero() -> None:
    assert "temperature" in refusal("hard_attention(4, temperature=0)").where
