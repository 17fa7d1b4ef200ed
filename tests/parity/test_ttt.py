"""Test-time training: the TTT-Linear layer of its authors; the dual form is the definition, with gradients by autograd;
what it keeps, what it costs, what it refuses."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from tensor_sizes import max_numel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.config import read_config
from headway.config.schema import from_dict, make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.cache.kv import TruncationError
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.ttt import TTT
from headway.nn.ops.test_time_training import (
    InnerNorm,
    MiniBatches,
    TTTState,
    apply_model,
    dual,
    gelu,
    gelu_derivative,
    primal,
)
from headway.nn.positions.positions import Rope
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
NEAR = {"rtol": 0.0, "atol": 1e-12}
INNER = ("linear", "mlp")


def layer(mixer: str, width: int = 16, norm: str = "layernorm(eps=1e-6)") -> TTT:
    scope = Scope(d_model=width, dropout=0.0, norm=make_part("norm", norm), linear=make_part("linear", "dense"))
    part: Any = make_part("mixer", mixer)
    module = TTT(part, scope).double()
    for name, parameter in module.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if name.endswith("gain") else 0.0, 0.3)
    return module


def model(mixer: str, position: str = "rope", **changes: Any) -> Transformer:
    side = {"layers": 2, "mixer": mixer, "position": position, "feedforward": "relu(24)"}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": side}
    torch.manual_seed(5)
    return Transformer(from_dict(Transformer.Config, {**table, **changes})).double().eval()


# ---- Against others


@pytest.mark.parametrize("pieces", ["whole", "by mini-batch", "across mini-batches", "token by token"])
@torch.no_grad()
def test_the_layer_is_the_authors(pieces: str) -> None:
    theirs, c = golden("ttt_linear")
    size, tokens = c["mini_batch"], c["n"]
    module = layer(f"ttt({c['heads']}, mini_batch={size}, rate={c['base_lr']})", c["hidden"])
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    weights = {f"{ours}.weight": theirs[f"w.{name}.weight"] for ours, name in names.items()}
    weights |= {
        "rate.weight": theirs["w.learnable_ttt_lr_weight"].squeeze(1),
        "rate.bias": theirs["w.learnable_ttt_lr_bias"].squeeze(1),
        "inner.0": torch.cat([theirs["w.W1"], theirs["w.b1"]], 1),
        "inner_gain": theirs["w.ttt_norm_weight"][:, None],
        "inner_bias": theirs["w.ttt_norm_bias"][:, None],
        "steps": theirs["w.learnable_token_idx"],
        "norm.gain": theirs["w.post_norm.weight"],
        "norm.bias": theirs["w.post_norm.bias"],
    }
    module.load_state_dict(weights)
    x, state = theirs["in.x"], module.new_cache(len(theirs["in.x"]), CPU)
    rope = Rope(Rope.Config(base=c["rope_theta"]), Scope(d_model=c["hidden"], dropout=0, norm=None, linear=None))
    places = positions_from_start(tokens, None, CPU)
    sizes = {
        "whole": [tokens],
        "by mini-batch": [size] * (tokens // size),
        "across mini-batches": [size + 3, 1, size],
        "token by token": [1] * tokens,
    }[pieces]
    outputs, rest = [], tokens - sum(sizes)
    for part in x.split([*sizes, rest] if rest else sizes, 1):
        start = int(state.lengths[0])
        here = places._replace(positions=places.positions[:, start : start + part.shape[1]], in_order=start == 0)
        outputs.append(module(part, Context(here, position=rope), cache=state))
    torch.testing.assert_close(torch.cat(outputs, 1), theirs["out.y"], rtol=0, atol=1e-11)
    torch.testing.assert_close(module(x, Context(places, position=rope)), theirs["out.y"], rtol=0, atol=1e-11)
    whole = theirs["out.y_multiple"].shape[1]
    short = module(x[:, :whole], Context(positions_from_start(whole, None, CPU), position=rope))
    torch.testing.assert_close(short, theirs["out.y_multiple"], rtol=0, atol=1e-11)
    before, total = state.values["layer0"], state.values["sum0"]
    expected = torch.cat([theirs["out.W1_after_full_batches"], theirs["out.b1_after_full_batches"]], 2)
    torch.testing.assert_close(before, expected, rtol=0, atol=1e-11)
    place = (tokens - 1) % size
    step = (1 / (place + 1) + module.steps[place]).relu()
    expected = torch.cat([theirs["out.W1_end"], theirs["out.b1_end"]], 2)
    torch.testing.assert_close(before - step * total, expected, rtol=0, atol=1e-11)


def inputs(inner: str, batches: int, length: int, *, begun: bool = True) -> tuple[MiniBatches, TTTState, InnerNorm]:
    """Two rows and three heads; the first row does not end its first mini-batch."""
    q, k, v = torch.randn(3, 2, 3, batches, length, 4, dtype=torch.float64)
    rates = torch.rand(2, 3, batches, length, 1, dtype=torch.float64) / 4
    complete = torch.ones(2, batches, dtype=torch.bool)
    complete[1, -1] = False
    if batches > 1:
        complete[0], rates[0, :, 1:] = False, 0.0
    steps = torch.rand(2, 1, length, 1, dtype=torch.float64) + 0.1
    shapes = [(5, 4)] if inner == "linear" else [(5, 6), (7, 4)]
    layers, sums = (tuple(torch.randn(2, 3, *shape, dtype=torch.float64) / 2 for shape in shapes) for _ in range(2))
    norm = InnerNorm(torch.randn(3, 1, 4).double() + 1, torch.randn(3, 1, 4).double(), 1e-6)
    last = torch.tensor(0.3, dtype=torch.float64)
    return MiniBatches(q, k, v, rates, steps, last, complete), TTTState(layers, sums if begun else None), norm


@pytest.mark.parametrize("begun", [False, True], ids=["from a start", "after tokens"])
@pytest.mark.parametrize(("batches", "length"), [(1, 1), (1, 5), (3, 4)])
@pytest.mark.parametrize("inner", INNER)
def test_the_dual_form_is_the_definition_with_its_gradients(inner: str, batches: int, length: int, begun: bool) -> None:
    given, state, norm = inputs(inner, batches, length, begun=begun)
    leaves = [*given[:6], *state.layers, *(state.sums or ()), norm.gain, norm.bias]
    for leaf in leaves:
        leaf.requires_grad_()
    results: list[tuple[Tensor, ...]] = []
    towards = None
    for form in (primal, dual):
        output, after = form(given, state, norm)
        assert after.sums is not None
        # Where a row has no tokens, what comes out is of no use.
        output = output * (given.rates > 0)
        found = (output, *after.layers, *after.sums)
        towards = towards or [torch.randn_like(x) for x in found]
        loss = sum((x * y).sum() for x, y in zip(found, towards))
        results.append((*found, *torch.autograd.grad(loss, leaves, materialize_grads=True)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-9, atol=1e-9)


def test_the_definition_without_any_of_our_formulas() -> None:
    """An mlp in two mini-batches, by torch's layers and its gradients."""
    given, state, norm = inputs("mlp", 2, 3, begun=False)
    given = given._replace(complete=torch.ones(2, 2, dtype=torch.bool))
    output, _ = dual(given, state, norm)
    row, head = 1, 2
    weights = [
        part[row, head].clone().requires_grad_()
        for layer in state.layers
        for part in (layer[:, :, :-1], layer[:, :, -1])
    ]

    def norm_of(x: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, (4,), norm.gain[head, 0], norm.bias[head, 0], norm.eps)

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        hidden = torch.nn.functional.gelu(x @ weights[0] + weights[1], approximate="tanh")
        return norm_of(hidden @ weights[2] + weights[3])

    for n in range(2):
        sums = [torch.zeros_like(w) for w in weights]
        for t in range(3):
            q, k, v = (x[row, head, n, t] for x in given[:3])
            loss = 0.5 * ((run(k, weights) - (v - k)) ** 2).sum()
            gradients = torch.autograd.grad(loss, weights)
            sums = [total + given.rates[row, head, n, t] * g for total, g in zip(sums, gradients)]
            now = [w - given.steps[row, 0, t] * total for w, total in zip(weights, sums)]
            torch.testing.assert_close(output[row, head, n, t], q + run(q, now), **NEAR)
        weights = [(w - given.last_step * total).detach().requires_grad_() for w, total in zip(weights, sums)]


