"""minGRU: the layer of minGRU-pytorch, and the recurrence as a plain loop; what it refuses."""

from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import make_part
from headway.data.ragged import ragged_from_lists
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.context import Context
from headway.nn.mixers.mingru import MinGRU, make_positive
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.train.objectives import pack_sequences

NEAR = {"rtol": 0.0, "atol": 1e-12}


def layer(mixer: str, width: int = 16) -> MinGRU:
    part: Any = make_part("mixer", mixer)
    module = MinGRU(part, Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense")))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return module.double()


def context(x: Tensor, valid: Tensor | None = None) -> Context:
    return Context(positions_from_start(x.shape[1], valid, x.device))


@torch.no_grad()
def test_the_layer_is_that_of_mingru_pytorch() -> None:
    """Which computes in logarithms, first from nothing, then from the state after that."""
    theirs, c = golden("mingru")
    module = layer(f"mingru({c['expansion']}, 'positive')", c["dim"])
    module.load_state_dict({name.removeprefix("w."): x for name, x in theirs.items() if name.startswith("w.")})
    x = theirs["in.x"]
    state = module.new_cache(len(x), x.device)
    for name in ("out.first", "out.later"):
        torch.testing.assert_close(module(x, context(x), cache=state), theirs[name], **NEAR)
    torch.testing.assert_close(state.values["state"], theirs["out.state"], **NEAR)


@pytest.mark.parametrize("length", [1, 5, 50])
@pytest.mark.parametrize("more", ["", "2", "0.5, 'positive'", "1, bias=true"])
def test_the_layer_is_a_plain_loop_with_its_gradients(more: str, length: int) -> None:
    module, x = layer(f"mingru({more})"), torch.randn(2, length, 16, dtype=torch.float64)
    state, outputs = torch.zeros(2, module.config.width(Scope(d_model=16, dropout=0, norm=None, linear=None))), []
    for t in range(length):
        z, candidate = torch.sigmoid(module.gate(x[:, t])), module.candidate(x[:, t])
        if "positive" in more:
            candidate = make_positive(candidate)
        state = (1 - z) * state + z * candidate
        outputs.append(module.output(state))
    expected, found = torch.stack(outputs, 1), module(x, context(x))
    torch.testing.assert_close(found, expected, **NEAR)
    weights = list(module.parameters())
    gradients = [torch.autograd.grad(y.square().sum(), weights) for y in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)


def test_a_positive_candidate_is_positive_and_smooth_at_0() -> None:
    x = torch.tensor([-3.0, -1e-9, 0.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(
        make_positive(x), torch.tensor([0.0474258732, 0.5, 0.5, 2.5]).double(), rtol=0, atol=1e-8
    )


@torch.no_grad()
def test_a_closed_gate_remembers_for_ever() -> None:
    """z = 0 keeps the state to the bit, z = 1 replaces it."""
    module = layer("mingru(1, bias=true)")
    module.gate.weight.zero_()  # type: ignore[union-attr, operator]
    x, states = torch.randn(1, 3000, 16, dtype=torch.float64), []
    for bias in (1e4, -1e4):
        module.gate.bias.fill_(bias)  # type: ignore[union-attr, operator]
        cache = module.new_cache(1, x.device)
        cache.advance(positions_from_start(1, None, x.device), state=torch.ones(1, 16, dtype=torch.float64))
        module(x, context(x), cache=cache)
        states.append(cache.values["state"])
    torch.testing.assert_close(states[0], module.candidate(x[:, -1]), **NEAR)
    assert torch.equal(states[1], torch.ones(1, 16, dtype=torch.float64))


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_its_state_is_in_float32(dtype: torch.dtype) -> None:
    module, x = layer("mingru(2)").to(dtype), torch.randn(1, 40, 16, dtype=dtype)
    cache = module.new_cache(1, x.device)
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 products end the process on some processors
        output = module(x, context(x), cache=cache)
    assert output.dtype == dtype and output.isfinite().all()
    assert cache.values["state"].dtype == torch.float32


@pytest.mark.parametrize("more", ["", "2.5", "0.5, bias=true"])
@pytest.mark.parametrize("length", [1, 40])
def test_costs_are_those_of_the_built_model(length: int, more: str) -> None:
    built = Transformer(small(encoder=0, decoder={"mixer": f"mingru({more})"})).eval()
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", 'mingru supports only the mask "causal"'),
        ({"position": "alibi"}, "decoder.position", "alibi changes queries, keys or scores, and mingru has none"),
        ({"position": "rope"}, "decoder.position", "rope changes queries, keys or scores"),
        ({"mixer": "mingru(0.01)"}, "decoder.mixer.expansion", "expansion = 0.01 of d_model = 16 leaves no channel"),
        ({"cross": "mingru"}, "decoder.cross", 'mingru has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "alibi", "rope", "expansion", "cross"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "mingru", **changes}).resolved()
    assert caught.value.where == where


def test_an_encoder_may_only_look_back() -> None:
    with pytest.raises(ConfigError, match='only the mask "causal", not "full". Set mask = "causal"') as caught:
        small(encoder={"mixer": "mingru"}).resolved()
    assert caught.value.where == "encoder.mask"
    assert small(encoder={"mixer": "mingru", "mask": "causal"}).resolved().encoder.mixer[0].kind == "mingru"


def test_packed_texts_are_refused() -> None:
    module = layer("mingru")
    _, packed = pack_sequences(ragged_from_lists([range(3), range(4)]), 8, 0, max_tokens=8)
    places = positions_from_start(8, packed, torch.device("cpu"))
    with pytest.raises(HeadwayError, match="mingru would mix packed texts with each other"):
        module(torch.randn(1, 8, 16, dtype=torch.float64), Context(places))
