"""Mamba: the layer of transformers, whole and with a state; the selective scan as a loop with its gradients, in bounded
memory; the convolution with padding anywhere; what it refuses."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from nn.building import small
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import MambaConfig
from transformers.cache_utils import DynamicCache
from transformers.models.mamba.modeling_mamba import MambaMixer

from headway.config.schema import make_part
from headway.data.ragged import ragged_from_lists
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.context import Context
from headway.nn.mixers.mamba import STEP_RANGE, Mamba
from headway.nn.ops.causal_convolution import convolve_causally
from headway.nn.ops.selective_scan import chunked, recurrent, selective_scan
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer
from headway.train.objectives import pack_sequences

NEAR = {"rtol": 0.0, "atol": 1e-12}
CPU = torch.device("cpu")


def context(x: Tensor, valid: Tensor | None = None) -> Context:
    return Context(positions_from_start(x.shape[1], valid, CPU))


def layer(more: str = "", width: int = 16) -> Mamba:
    part: Any = make_part("mixer", f"mamba({more})")
    return Mamba(part, Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense"))).double()


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> MambaMixer:
    """In float64 all through: it casts to float32 by name."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.manual_seed(4)
    config = MambaConfig(
        hidden_size=16, state_size=5, conv_kernel=3, expand=2, time_step_rank=4, use_bias=True, num_hidden_layers=1
    )
    module = MambaMixer(config, 0).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return module


def with_weights_of(theirs: MambaMixer) -> Mamba:
    ours = layer("expand=2, d_state=5, d_conv=3, dt_rank=4, chunk=8, bias=true")
    w = theirs.state_dict()
    (given, gate), (bias, gate_bias) = w["in_proj.weight"].chunk(2), w["in_proj.bias"].chunk(2)
    ours.load_state_dict(
        {
            "input.weight": given,
            "input.bias": bias,
            "gate.weight": gate,
            "gate.bias": gate_bias,
            "conv_weight": w["conv1d.weight"].permute(2, 1, 0),
            "conv_bias": w["conv1d.bias"],
            "select.weight": w["x_proj.weight"],
            "step.weight": w["dt_proj.weight"],
            "step_bias": w["dt_proj.bias"],
            "log_rate": w["A_log"][None],
            "skip": w["D"],
            "output.weight": w["out_proj.weight"],
            "output.bias": w["out_proj.bias"],
        }
    )
    return ours


@torch.no_grad()
def test_the_layer_is_that_of_transformers(theirs: MambaMixer) -> None:
    ours, x = with_weights_of(theirs), torch.randn(2, 21, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x, context(x)), theirs(x), **NEAR)


@torch.no_grad()
def test_its_state_is_that_of_transformers(theirs: MambaMixer) -> None:
    """After a prompt, and token by token from there."""
    ours, x = with_weights_of(theirs), torch.randn(2, 13, 16, dtype=torch.float64)
    mine, other = ours.new_cache(2, CPU), DynamicCache(config=theirs.config)
    for part in x.split([9, 1, 1, 1, 1], 1):
        torch.testing.assert_close(ours(part, context(part), cache=mine), theirs(part, cache_params=other), **NEAR)
    torch.testing.assert_close(mine.values["state"], other.get_recurrent_state(0), **NEAR)
    assert mine.values["window"].shape == (2, 2, 32) and mine.lengths.tolist() == [13, 13]


def inputs(length: int, *, state: bool = True) -> dict[str, Any]:
    x = torch.randn(2, length, 3, dtype=torch.float64)
    given = {"x": x, "step": F.softplus(torch.randn_like(x)), "a": -torch.rand(3, 4, dtype=torch.float64) * 2}
    given |= {name: torch.randn(2, length, 4, dtype=torch.float64) for name in ("b", "c")}
    return given | {"state": torch.randn(2, 3, 4, dtype=torch.float64) if state else None}


@pytest.mark.parametrize("state", [False, True], ids=["from nothing", "after something"])
@pytest.mark.parametrize(("length", "chunk"), [(1, 4), (7, 7), (13, 4), (40, 1), (90, 50)])
def test_forms_are_equal_with_their_gradients(length: int, chunk: int, state: bool) -> None:
    given = inputs(length, state=state)
    leaves = [x.requires_grad_() for x in given.values() if x is not None]
    towards, results = torch.randn(2, length, 3, dtype=torch.float64), []
    for y, last in (recurrent(**given), chunked(**given, chunk=chunk), selective_scan(**given, chunk=chunk)):
        results.append((y, last, *torch.autograd.grad((y * towards).sum() + last.square().sum(), leaves)))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-10, atol=1e-10)


def test_a_step_of_0_has_no_effect_and_a_large_one_forgets() -> None:
    given = inputs(30)
    given["step"][:, 10:] = 0.0
    _, last = selective_scan(**given, chunk=8)
    early = {name: x if name in ("a", "state") else x[:, :10] for name, x in given.items()}
    torch.testing.assert_close(last, recurrent(**early)[1], **NEAR)
    given["step"][:] = 1e6  # its decay is 0 exactly: nothing is divided by it
    y, last = selective_scan(**given, chunk=8)
    torch.testing.assert_close(last, 1e6 * given["x"][:, -1, :, None] * given["b"][:, -1, None], **NEAR)
    assert y.isfinite().all()


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation made."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.numbers = max(self.numbers, result.numel())
        return result


