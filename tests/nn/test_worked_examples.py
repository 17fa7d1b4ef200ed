"""The worked examples of the specification, out of our own functions: attention by hand (1, 2), sinusoids (3), values
wider than keys (4), order (5), shifts as linear maps (6), the collapse of bare attention towards rank one (7)."""

import pytest
import torch
from torch import Tensor

from headway.config.schema import make_part
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.attention import Attention
from headway.nn.ops.attention import attend
from headway.nn.positions.positions import sinusoids
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

SCOPE = Scope(d_model=4, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", "dense"))


def one_head(x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    told = attend((x @ q)[None, None], (x @ k)[None, None], (x @ v)[None, None], also="everything")
    return told.weights[0, 0], told.output[0, 0]


def test_1_attention_by_hand() -> None:
    x = torch.tensor(
        [
            [1.0333236, -0.07687391, 1.94313157, -1.26162928],
            [1.18221604, -0.0298283, -1.46568319, 1.37369452],
            [-0.13959719, -0.50792964, -0.88052409, 1.52022357],
        ]
    )
    q = torch.tensor([[0.2, 0.1], [0.3, 0.5], [0.4, 0.6], [0.1, 0.2]])
    k = torch.tensor([[0.1, 0.3], [0.2, 0.4], [0.5, 0.7], [0.1, 0.2]])
    weights, output = one_head(x, q, k, torch.eye(4))
    expected = torch.tensor([[0.804, 0.101, 0.095], [0.172, 0.406, 0.422], [0.153, 0.417, 0.430]])
    torch.testing.assert_close(weights, expected, rtol=0, atol=5.1e-4)
    expected = torch.tensor(
        [[0.937, -0.113, 1.331, -0.732], [0.598, -0.240, -0.632, 0.982], [0.591, -0.243, -0.694, 1.035]]
    )
    torch.testing.assert_close(output, expected, rtol=0, atol=5.1e-4)


def test_2_attention_on_a_sentence() -> None:
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]
    ids = {word: index for index, word in enumerate(sorted(words))}  # repeats overwrite
    assert ids["the"] == 8
    torch.manual_seed(123)
    x = torch.nn.Embedding(50000, 3)(torch.tensor([ids[word] for word in words])).detach()
    q, k, v = torch.rand(3, 2), torch.rand(3, 2), torch.rand(3, 4)
    _, output = one_head(x, q, k, v)
    assert output.shape == (9, 4)
    torch.testing.assert_close(output[0], torch.tensor([-0.0269, -0.0440, -0.0042, 0.0399]), rtol=0, atol=5.1e-5)
    torch.testing.assert_close(output[7], torch.tensor([0.5645, 0.1703, 0.7147, 0.8803]), rtol=0, atol=5.1e-5)


def test_3_sinusoids() -> None:
    pe = sinusoids(torch.arange(5), 4)
    assert pe[0].tolist() == [0, 1, 0, 1]
    expected = torch.tensor([-0.7568, -0.6536, 0.03999, 0.9992], dtype=torch.float64)
    torch.testing.assert_close(pe[4], expected, rtol=0, atol=5.1e-5)


def test_4_values_may_be_wider_than_keys() -> None:
    attention = Attention(Attention.Config(heads=2, d_k=4, d_v=8), SCOPE)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    report = ForwardReport(trace={})
    output = attention(
        torch.randn(1, 3, 4), Context(positions_from_start(3, None, torch.device("cpu")), report, path="a")
    )
    assert report.trace is not None
    shapes = {name: tuple(value.shape) for name, value in report.trace.items()}
    assert shapes == {
        "a.q": (1, 2, 3, 4),
        "a.k": (1, 2, 3, 4),
        "a.v": (1, 2, 3, 8),
        "a.scores": (1, 2, 3, 3),
        "a.weights": (1, 2, 3, 3),
    }
    assert output.shape == (1, 3, 4)
    heads = report.trace["a.weights"] @ report.trace["a.v"]  # (1, 2, 3, 8)
    torch.testing.assert_close(output, attention.output(heads.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("residual", ["post", "pre"])
@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned", "rope", "alibi"])
def test_5_without_positions_order_is_nothing(position: str, residual: str) -> None:
    side = {"layers": 2, "position": position, "mixer": {"heads": 2}, "residual": residual}
    config = Transformer.Config(d_model=8, vocabulary=20, encoder=side, decoder={"layers": 0})
    model = Transformer(config).double().eval()
    ids, order = torch.randint(20, (2, 9)), torch.randperm(9)
    there = model.encode(ids[:, order]).values
    back = model.encode(ids).values[:, order]
    difference = (there - back).abs().max()
    assert difference < 1e-14 if position == "none" else difference > 1e-3


def test_6_a_shift_is_one_linear_map() -> None:
    """PE(pos + k) = M_k PE(pos), the same M_k for every pos: found from some positions, it holds for all others."""
    pe = sinusoids(torch.arange(2000), 16)
    for shift in (1, 7, 100):
        matrix = torch.zeros(16, 16, dtype=torch.float64)
        for i in range(8):
            angle = torch.tensor(shift / 10000 ** (2 * i / 16), dtype=torch.float64)
            pair = slice(2 * i, 2 * i + 2)
            matrix[pair, pair] = torch.tensor([[angle.cos(), angle.sin()], [-angle.sin(), angle.cos()]])
        torch.testing.assert_close(pe[shift:], pe[:-shift] @ matrix.T, rtol=0, atol=1e-11)
        found = torch.linalg.lstsq(pe[:1000], pe[shift : 1000 + shift]).solution
        torch.testing.assert_close(pe[1000:-shift] @ found, pe[1000 + shift :], rtol=0, atol=1e-5)


def away_from_rank_one(x: Tensor) -> float:
    """How much of x (T, d) is left when its mean over places is taken away."""
    return ((x - x.mean(0)).norm() / x.norm()).item()


def test_7_bare_attention_collapses_towards_rank_one() -> None:
    scope = Scope(d_model=32, dropout=0.0, norm=SCOPE.norm, linear=SCOPE.linear)
    x = bare = torch.randn(1, 20, 32, dtype=torch.float64)
    ctx = Context(positions_from_start(20, None, torch.device("cpu")))
    left = []
    for _ in range(8):
        layer = Attention(Attention.Config(heads=4), scope).double()
        for parameter in layer.parameters():
            if parameter.dim() == 2:
                torch.nn.init.xavier_uniform_(parameter)
        with torch.no_grad():
            bare = layer(bare, ctx)
        left.append(away_from_rank_one(bare[0]))
    assert left[-1] < 1e-3 < 0.5 < away_from_rank_one(x[0])
    assert left[0] > left[1] > left[2] > left[3] > left[4], left

    side = {"layers": 8, "position": "none", "mixer": {"heads": 4}}
    config = Transformer.Config(d_model=32, vocabulary=20, encoder=side, decoder={"layers": 0})
    whole = Transformer(config).double().eval()
    assert away_from_rank_one(whole.encode(torch.arange(20)[None]).values[0]) > 0.1
