"""CRATE: subspace attention, ISTA and the residual between them, against the authors' numbers; what one tensor for keys
and values saves; what is refused."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor, nn

from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.cache.kv import KVCache
from headway.nn.context import Context, ForwardReport
from headway.nn.layers.int8 import quantise_model
from headway.nn.layers.ista import ISTA, ista_step
from headway.nn.layers.linear import Dense
from headway.nn.layers.residual import CrateResidual
from headway.nn.mixers.crate import SubspaceAttention
from headway.nn.sequence import positions_from_start
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer

EXACT = {"rtol": 0.0, "atol": 1e-12}
TENSORS, CONFIG = golden("crate")
LAYERS = 1 + max(int(name.split(".")[2]) for name in TENSORS if name.startswith("w.layers."))
MIXER = f"crate({CONFIG['heads']}, {CONFIG['dim_head']})"
FEEDFORWARD = f"ista({CONFIG['step_size']}, {CONFIG['lambda']})"


def scope(**changes: Any) -> Scope:
    norm, linear = make_part("norm", "layernorm"), make_part("linear", "dense")
    return Scope(d_model=CONFIG["dim"], dropout=0.0, norm=norm, linear=linear, **changes)


def poured(residual: str) -> Stack:
    """Our stack with the reference's weights."""
    table = {
        "layers": LAYERS, "mixer": MIXER, "feedforward": FEEDFORWARD, "residual": residual, "position": "none",
    }  # fmt: skip
    place = scope(layers=LAYERS)
    stack = Stack(from_dict(Stack.Config, table).resolved(place, None), place).double().eval()
    weights = {}
    for layer in range(LAYERS):
        ours, theirs = f"blocks.{layer}", f"w.layers.{layer}"
        weights[f"{ours}.sublayers.self.subspaces.weight"] = TENSORS[f"{theirs}.0.fn.qkv.weight"]
        for name in ("weight", "bias"):
            weights[f"{ours}.sublayers.self.output.{name}"] = TENSORS[f"{theirs}.0.fn.to_out.0.{name}"]
            norm = {"weight": "gain", "bias": "bias"}[name]
            weights[f"{ours}.residuals.self.norm.{norm}"] = TENSORS[f"{theirs}.0.norm.{name}"]
            weights[f"{ours}.residuals.feedforward.norm.{norm}"] = TENSORS[f"{theirs}.1.norm.{name}"]
        weights[f"{ours}.sublayers.feedforward.dictionary.weight"] = TENSORS[f"{theirs}.1.fn.weight"]
    missing, unexpected = stack.load_state_dict(weights, strict=False)
    assert not unexpected and all(name.startswith("ends.") for name in missing)
    return stack


def context(x: Tensor) -> Context:
    return Context(positions_from_start(x.shape[1], None, x.device))


def first_block() -> tuple[nn.ModuleDict, nn.ModuleDict]:
    block: Any = poured("crate").blocks[0]
    return block.sublayers, block.residuals


@torch.no_grad()
def test_a_stack_computes_the_authors_numbers() -> None:
    x = TENSORS["in.x"]
    torch.testing.assert_close(poured("crate")(x, context(x)), TENSORS["out.stack"], **EXACT)


@torch.no_grad()
def test_every_sublayer_computes_the_authors_numbers() -> None:
    x = TENSORS["in.x"]
    sublayers, residuals = first_block()

    def attend(y: Tensor) -> Tensor:
        return sublayers["self"](y, context(y))  # type: ignore[no-any-return]

    def feed(y: Tensor) -> Tensor:
        return sublayers["feedforward"](y, context(y))  # type: ignore[no-any-return]

    torch.testing.assert_close(attend(x), TENSORS["out.mssa"], **EXACT)
    torch.testing.assert_close(x + feed(x), TENSORS["out.ista"], **EXACT)
    wrapped = {name: residuals[name].wrap(x, f) for name, f in (("self", attend), ("feedforward", feed))}  # type: ignore[operator]
    torch.testing.assert_close(wrapped["self"], TENSORS["out.mssa_prenorm_residual"], **EXACT)
    torch.testing.assert_close(wrapped["feedforward"], TENSORS["out.ista_prenorm"], **EXACT)


@torch.no_grad()
def test_another_residual_is_another_model() -> None:
    """Around ISTA a plain pre-norm residual adds the vector before the norm, which the reference does not."""
    x = TENSORS["in.x"]
    stack = poured("pre")
    stack.ends = CrateResidual.Config().build(scope(), "stack")  # no norm at the end, as in the reference
    assert (stack(x, context(x)) - TENSORS["out.stack"]).abs().max() > 1


