"""attend: its naive form equals the definition written as loops, and every kernel equals the naive form, in outputs
and gradients, at odd lengths, with shared keys, wider values, masks, bent scores and queries that may look at
nothing."""

import math

import pytest
import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.nn.masks.masks import CAUSAL, FULL, BoundMask, Mask, local
from headway.nn.masks.texts import documents
from headway.nn.ops.attention import Kernel, attend, choose_kernel, naive
from headway.nn.positions.positions import Alibi, alibi_slopes
from headway.nn.positions.score_mod import BoundScoreMod, ScoreMod, ScoreModInputs
from headway.nn.sequence import TokenPositions, positions_from_start

CPU = torch.device("cpu")
B = 2
SHAPES = {  # T, S, H, G, D, E
    "one": (1, 1, 2, 2, 4, 4),
    "odd": (7, 7, 4, 4, 8, 8),
    "grouped": (7, 7, 4, 2, 8, 8),
    "one key head": (37, 37, 4, 1, 8, 8),
    "one query": (1, 37, 4, 2, 8, 8),
    "wide values": (7, 37, 4, 2, 6, 10),
    "narrow values": (37, 7, 3, 3, 8, 5),
}
MASKS = ("none", "full", "causal", "window", "padding", "documents", "nothing")
SOFTCAP = ScoreMod("softcap", lambda s, b, h, q, k: 2 * torch.tanh(s / 2), additive=False)


