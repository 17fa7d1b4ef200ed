"""Attention by blocks is attention: outputs and gradients of the naive form, under every kind of mask, with padding,
grouped keys, scores that are changed, and odd lengths. It computes what its plan says, linear under a window."""

import pytest
import torch
from nn.building import small
from torch import Tensor

from headway.nn.masks.block_plan import intersect_ranges, merge_ranges
from headway.nn.masks.masks import BoundMask, Mask, dense_mask, make_mask
from headway.nn.ops import attention
from headway.nn.ops.attention import attend, choose_kernel
from headway.nn.positions.positions import alibi_slopes
from headway.nn.positions.score_mod import BoundScoreMod, ScoreMod
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
MASKS = [
    "full", "causal", "local(40)", "causal & local(130)", "strided(3)", "causal & strided(64)", "atrous(4, 90)",
    "causal & atrous(3, 200)", "longformer(20, (0, 5, 250))", "causal & longformer(9)", "fixed(16, 2)",
    "causal & fixed(50, 3, 2)", "bigbird(16, 2, 512)", "causal & bigbird(8, 1, 300, heads=2)", "segments(48, 32)",
    "prefix(70)", "causal & (local(8) | strided(8))", "strided(4) & strided(6)", "strided(4) | strided(6)",
    "document & local(5)", "longformer(1, ())",
]  # fmt: skip
each_mask = pytest.mark.parametrize("rule", MASKS)


def bound(rule: str | Mask, length: int, heads: int, lengths: list[int] | None = None) -> BoundMask:
    valid = None if lengths is None else valid_mask(torch.tensor(lengths), length)
    tokens = positions_from_start(length, valid, CPU)
    return BoundMask(make_mask(rule), tokens, tokens, heads)


def some(length: int, rows: int = 2, heads: int = 2, groups: int = 2, values: int = 5) -> list[Tensor]:
    shapes = ((heads, 4), (groups, 4), (groups, values))
    return [torch.randn(rows, count, length, width, dtype=torch.float64, requires_grad=True) for count, width in shapes]


def agree(inputs: list[Tensor], mask: BoundMask, score_mod: BoundScoreMod | None = None) -> None:
    outputs = [attend(*inputs, mask=mask, score_mod=score_mod, kernel=kernel) for kernel in ("blocks", "math")]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    towards = torch.randn_like(outputs[0])
    for ours, theirs in zip(*(torch.autograd.grad(output, inputs, towards) for output in outputs)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@each_mask
@pytest.mark.parametrize("length", [1, 130, 301])
def test_outputs_and_gradients(rule: str, length: int) -> None:
    agree(some(length), bound(rule, length, 2))


@each_mask
def test_padding_and_queries_that_see_nothing(rule: str) -> None:
    """In the padding of the second row, a window shows nothing but padding: its output is 0, its gradient finite."""
    agree(some(301), bound(rule, 301, 2, [301, 17]))


def test_grouped_keys() -> None:
    agree(some(260, heads=4, groups=2), bound("causal & local(50)", 260, 4))
    agree(some(260, heads=4, groups=1), bound("causal & strided(5)", 260, 4, [260, 100]))


@pytest.mark.parametrize("rule", ["local(40)", "causal & fixed(16, 2)", "longformer(9)"])
def test_scores_that_are_changed(rule: str) -> None:
    slopes, table = torch.tensor(alibi_slopes(2)), torch.randn(2, dtype=torch.float64, requires_grad=True)
    mod = ScoreMod("both", lambda s, b, h, q, k: s - slopes[h] * (q - k).abs() + table[h] * (q % 3))
    mask = bound(rule, 260, 2, [260, 200])
    score_mod, inputs = BoundScoreMod(mod, mask.queries, mask.keys, 2), some(260)
    agree(inputs, mask, score_mod)
    outputs = [attend(*inputs, mask=mask, score_mod=score_mod, kernel=kernel) for kernel in ("blocks", "math")]
    gradients = [torch.autograd.grad(output.sin().sum(), table)[0] for output in outputs]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


def test_dropout_leaves_the_mean_and_zeroes_weights() -> None:
    torch.manual_seed(1)
    q, k = torch.zeros(2, 1, 2, 300, 4)
    mask = bound("causal & local(40)", 300, 2)
    v = torch.eye(300).expand(1, 2, 300, 300)
    weights = attend(q, k, v, mask=mask, dropout=0.4, kernel="blocks")  # of each query, the weights themselves
    seen = mask.dense(1).expand(1, 2, 300, 300)
    assert (weights[~seen] == 0).all()
    assert 0.36 < float((weights[seen] == 0).float().mean()) < 0.44
    assert abs(float(weights[:, :, 40:].sum(-1).mean()) - 1) < 0.03
    padded = attend(q, k, v, mask=bound("causal & local(9)", 300, 2, [17]), dropout=0.4, kernel="blocks")
    assert (padded[:, :, 30:] == 0).all(), "they see nothing but padding"


def test_whole_models_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Transformer(small(decoder=0, encoder={"mask": ["longformer(16)", "strided(8)"]})).double().eval()
    ids, valid = torch.randint(29, (2, 700)), valid_mask(torch.tensor([700, 120]), 700)
    calls: list[int] = []
    original = attention.blocks

    def count(*given: object) -> Tensor:
        calls.append(1)
        return original(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "blocks", count)
    fast = model.encode(ids, valid).values
    assert len(calls) == 2
    monkeypatch.setattr(attention, "MIN_BLOCKS_TOKENS", 10_000)
    torch.testing.assert_close(fast[valid], model.encode(ids, valid).values[valid], rtol=0, atol=1e-11)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("rule", "length", "kernel"),
    [
        ("causal & local(64)", 512, "blocks"),
        ("causal & local(64)", 511, "sdpa"),
        ("causal", 2048, "sdpa"),
        ("full", 2048, "sdpa"),
        ("causal & strided(32)", 1024, "blocks"),
        ("causal & (local(64) | strided(64))", 4096, "blocks"),
        ("local(64) | strided(64)", 4096, "sdpa"),
        ("bigbird(64)", 4096, "blocks"),
    ],
)
def test_where_auto_chooses_it(rule: str, length: int, kernel: str) -> None:
    q = torch.zeros(1, 1, length, 2)
    assert choose_kernel(q, q, q, bound(rule, length, 1), None, 0.0) == kernel


