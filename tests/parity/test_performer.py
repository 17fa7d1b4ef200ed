"""Performer: the features and outputs of performer-pytorch; features that are orthogonal, positive, the same everywhere
and drawn anew by seed and layer; a softmax in the limit; safe numbers; what it refuses."""

import itertools
from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.context import Context
from headway.nn.masks.masks import CAUSAL, FULL
from headway.nn.mixers.performer import Performer
from headway.nn.ops.linear_attention import attend_linearly, attend_linearly_to_past
from headway.nn.ops.random_features import draw_projection, key_features, query_features
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

NEAR = {"rtol": 0.0, "atol": 1e-12}
CPU = torch.device("cpu")


def test_outputs_are_those_of_performer_pytorch() -> None:
    theirs, _ = golden("performer")
    projection, v = theirs["w.projection"], theirs["in.v"]
    q, k = query_features(theirs["in.q"], projection), key_features(theirs["in.k"], projection)
    torch.testing.assert_close(attend_linearly(q, k, v)[0], theirs["out.full"], **NEAR)
    for chunk in (7, 1000):
        torch.testing.assert_close(attend_linearly_to_past(q, k, v, chunk=chunk)[0], theirs["out.causal"], **NEAR)


def layer(more: str, width: int = 16, **place: Any) -> Performer:
    part: Any = make_part("mixer", f"performer({more})")
    scope = Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"), **place)
    module = Performer(part, scope)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return module.double()


@pytest.mark.parametrize("mask", [FULL, CAUSAL], ids=["full", "causal"])
def test_the_layer_is_plain_attention_by_its_features(mask: Any) -> None:
    module, x = layer("2, features=10, chunk=4"), torch.randn(1, 11, 16, dtype=torch.float64)
    q, k, v = (project(x[0]).view(11, 2, 8).transpose(0, 1) for project in (module.query, module.key, module.value))
    w = module.projection
    logs = [y @ w.T / 8**0.25 - y.square().sum(-1, keepdim=True) / 2 / 8**0.5 for y in (q, k)]
    scores = torch.einsum("htf,hsf->hts", *(log.exp() for log in logs))
    scores = scores.tril() if mask is CAUSAL else scores
    expected = module.output((scores / scores.sum(-1, keepdim=True) @ v).transpose(0, 1).flatten(1))
    found = module(x, Context(positions_from_start(11, None, CPU), mask=mask))[0]
    torch.testing.assert_close(found, expected, **NEAR)
    weights = list(module.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), weights, retain_graph=True),
        torch.autograd.grad(expected.square().sum(), weights),
        rtol=1e-9,
        atol=1e-9,
    )


def error(features: int, seed: int) -> float:
    """Against the softmax, of outputs for queries and keys of moderate size."""
    generator = torch.Generator().manual_seed(9)
    q, k, v = (torch.randn(1, 2, 40, 16, dtype=torch.float64, generator=generator) for _ in range(3))
    q, k = q / 2, k / 2
    exact = (q @ k.mT / 4).softmax(-1) @ v
    projection = draw_projection(features, 16, [seed])
    found, _ = attend_linearly(query_features(q, projection), key_features(k, projection), v)
    return float((found - exact).norm() / exact.norm())


def test_more_features_come_closer_to_the_softmax() -> None:
    errors = [sum(error(features, seed) for seed in range(8)) / 8 for features in (8, 32, 128, 512, 2048)]
    assert all(later < 0.75 * earlier for earlier, later in itertools.pairwise(errors)), errors
    assert errors[-1] < 0.1


def test_orthogonal_features_are_better_than_independent_ones() -> None:
    """On average, for exp(q·k) itself."""
    torch.manual_seed(3)
    q, k = 0.4 * torch.randn(2, 30, 16, dtype=torch.float64)
    exact = (q * k / 4).sum(-1).exp()

    def squared_error(projection: Tensor) -> float:
        scale = (-q.square().sum(-1) / 8).exp()  # what cancels in weights: of q as of k
        exponents = q / 2 @ projection.T
        features = exponents.exp() * scale[:, None], key_features(k, projection)
        return float(((features[0] * features[1]).mean(-1) - exact).square().mean())

    ours = [squared_error(draw_projection(16, 16, [seed])) for seed in range(200)]
    independent = [squared_error(torch.randn(16, 16, dtype=torch.float64)) for _ in range(200)]
    assert sum(ours) < 0.95 * sum(independent)