def qkv(shape: str, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    T, S, H, G, D, E = SHAPES[shape]
    sizes = ((B, H, T, D), (B, G, S, D), (B, G, S, E))
    return [torch.randn(size, dtype=torch.float64).to(dtype).requires_grad_() for size in sizes]


def laid(name: str, T: int, S: int, heads: int) -> BoundMask | None:
    """The mask of this name over T queries that end where S keys end."""
    if name == "none":
        return None
    positions = torch.arange(T)[None] + max(S - T, 0)
    valid = None
    if name in ("padding", "nothing"):
        valid = torch.arange(S) < torch.tensor([[S], [S // 2 if name == "padding" else 0]])
    masks = {"causal": CAUSAL, "window": CAUSAL & local(3)}
    if name == "documents":
        masks[name] = documents(torch.stack([torch.arange(64) // 3, torch.arange(64) // 5]))
    return BoundMask(
        masks.get(name, FULL), TokenPositions(positions, None, max(T, S)), positions_from_start(S, valid, CPU), heads
    )


def bent(score: ScoreMod | None, T: int, S: int, heads: int) -> BoundScoreMod | None:
    positions = torch.arange(T)[None] + max(S - T, 0)
    return score and BoundScoreMod(
        score, TokenPositions(positions, None, max(T, S)), positions_from_start(S, None, CPU), heads
    )


def alibi(heads: int) -> ScoreMod | None:
    nowhere = positions_from_start(0, None, CPU)
    return Alibi(Alibi.Config(), None).score_mod(
        ScoreModInputs(torch.zeros(1, heads, 0, 1), nowhere, nowhere, FULL, 1.0, 0)
    )


def slowly(q: Tensor, k: Tensor, v: Tensor, pattern: BoundMask | None, bend: BoundScoreMod | None) -> Tensor:
    """The definition, a number at a time."""
    output = q.new_zeros(*q.shape[:3], v.shape[3])
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            g = h * k.shape[1] // q.shape[1]
            for t in range(q.shape[2]):
                seen = []
                for s in range(k.shape[2]):
                    score = (q[b, h, t] * k[b, g, s]).sum() / math.sqrt(q.shape[3])
                    at = [torch.tensor(i) for i in (b, h)]
                    if bend is not None:
                        score = bend.score_mod.modify(
                            score, *at, bend.queries.positions[0, t], bend.keys.positions[0, s]
                        )
                    if pattern is not None:
                        where = pattern.queries.positions[0, t], pattern.keys.positions[0, s]
                        hidden = pattern.keys.valid is not None and not pattern.keys.valid[b, s]
                        if hidden or not pattern.mask(*at, *where):
                            continue
                    seen.append((s, score.exp()))
                total = sum(weight for _, weight in seen)
                for s, weight in seen:
                    output[b, h, t] += weight / total * v[b, g, s]
    return output


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", ["plain", "alibi", "softcap"])
def test_naive_is_the_definition(mask: str, score: str) -> None:
    q, k, v = (x.detach() for x in qkv("wide values"))
    k, v = k[:, :, :9], v[:, :, :9]
    pattern = laid(mask, 7, 9, 4)
    bend = bent({"plain": None, "alibi": alibi(4), "softcap": SOFTCAP}[score], 7, 9, 4)
    torch.testing.assert_close(
        attend(q, k, v, mask=pattern, score_mod=bend, kernel="math"), slowly(q, k, v, pattern, bend), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["f64", "f32"])
def test_sdpa_equals_math(shape: str, bends: bool, mask: str, dtype: torch.dtype, near: float) -> None:
    T, S, H, *_ = SHAPES[shape]
    inputs = qkv(shape, dtype)
    pattern, bend = laid(mask, T, S, H), bent(alibi(H) if bends else None, T, S, H)
    outputs = [attend(*inputs, mask=pattern, score_mod=bend, kernel=kernel) for kernel in ("math", "sdpa")]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=near, atol=near)
    towards = torch.randn_like(outputs[0])
    gradients = [torch.autograd.grad(output, inputs, towards, materialize_grads=True) for output in outputs]
    for ours, theirs in zip(*gradients):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_drops_on_the_cpu_equals_math(shape: str, bends: bool, mask: str) -> None:
    T, S, H, *_ = SHAPES[shape]
    inputs = qkv(shape)
    pattern, bend = laid(mask, T, S, H), bent(alibi(H) if bends else None, T, S, H)
    never = 1e-12  # dropped so seldom
    ways = ({"kernel": "math"}, {"kernel": "sdpa", "dropout": never})
    outputs = [attend(*inputs, mask=pattern, score_mod=bend, **way) for way in ways]
    torch.testing.assert_close(*outputs, rtol=1e-11, atol=1e-11)
    towards = torch.randn_like(outputs[0])
    gradients = [torch.autograd.grad(output, inputs, towards, materialize_grads=True) for output in outputs]
    for ours, theirs in zip(*gradients):
        assert ours.isfinite().all()
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


FLEX = (  # half a second each: every shape, score and mask, but not all of their combinations
    ("one", "plain", "none"),
    ("one", "alibi", "causal"),
    ("odd", "plain", "full"),
    ("grouped", "softcap", "causal"),
    ("one key head", "plain", "window"),
    ("one key head", "alibi", "padding"),
    ("one query", "plain", "nothing"),
    ("one query", "alibi", "window"),
    ("wide values", "softcap", "documents"),
    ("wide values", "alibi", "none"),
    ("narrow values", "plain", "padding"),
)


@pytest.mark.parametrize(("shape", "score", "mask"), FLEX, ids=[", ".join(case) for case in FLEX])
def test_flex_equals_math(shape: str, score: str, mask: str) -> None:
    T, S, H, *_ = SHAPES[shape]
    q, k, v = (x.detach() for x in qkv(shape))
    pattern = laid(mask, T, S, H)
    bend = bent({"plain": None, "alibi": alibi(H), "softcap": SOFTCAP}[score], T, S, H)
    outputs = [attend(q, k, v, mask=pattern, score_mod=bend, kernel=kernel) for kernel in ("math", "flex")]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch's compiler imports what PyTorch deprecates
def test_compiled_flex_equals_math() -> None:
    """The one compiled test: everything at once, in float32."""
    T, S, H, *_ = SHAPES["one key head"]
    q, k, _ = (x.detach() for x in qkv("one key head", torch.float32))
    v = torch.randn(B, 1, S, 12)
    pattern, bend = laid("window", T, S, H), bent(alibi(H), T, S, H)
    assert pattern is not None
    pattern.keys = positions_from_start(S, torch.arange(S) < torch.tensor([[S], [20]]), CPU)
    outputs = [attend(q, k, v, mask=pattern, score_mod=bend, kernel=kernel) for kernel in ("math", "flex")]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-5, atol=1e-5)
    assert (outputs[1][1, :, 22:] == 0).all(), "rows whose whole window is padding"


@pytest.mark.parametrize("shape", ["odd", "grouped", "wide values"])
@pytest.mark.parametrize("kernel", ["math", "sdpa"])
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
def test_a_dense_tensor_is_a_mask_too(shape: str, kernel: Kernel, bends: bool) -> None:
    T, S, H, *_ = SHAPES[shape]
    q, k, v = qkv(shape)
    pattern, bend = laid("causal", T, S, H), bent(alibi(H) if bends else None, T, S, H)
    assert pattern is not None
    for dense in (pattern.dense(B), pattern.dense(B)[0, 0], pattern.dense(B).expand(B, H, T, S)):
        ours = attend(q, k, v, mask=dense, score_mod=bend, kernel=kernel)
        torch.testing.assert_close(
            ours, attend(q, k, v, mask=pattern, score_mod=bend, kernel=kernel), rtol=0, atol=1e-15
        )


KERNELS = [("math", torch.float64), ("sdpa", torch.float64), ("sdpa", torch.float32), ("flex", torch.float64)]


@pytest.mark.parametrize(("kernel", "dtype"), KERNELS, ids=["math", "sdpa", "sdpa in float32", "flex"])
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
def test_a_query_that_may_look_at_nothing_gets_exactly_zero(kernel: Kernel, bends: bool, dtype: torch.dtype) -> None:
    inputs = qkv("grouped", dtype)
    if kernel == "flex":
        inputs = [x.detach() for x in inputs]
    hidden = Mask("all but 2 and 5", lambda b, h, q, k: (q != 2) & (q != 5) & (k == k))
    pattern = BoundMask(hidden, positions_from_start(7, None, CPU), positions_from_start(7, None, CPU), 4)
    output = attend(*inputs, mask=pattern, score_mod=bent(alibi(4) if bends else None, 7, 7, 4), kernel=kernel)
    assert (output[:, :, [2, 5]] == 0).all()
    assert (output[:, :, [0, 1, 3, 4, 6]] != 0).all()
    if kernel != "flex":
        for gradient in torch.autograd.grad(output.square().sum(), inputs):
            assert gradient.isfinite().all()
        assert (torch.autograd.grad(attend(*inputs, mask=pattern).sum(), inputs[0])[0][:, :, [2, 5]] == 0).all()


@pytest.mark.parametrize("kernel", ["math", "sdpa"])
def test_no_keys_at_all_give_zero(kernel: Kernel) -> None:
    q, k, v = qkv("grouped")
    assert (attend(q, k[:, :, :0], v[:, :, :0], kernel=kernel) == torch.zeros_like(q)).all()


@pytest.mark.parametrize("kernel", ["math", "sdpa"])
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
def test_gradients_are_those_of_finite_differences(kernel: Kernel, bends: bool) -> None:
    sizes = ((B, 4, 3, 2), (B, 2, 5, 2), (B, 2, 5, 3))
    inputs = [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]
    pattern = laid("padding", 3, 5, 4)
    assert pattern is not None
    dense = pattern.dense(B).expand(B, 1, 3, 5).clone()
    dense[0, 0, 1] = False
    bend = bent(alibi(4) if bends else None, 3, 5, 4)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, mask=dense, score_mod=bend, kernel=kernel), inputs)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bends", [False, True], ids=["plain", "alibi"])
def test_everything_is_what_the_plain_path_computes(mask: str, bends: bool) -> None:
    q, k, v = qkv("wide values")
    pattern, bend = laid(mask, 7, 37, 4), bent(alibi(4) if bends else None, 7, 37, 4)
    told = attend(q, k, v, mask=pattern, score_mod=bend, also="everything")
    torch.testing.assert_close(told.output, attend(q, k, v, mask=pattern, score_mod=bend), rtol=0, atol=1e-12)
    torch.testing.assert_close(told.weights @ v.repeat_interleave(2, dim=1), told.output, rtol=0, atol=1e-15)

    scores = q @ k.repeat_interleave(2, dim=1).transpose(-1, -2) / math.sqrt(6)
    if bends:
        distance = torch.arange(30, 37)[:, None] - torch.arange(37)
        scores = scores - torch.tensor(alibi_slopes(4), dtype=torch.float64)[:, None, None] * distance.abs()
    torch.testing.assert_close(told.scores, scores, rtol=0, atol=1e-12)

    allowed = torch.ones(B, 4, 7, 37, dtype=torch.bool) if pattern is None else pattern.dense(B).expand(B, 4, 7, 37)
    assert (told.weights[~allowed] == 0).all()
    anything = allowed.any(-1)
    torch.testing.assert_close(told.weights.sum(-1), anything.double(), rtol=0, atol=1e-12)
    assert torch.equal(told.lse, told.lse.masked_fill(~anything, -torch.inf))
    lse = torch.logsumexp(scores.masked_fill(~allowed, -torch.inf), -1)
    torch.testing.assert_close(told.lse, lse, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["math", "sdpa"])
def test_dropout_zeroes_weights_and_scales_the_rest(kernel: Kernel) -> None:
    q, k = torch.randn(1, 1, 40, 8), torch.randn(1, 1, 40, 8)
    v = torch.eye(40)[None, None]  # so that the output is the weights
    weights = attend(q, k, v)
    dropped = attend(q, k, v, dropout=0.25, kernel=kernel)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], weights[kept] / 0.75)
    assert 0.7 < kept.float().mean() < 0.8


def test_scale_is_one_over_root_d_unless_given() -> None:
    q, k, v = qkv("odd")
    torch.testing.assert_close(attend(q, k, v), attend(q, k, v, scale=8**-0.5), rtol=0, atol=0)
    torch.testing.assert_close(attend(q, k, v, scale=0.3), naive(q, k, v, None, None, 0.3).output, rtol=0, atol=1e-12)
    assert not torch.allclose(attend(q, k, v), attend(q, k, v, scale=1.0))


def window(length: int, reach: int) -> BoundMask:
    return BoundMask(
        CAUSAL & local(reach), positions_from_start(length, None, CPU), positions_from_start(length, None, CPU), 1
    )


def later(length: int, reach: int) -> BoundMask:
    """Of queries that follow others, as in decoding: nobody knows without a look that they are in order."""
    tokens = positions_from_start(length, None, CPU)
    return BoundMask(CAUSAL & local(reach), tokens._replace(in_order=False), tokens, 1)


LONG = torch.empty(1, 1, 1024, 4)
POLICY = {  # q, k, v, mask, score, dropout -> kernel
    "short": (torch.empty(1, 1, 511, 4), window(511, 8), None, 0.0, "sdpa"),
    "long and sparse": (LONG, window(1024, 256), None, 0.0, "blocks"),
    "long, a window of nearly everything": (LONG, window(1024, 900), None, 0.0, "blocks"),
    "long, queries after others": (LONG, later(1024, 256), None, 0.0, "flex"),
    "long, window above a quarter, after others": (LONG, later(1024, 257), None, 0.0, "sdpa"),
    "long, causal only": (LONG, laid("causal", 1024, 1024, 1), None, 0.0, "sdpa"),
    "long, no mask": (LONG, None, None, 0.0, "sdpa"),
    "long, dense mask": (LONG, torch.ones(1024, 1024, dtype=torch.bool), None, 0.0, "sdpa"),
    "long, dropout": (LONG, window(1024, 256), None, 0.1, "blocks"),
    "long, dropout, after others": (LONG, later(1024, 256), None, 0.1, "sdpa"),
    "long, float64": (LONG.double(), window(1024, 256), None, 0.0, "blocks"),
    "long, float64, after others": (LONG.double(), later(1024, 256), None, 0.0, "sdpa"),
    "long, additive score": (LONG, window(1024, 256), bent(alibi(1), 1024, 1024, 1), 0.0, "blocks"),
    "long, other score": (LONG, window(1024, 256), bent(SOFTCAP, 1024, 1024, 1), 0.0, "math"),
    "short, other score": (torch.empty(1, 1, 7, 4), None, bent(SOFTCAP, 7, 7, 1), 0.0, "math"),
}


@pytest.mark.parametrize("case", POLICY)
def test_the_kernel_chosen(case: str) -> None:
    x, mask, score, dropout, kernel = POLICY[case]
    assert choose_kernel(x, x, x, mask, score, dropout) == kernel


@pytest.mark.parametrize("learner", [0, 1, 2], ids="qkv")
def test_what_learns_on_the_cpu_never_goes_to_flex(learner: int) -> None:
    inputs = [LONG, LONG, LONG]
    inputs[learner] = LONG.clone().requires_grad_()
    assert choose_kernel(*inputs, window(1024, 256), None, 0.0) == "blocks"
    assert choose_kernel(*inputs, later(1024, 256), None, 0.0) == "sdpa"


def test_a_score_that_does_more_than_add_goes_to_math() -> None:
    q, k, v = qkv("odd")
    bend = bent(SOFTCAP, 7, 7, 4)
    assert torch.equal(attend(q, k, v, score_mod=bend), attend(q, k, v, score_mod=bend, kernel="math"))
    with pytest.raises(ValueError, match="softcap"):
        attend(q, k, v, score_mod=bend, kernel="sdpa")


def test_spans_are_of_texts_in_a_line() -> None:
    q = k = v = torch.randn(1, 1, 7, 4)
    with pytest.raises(ValueError, match="kernel='varlen' needs packed texts, and a mask by which each query sees one"):
        attend(q, k, v, kernel="varlen")
    with pytest.raises(ValueError, match="kernel='varlen' needs packed texts"):
        attend(q, k, v, mask=window(7, 3), kernel="varlen")


def test_flex_refuses_what_it_would_drop() -> None:
    q, k, v = (x.detach() for x in qkv("odd"))
    with pytest.raises(ValueError, match="BoundMask"):
        attend(q, k, v, mask=torch.ones(7, 7, dtype=torch.bool), kernel="flex")
    with pytest.raises(ValueError, match=r"dropout=0\.1"):
        attend(q, k, v, dropout=0.1, kernel="flex")


@pytest.mark.parametrize("learner", [0, 1, 2])
def test_flex_says_that_it_cannot_learn_on_the_cpu(learner: int) -> None:
    """A config may ask for it; the library's own words come late and name no setting."""
    tensors = list(torch.randn(3, 1, 2, 5, 4))
    tensors[learner].requires_grad_()
    with pytest.raises(HeadwayError, match='kernel = "flex" has no gradients on the CPU. Train on a GPU, or set'):
        attend(*tensors, kernel="flex")


def test_what_is_not_known_is_refused() -> None:
    q, k = torch.randn(1, 3, 4, 8), torch.randn(1, 2, 4, 8)
    with pytest.raises(ValueError, match="3 query heads are not a multiple of 2 key groups"):
        attend(q, k, k)
    with pytest.raises(
        ValueError, match="kernel='flsh' is unknown: give one of auto, math, sdpa, flex, blocks, varlen"
    ):
        attend(q, q, q, kernel="flsh")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="also='foo' is unknown: give any of scores, weights, lse, everything"):
        attend(q, q, q, also=("weights", "foo"))


