"""The small parts by their formulas: norms, feed-forwards, residuals, heads, embeddings; one whole block's
gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from nn.building import small
from torch import Tensor, nn

from headway.config.schema import make_part
from headway.nn.block import Block
from headway.nn.build import Scope, make, make_norm
from headway.nn.context import Context
from headway.nn.masks.masks import CAUSAL
from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer

CPU = torch.device("cpu")
DENSE = make_part("linear", "dense")


def scope(norm: str = "layernorm", dropout: float = 0.0) -> Scope:
    return Scope(d_model=6, dropout=dropout, norm=make_part("norm", norm), linear=DENSE)


def stirred(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module.double()


def ctx() -> Context:
    return Context(positions_from_start(4, None, CPU))


X = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_layernorm() -> None:
    norm = stirred(make_norm(scope("layernorm(0.1)")))
    variance = X.var(-1, correction=0, keepdim=True)
    expected = (X - X.mean(-1, keepdim=True)) / (variance + 0.1).sqrt() * norm.gain + norm.bias
    torch.testing.assert_close(norm(X), expected)


def test_rmsnorm() -> None:
    norm = stirred(make_norm(scope("rmsnorm(0.1)")))
    torch.testing.assert_close(norm(X), X / (X.square().mean(-1, keepdim=True) + 0.1).sqrt() * norm.gain)


def test_no_norm() -> None:
    assert make_norm(scope("none"))(X) is X


ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_feedforward(kind: str) -> None:
    layer = stirred(make("feedforward", make_part("feedforward", f"{kind}(10)"), scope()))
    inner = ACTIVATIONS[kind](X @ layer.inner.weight.T + layer.inner.bias)
    torch.testing.assert_close(layer(X, ctx()), inner @ layer.outer.weight.T + layer.outer.bias)


def test_feedforward_is_two_convolutions_of_width_one() -> None:
    layer = stirred(make("feedforward", make_part("feedforward", "relu(10)"), scope()))
    inner = F.conv1d(X.mT, layer.inner.weight[:, :, None], layer.inner.bias).relu()
    torch.testing.assert_close(layer(X, ctx()), F.conv1d(inner, layer.outer.weight[:, :, None], layer.outer.bias).mT)


def test_swiglu() -> None:
    layer = stirred(make("feedforward", make_part("feedforward", "swiglu(10)"), scope()))
    gate = X @ layer.gate.weight.T
    expected = (gate / (1 + torch.exp(-gate)) * (X @ layer.inner.weight.T)) @ layer.outer.weight.T
    torch.testing.assert_close(layer(X, ctx()), expected)


def test_squared_relu_and_a_norm_before_the_last_layer() -> None:
    part = make_part("feedforward", "reglu_squared(10, output_norm='rmsnorm(0.1)')")
    layer = stirred(make("feedforward", part, scope()))
    inner = F.relu(X @ layer.gate.weight.T).square() * (X @ layer.inner.weight.T)
    normed = F.rms_norm(inner, (10,), layer.output_norm.gain, 0.1)
    torch.testing.assert_close(layer(X, ctx()), normed @ layer.outer.weight.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "approximate"), [("geglu", "none"), ("geglu_tanh", "tanh")])
def test_geglu(kind: str, approximate: str) -> None:
    layer = stirred(make("feedforward", make_part("feedforward", f"{kind}(10)"), scope()))
    gate = torch.nn.GELU(approximate=approximate)(X @ layer.gate.weight.T)
    torch.testing.assert_close(layer(X, ctx()), (gate * (X @ layer.inner.weight.T)) @ layer.outer.weight.T)


@pytest.mark.parametrize("d_model", [6, 64, 512])
def test_hidden_widths_that_are_not_given(d_model: int) -> None:
    """swiglu has three matrices where relu has two: two thirds of the width, up to a multiple of 64."""
    around = Scope(d_model=d_model, dropout=0.0, norm=make_part("norm", "none"), linear=DENSE)
    assert make_part("feedforward", "relu").resolved(around).hidden == 4 * d_model
    hidden = make_part("feedforward", "swiglu").resolved(around).hidden
    assert hidden % 64 == 0
    assert 0 <= hidden - 8 * d_model / 3 < 64


def halve(x: Tensor) -> Tensor:
    return x / 2 + 1


def test_post() -> None:
    wiring = make_part("residual", "post")
    around, ends = (stirred(wiring.build(scope(), role)) for role in ("sublayer", "stack"))
    torch.testing.assert_close(around.wrap(ends.start(X), halve), around.norm(X + halve(X)))
    assert ends.finish(X) is X


def test_pre() -> None:
    wiring = make_part("residual", "pre")
    around, ends = (stirred(wiring.build(scope(), role)) for role in ("sublayer", "stack"))
    torch.testing.assert_close(around.wrap(ends.start(X), halve), X + halve(around.norm(X)))
    torch.testing.assert_close(ends.finish(X), ends.norm(X))


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_dropout_falls_on_what_a_sublayer_adds(kind: str) -> None:
    wiring = make_part("residual", kind).build(scope("none", dropout=0.5), "sublayer").train()
    ones = torch.ones(40, 50, 6)
    added = wiring.wrap(torch.zeros(40, 50, 6), lambda x: ones)
    assert sorted(added.unique().tolist()) == [0, 2]
    assert 0.45 < (added == 0).float().mean() < 0.55
    assert torch.equal(wiring.eval().wrap(torch.zeros(40, 50, 6), lambda x: ones), ones)


def test_dropout_stands_where_the_paper_puts_it() -> None:
    """On sums of embedding and position, inside the feed-forward, on attention weights, on each sub-layer's output."""
    model = Transformer(small(dropout=0.3))
    assert model.embeddings["encoder"].dropout.p == 0.3
    block = model.stacks["decoder"].blocks[0]
    assert block.sublayers["feedforward"].dropout.p == 0.3
    assert block.sublayers["self"].config.dropout == block.sublayers["cross"].config.dropout == 0.3
    assert all(block.residuals[name].dropout.p == 0.3 for name in ("self", "cross", "feedforward"))
    assert Transformer(small(dropout=0.3, sides={"mixer": "attention(4, dropout=0.1)"})).stacks["encoder"].blocks[
        0
    ].sublayers["self"].config.dropout == pytest.approx(0.1)