def test_padding_and_dropout_leave_pytorchs_flag_unused() -> None:
    """A plain triangle has a flag in PyTorch's kernel; with padding or dropout, blocks skip half of it."""
    q = torch.zeros(1, 1, 1024, 2)
    assert choose_kernel(q, q, q, bound("causal", 1024, 1, [1000]), None, 0.0) == "blocks"
    assert choose_kernel(q, q, q, bound("causal", 1024, 1), None, 0.1) == "blocks"


@each_mask
def test_a_plan_covers_what_the_mask_shows(rule: str) -> None:
    mask, seen = make_mask(rule), dense_mask(make_mask(rule), 300)
    for first, last in ((0, 1), (0, 300), (7, 120), (128, 256), (299, 300)):
        hidden = torch.ones(300, dtype=torch.bool)
        for begin, end in mask.visible_ranges(first, last, 300):
            assert 0 <= begin < end <= 300
            hidden[begin:end] = False
        assert not seen[first:last, hidden].any()
    q, k = torch.arange(300)[:, None], torch.arange(300)
    assert ((q - k)[seen] % mask.stride == 0).all()


@pytest.mark.parametrize("rule", ["local(256)", "causal & atrous(4, 512)", "longformer(256)", "segments(128, 128)"])
def test_a_plan_is_linear_under_a_window(rule: str) -> None:
    pairs = [make_mask(rule).block_plan(length).pairs for length in (8192, 16384, 32768)]
    assert pairs[1] < 2.1 * pairs[0] and pairs[2] < 2.1 * pairs[1]


@pytest.mark.parametrize(("rule", "share"), [("strided(64)", 1 / 64), ("causal & fixed(128, 8)", 0.07)])
def test_a_plan_where_no_block_is_empty(rule: str, share: float) -> None:
    """Positions are sorted by class, or columns gathered: FlexAttention could skip nothing here."""
    assert make_mask(rule).block_plan(8192).pairs <= share * 8192**2


def test_plans_are_kept() -> None:
    mask = make_mask("longformer(8)")
    assert mask.block_plan(600) is mask.block_plan(600)
    assert mask.block_plan(600) is not mask.block_plan(601)


def test_ranges() -> None:
    assert merge_ranges([(5, 7), (0, 2), (1, 3), (4, 4), (3, 4)]) == [(0, 4), (5, 7)]
    assert intersect_ranges([(0, 4), (6, 9)], [(3, 7), (8, 20)]) == [(3, 4), (6, 7), (8, 9)]


def test_what_it_cannot_do_is_refused() -> None:
    q, k, v = some(9)
    message = "kernel='blocks' is for self-attention of rows in order"
    with pytest.raises(ValueError, match=message):
        attend(q, k, v, mask=torch.ones(9, 9, dtype=torch.bool), kernel="blocks")
    with pytest.raises(ValueError, match=message):
        attend(q[:, :, 3:], k, v, mask=BoundMask(make_mask("local(3)"), positions_from_start(6, None, CPU),
               positions_from_start(9, None, CPU), 2), kernel="blocks")  # fmt: skip
    mask = bound("strided(3)", 9, 2)
    mod = ScoreMod("any", lambda s, b, h, q, k: s + b)
    with pytest.raises(ValueError, match=message):
        attend(q, k, v, mask=mask, score_mod=BoundScoreMod(mod, mask.queries, mask.keys, 2), kernel="blocks")