def test_also_may_be_named_one_by_one() -> None:
    q = torch.randn(1, 3, 4, 8)
    seen = attend(q, q, q, also=("weights", "lse"))
    assert torch.allclose(seen.output, attend(q, q, q), atol=1e-6)
    assert seen.weights.shape == (1, 3, 4, 4)
    assert seen.lse.shape == (1, 3, 4)


@pytest.mark.parametrize("shape", ["odd", "grouped", "one key head", "one query", "wide values"])
def test_a_plain_triangle_needs_no_mask_and_is_the_same(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    T, S, H, *_ = SHAPES[shape]
    q, k, v = qkv(shape)
    queries = positions_from_start(T, None, CPU)
    pattern = BoundMask(CAUSAL, queries, positions_from_start(S, None, CPU), H)
    assert pattern.is_plain_causal == (T == S)
    expected = attend(q, k, v, mask=pattern, kernel="math")
    if T == S:
        monkeypatch.setattr(BoundMask, "dense", None)  # nobody asks for it
    torch.testing.assert_close(attend(q, k, v, mask=pattern), expected, rtol=0, atol=1e-12)
    padded = BoundMask(CAUSAL, queries, positions_from_start(S, torch.ones(B, S, dtype=torch.bool), CPU), H)
    moved = BoundMask(CAUSAL, TokenPositions(queries.positions + 1, None, T + 1), positions_from_start(S, None, CPU), H)
    assert not padded.is_plain_causal and not moved.is_plain_causal