@torch.no_grad()
def test_codes_stay_sparse_in_the_stream() -> None:
    """What thresholding sets to 0 is exactly 0 afterwards, although only the difference passes through the residual."""
    x = TENSORS["in.x"]
    report = ForwardReport(trace={})
    stack = poured("crate")
    output = stack(x, Context(positions_from_start(x.shape[1], None, x.device), report, path="encoder"))
    assert report.trace is not None
    code = report.trace[f"{stack.name}.{LAYERS - 1}.feedforward.code"]
    assert (code >= 0).all() and 0.2 < (code == 0).double().mean() < 0.8
    assert torch.equal(output == 0, code == 0)


def test_the_step_is_a_gradient() -> None:
    """Of half the squared error with which a code reconstructs x, taken at the code x."""
    torch.manual_seed(4)
    x, dictionary = torch.rand(5, 8, dtype=torch.float64) + 2, torch.randn(8, 8, dtype=torch.float64) / 8
    code = x.clone().requires_grad_()
    error = 0.5 * (x - code @ dictionary.T).square().sum()
    (gradient,) = torch.autograd.grad(error, code)
    torch.testing.assert_close(ista_step(x, dictionary, 0.05, 0.0), x - 0.05 * gradient, **EXACT)
    torch.testing.assert_close(ista_step(x, dictionary, 0.05, 3.0), x - 0.05 * gradient - 0.15, **EXACT)


def test_gradients_reach_everything() -> None:
    x = TENSORS["in.x"]
    stack = poured("crate")
    stack(x, context(x)).square().sum().backward()
    for name, parameter in stack.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 1e-3, name


def test_any_feedforward_continues_from_the_normed_stream() -> None:
    residual = CrateResidual.Config().build(scope(), "feedforward").double()
    x = torch.randn(2, 3, CONFIG["dim"], dtype=torch.float64)
    normed = residual.norm(x)
    torch.testing.assert_close(residual.wrap(x, lambda y: 3 * y), 4 * normed, **EXACT)
    mixer = CrateResidual.Config().build(scope(), "mixer").double()
    torch.testing.assert_close(mixer.wrap(x, lambda y: 3 * y), x + 3 * normed, **EXACT)


@pytest.mark.parametrize("mask", ["causal", "causal & local(8)"])
@torch.no_grad()
def test_a_cache_keeps_one_tensor(mask: str) -> None:
    """Half of what attention keeps, with a rotation of keys too: they are rotated when they are read."""
    sizes = {}
    for mixer in ("crate(4)", "attention(4)"):
        config = small(encoder=0, decoder={"mixer": mixer, "position": "rope", "mask": mask})
        model = Transformer(config).eval()
        state = model.new_state(3)
        model.decode(torch.randint(29, (3, 9)), state=state)
        sizes[mixer] = state.bytes
        buffers = [cache.buffers for layer in state.layers for cache in layer.values()]  # type: ignore[attr-defined]
        assert {len(one) for one in buffers} == {1 if mixer == "crate(4)" else 2}
    assert 2 * sizes["crate(4)"] == sizes["attention(4)"]
    assert isinstance(
        Transformer(small(encoder=0, decoder={"mixer": "crate(4)"})).new_state(1).layers[0]["self"], KVCache
    )


@torch.no_grad()
def test_weights_are_recorded() -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": "crate(4)"})).eval()
    report = ForwardReport(trace={})
    model.decode(torch.randint(29, (2, 6)), report=report)
    assert report.trace is not None
    weights = report.trace["decoder.1.self.weights"]
    assert weights.shape == (2, 4, 6, 6) and (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 6))


@torch.no_grad()
def test_the_dictionary_stays_in_floats() -> None:
    """In eight bits and under BitNet: its two products are a gradient only with one and the same matrix."""
    side = {"mixer": "crate(4)", "feedforward": "ista", "residual": "crate"}
    int8 = quantise_model(Transformer(small(decoder=0, sides=side)).eval())
    ternary = Transformer(small(decoder=0, sides=side, linear="bitnet"))
    for model in (int8, ternary):
        parts: Any = model.stacks["encoder"].blocks[0].sublayers  # type: ignore[union-attr, index]
        assert isinstance(parts["feedforward"], ISTA) and type(parts["feedforward"].dictionary) is Dense
        assert isinstance(parts["self"], SubspaceAttention) and type(parts["self"].subspaces) is not Dense


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"mixer": "crate(3)"}, "16 is not a multiple of 3 heads"),
        ({"mixer": "crate(4, d_k=3)", "position": "rope"}, "d_k must be even, not 3"),
        ({"mixer": "crate(4, kernel='sdpa')", "position": "shaw"}, "shaw needs attention weights"),
        ({"mixer": "crate(4, kernel='flex', dropout=0.1)"}, 'the kernel "flex" has no dropout'),
        ({"cross": "crate(4)"}, "crate has no cross-attention"),
        ({"feedforward": "ista(-0.1)"}, "at least 0"),
    ],
)
def test_what_is_refused(side: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(decoder=side).resolved()
