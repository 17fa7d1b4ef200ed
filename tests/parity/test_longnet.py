"""LongNet: two forms of dilated attention, equal to the reference implementation and to the sums themselves; a layer
that decodes as it trains, at a cost linear in the text."""

import itertools
from typing import Any

import pytest
import torch
from golden_files import golden
from nn.building import small
from tensor_sizes import max_numel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL
from headway.nn.ops.dilated_attention import (
    Branch,
    Dilation,
    HeadOffsets,
    bind_dilation,
    dense_dilated,
    gathered_dilated,
)
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

NEAR = {"rtol": 0.0, "atol": 1e-12}
# The reference lets zeros behind the end of a text take part where the mask is full; here padding never does.
WITH_PADDING = ("out.ragged_full", "out.short_full")


def dense(q: Tensor, k: Tensor, v: Tensor, dilation: Dilation, causal: bool, valid: Tensor | None = None) -> Tensor:
    places = positions_from_start(q.shape[2], valid, q.device)
    return dense_dilated(q, k, v, bind_dilation(dilation, CAUSAL if causal else FULL, places, places))


def test_both_forms_are_torchscales() -> None:
    theirs, c = golden("longnet")
    dilation = Dilation(tuple(map(Branch, c["segment_length"], c["dilated_ratio"])), c["heads"])
    names = [name for name in theirs if name.startswith("out.") and name not in WITH_PADDING]
    assert len(names) >= 4
    for name in names:
        expected, causal = theirs[name].transpose(1, 2), name.endswith("causal")
        q, k, v = (theirs[f"in.{x}"][:, : expected.shape[2]].transpose(1, 2) for x in "qkv")
        torch.testing.assert_close(dense(q, k, v, dilation, causal), expected, **NEAR)
        torch.testing.assert_close(gathered_dilated(q, k, v, dilation, causal=causal), expected, **NEAR)


