"""Long-short range attention against the numbers of Lite Transformer; the convolution against its definition, under
every mask and over packed texts; its cache; what is refused."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.build import Scope
from headway.nn.cache.composite import CompositeCache
from headway.nn.cache.kv import KVCache, TruncationError
from headway.nn.cache.sliding_window import WINDOW_SLACK, SlidingWindowKVCache
from headway.nn.context import Context, ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL, Mask, dense_mask, make_mask
from headway.nn.mixers.lsra import HeadConvolution, LongShortRangeAttention
from headway.nn.ops.light_convolution import convolve
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import Transformer

EXACT = {"rtol": 0.0, "atol": 1e-12}
TENSORS, CONFIG = golden("lsra")
WIDTH, HEADS, TAPS = CONFIG["dim"], CONFIG["heads"], CONFIG["kernel"]
SETTINGS: dict[str, Any] = {
    "light": {"conv": "light", "glu": False},  # as in the file: the reference has a GLU in front of either
    "dyn": {"conv": "dynamic", "glu": True},
}
MASKS = {"same": FULL, "causal": CAUSAL}


def scope(width: int) -> Scope:
    return Scope(d_model=width, dropout=0.0, norm=make_part("norm", "layernorm"), linear=make_part("linear", "dense"))


def settings(conv: str) -> LongShortRangeAttention.Config:
    return LongShortRangeAttention.Config(heads=HEADS, kernel_size=TAPS, **SETTINGS[conv])


def convolution_weights(prefix: str) -> dict[str, Tensor]:
    names = {"linear1": "input", "linear2": "output", "weight_linear": "filters"}
    found = {name.removeprefix(prefix): tensor for name, tensor in TENSORS.items() if name.startswith(prefix)}
    return {".".join(names.get(word, word) for word in name.split(".")): tensor for name, tensor in found.items()}


def poured(conv: str) -> LongShortRangeAttention:
    module = LongShortRangeAttention(settings(conv), scope(WIDTH)).double().eval()
    names = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
    prefix = f"w.mb_{conv}.branches"
    weights = {
        f"attention.{ours}.{part}": TENSORS[f"{prefix}.0.{theirs}.{part}"]
        for theirs, ours in names.items()
        for part in ("weight", "bias")
    }
    weights |= {f"convolution.{name}": x for name, x in convolution_weights(f"{prefix}.1.").items()}
    module.load_state_dict(weights, strict=True)
    return module


def context(x: Tensor, mask: Mask = FULL, valid: Any = None) -> Context:
    return Context(positions_from_start(x.shape[1], valid, x.device), mask=mask)


@pytest.mark.parametrize("direction", MASKS)
@pytest.mark.parametrize("conv", SETTINGS)
@torch.no_grad()
def test_both_halves_compute_the_authors_numbers(conv: str, direction: str) -> None:
    x = TENSORS["in.x"]
    found = poured(conv)(x, context(x, MASKS[direction]))
    torch.testing.assert_close(found, TENSORS[f"out.mb_{conv}_{direction}"], **EXACT)


@torch.no_grad()
def test_a_convolution_alone_computes_the_authors_numbers() -> None:
    """Of those that the file has: without projections, or with them."""
    x, compared = TENSORS["in.x"], []
    for direction, mask in MASKS.items():
        ahead = 0 if direction == "causal" else TAPS - 1 - TAPS // 2
        filters = TENSORS["w.light.weight"].softmax(-1).view(1, 1, HEADS, TAPS)
        core = convolve(x.unflatten(-1, (HEADS, -1)), filters, ahead).flatten(2)
        torch.testing.assert_close(core, TENSORS[f"out.light_core_{direction}"], **EXACT)
        compared.append(f"out.light_core_{direction}")
        for conv, name in (("light", "light_linear"), ("dyn", "dyn_glu")):
            if f"out.{name}_{direction}" in TENSORS:
                module = HeadConvolution(settings(conv), scope(WIDTH)).double()
                module.load_state_dict(convolution_weights(f"w.{conv}."), strict=True)
                torch.testing.assert_close(
                    module(x, context(x, mask), None), TENSORS[f"out.{name}_{direction}"], **EXACT
                )
                compared.append(f"out.{name}_{direction}")
    assert set(compared) == {name for name in TENSORS if name.startswith("out.") and "mb_" not in name}


@pytest.mark.parametrize("conv", SETTINGS)
@torch.no_grad()
def test_padding_computes_the_authors_numbers_where_it_is_out_of_reach(conv: str) -> None:
    """In the reference the bias of the first projection enters the convolution from behind the end of a text, so that
    the last tokens depend on whether padding follows. Here nothing enters; zeros taken for real tokens do the same."""
    x, pad = TENSORS["in.x"], TENSORS["in.pad"]
    expected, module = TENSORS[f"out.mb_{conv}_same_padded"], poured(conv)
    assert pad.any(), "nothing is padded: nothing was compared"
    found = module(x, context(x, valid=~pad))
    near_end = torch.stack([pad.roll(-step, 1) for step in range(TAPS - TAPS // 2)]).any(0)
    torch.testing.assert_close(found[~near_end], expected[~near_end], **EXACT)
    torch.testing.assert_close(found[~pad][..., : WIDTH // 2], expected[~pad][..., : WIDTH // 2], **EXACT)
    assert (found[near_end & ~pad] - expected[near_end & ~pad]).abs().max() > 1e-3
    zeros = x.masked_fill(pad[..., None], 0.0)[..., WIDTH // 2 :]
    convolved = module.convolution(zeros, context(x), None)
    torch.testing.assert_close(convolved[~pad], expected[~pad][..., WIDTH // 2 :], **EXACT)


def defined(x: Tensor, filters: Tensor, ahead: int) -> Tensor:
    """The sum itself, number by number. x (B, T, H, D), filters (B, T, H, K)."""
    output, taps = torch.zeros_like(x), filters.shape[-1]
    for t in range(x.shape[1]):
        for tap in range(taps):
            place = t + tap - (taps - 1 - ahead)
            if 0 <= place < x.shape[1]:
                output[:, t] += filters[:, t, :, tap, None] * x[:, place]
    return output


@pytest.mark.parametrize(("taps", "ahead"), [(1, 0), (4, 0), (4, 1), (5, 2), (9, 4)])
def test_the_convolution_is_the_definition(taps: int, ahead: int) -> None:
    x, filters = torch.randn(2, 6, 3, 2, dtype=torch.float64), torch.randn(2, 6, 3, taps, dtype=torch.float64)
    x.requires_grad_()
    filters.requires_grad_()
    index = torch.tensor([[1, 4], [0, 5]])
    found, expected = convolve(x, filters, ahead), defined(x, filters, ahead)
    torch.testing.assert_close(found, expected, **EXACT)
    chosen = filters.gather(1, index[..., None, None].expand(-1, -1, 3, taps))
    picked = expected.gather(1, index[..., None, None].expand(-1, -1, 3, 2))
    torch.testing.assert_close(convolve(x, chosen, ahead, index), picked, **EXACT)
    towards = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad((y * towards).sum(), (x, filters)) for y in (found, expected))
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, **EXACT)


def test_sums_are_in_float32() -> None:
    """Rounded once, at the end: sums in bfloat16 would be off by several of its steps."""
    x, filters = torch.randn(1, 40, 2, 3).bfloat16(), torch.rand(1, 1, 2, 31).bfloat16()
    exact = convolve(x.double(), filters.double())
    torch.testing.assert_close(convolve(x, filters).double(), exact, rtol=2**-8, atol=1e-5)
    rounded = sum(filters[..., tap, None] * F.pad(x, (0, 0, 0, 0, 30, 0))[:, tap : tap + 40] for tap in range(31))
    assert isinstance(rounded, Tensor) and (rounded - exact).abs().max() > 2**-7 * exact.abs().max() / 4


@pytest.mark.parametrize(
    "mask", ["local(2)", "strided(2)", "segments(4, 1)", "causal & fixed(3, 1)", "causal & local(3)"]
)
@torch.no_grad()
def test_taps_that_the_mask_hides_are_zero(mask: str) -> None:
    x, rule = torch.randn(1, 9, 8, dtype=torch.float64), make_mask(mask)
    config = LongShortRangeAttention.Config(heads=2, kernel_size=5, conv="light", glu=False)
    module = HeadConvolution(config, scope(8)).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    ahead = 0 if rule.hides_future else 2
    matrix = torch.zeros(2, 9, 9, dtype=torch.float64)  # (H, T, S)
    filters = module.weight.softmax(-1)[:, 0]
    for t in range(9):
        for tap in range(5):
            place = t + tap - (4 - ahead)
            if 0 <= place < 9:
                matrix[:, t, place] = filters[:, tap]
    seen = matrix * dense_mask(rule, 9)
    assert (seen != matrix).any()
    heads = torch.einsum("hts,bshd->bthd", seen, module.input(x).unflatten(-1, (2, -1)))
    torch.testing.assert_close(module(x, context(x, rule), None), module.output(heads.flatten(2)), **EXACT)


@pytest.mark.parametrize("conv", SETTINGS)
@pytest.mark.parametrize("direction", MASKS)
@torch.no_grad()
def test_packed_texts_do_not_mix(conv: str, direction: str) -> None:
    module, lengths = poured(conv), [4, 1, 7]
    x = torch.randn(1, sum(lengths) + 2, WIDTH, dtype=torch.float64)
    ends = torch.tensor(lengths).cumsum(0)
    index = torch.repeat_interleave(torch.arange(4), torch.tensor([*lengths, 2]))[None]
    positions = torch.cat([torch.arange(length) for length in (*lengths, 2)])[None]
    texts = PackedTexts(index.int(), (ends - torch.tensor(lengths)).int(), ends.int())
    packed = PackedPositions(positions, torch.arange(x.shape[1])[None] < sum(lengths), texts, max(lengths))
    found = module(x, context(x, MASKS[direction], packed))
    for first, last in zip([0, *ends.tolist()], ends.tolist()):
        alone = module(x[:, first:last], context(x[:, first:last], MASKS[direction]))
        torch.testing.assert_close(found[:, first:last], alone, **EXACT)


@torch.no_grad()
def test_its_cache_is_two() -> None:
    """All keys and values of one half, and the last inputs of the other, of which some can be taken back."""
    model = Transformer(small(encoder=0, decoder={"mixer": "lsra(4, 5)"})).eval()
    state, ids = model.new_state(2), torch.randint(29, (2, 40))
    model.decode(ids, state=state)
    cache = state.layers[0]["self"]
    assert isinstance(cache, CompositeCache)
    assert isinstance(cache.parts["attention"], KVCache)
    assert isinstance(cache.parts["convolution"], SlidingWindowKVCache)
    assert cache.parts["convolution"].bytes == 2 * (5 + WINDOW_SLACK) * 8 * 4
    assert cache.min_length.tolist() == [40 - WINDOW_SLACK - 1] * 2
    with pytest.raises(TruncationError):
        cache.truncate(torch.tensor([40, 3]))
    assert cache.lengths.tolist() == [40, 40]
    state.truncate(torch.tensor([30, 28]))
    assert all(part.lengths.tolist() == [30, 28] for part in cache.parts.values())


@torch.no_grad()
def test_weights_and_filters_are_recorded() -> None:
    model = Transformer(small(decoder={"mixer": "lsra(4, 3)"}, encoder={"mixer": "lsra(2, 5, 'light')"})).eval()
    report, ids = ForwardReport(trace={}), torch.randint(29, (2, 6))
    model(ids, ids, report=report)
    assert report.trace is not None
    for side, heads, taps, rows in (("decoder", 4, 3, (2, 6)), ("encoder", 2, 5, (1, 1))):
        weights, filters = (report.trace[f"{side}.1.self.{name}"] for name in ("weights", "filters"))
        assert weights.shape == (2, heads, 6, 6) and filters.shape == (*rows, heads, taps)
        for shares in (weights, filters):
            assert (shares >= 0).all()
            torch.testing.assert_close(shares.sum(-1), torch.ones(shares.shape[:-1]))


def test_filters_are_dropped_in_training() -> None:
    module = HeadConvolution(LongShortRangeAttention.Config(heads=2, dropout=0.5), scope(8))
    values = torch.randn(1, 50, 8)
    assert (module.eval()._make_filters(values) > 0).all()
    assert 0.3 < (module.train()._make_filters(values) == 0).double().mean() < 0.7


def test_a_list_gives_each_layer_its_kernel_size() -> None:
    config = small(decoder=0, sides={"mixer": ["lsra(4, 3)", "lsra(4, 31)"]}).resolved()
    assert [mixer.kernel_size for mixer in config.encoder.mixer] == [3, 31]
    model = Transformer(config)
    assert model.encode(torch.randint(29, (1, 2))).values.shape == (1, 2, 16)  # shorter than any filter


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ({"mixer": "lsra(3)"}, "half of d_model = 16 is not a multiple of 3 heads"),
        ({"mixer": "lsra(16)"}, "not a multiple of 16 heads"),
        ({"mixer": "lsra(4, d_k=3)", "position": "rope"}, "d_k must be even, not 3"),
        ({"mixer": "lsra(4, kernel='flex', dropout=0.1)"}, 'the kernel "flex" has no dropout'),
        ({"mixer": "lsra(4, kernel='sdpa')", "position": "shaw"}, "shaw needs attention weights"),
        ({"mixer": "lsra(4, 0)"}, "at least 1"),
        ({"cross": "lsra(4)"}, "lsra has no cross-attention"),
    ],
)
def test_what_is_refused(side: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small(decoder=side).resolved()


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="half of d_model = 15"):
        small(decoder=0, encoder={"mixer": "lsra(1)"}, d_model=15).resolved()
