"""What marks order: sinusoids and rotations by their formulas in both layouts, distances only for what turns or bends,
slopes, learned tables and where they end. Padding takes up no place in any of them."""

import math

import pytest
import torch
from nn.building import small
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.masks.masks import FULL
from headway.nn.ops.attention import attend
from headway.nn.positions.positions import (
    Alibi,
    Learned,
    Rope,
    Sinusoidal,
    alibi_slopes,
    rotary_rates,
    rotate,
    sinusoids,
)
from headway.nn.positions.score_mod import BoundScoreMod, ScoreModInputs
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
SCOPE = Scope(d_model=6, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", "dense"))


@pytest.mark.parametrize("width", [1, 2, 5, 6])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_sinusoids_by_their_formula(width: int, layout: str) -> None:
    for position in (0, 1, 17, 5000):
        sines = [math.sin(position / 10000 ** (2 * i / width)) for i in range((width + 1) // 2)]
        cosines = [math.cos(position / 10000 ** (2 * i / width)) for i in range(width // 2)]
        if layout == "halves":
            expected = sines + cosines
        else:
            expected = [(sines if i % 2 == 0 else cosines)[i // 2] for i in range(width)]
        ours = sinusoids(torch.tensor([position]), width, layout=layout)[0]
        torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


@torch.no_grad()
def test_closed_spacing_is_that_of_m2m100() -> None:
    theirs = M2M100SinusoidalPositionalEmbedding(20, 6, padding_idx=1)
    ids = torch.tensor([[5, 6, 7, 8, 1], [5, 6, 7, 8, 9]])  # 1 is padding
    config = Sinusoidal.Config(layout="halves", spacing="closed", first=2)
    assert config.to_dict() == {"kind": "sinusoidal", "base": 1e4, "layout": "halves", "spacing": "closed", "first": 2}
    ours = Sinusoidal(config, SCOPE).add(torch.zeros(2, 5, 6), positions_from_start(5, ids != 1, CPU))
    real = ids != 1
    torch.testing.assert_close(ours.expand(2, 5, 6)[real], theirs(ids)[real], rtol=0, atol=1e-6)
    odd = {"d_model": 5, "encoder": {"position": {"kind": "sinusoidal", "spacing": "closed"}, "mixer": "attention(1)"}}
    with pytest.raises(ConfigError, match="closed spacing needs pairs of channels, and d_model is 5"):
        from_dict(Transformer.Config, odd).resolved()
    assert "spacing" not in Sinusoidal.Config().to_dict()  # as stored models have it


def test_sinusoids_keep_their_precision_far_out() -> None:
    """Angles are counted in float64: in float32 a position of a million would be wrong in the first digit."""
    x = torch.zeros(1, 1, 6)
    far = Sinusoidal(Sinusoidal.Config(), SCOPE).add(x, TokenPositions(torch.tensor([[999_999]]), None, 1_000_000))
    assert abs(far[0, 0, 0].item() - math.sin(999_999)) < 1e-7


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_rotation_by_its_formula(layout: str) -> None:
    x = torch.randn(1, 1, 3, 6, dtype=torch.float64)
    positions = torch.tensor([[0, 3, 11]])
    turned = rotate(x, positions, 10000.0, layout)
    for t, position in enumerate(positions[0].tolist()):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            a, b = (i, i + 3) if layout == "halves" else (2 * i, 2 * i + 1)
            one, two = x[0, 0, t, a], x[0, 0, t, b]
            assert abs(turned[0, 0, t, a] - (one * math.cos(angle) - two * math.sin(angle))) < 1e-12
            assert abs(turned[0, 0, t, b] - (two * math.cos(angle) + one * math.sin(angle))) < 1e-12
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_turned_products_know_only_the_distance(layout: str) -> None:
    rope = Rope(Rope.Config(layout=layout), SCOPE)
    q, k = torch.randn(2, 1, 1, 9, 6, dtype=torch.float64)
    scores = [
        rope.rotate(q, TokenPositions(torch.arange(9)[None] + shift, None, 0))
        @ rope.rotate(k, TokenPositions(torch.arange(9)[None] + shift, None, 0)).mT
        for shift in (0, 1000)
    ]
    torch.testing.assert_close(scores[0], scores[1], rtol=0, atol=1e-11)
    assert not torch.allclose(scores[0], q @ k.mT, atol=1e-2)


def test_the_two_layouts_are_one_rotation_with_channels_renamed() -> None:
    x, order = torch.randn(1, 2, 5, 8), torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    positions = torch.arange(5)[None]
    halves = rotate(x[..., order], positions, 10000.0, "halves")
    torch.testing.assert_close(halves, rotate(x, positions, 10000.0, "interleaved")[..., order])


def test_rope_needs_pairs() -> None:
    with pytest.raises(ConfigError, match=r"encoder\.position: rope .* d_k must be even, not 3"):
        small(sides={"position": "rope", "mixer": "attention(4, d_k=3)"}).resolved()
    with pytest.raises(HeadwayError, match="rope rotates pairs of channels, so d_k must be even, not 3"):
        Rope(Rope.Config(), SCOPE).rotate(torch.ones(1, 1, 4, 3), positions_from_start(4, None, CPU))


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (1, [2**-8]),
        (4, [2**-2, 2**-4, 2**-6, 2**-8]),
        (8, [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
    ],
)
def test_slopes(heads: int, slopes: list[float]) -> None:
    assert alibi_slopes(heads) == pytest.approx(slopes, rel=1e-15)


def test_alibi_lowers_scores_by_distance_in_full_precision() -> None:
    q, k, v = torch.randn(3, 1, 16, 5, 4, dtype=torch.float64)
    places = positions_from_start(5, None, CPU)
    score = Alibi(Alibi.Config(), SCOPE).score_mod(ScoreModInputs(q, places, places, FULL, 1.0, 0))
    assert score is not None
    told = attend(q, k, v, score_mod=BoundScoreMod(score, places, places, 16), also="everything")
    for h in range(16):
        for i in range(5):
            for j in range(5):
                expected = (q[0, h, i] @ k[0, h, j]) / 2 - 2 ** (-(h + 1) / 2) * abs(i - j)
                assert abs(told.scores[0, h, i, j] - expected) < 1e-13


def test_learned_positions_end_where_the_table_ends() -> None:
    learned = Learned(Learned.Config(max_positions=4), SCOPE)
    torch.nn.init.normal_(learned.table.weight)
    x = torch.zeros(2, 4, 6)
    assert torch.equal(learned.add(x, positions_from_start(4, None, CPU)), learned.table.weight.expand(2, 4, 6))
    with pytest.raises(HeadwayError, match=r"learned 4 positions and was given 5 tokens.*sinusoidal"):
        learned.add(torch.zeros(2, 5, 6), positions_from_start(5, None, CPU))


def test_padding_is_no_token_beyond_the_learned_ones() -> None:
    learned = Learned(Learned.Config(max_positions=4), SCOPE)
    valid = valid_mask(torch.tensor([4, 1]), 7)
    out = learned.add(torch.zeros(2, 7, 6), positions_from_start(7, valid, CPU))
    assert torch.equal(out[:, :4], learned.table.weight.expand(2, 4, 6))
    with pytest.raises(HeadwayError, match="given 5 tokens"):
        learned.add(torch.zeros(2, 7, 6), positions_from_start(7, valid_mask(torch.tensor([4, 5]), 7), CPU))


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rope", "alibi"])
def test_a_list_gives_each_layer_its_own(position: str) -> None:
    """What is added is added once at the bottom; what turns or bends does so in its own layers only."""
    models = []
    for where in ([position, "none"], ["none", position], [position, position]):
        torch.manual_seed(5)
        models.append(Transformer(small(decoder=0, encoder={"position": where})).double().eval())
    ids = torch.randint(29, (2, 6))
    first, second, both = (model.encode(ids).values for model in models)
    adds = position in ("sinusoidal", "learned")
    assert torch.allclose(first, second, atol=1e-12) == adds
    assert torch.allclose(first, both, atol=1e-12) == adds


def test_scaled_rates_lie_between_the_rate_and_its_part() -> None:
    """Fast pairs keep their rate, slow ones are slowed by the factor; the numbers of transformers: tests/convert."""
    rates = rotary_rates(32, 10000.0, "open", CPU)
    for written in ("llama3(8, 512)", "yarn(8, 512)"):
        scaled = make_part("rope_scaling", written).scale_rates(rates, 10000.0)  # type: ignore[attr-defined]
        torch.testing.assert_close(scaled[:2], rates[:2], rtol=1e-12, atol=0)
        torch.testing.assert_close(scaled[-2:], rates[-2:] / 8, rtol=1e-12, atol=0)
        assert (scaled.diff() < 0).all()
    assert make_part("rope_scaling", "yarn(8)").amplitude == 0.1 * math.log(8) + 1  # type: ignore[attr-defined]
    assert make_part("rope_scaling", "yarn(0.5)").amplitude == 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("slot", "written", "message"),
    [
        ("position", "rope(1, scaling='yarn')", "base = 1 all channels rotate alike"),
        ("rope_scaling", "llama3(low=4, high=4)", "must be larger than low"),
    ],
)
def test_a_scaling_that_means_nothing_is_refused(slot: str, written: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_part(slot, written)