def summed(q: Tensor, k: Tensor, v: Tensor, dilation: Dilation, causal: bool, lengths: list[int]) -> Tensor:
    """The definition, number by number: each branch cuts and thins the text by itself."""
    output = []
    for b, h, t in itertools.product(*map(range, q.shape[:3])):
        keys: list[int] = []
        for segment, rate in dilation.branches:
            begin = t - t % segment
            grouped = h * rate // dilation.heads  # heads are a multiple of the rate here
            kept = list(range(begin + (grouped if dilation.offsets == "grouped" else h % rate), begin + segment, rate))
            if t in kept:
                keys += [s for s in kept if s < lengths[b] and (s <= t or not causal)]
        shares = torch.stack([q[b, h, t] @ k[b, h, s] for s in keys] or [q.new_zeros(())]) * q.shape[3] ** -0.5
        heard = torch.stack([v[b, h, s] for s in keys] or [v.new_zeros(v.shape[3])])
        output.append(shares.softmax(0) @ heard)
    return torch.stack(output).view(*q.shape[:3], -1)


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("offsets", ["grouped", "cyclic"])
@pytest.mark.parametrize("length", [1, 6, 13])
def test_forms_equal_the_sums_with_gradients(length: int, offsets: HeadOffsets, causal: bool) -> None:
    """At lengths that fill no segment, rates that divide none, with padding, and where a head meets nothing at all."""
    dilation = Dilation((Branch(4, 2), Branch(5, 4), Branch(8, 2)), 4, offsets)
    leaves = [torch.randn(2, 4, length, 3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    lengths = [length, (length + 1) // 2]
    valid = valid_mask(torch.tensor(lengths), length)
    towards = torch.randn(2, 4, length, 3, dtype=torch.float64)
    results = []
    for output in (
        summed(*leaves, dilation, causal, lengths),
        dense(*leaves, dilation, causal, valid),
        gathered_dilated(*leaves, dilation, causal=causal, valid=valid),
    ):
        loss = (output * towards * valid[:, None, :, None]).sum()
        real = output.masked_fill(~valid[:, None, :, None], 0.0)
        results.append((real, *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(results[1], results[0], **NEAR)
    torch.testing.assert_close(results[2], results[0], **NEAR)
    assert (results[0][0] == 0).all(-1)[0].any(), "some head keeps some position in no branch"


def test_heads_share_a_segment_out() -> None:
    """Together they keep every token once; in neighbouring groups, or one by one."""
    heads = torch.arange(6)
    assert Dilation((), 6, "grouped").offset(heads, 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert Dilation((), 6, "cyclic").offset(heads, 3).tolist() == [0, 1, 2, 0, 1, 2]
    assert Dilation((), 6, "grouped").offset(heads, 4).tolist() == [0, 0, 1, 1, 2, 2], "the fourth token goes unheard"
    assert Dilation((), 2, "grouped").offset(heads[:2], 4).tolist() == [0, 1]


def model(mixer: str = "longnet(4, [3, 8], [1, 2])", **changes: Any) -> Transformer:
    torch.manual_seed(5)
    side = {"mixer": mixer, "position": "rope", "residual": "pre"}
    return Transformer(small(encoder=0, decoder=side, **changes)).eval()


@torch.no_grad()
def test_a_trace_shows_weights_of_few_keys() -> None:
    built = model().double()
    ids, report = torch.randint(29, (2, 11)), ForwardReport(trace={})
    torch.testing.assert_close(built.decode(ids, report=report), built.decode(ids), **NEAR)
    trace = report.trace
    assert trace is not None
    weights, v = trace["decoder.1.self.weights"], trace["decoder.1.self.v"]
    assert weights.shape == (2, 4, 11, 11) and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 11, dtype=torch.float64), **NEAR)
    assert (weights[0, 0, 7] > 0).nonzero().flatten().tolist() == [6, 7], "6, 7 are a segment; of 8 it keeps even ones"
    assert (weights[0, 3, 7] > 0).nonzero().flatten().tolist() == [1, 3, 5, 6, 7], "and the last heads odd ones"
    assert v.shape == (2, 4, 11, 4)


@torch.no_grad()
def test_a_text_of_any_length_leaves_a_cache_of_one_size() -> None:
    built = model().double()
    ids, state = torch.randint(29, (2, 60)), built.new_state(2)
    whole, sizes = built.decode(ids), []
    for part in ids.split([33, 1, 9, 17], dim=1):
        before = int(state.lengths[0])
        torch.testing.assert_close(built.decode(part, state=state), whole[:, before : before + part.shape[1]], **NEAR)
        sizes.append(state.bytes)
    assert set(sizes) == {2 * 8 * built.config.costs()["decoder"].cached_per_text}
    assert built.config.kv_bytes_per_token() == 0


def test_long_chunks_and_ragged_prompts_need_no_square() -> None:
    """What follows other tokens, or has padding before and between, is taken in pieces of the longest segment."""
    built, ids = model().double(), torch.randint(29, (1, 400))
    valid = torch.rand(1, 400) < 0.9
    with torch.no_grad():
        whole, alone = built.decode(ids), built.decode(ids[:, valid[0]])
        state, empty = built.new_state(1), built.new_state(1)
        built.decode(ids[:, :5], state=state)
    outputs: list[Tensor] = []

    def keep(output: Tensor) -> Tensor:
        outputs.append(output)
        return output

    assert max_numel(lambda: keep(built.decode(ids[:, 5:], state=state))) < 400 * 400 // 4
    assert max_numel(lambda: keep(built.decode(ids, valid, state=empty))) < 400 * 400 // 4
    torch.testing.assert_close(outputs[0], whole[:, 5:], **NEAR)
    torch.testing.assert_close(outputs[1][valid], alone[0], **NEAR)


def test_time_and_memory_grow_with_the_text() -> None:
    """And not with its square: nothing is larger than the inputs and the pairs that meet."""
    dilation = Dilation((Branch(16, 1), Branch(64, 4)), 4)

    def largest(length: int) -> int:
        leaves = [torch.randn(1, 4, length, 2, requires_grad=True) for _ in range(3)]
        return max_numel(lambda: gathered_dilated(*leaves, dilation, causal=True))

    assert largest(2048) == 2 * largest(1024) == 4 * 2048 * 16
    config = small(encoder=0, decoder={"mixer": "longnet(4, [16, 64], [1, 4])"})
    assert config.forward_flops(0, 4096) == 2 * config.forward_flops(0, 2048)


@pytest.mark.parametrize("length", [1, 7, 8, 21, 40])
def test_costs_are_those_of_the_built_model(length: int) -> None:
    built = model("longnet(4, [5, 8, 16], [1, 3, 4], d_k=6, d_v=2, bias=false)")
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.decode(torch.zeros(1, length, dtype=torch.long)))
    assert built.config.forward_flops(0, length) == counter.get_total_flops()


@torch.no_grad()
def test_bfloat16_sums_in_float32() -> None:
    q, k, v = torch.randn(3, 2, 4, 50, 8)
    dilation = Dilation((Branch(8, 1), Branch(32, 2)), 4)
    exact = gathered_dilated(q, k, v, dilation, causal=True)
    rounded = gathered_dilated(q.bfloat16(), k.bfloat16(), v.bfloat16(), dilation, causal=True)
    assert rounded.dtype == torch.bfloat16
    assert (rounded.float() - exact).norm() < 0.01 * exact.norm()


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"mask": "causal & local(4)"}, "mask", r'only the masks "causal" and "full", not "\(causal & local\(4\)\)"'),
        ({"position": "alibi"}, "position", "alibi changes the scores of all pairs"),
        ({"position": "rope", "mixer": "longnet(4, d_k=3)"}, "position", "d_k must be even"),
        ({"mixer": "longnet(3)"}, "mixer.heads", "not a multiple of 3 heads"),
        ({"mixer": "longnet(4, [4, 8], [1])"}, "mixer.rates", "2 segments and 1 rates"),
        ({"mixer": "longnet(4, [], [])"}, "mixer.rates", "at least one of both"),
        ({"mixer": "longnet(4, [4, 8], [1, 9])"}, "mixer.rates", "8 tokens cannot keep every 9-th"),
        ({"mixer": "longnet(4, [0], [0])"}, "mixer.rates", "rates from 1"),
        ({"cross": "longnet(4)"}, "cross", "longnet has no cross-attention"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        small(decoder={"mixer": "longnet(4)", **changes}).resolved()
    assert caught.value.where == f"decoder.{where}"