@pytest.mark.parametrize(("features", "width"), [(5, 8), (8, 8), (20, 8), (3, 1)])
def test_rows_are_orthogonal_in_blocks(features: int, width: int) -> None:
    projection = draw_projection(features, width, [4])
    assert projection.shape == (features, width) and projection.dtype == torch.float64
    for block in projection.split(width):
        products = block @ block.T
        torch.testing.assert_close(products, products.diagonal().diag(), **NEAR)
    many = draw_projection(4000, 8, [1])
    assert float(many.square().sum(1).mean()) == pytest.approx(8, rel=0.05), "as long as a normal vector"
    assert float(many.mean()) == pytest.approx(0, abs=0.02)


def test_features_follow_from_the_seed_for_ever() -> None:
    """As they were written down: on another machine, in another process, in another version."""
    first = draw_projection(6, 4, [7, 0, 1])
    assert not torch.equal(first, draw_projection(6, 4, [8, 0, 1]))
    assert first[5].tolist() == pytest.approx([0.34822197, 0.668687502, -1.899705129, 0.544209586], abs=1e-8)


def test_every_layer_draws_its_own_and_stores_none() -> None:
    one, same, other = layer("2"), layer("2"), layer("2", layer=1)
    decoder, reseeded = layer("2", side="decoder"), layer("2, seed=1")
    assert torch.equal(one.projection, same.projection)
    for different in (other, decoder, reseeded):
        assert not torch.equal(one.projection, different.projection)
    assert "projection" not in one.state_dict() and all(p is not one.projection for p in one.parameters())


def test_the_number_of_features_follows_from_the_width() -> None:
    assert layer("2").config.features == 16 == int(8 * 2.0794)
    assert layer("16").config.features == 1, "of width 1"


@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e4])
def test_no_size_of_keys_makes_numbers_that_are_not_finite(size: float) -> None:
    torch.manual_seed(1)
    projection = draw_projection(50, 64, [0]).float()
    for k in (torch.randn(50, 64), projection):  # in no direction, and each along a feature
        q, k = ((size * x)[None, None].requires_grad_() for x in (torch.randn(50, 64), k))
        features = query_features(q, projection), key_features(k, projection)
        output, _ = attend_linearly_to_past(*features, torch.randn(1, 1, 50, 3))
        gradients = torch.autograd.grad(output.square().sum(), (q, k))
        assert all(x.isfinite().all() for x in (output, *gradients))


@pytest.mark.filterwarnings("ignore:TF32")
def test_bfloat16_sums_in_float32() -> None:
    module, x = layer("2").to(torch.bfloat16), torch.randn(1, 300, 16, dtype=torch.bfloat16)
    cache = module.new_cache(1, CPU)
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 products end the process on some processors
        output = module(x, Context(positions_from_start(300, None, CPU), mask=CAUSAL), cache=cache)
        output.float().square().sum().backward()
    assert output.dtype == torch.bfloat16 and cache.values["total"].dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("length", [1, 13])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_costs_are_those_of_the_built_model(side: str, length: int) -> None:
    own = {"mixer": "performer(4, features=7, d_v=3, chunk=8)"}
    built = Transformer(small(**{"encoder": 0, "decoder": 0, side: own})).eval()  # type: ignore[arg-type]
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    ids = torch.zeros(1, length, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.encode(ids).values if side == "encoder" else built.decode(ids))
    lengths = [length * (name == side) for name in ("encoder", "decoder")]
    assert built.config.forward_flops(*lengths) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", 'performer supports only the masks "causal" and "full"'),
        ({"position": "t5"}, "decoder.position", "t5 changes attention scores, and performer has only features"),
        ({"mixer": "performer(4, seed=-1)"}, "decoder.mixer.seed", "seed|0"),
        ({"mixer": "performer(4, features=0)"}, "decoder.mixer.features", "1"),
        ({"mixer": "performer(4, features=100000)"}, "decoder.mixer.features", "65536"),
    ],
    ids=["mask", "t5", "seed", "no features", "too many features"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "performer(4)", **changes}).resolved()
    assert caught.value.where == where