def test_states_of_all_tokens_never_exist() -> None:
    """Neither at once nor kept one by one: there would be N for each number of x."""
    given = {name: x.float() for name, x in inputs(1000).items()}
    leaves = [x.requires_grad_() for name, x in given.items()]
    kept: list[Tensor] = []
    with Largest() as seen, torch.autograd.graph.saved_tensors_hooks(lambda x: (kept.append(x), x)[1], lambda x: x):
        y, _ = selective_scan(**given, chunk=50)
        stored = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() // 4 for x in kept}
        y.sum().backward()
    everything = 2 * 1000 * 3 * 4
    assert seen.numbers < everything / 2
    assert sum(stored.values()) < sum(x.numel() for x in leaves) + 2 * 20 * 2 * 3 * 4
    assert all(x.grad is not None and x.grad.isfinite().all() for x in leaves)


@pytest.mark.parametrize("taps", [1, 2, 4])
def test_the_convolution_is_torchs(taps: int) -> None:
    x, weight, bias = torch.randn(2, 9, 3).double(), torch.randn(taps, 3).double(), torch.randn(3).double()
    y, window = convolve_causally(x, weight, bias)
    expected = F.conv1d(F.pad(x.mT, (taps - 1, 0)), weight.T[:, None], bias, groups=3).mT
    torch.testing.assert_close(y, expected, **NEAR)
    parts, window = [], None
    for part in x.split([1, 1, 5, 2], 1):
        y, window = convolve_causally(part, weight, bias, window)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), expected, **NEAR)


@pytest.mark.parametrize("taps", [1, 2, 4])
def test_the_convolution_passes_over_padding_anywhere(taps: int) -> None:
    weight, bias = torch.randn(taps, 3).double(), torch.randn(3).double()
    x, valid = torch.randn(3, 12, 3).double(), torch.rand(3, 12) < 0.5
    valid[1], valid[2, :6] = False, False
    found, window = [], None
    for part, real in zip(x.split(4, 1), valid.split(4, 1)):
        y, window = convolve_causally(part, weight, bias, window, real)
        found.append(y)
    for row in range(3):
        expected, last = convolve_causally(x[row : row + 1, valid[row]], weight, bias)
        torch.testing.assert_close(torch.cat(found, 1)[row, valid[row]], expected[0], **NEAR)
        assert window is not None and torch.equal(window[row], last[0])


def test_it_starts_as_published() -> None:
    """A = -1 … -N, steps between 0.001 and 0.1, the input passed on by D = 1."""
    module = layer("d_state=4")
    assert module.log_rate.exp()[0, 7].tolist() == pytest.approx([1, 2, 3, 4], rel=1e-6)
    steps = F.softplus(module.step_bias.detach())
    assert float(steps.min()) == pytest.approx(STEP_RANGE[0], rel=1e-4)
    assert float(steps.max()) == pytest.approx(STEP_RANGE[1], rel=1e-4)
    assert (module.skip == 1).all()
    assert module.config.dt_rank == 1 and layer(width=40).config.dt_rank == 3


@pytest.mark.filterwarnings("ignore:TF32")
def test_bfloat16_keeps_states_in_float32() -> None:
    module, x = layer().to(torch.bfloat16), torch.randn(1, 300, 16, dtype=torch.bfloat16)
    for linear in (module.input, module.gate, module.select, module.step, module.output):
        torch.nn.init.normal_(linear.weight, 0.0, 0.3)  # type: ignore[arg-type]
    cache = module.new_cache(1, CPU)
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 products end the process on some processors
        output = module(x, context(x), cache=cache)
        output.square().sum().backward()
    assert output.dtype == torch.bfloat16 and cache.values["state"].dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("more", ["", "3, 5, 2, dt_rank=2, bias=true, chunk=8"])
@pytest.mark.parametrize("length", [1, 21])
def test_costs_are_those_of_the_built_model(length: int, more: str) -> None:
    built = Transformer(small(encoder=0, decoder={"mixer": f"mamba({more})"})).eval()
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", 'mamba supports only the mask "causal"'),
        ({"position": "alibi"}, "decoder.position", "alibi changes queries, keys or scores, and mamba has none"),
        ({"position": "rope"}, "decoder.position", "rope changes queries, keys or scores"),
        ({"cross": "mamba"}, "decoder.cross", 'mamba has no cross-attention. Set cross = "attention"'),
    ],
    ids=["mask", "alibi", "rope", "cross"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "mamba", **changes}).resolved()
    assert caught.value.where == where


def test_packed_texts_are_refused() -> None:
    _, packed = pack_sequences(ragged_from_lists([range(3), range(4)]), 8, 0, max_tokens=8)
    with pytest.raises(HeadwayError, match="mamba would mix packed texts with each other"):
        layer()(torch.randn(1, 8, 16, dtype=torch.float64), Context(positions_from_start(8, packed, CPU)))