def test_the_derivative_of_gelu_is_its_derivative() -> None:
    x = torch.linspace(-6, 6, 101, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(gelu(x).sum(), x)
    torch.testing.assert_close(gelu_derivative(x), expected, **NEAR)


def test_the_inner_model_learns() -> None:
    """Values are a function of keys: the more pairs it has seen, the better it knows that function."""
    torch.manual_seed(1)
    k = torch.randn(1, 1, 12, 16, 8, dtype=torch.float64)
    target = torch.nn.functional.layer_norm(k @ torch.randn(8, 8, dtype=torch.float64), (8,))
    rates, steps = torch.full((1, 1, 12, 16, 1), 1 / 8).double(), torch.ones(1, 1, 16, 1).double() / 16
    given = MiniBatches(k, k, k + target, rates, steps, steps[0, 0, 0, 0], torch.ones(1, 12, dtype=torch.bool))
    norm = InnerNorm(torch.ones(1, 1, 8).double(), torch.zeros(1, 1, 8).double(), 1e-6)
    for shapes in ([(9, 8)], [(9, 32), (33, 8)]):
        start = TTTState(tuple(0.1 * torch.randn(1, 1, *shape, dtype=torch.float64) for shape in shapes), None)
        _, after = dual(given, start, norm)
        errors = [
            float((norm(apply_model(k[:, :, 0], state.layers)) - target[:, :, 0]).square().mean())
            for state in (start, after)
        ]
        assert errors[1] < 0.5 * errors[0]


# ---- The layer


@pytest.mark.parametrize("inner", INNER)
@torch.no_grad()
def test_a_state_of_one_size_serves_rows_at_different_places(inner: str) -> None:
    built = model(f"ttt(2, '{inner}', 5)")
    ids, lengths, sizes = torch.randint(29, (3, 23)), torch.tensor([23, 12, 4]), []
    state = built.new_state(3)
    for start, end in ((0, 7), (7, 8), (8, 19), (19, 23)):
        valid = valid_mask(lengths, 23)[:, start:end]
        hidden = built.decode(ids[:, start:end], valid, state=state)
        for row, length in enumerate(lengths.tolist()):
            whole = built.decode(ids[row : row + 1, :length])[0, start:end]
            torch.testing.assert_close(hidden[row, : len(whole)], whole, **NEAR)
        sizes.append(state.bytes)
    assert set(sizes) == {3 * 8 * built.config.costs()["decoder"].cached_per_text}
    assert built.config.kv_bytes_per_token() == 0
    with pytest.raises(TruncationError, match="snapshot"):
        state.truncate(lengths - 1)


@pytest.mark.parametrize("inner", INNER)
def test_bfloat16_keeps_the_inner_model_in_float32(inner: str) -> None:
    built = model(f"ttt(2, '{inner}', 8)").float()
    ids, state = torch.randint(29, (2, 50)), built.new_state(2)
    expected = built.decode(ids)
    half = built.to(torch.bfloat16)
    hidden = half.decode(ids, state=state)
    assert (hidden.float() - expected).norm() / expected.norm() < 0.1
    hidden.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in half.parameters())
    for one in state.layers:
        assert {x.dtype for x in one["self"].values.values()} == {torch.float32}  # type: ignore[attr-defined]