@pytest.mark.parametrize("tied", ["all", "none"])
def test_heads(tied: str) -> None:
    x = torch.randn(2, 4, 16, dtype=torch.float64)
    for kind in ("logits", "logits(true)", "logits(scale=0.25)", "masked", "pooled(3)"):
        model = stirred(Transformer(small(decoder=0, head=kind, embedding={"tied": tied})))
        ours, head = model.logits(x), model.head
        words = model.embeddings["encoder"].words.weight
        if kind == "pooled(3)":
            vector = torch.tanh(x[:, 0] @ head.pool.weight.T + head.pool.bias)
            expected = vector @ head.classify.weight.T + head.classify.bias
        elif kind == "masked":
            inner = head.norm(F.gelu(head.transform(x)))
            expected = inner @ (words if tied == "all" else head.logits.weight).T + head.logits.bias
        else:
            expected = x @ (words if tied == "all" else head.weight).T
            expected = expected + head.bias if "true" in kind else expected * head.scale
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("scale", [True, False])
def test_embedding_is_scaled_on_the_way_in_only(scale: bool) -> None:
    model = stirred(
        Transformer(small(encoder=0, decoder={"layers": 1, "position": "none"}, embedding={"scale": scale}))
    )
    ids, words = torch.tensor([[3, 1, 4]]), model.embeddings["decoder"].words.weight
    stack = model.stacks["decoder"]
    embedded = model.embeddings["decoder"](ids, positions_from_start(3, None, CPU), stack)
    torch.testing.assert_close(embedded, words[ids] * (4 if scale else 1))
    hidden = torch.randn(1, 3, 16, dtype=torch.float64)
    torch.testing.assert_close(model.logits(hidden), hidden @ words.T)


def test_segments() -> None:
    config = small(decoder=0, encoder={"position": "none"}, embedding={"segments": 2, "norm": True, "scale": False})
    model = stirred(Transformer(config))
    embedding, stack, places = model.embeddings["encoder"], model.stacks["encoder"], positions_from_start(3, None, CPU)
    ids, segments = torch.tensor([[3, 1, 4]]), torch.tensor([[0, 1, 1]])
    expected = embedding.norm(embedding.words(ids) + embedding.segments(segments))
    torch.testing.assert_close(embedding(ids, places, stack, segments), expected)
    torch.testing.assert_close(embedding(ids, places, stack), embedding(ids, places, stack, segments * 0))
    assert not torch.allclose(model.encode(ids, segments=segments).values, model.encode(ids).values)


@pytest.mark.parametrize("residual", ["post", "pre"])
def test_gradients_of_a_whole_block(residual: str) -> None:
    around = Scope(d_model=4, dropout=0.0, norm=make_part("norm", "layernorm"), linear=DENSE, side="decoder")
    attention = make_part("mixer", "attention(2, 1)").resolved(around)
    feedforward = make_part("feedforward", "swiglu(3)")
    block = Block(attention, attention, feedforward, make_part("residual", residual), around)
    stirred(block)
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    heard = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor, heard: Tensor, *weights: Tensor) -> Tensor:
        inside = Context(positions_from_start(3, None, CPU), mask=CAUSAL)
        inside.memories["encoder"] = Memory(heard, positions_from_start(2, None, CPU))
        return block(x, inside, None)

    assert torch.autograd.gradcheck(run, (x, heard, *block.parameters()))
