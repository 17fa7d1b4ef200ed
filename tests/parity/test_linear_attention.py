"""Linear attention: the sums of fla and of performer-pytorch; the past as explicit weights, with gradients; the layer
over itself, over its past and over a source; what it keeps, shows and refuses."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from nn.building import small
from torch.utils.flop_counter import FlopCounterMode

from headway.config.schema import make_part
from headway.data.ragged import ragged_from_lists
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Scope
from headway.nn.cache.recurrent import CrossState
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL
from headway.nn.mixers.linear_attention import LinearAttention
from headway.nn.ops.linear_attention import (
    FEATURE_MAPS,
    attend_linearly,
    attend_linearly_to_past,
    linear_weights,
    read_total,
)
from headway.nn.sequence import Memory, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from headway.train.objectives import pack_sequences

NEAR = {"rtol": 0.0, "atol": 1e-12}
CPU = torch.device("cpu")


def test_sums_are_those_of_other_implementations() -> None:
    theirs, c = golden("linear_attention")
    q, k, v = FEATURE_MAPS["elu"](theirs["in.q"]), FEATURE_MAPS["elu"](theirs["in.k"]), theirs["in.v"]
    torch.testing.assert_close(attend_linearly(q, k, v)[0], theirs["out.full"], **NEAR)
    for chunk in (5, 1000):
        output, _ = attend_linearly_to_past(q, k, v, eps=c["eps"], chunk=chunk)
        torch.testing.assert_close(output, theirs["out.causal"], **NEAR)


@pytest.mark.parametrize("length", [1, 2, 13, 40])
@pytest.mark.parametrize("earlier", [False, True], ids=["from nothing", "after something"])
def test_the_past_is_explicit_weights_with_their_gradients(length: int, earlier: bool) -> None:
    q, k = torch.rand(2, 2, 3, length + 7, 4, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 3, length + 7, 5, dtype=torch.float64, requires_grad=True)
    cut = 7 if earlier else 0
    total = attend_linearly(q[:, :, :cut], k[:, :, :cut], v[:, :, :cut])[1] if earlier else None
    output, left = attend_linearly_to_past(q[:, :, cut:], k[:, :, cut:], v[:, :, cut:], total, chunk=4)
    every = linear_weights(q, k, causal=True)
    expected = (every @ v)[:, :, cut:]
    torch.testing.assert_close(output, expected, **NEAR)
    torch.testing.assert_close(left, attend_linearly(q, k, v)[1], **NEAR)
    gradients = [torch.autograd.grad(y.square().sum(), (q, k, v), retain_graph=True) for y in (output, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-10)
    late = linear_weights(q[:, :, cut:], k[:, :, cut:], total, causal=True)
    torch.testing.assert_close(late, every[:, :, cut:, cut:], **NEAR)


def test_a_query_that_sees_no_key_gets_0() -> None:
    q, k, v = torch.rand(1, 1, 3, 4), torch.zeros(1, 1, 2, 4), torch.randn(1, 1, 2, 5)
    for output, total in (attend_linearly(q, k, v), attend_linearly_to_past(q[:, :, :2], k, v)):
        assert (output == 0).all() and (total == 0).all()
    assert (linear_weights(q, k, causal=False) == 0).all()


def layer(more: str = "2", width: int = 16) -> LinearAttention:
    part: Any = make_part("mixer", f"linear_attention({more})")
    module = LinearAttention(part, Scope(d_model=width, dropout=0.0, norm=None, linear=make_part("linear", "dense")))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return module.double()


@pytest.mark.parametrize("mask", [FULL, CAUSAL], ids=["full", "causal"])
@pytest.mark.parametrize("more", ["2", "4, d_k=3, d_v=5, feature_map='relu'", "2, feature_map='softmax', bias=false"])
@torch.no_grad()
def test_the_layer_is_a_plain_loop(more: str, mask: Any) -> None:
    module, x = layer(more), torch.randn(1, 9, 16, dtype=torch.float64)
    c, expected = module.config, []
    φ = {"elu": lambda y: F.elu(y) + 1, "relu": F.relu, "softmax": lambda y: y.softmax(-1)}[c.feature_map]
    q, k, v = (project(x[0]).view(9, c.heads, -1) for project in (module.query, module.key, module.value))
    for t in range(9):
        heads = []
        for h in range(c.heads):
            keys = range(t + 1 if mask is CAUSAL else 9)
            scores = torch.stack([φ(q[t, h]) @ φ(k[s, h]) for s in keys])
            heads.append(sum(score * v[s, h] for s, score in zip(keys, scores)) / (scores.sum() + 1e-6))
        expected.append(module.output(torch.cat(heads)))
    output = module(x, Context(positions_from_start(9, None, CPU), mask=mask))
    torch.testing.assert_close(output[0], torch.stack(expected), **NEAR)


@torch.no_grad()
def test_a_source_is_summed_once() -> None:
    """Afterwards it is not needed, and what is kept is as large for a book as for a word."""
    module, x = layer("2, d_v=5"), torch.randn(2, 4, 16, dtype=torch.float64)
    source = Memory(
        torch.randn(2, 50, 16, dtype=torch.float64),
        positions_from_start(50, valid_mask(torch.tensor([50, 9]), 50), CPU),
    )
    whole = module(x, Context(positions_from_start(4, None, CPU)), source=source)
    cache = module.new_cache(2, CPU, cross=True)
    assert isinstance(cache, CrossState)
    parts = [
        module(
            x[:, t : t + 1], Context(positions_from_start(1, None, CPU)), source=source if t == 0 else None, cache=cache
        )
        for t in range(4)
    ]
    torch.testing.assert_close(torch.cat(parts, 1), whole, **NEAR)
    assert cache.bytes == 2 * 2 * 8 * 6 * 8 and cache.lengths.tolist() == [0, 0]
    alone = Memory(source.values[1:, :9], positions_from_start(9, None, CPU))
    torch.testing.assert_close(
        module(x[1:], Context(positions_from_start(4, None, CPU)), source=alone), whole[1:], **NEAR
    )
    cache.truncate(torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="cross-attention needs encoder output"):
        module(x, Context(positions_from_start(4, None, CPU)), cache=module.new_cache(2, CPU, cross=True))


def translator(mixer: str = "linear_attention(4, chunk=4)") -> Transformer:
    torch.manual_seed(2)
    return Transformer(small(sides={"mixer": mixer}, decoder={"cross": mixer})).double().eval()


@torch.no_grad()
def test_a_translator_without_any_softmax_decodes_in_constant_memory() -> None:
    model = translator()
    source, ids = torch.randint(29, (2, 12)), torch.randint(29, (2, 30))
    memory = model.encode(source, valid_mask(torch.tensor([12, 5]), 12))
    state, sizes = model.new_state(2, memory), set()
    whole, found = model.decode(ids, memory=memory), []
    for part in ids.split([9, 1, 1, 19], dim=1):
        found.append(model.decode(part, state=state))
        sizes.add(state.bytes)
    torch.testing.assert_close(torch.cat(found, 1), whole, **NEAR)
    assert len(sizes) == 1


@torch.no_grad()
def test_its_weights_are_shown_on_every_side() -> None:
    model, report = translator(), ForwardReport(trace={})
    source, ids = torch.randint(29, (2, 6)), torch.randint(29, (2, 5))
    valid = valid_mask(torch.tensor([6, 4]), 6)
    memory = model.encode(source, valid, report=report)
    model.decode(ids, memory=memory, report=report)
    trace = report.trace
    assert trace is not None
    shapes = {"encoder.0.self": (2, 4, 6, 6), "decoder.1.self": (2, 4, 5, 5), "decoder.1.cross": (2, 4, 5, 6)}
    for name, shape in shapes.items():
        weights = trace[f"{name}.weights"]
        assert weights.shape == shape and (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(shape[:3], dtype=torch.float64), rtol=0, atol=1e-5)
        assert trace[f"{name}.k"].shape[:3] == (*shape[:2], shape[3])
    assert (trace["decoder.1.self.weights"].triu(1) == 0).all()
    assert (trace["decoder.1.cross.weights"][1, :, :, 4:] == 0).all(), "padding has no weight"


@torch.no_grad()
def test_weights_of_a_later_chunk_leave_room_for_earlier_keys() -> None:
    model = Transformer(small(encoder=0, decoder={"mixer": "linear_attention(4)"})).double().eval()
    ids, whole, report = torch.randint(29, (1, 8)), ForwardReport(trace={}), ForwardReport(trace={})
    model.decode(ids, report=whole)
    state = model.new_state(1)
    model.decode(ids[:, :5], state=state)
    model.decode(ids[:, 5:], state=state, report=report)
    assert whole.trace is not None and report.trace is not None
    name = "decoder.1.self.weights"
    torch.testing.assert_close(report.trace[name], whole.trace[name][:, :, 5:, 5:], **NEAR)


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("more", ["2", "2, feature_map='relu'", "2, feature_map='softmax'"])
def test_bfloat16_sums_in_float32(more: str) -> None:
    module, x = layer(more).to(torch.bfloat16), torch.randn(1, 300, 16, dtype=torch.bfloat16)
    cache = module.new_cache(1, CPU)
    with torch.backends.mkldnn.flags(enabled=False):  # whose bfloat16 products end the process on some processors
        output = module(x, Context(positions_from_start(300, None, CPU), mask=CAUSAL), cache=cache)
        output.float().square().sum().backward()
    assert output.dtype == torch.bfloat16 and cache.values["total"].dtype == torch.float32
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("length", [1, 4, 13, 40])
@pytest.mark.parametrize("more", ["4, chunk=8", "2, d_k=3, d_v=7, bias=false, chunk=4"])
@pytest.mark.parametrize("side", ["encoder", "decoder", "causal encoder", "cross"])
def test_costs_are_those_of_the_built_model(side: str, more: str, length: int) -> None:
    own = {"mixer": f"linear_attention({more})"} | ({"mask": "causal"} if "causal" in side else {})
    if side == "cross":
        config = small(
            decoder={"cross": own["mixer"], "mixer": "mingru"}, encoder={"mixer": "mingru", "mask": "causal"}
        )
    else:
        config = small(**{"encoder": 0, "decoder": 0, side.split()[-1]: own})  # type: ignore[arg-type]
    built = Transformer(config).eval()
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    ids = torch.zeros(1, length, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        memory = built.encode(ids) if "encoder" in config.sides else None
        hidden = built.decode(ids, memory=memory) if "decoder" in config.sides else memory.values  # type: ignore[union-attr]
        built.logits(hidden)
    lengths = [length * (name in config.sides) for name in ("encoder", "decoder")]
    assert built.config.forward_flops(*lengths) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "decoder.mask", 'linear_attention supports only the masks "causal" and "full"'),
        (
            {"position": "alibi"},
            "decoder.position",
            "alibi changes attention scores, and linear_attention has only fea",
        ),
        ({"position": "xpos"}, "decoder.position", "xpos scales queries and keys, and linear_attention has only feat"),
        ({"mixer": "linear_attention(3)"}, "decoder.mixer.heads", "d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "linear_attention(4, d_k=3)", "position": "rope"}, "decoder.position", "d_k must be even"),
        ({"mixer": "linear_attention(4, feature_map='cos')"}, "decoder.mixer.feature_map", "elu"),
    ],
    ids=["mask", "alibi", "xpos", "heads", "odd", "map"],
)
def test_what_it_would_drop_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "linear_attention(4)", **changes}).resolved()
    assert caught.value.where == where


def test_packed_texts_are_refused() -> None:
    _, packed = pack_sequences(ragged_from_lists([range(3), range(4)]), 8, 0, max_tokens=8)
    with pytest.raises(HeadwayError, match="linear_attention would mix packed texts"):
        layer()(torch.randn(1, 8, 16, dtype=torch.float64), Context(positions_from_start(8, packed, CPU)))


def test_what_is_read_from_a_total_is_what_was_summed() -> None:
    q, k, v = torch.rand(1, 2, 3, 4).double(), torch.rand(1, 2, 6, 4).double(), torch.randn(1, 2, 6, 5).double()
    output, total = attend_linearly(q, k, v, eps=0.1)
    assert total.shape == (1, 2, 4, 6)
    torch.testing.assert_close(read_total(q, total, 0.1), output, **NEAR)
    torch.testing.assert_close(output, linear_weights(q, k, causal=False, eps=0.1) @ v, **NEAR)