@torch.no_grad()
def test_a_trace_shows_rates_and_no_weights() -> None:
    built, ids, report = model("ttt(2, mini_batch=4)"), torch.randint(29, (2, 7)), ForwardReport(trace={})
    torch.testing.assert_close(built.decode(ids, report=report), built.decode(ids), **NEAR)
    trace = report.trace
    assert trace is not None and not any(name.endswith("weights") for name in trace)
    rates = trace["decoder.1.self.rates"]
    assert rates.shape == (2, 2, 7) and ((rates > 0) & (rates < 1 / 8)).all()
    assert trace["decoder.1.self.z"].shape == (2, 2, 7, 8)


@pytest.mark.parametrize("length", [1, 5, 8, 9, 16, 21])
@pytest.mark.parametrize("more", ["", ", inner='mlp', d_inner=5", ", inner='mlp', d_k=3, bias=true"])
def test_costs_are_those_of_the_built_model(length: int, more: str) -> None:
    built = model(f"ttt(4, mini_batch=8{more})", "none", norm="rmsnorm")
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@pytest.mark.parametrize("inner", INNER)
def test_twice_the_text_is_twice_the_work(inner: str) -> None:
    config = model(f"ttt(2, '{inner}')", "none").config
    assert config.forward_flops(0, 64_000) < 2.01 * config.forward_flops(0, 32_000)
    module, largest = layer(f"ttt(2, '{inner}', 8)"), []
    for length in (128, 256):
        x, ctx = torch.randn(1, length, 16, dtype=torch.float64), Context(positions_from_start(length, None, CPU))
        largest.append(max_numel(lambda x=x, ctx=ctx: module(x, ctx)))
    assert largest[1] == 2 * largest[0]


