"""ResiDual and DeepNorm: against two published implementations' numbers, and against the paper's formulas."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from torch import Tensor

from headway.config.schema import make_part
from headway.nn.build import Scope
from headway.nn.layers.norms import LayerNorm
from headway.nn.layers.residual import DeepNorm, PostNorm, ResiDual
from headway.nn.transformer import Transformer


def scope(side: Any = "encoder", layers: int = 6, other: int = 0) -> Scope:
    norm, linear = make_part("norm", "layernorm"), make_part("linear", "dense")
    return Scope(d_model=32, dropout=0.0, norm=norm, linear=linear, side=side, layers=layers, other_layers=other)


@pytest.mark.parametrize("scaled", [False, True])
def test_residual_equals_the_authors_numbers(scaled: bool) -> None:
    tensors, config = golden("residual")
    scale = config["scale"] if scaled else 1.0
    part = ResiDual.Config(scale=scale)

    def norm(name: str, role: Any, eps: float) -> ResiDual:
        wiring = part.build(scope(), role).double()
        wiring.norm = LayerNorm(LayerNorm.Config(eps=eps), config["dim"]).double()
        wiring.norm.load_state_dict(
            {"gain": tensors[f"w.ms.{name}.weight"], "bias": tensors[f"w.ms.{name}.bias"]}, strict=True
        )
        return wiring

    def attend(layer: int) -> Any:
        place = f"w.ms.layers.{layer}.self_attn"
        return lambda x: tensors[f"{place}.mix"] @ F.linear(x, tensors[f"{place}.weight"])

    def feed(layer: int) -> Any:
        inner, outer = (f"w.ms.layers.{layer}.{name}" for name in ("fc1", "fc2"))
        return lambda x: F.linear(
            F.relu(F.linear(x, tensors[f"{inner}.weight"], tensors[f"{inner}.bias"])),
            tensors[f"{outer}.weight"],
            tensors[f"{outer}.bias"],
        )

    end = norm("layer_norm", "stack", 1e-7)
    layers = sum(name.endswith("self_attn.mix") for name in tensors)
    s: Any = end.start(tensors["in.x"])
    ending = "_scaled" if scaled else ""
    for layer in range(layers):
        s = norm(f"layers.{layer}.self_attn_layer_norm", "mixer", 1e-5).wrap(s, attend(layer))
        s = norm(f"layers.{layer}.final_layer_norm", "feedforward", 1e-5).wrap(s, feed(layer))
        for stream, name in zip(s, ("post", "dual")):
            torch.testing.assert_close(stream, tensors[f"out.ms{ending}_layer{layer}_{name}"], rtol=0, atol=1e-11)
    torch.testing.assert_close(end.finish(s), tensors[f"out.ms{ending}"], rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("side", "layers", "other", "alpha", "beta"),
    [  # table 1 of the paper, N = 18 and M = 6
        ("encoder", 18, 0, (2 * 18) ** 0.25, (8 * 18) ** -0.25),
        ("decoder", 18, 0, (2 * 18) ** 0.25, (8 * 18) ** -0.25),
        ("encoder", 18, 6, 0.81 * (18**4 * 6) ** (1 / 16), 0.87 * (18**4 * 6) ** (-1 / 16)),
        ("decoder", 6, 18, (3 * 6) ** 0.25, (12 * 6) ** -0.25),
    ],
)
def test_deepnorm_weighs_by_depth(side: Any, layers: int, other: int, alpha: float, beta: float) -> None:
    config, place = DeepNorm.Config(), scope(side, layers, other)
    assert (config.alpha(place), config.gain(place)) == (pytest.approx(alpha), pytest.approx(beta))
    x = torch.randn(2, 5, 32)
    wiring = config.build(place, "mixer")
    torch.testing.assert_close(wiring.wrap(x, torch.tanh), F.layer_norm(alpha * x + torch.tanh(x), (32,)))


def model(residual: str) -> Transformer:
    side = {"layers": 3, "mixer": "attention(4)", "feedforward": "swiglu(64)", "residual": residual}
    torch.manual_seed(0)
    return Transformer(Transformer.Config(d_model=32, vocabulary=50, encoder=side, decoder={**side, "layers": 2}))


def test_deepnorm_starts_smaller_where_something_is_added() -> None:
    plain, deep = model("post").state_dict(), model("deepnorm").state_dict()
    gains = {"encoder": 0.87 * (3**4 * 2) ** (-1 / 16), "decoder": 24**-0.25}
    adding = ("value.weight", "output.weight", "inner.weight", "outer.weight")
    for name, weight in deep.items():
        gain = gains[name.split(".")[1]] if name.startswith("stacks") and name.endswith(adding) else 1.0
        torch.testing.assert_close(weight, gain * plain[name], msg=name)


def test_a_deep_stack_passes_gradients_where_post_does_not() -> None:
    """What both were made for: at 24 layers the first one still hears of the last."""

    def first_gradient(residual: str) -> float:
        side = {"layers": 24, "mixer": "attention(4)", "feedforward": "relu(64)", "residual": residual}
        torch.manual_seed(0)
        table: dict[str, Any] = {
            "d_model": 32,
            "vocabulary": 50,
            "dropout": 0.0,
            "encoder": side,
            "decoder": {"layers": 0},
        }
        deep = Transformer(Transformer.Config(**table))
        hidden = deep.encode(torch.arange(16)[None]).values
        hidden[0, 0].square().sum().backward()
        weights = [
            dict(deep.named_parameters())[f"stacks.encoder.blocks.{n}.sublayers.feedforward.outer.weight"]
            for n in (0, 23)
        ]
        first, last = (float(weight.grad.norm()) for weight in weights)  # type: ignore[union-attr]
        return first / last

    assert first_gradient("residual_dual") > 3 * first_gradient("post")


def test_the_second_stream_is_the_plain_sum() -> None:
    wiring = ResiDual(scope(), 0.5)
    x = torch.randn(2, 3, 32)
    outputs: list[Tensor] = []

    def sublayer(y: Tensor) -> Tensor:
        outputs.append(torch.sin(y))
        return outputs[-1]

    s = wiring.wrap(wiring.wrap(wiring.start(x), sublayer), sublayer)
    torch.testing.assert_close(s[1], 0.5 * (x + outputs[0] + outputs[1]))
    post = PostNorm(scope(), "mixer")
    torch.testing.assert_close(s[0], post.wrap(post.wrap(x, torch.sin), torch.sin))
