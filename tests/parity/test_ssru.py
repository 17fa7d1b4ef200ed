"""SSRU: the recurrence of the paper as a loop over plain Python numbers; what it refuses."""

import math
from typing import Any

import pytest
import torch
from nn.building import small
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import make_part
from headway.data.ragged import ragged_from_lists
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.context import Context, ForwardReport
from headway.nn.mixers.ssru import SSRU
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.train.objectives import pack_sequences

NEAR = {"rtol": 0.0, "atol": 1e-12}
WIDTH = 6


def layer(width: int = WIDTH) -> SSRU:
    scope = Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"))  # type: ignore[arg-type]
    module = SSRU(SSRU.Config(), scope)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.5)
    return module.double()


def context(x: Tensor, valid: Tensor | None = None) -> Context:
    return Context(positions_from_start(x.shape[1], valid, x.device), ForwardReport(trace={}))


def loop(module: SSRU, text: Tensor, state: list[float]) -> tuple[list[list[float]], list[float]]:
    """One text (T, d), number by number: the outputs, and the state at the end."""
    parameters: dict[str, Any] = {name: value.tolist() for name, value in module.named_parameters()}
    assert parameters.keys() == {"gate.weight", "gate.bias", "candidate.weight"}
    outputs = []
    for x in text.tolist():
        after = []
        for channel, before in enumerate(state):
            candidate = sum(w * one for w, one in zip(parameters["candidate.weight"][channel], x))
            gate = sum(w * one for w, one in zip(parameters["gate.weight"][channel], x))
            f = 1 / (1 + math.exp(-(gate + parameters["gate.bias"][channel])))
            after.append(f * before + (1 - f) * candidate)
        state = after
        outputs.append([max(0.0, one) for one in state])
    return outputs, state


@pytest.mark.parametrize("length", [1, 5, 50, 300])
@torch.no_grad()
def test_the_layer_is_the_papers_recurrence(length: int) -> None:
    module, x = layer(), torch.randn(2, length, WIDTH, dtype=torch.float64)
    expected = [loop(module, text, [0.0] * WIDTH) for text in x]
    cache = module.new_cache(2, x.device)
    found = module(x, context(x), cache=cache)
    torch.testing.assert_close(found, torch.tensor([o for o, _ in expected], dtype=torch.float64), **NEAR)
    last = torch.tensor([state for _, state in expected], dtype=torch.float64)
    torch.testing.assert_close(cache.values["state"], last, **NEAR)
    torch.testing.assert_close(module(x, context(x)), found, **NEAR)


@torch.no_grad()
def test_a_step_goes_on_from_the_state_before() -> None:
    module, x = layer(), torch.randn(1, 40, WIDTH, dtype=torch.float64)
    whole, cache, parts = module(x, context(x)), module.new_cache(1, x.device), []
    for first, end in ((0, 30), *((t, t + 1) for t in range(30, 40))):
        tokens = positions_from_start(end - first, None, x.device)
        parts.append(module(x[:, first:end], Context(tokens), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole, **NEAR)
    outputs, _ = loop(module, x[0, 30:], loop(module, x[0, :30], [0.0] * WIDTH)[1])
    torch.testing.assert_close(whole[0, 30:], torch.tensor(outputs, dtype=torch.float64), **NEAR)


@torch.no_grad()
def test_padding_leaves_the_state_as_it_is() -> None:
    """To the bit, whatever it holds: in rows of one length, as products of other shapes may add in another order."""
    module, x = layer(), torch.randn(1, 4, WIDTH, dtype=torch.float64)

    def last_state(rows: torch.Tensor) -> torch.Tensor:
        cache = module.new_cache(1, x.device)
        module(rows, context(rows, torch.arange(rows.shape[1])[None] < 4), cache=cache)
        return cache.values["state"]

    padded = [last_state(torch.cat([x, fill * torch.ones(1, 3, WIDTH, dtype=x.dtype)], 1)) for fill in (0.0, 1e30)]
    assert torch.equal(*padded)
    torch.testing.assert_close(padded[0], last_state(x), **NEAR)


def test_its_gradients_are_those_of_a_loop() -> None:
    module, x = layer(), torch.randn(2, 50, WIDTH, dtype=torch.float64)
    state, outputs = torch.zeros(2, WIDTH, dtype=torch.float64), []
    for t in range(50):
        f = torch.sigmoid(module.gate(x[:, t]))
        state = f * state + (1 - f) * module.candidate(x[:, t])
        outputs.append(torch.relu(state))
    weights = list(module.parameters())
    both = (module(x, context(x)), torch.stack(outputs, 1))
    gradients = [torch.autograd.grad(y.square().sum(), weights) for y in both]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_a_gate_of_1_remembers_for_ever_and_one_of_0_replaces() -> None:
    module = layer()
    module.gate.weight.zero_()  # type: ignore[union-attr, operator]
    x = torch.randn(1, 3000, WIDTH, dtype=torch.float64)
    states = []
    for bias in (1e4, -1e4):
        module.gate.bias.fill_(bias)  # type: ignore[union-attr, operator]
        cache = module.new_cache(1, x.device)
        cache.advance(positions_from_start(1, None, x.device), state=torch.ones(1, WIDTH, dtype=torch.float64))
        module(x, context(x), cache=cache)
        states.append(cache.values["state"])
    assert torch.equal(states[0], torch.ones(1, WIDTH, dtype=torch.float64))
    torch.testing.assert_close(states[1], module.candidate(x[:, -1]), **NEAR)


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_its_state_is_in_float32(dtype: torch.dtype) -> None:
    module, x = layer().to(dtype), torch.randn(1, 40, WIDTH, dtype=dtype)
    cache = module.new_cache(1, x.device)
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 products end the process on some processors
        output = module(x, context(x), cache=cache)
    assert output.dtype == dtype and output.isfinite().all()
    assert cache.values["state"].dtype == torch.float32


@torch.no_grad()
def test_a_trace_shows_gates_candidates_and_states() -> None:
    module, x = layer(), torch.randn(1, 5, WIDTH, dtype=torch.float64)
    ctx = context(x)
    output = module(x, ctx)
    assert ctx.report.trace is not None
    assert {name.removeprefix(".") for name in ctx.report.trace} == {"gate", "candidate", "states"}
    torch.testing.assert_close(torch.relu(ctx.report.trace[".states"]), output, **NEAR)


@pytest.mark.parametrize("length", [1, 40])
def test_costs_are_those_of_the_built_model(length: int) -> None:
    built = Transformer(small(encoder=0, decoder={"mixer": "ssru"})).eval()
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", 'ssru supports only the mask "causal"'),
        ({"position": "alibi"}, "decoder.position", "alibi changes queries, keys or scores, and ssru has none"),
        ({"cross": "ssru"}, "decoder.cross", 'ssru has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "alibi", "cross"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "ssru", **changes}).resolved()
    assert caught.value.where == where


def test_packed_texts_are_refused() -> None:
    _, packed = pack_sequences(ragged_from_lists([range(3), range(4)]), 8, 0, max_tokens=8)
    places = positions_from_start(8, packed, torch.device("cpu"))
    with pytest.raises(HeadwayError, match="ssru would mix packed texts with each other"):
        layer()(torch.randn(1, 8, WIDTH, dtype=torch.float64), Context(places))