def test_the_first_inner_model_follows_from_the_seed() -> None:
    torch.manual_seed(3)
    first = layer_weights("ttt(2, 'mlp')")
    torch.manual_seed(3)
    assert all(torch.equal(a, b) for a, b in zip(first, layer_weights("ttt(2, 'mlp')")))
    assert [tuple(w.shape) for w in first] == [(2, 9, 32), (2, 33, 8)]
    for weights in first:
        assert not weights[:, -1].any(), "biases start as 0"
        assert 0.015 < float(weights[:, :-1].std()) < 0.025


def layer_weights(mixer: str) -> list[Tensor]:
    side = {"layers": 1, "mixer": mixer}
    built: Any = Transformer(small(encoder=0, decoder=side))
    return [weights.detach() for weights in built.stacks["decoder"].blocks[0].sublayers["self"].inner]


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", r'only the mask "causal", not "\(causal & local\(4\)\)"'),
        ({"position": "alibi"}, "decoder.position", "alibi changes attention scores, and TTT has none"),
        ({"position": "xpos"}, "decoder.position", "cancel only in their product"),
        ({"mixer": "ttt(3)"}, "decoder.mixer.heads", "d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "ttt(16)"}, "decoder.mixer.heads", "one channel for each head"),
        ({"mixer": "ttt(4, d_k=3)", "position": "rope"}, "decoder.position", "d_k must be even"),
        ({"mixer": "ttt(4, d_inner=8)"}, "decoder.mixer.d_inner", "a linear inner model has no hidden width"),
        ({"cross": "ttt"}, "decoder.cross", 'ttt has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "scores", "xpos", "heads", "one channel", "odd", "hidden width", "cross"],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "ttt(4)", **changes}).resolved()
    assert caught.value.where == where


def test_an_encoder_may_only_look_back() -> None:
    with pytest.raises(ConfigError, match='not "full". Set mask = "causal"') as caught:
        small(encoder={"mixer": "ttt(4)"}).resolved()
    assert caught.value.where == "encoder.mask"
    assert small(encoder={"mixer": "ttt(4)", "mask": "causal"}).resolved().encoder.mixer[0].rate == 1.0


def test_training_carries_its_model() -> None:
    side = {"layers": 1, "mixer": "ttt(4)", "position": "rope"}
    table = {"model": {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": side}}
    config = read_config({**table, "train": {"objective": "causal(carry=true)", "max_tokens": 16}})
    assert config.train.objective.carry
