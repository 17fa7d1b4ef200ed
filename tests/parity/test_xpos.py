"""xPos: scores against torchscale's, at every position that a dtype can hold, and by a cache as by one pass."""

import pytest
import torch
from golden_files import golden
from nn.building import small
from torch import Tensor

from headway.config.schema import from_dict
from headway.errors import ConfigError, HeadwayError
from headway.nn.positions.positions import rotate
from headway.nn.positions.xpos import XPos, max_positions, rotate_and_fade
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.nn.transformer import Transformer, valid_mask
from headway.train.objectives import CausalObjective

CPU = torch.device("cpu")


def scores(q: Tensor, k: Tensor, shift: int = 0, scale_base: float = 512.0, layout: str = "interleaved") -> Tensor:
    """Of queries and keys (B, T, D), both from position `shift` on; fewer queries are the last ones."""
    ends = shift + k.shape[1]
    queries, keys = (torch.arange(ends - x.shape[1], ends)[None] for x in (q, k))
    first, second = (
        rotate_and_fade(x[:, None], positions, 10000.0, layout, scale_base, power)[:, 0]  # type: ignore[arg-type]
        for x, positions, power in ((q, queries, 1), (k, keys, -1))
    )
    return first @ second.mT


def test_scores_are_torchscales() -> None:
    tensors, c = golden("xpos")
    assert (c["base"], c["scale_base"]) == (10000, 512)
    q, k = tensors["in.q"], tensors["in.k"]
    torch.testing.assert_close(scores(q, k), tensors["out.scores"], rtol=0, atol=1e-12)
    torch.testing.assert_close(scores(q[:, -c["later"] :], k), tensors["out.last"], rtol=0, atol=1e-12)


def test_a_score_is_that_of_rope_with_each_pair_faded_by_distance() -> None:
    """The definition, pair by pair."""
    q, k = torch.randn(2, 1, 9, 8, dtype=torch.float64)
    ours, expected = scores(q, k, scale_base=16.0), torch.zeros(1, 9, 9, dtype=torch.float64)
    turned = [rotate(x[:, None], torch.arange(9)[None], 10000.0, "interleaved")[0, 0] for x in (q, k)]
    for n in range(9):
        for m in range(9):
            for i in range(4):
                fading = ((2 * i / 8 + 0.4) / 1.4) ** ((n - m) / 16)
                expected[0, n, m] += turned[0][n, 2 * i : 2 * i + 2] @ turned[1][m, 2 * i : 2 * i + 2] * fading
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_layouts_differ_by_the_order_of_channels() -> None:
    q, k, order = *torch.randn(2, 1, 7, 8, dtype=torch.float64), torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    halves = scores(q[..., order], k[..., order], layout="halves")
    torch.testing.assert_close(halves, scores(q, k), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_depend_on_distance_alone_to_the_last_position(dtype: torch.dtype) -> None:
    q, k = torch.randn(2, 1, 32, 16).to(dtype)
    limit, near = max_positions(512.0, dtype), 20 * torch.finfo(dtype).eps * 16**0.5
    exact = scores(q.double(), k.double())
    for shift in (0, limit // 2, limit - 32):
        found = scores(q, k, shift)
        assert found.isfinite().all()
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=near * float(exact.abs().max()))


def test_gradients_at_the_first_and_the_last_position() -> None:
    x, limit = torch.randn(1, 1, 2, 8), max_positions(512.0, torch.float32)
    q, k = x.clone().requires_grad_(), x.clone().requires_grad_()
    ends = torch.tensor([[0, limit - 1]])
    product = rotate_and_fade(q, ends, 10000.0, "interleaved", 512.0, 1) * rotate_and_fade(
        k, ends, 10000.0, "interleaved", 512.0, -1
    )
    product.sum().backward()
    for one, other in ((q, k), (k, q)):
        assert one.grad is not None
        torch.testing.assert_close(one.grad, other.detach(), rtol=1e-4, atol=1e-4)


def decoder(mixer: str = "attention(4)", mask: str = "causal") -> Transformer:
    torch.manual_seed(1)
    side = {"position": "xpos(scale_base=8)", "mixer": mixer, "mask": mask}
    return Transformer(small(encoder=0, decoder=side)).double().eval()


@pytest.mark.parametrize("mixer", ["attention(4)", "attention(4, 2, kernel='math')", "shared_kv(4)", "retention(4)"])
@torch.no_grad()
def test_cached_keys_stay_valid(mixer: str) -> None:
    """However long the text becomes: after 90 tokens, 11 times the scale's base."""
    model, ids = decoder(mixer), torch.randint(29, (2, 90))
    whole, state = model.decode(ids), model.new_state(2)
    steps = [model.decode(chunk, state=state) for chunk in ids.split([60, 1, 1, 20, 1, 7], dim=1)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)


@torch.no_grad()
def test_padding_beyond_the_last_position_is_no_token() -> None:
    xpos = XPos(XPos.Config(scale_base=1.0), None)  # type: ignore[arg-type]
    limit = max_positions(1.0, torch.float32)
    x, valid = torch.ones(2, 1, limit + 5, 4), valid_mask(torch.tensor([limit, 3]), limit + 5)
    tokens = positions_from_start(limit + 5, valid, CPU)
    assert xpos.rotate(x, tokens).isfinite().all() and xpos.transform_query(x, tokens, 0).isfinite().all()
    with pytest.raises(
        HeadwayError, match=f"with scale_base = 1, xpos covers {limit} positions in float32, and was given {limit + 5}"
    ):
        xpos.rotate(x, tokens._replace(valid=None))
    one = TokenPositions(torch.tensor([[limit]]), None, limit + 1)
    with pytest.raises(HeadwayError, match=f"given {limit + 1} tokens. Shorten the text, or train with a larger"):
        xpos.transform_query(x[:, :, :1], one, 0)


def test_a_mask_that_shows_the_future_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'encoder\.mask: xpos lowers scores .* not "full", or choose "rope"'):
        small(decoder=0, encoder={"position": "xpos"}).resolved()
    small(decoder=0, encoder={"position": "xpos", "mask": "causal & local(8)"}).resolved()
    with pytest.raises(ConfigError, match="xpos rotates pairs of channels, so d_k must be even, not 3"):
        small(encoder=0, decoder={"position": "xpos", "mixer": "attention(4, d_k=3)"}).resolved()


def test_a_text_without_an_end_is_refused() -> None:
    side = {"layers": 1, "position": "xpos", "mask": "causal & local(8)", "mixer": "attention(4)"}
    table = {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": side}
    model = from_dict(Transformer.Config, table)
    with pytest.raises(ConfigError, match="with carry, a text continues .* and xpos positions count from its start"):
        CausalObjective.Config(carry=True).check(model)
