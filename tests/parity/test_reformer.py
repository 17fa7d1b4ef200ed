"""Reformer: two forms of attention by hashing, equal to transformers' LSHSelfAttention and to each other; full
attention where all tokens meet; the same for the same seed, whatever the padding, at a cost of n log n."""

from typing import Any

import pytest
import torch
from nn.building import small
from tensor_sizes import max_numel
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import ReformerConfig
from transformers.models.reformer.modeling_reformer import LSHSelfAttention

from headway.errors import ConfigError
from headway.nn.ops.lsh_attention import chunked_lsh, count_meetings, dense_lsh, draw_rotations, hash_tokens
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import identity, make_mixer, refusal, run_mixer

NEAR = {"rtol": 0.0, "atol": 1e-12}
HEADS, WIDTH, CHUNK, BUCKETS, SEED = 2, 4, 8, 6, 5


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize(("length", "padding"), [(8, 0), (16, 0), (40, 0), (40, 5)])
@torch.no_grad()
def test_the_layer_is_transformers(length: int, padding: int, rounds: int) -> None:
    """One chunk, two, and many; where padding fills the last one. A layer of theirs has no output projection."""
    config = ReformerConfig(
        hidden_size=8,
        num_attention_heads=HEADS,
        attention_head_size=WIDTH,
        num_hashes=rounds,
        num_buckets=BUCKETS,
        lsh_attn_chunk_length=CHUNK,
        lsh_num_chunks_before=1,
        lsh_num_chunks_after=0,
        hash_seed=SEED,
        is_decoder=False,
    )
    theirs: Any = LSHSelfAttention(config, 0).double().eval()
    ours: Any = make_mixer(f"reformer({HEADS}, {CHUNK}, {BUCKETS}, {rounds})", 8, "encoder")
    torch.manual_seed(SEED)  # as they draw their rotations
    ours.rotations.copy_(torch.randn(HEADS, WIDTH, rounds, BUCKETS // 2, dtype=torch.float64))
    ours.output.weight.copy_(identity(8))
    theirs.query_key.weight.copy_(ours.query_key.weight)
    theirs.value.weight.copy_(ours.value.weight)
    x, valid = torch.randn(2, length, 8, dtype=torch.float64), valid_mask(torch.tensor([length - padding] * 2), length)
    expected = theirs(x, attention_mask=valid if padding else None).hidden_states[valid]
    found = run_mixer(ours, x, valid=valid if padding else None)
    torch.testing.assert_close(found.output[valid], expected, **NEAR)
    qk, v = (layer(x).view(2, length, HEADS, WIDTH).transpose(1, 2) for layer in (ours.query_key, ours.value))
    buckets = hash_tokens(qk, ours.rotations, valid if padding else None)
    chunked = chunked_lsh(qk, v, buckets, CHUNK, valid if padding else None)
    torch.testing.assert_close(chunked.transpose(1, 2).flatten(2)[valid], expected, **NEAR)


def some_tokens(length: int, batch: int = 2) -> tuple[Tensor, Tensor]:
    qk, v = (torch.randn(batch, HEADS, length, WIDTH, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return qk, v


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 12, 19])
def test_forms_are_equal_with_gradients(length: int, rounds: int) -> None:
    """At every filling of the last chunk, in rows of different lengths."""
    qk, v = some_tokens(length)
    valid = valid_mask(torch.tensor([length, (length + 1) // 2]), length)
    buckets = hash_tokens(qk, draw_rotations(HEADS, WIDTH, rounds, 4, SEED).double(), valid)
    towards = torch.randn_like(v) * valid[:, None, :, None]
    results = []
    for output in (dense_lsh(qk, v, buckets, 3, valid)[0], chunked_lsh(qk, v, buckets, 3, valid)):
        gradients = torch.autograd.grad((output * towards).sum(), (qk, v))
        results.append((output * valid[:, None, :, None], *gradients))
    torch.testing.assert_close(results[1], results[0], **NEAR)


@pytest.mark.parametrize("length", [1, 5, 9, 10])
@torch.no_grad()
def test_padding_and_neighbours_change_nothing(length: int) -> None:
    qk, v = some_tokens(23, batch=3)
    rotations = draw_rotations(HEADS, WIDTH, 2, 4, SEED).double()
    alone = chunked_lsh(*(x[:1, :, :length] for x in (qk, v)), hash_tokens(qk[:1, :, :length], rotations), 3)
    for longer in (length, 12, 23):
        valid = valid_mask(torch.tensor([length, longer, 1]), longer)
        ours, values = qk[:, :, :longer], v[:, :, :longer]
        found = chunked_lsh(ours, values, hash_tokens(ours, rotations, valid), 3, valid)
        torch.testing.assert_close(found[:1, :, :length], alone, **NEAR)


@pytest.mark.parametrize(("chunk", "rounds"), [(10, 1), (10, 3), (5, 1)])
@torch.no_grad()
def test_it_is_full_attention_where_all_tokens_meet(chunk: int, rounds: int) -> None:
    """One chunk, or two that see each other. Nobody attends to himself; but one who is alone does."""
    qk, v = some_tokens(10)
    scores = qk @ (qk / qk.square().mean(-1, keepdim=True).add(1e-6).sqrt()).mT / 2
    expected = scores.masked_fill(torch.eye(10, dtype=torch.bool), -torch.inf).softmax(-1) @ v
    buckets = hash_tokens(qk, draw_rotations(HEADS, WIDTH, rounds, 4, SEED).double())
    torch.testing.assert_close(chunked_lsh(qk, v, buckets, chunk), expected, **NEAR)
    for form in (chunked_lsh, dense_lsh):
        single: Any = form(qk[:, :, :1], v[:, :, :1], buckets[..., :1], chunk)
        torch.testing.assert_close(single[0] if isinstance(single, tuple) else single, v[:, :, :1], **NEAR)


def test_chunks_are_cut_from_the_sorted_text() -> None:
    """Six tokens in buckets 1, 0, 1, 0, 0, 1 are sorted as 1 3 4 | 0 2 5 and then, in twos, 1 3 | 4 0 | 2 5."""
    buckets = torch.tensor([1, 0, 1, 0, 0, 1]).view(1, 1, 1, 6)
    met = [row.nonzero().flatten().tolist() for row in count_meetings(buckets, 2)[0, 0]]
    assert met == [[0, 1, 3, 4], [1, 2, 3, 5], [0, 2, 4, 5], [1, 2, 3, 5], [0, 1, 3, 4], [0, 2, 4, 5]]


def test_opposite_directions_and_seeds() -> None:
    rotations = draw_rotations(HEADS, WIDTH, 50, 8, SEED)
    assert torch.equal(rotations, draw_rotations(HEADS, WIDTH, 50, 8, SEED))
    assert not torch.equal(rotations, draw_rotations(HEADS, WIDTH, 50, 8, SEED + 1))
    x = torch.randn(1, HEADS, 1, WIDTH)
    same, opposite = (hash_tokens(y, rotations) for y in (3 * x, -x))
    assert torch.equal(same, hash_tokens(x, rotations)), "length does not count"
    assert torch.equal((opposite + 4) % 8, same) and len(same.unique()) == 8
    torch.manual_seed(1)  # the seed of the model's weights is another one
    one, other = (make_mixer("reformer(2, 4, 4, seed=3)", 8, "encoder") for _ in range(2))
    assert torch.equal(one.rotations, other.rotations) and "rotations" not in one.state_dict()  # type: ignore[arg-type]


def model(mixer: str, **side: Any) -> Transformer:
    torch.manual_seed(5)
    return Transformer(small(encoder={"mixer": mixer, **side}, decoder=0)).eval()


@torch.no_grad()
def test_a_trace_shows_weights_and_buckets() -> None:
    module, x = make_mixer("reformer(2, 4, 4, rounds=3)", 8, "encoder"), torch.randn(2, 11, 8, dtype=torch.float64)
    valid = valid_mask(torch.tensor([11, 6]), 11)
    output, trace = run_mixer(module, x, valid=valid)
    weights, buckets = trace["weights"], trace["buckets"]
    assert weights.shape == (2, 2, 11, 11) and buckets.shape == (2, 2, 3, 11)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 11, dtype=torch.float64), **NEAR)
    assert (weights.diagonal(dim1=-2, dim2=-1)[valid[:, None].expand(-1, 2, -1)] == 0).all()
    assert (weights[1, :, :, 6:] == 0).all(), "padding is seen by nobody"
    heads = (weights @ trace["v"]).transpose(1, 2).flatten(2)
    torch.testing.assert_close(module.output(heads), output, **NEAR)  # type: ignore[operator]


@pytest.mark.parametrize("length", [1, 7, 8, 21, 40])
def test_costs_are_those_of_the_built_model(length: int) -> None:
    built = model("reformer(4, 8, 6, 3, d_k=5, d_v=3, bias=true)")
    assert built.config.parameter_count() == sum(p.numel() for p in built.parameters())
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.logits(built.encode(torch.zeros(1, length, dtype=torch.long)).values)
    assert built.config.forward_flops(length, 0) == counter.get_total_flops()


def test_memory_grows_with_the_text() -> None:
    def largest(length: int) -> int:
        qk, v = (torch.randn(1, 2, length, 4, requires_grad=True) for _ in range(2))
        buckets = hash_tokens(qk, draw_rotations(2, 4, 2, 8, SEED))
        return max_numel(lambda: chunked_lsh(qk, v, buckets, 16))

    assert largest(4096) == 2 * largest(2048) == 2 * 2 * 4096 * 2 * 16  # heads, rounds, tokens, two chunks


@torch.no_grad()
def test_bfloat16_sums_in_float32() -> None:
    qk, v = (x.detach().float() for x in some_tokens(50))
    buckets = hash_tokens(qk, draw_rotations(HEADS, WIDTH, 2, 8, SEED))
    exact, rounded = chunked_lsh(qk, v, buckets, 8), chunked_lsh(qk.bfloat16(), v.bfloat16(), buckets, 8)
    assert rounded.dtype == torch.bfloat16 and (rounded.float() - exact).norm() < 0.01 * exact.norm()
    assert model("reformer(4, 8, 4)").bfloat16().encode(torch.randint(29, (2, 30))).values.isfinite().all()


@pytest.mark.parametrize(
    ("mixer", "slots", "where", "says"),
    [
        ("reformer(4)", {"side": "decoder"}, "decoder.mask", "later tokens decide which earlier ones meet"),
        ("reformer(4)", {"mask": "causal"}, "encoder.mask", 'only the mask "full", not "causal"'),
        ("reformer(4)", {"position": "rope"}, "encoder.position", "reformer hashes one vector for both"),
        ("reformer(4)", {"position": "alibi"}, "encoder.position", "reformer hashes one vector for both"),
        ("reformer(4, buckets=5)", {}, "encoder.mixer.buckets", "buckets = 5 is odd"),
        ("reformer(3)", {}, "encoder.mixer.heads", "not a multiple of 3 heads"),
    ],
)
def test_what_it_cannot_do_is_refused(mixer: str, slots: dict[str, Any], where: str, says: str) -> None:
    error = refusal(mixer, **{"side": "encoder", **slots})
    assert error.where == where
    with pytest.raises(ConfigError, match=says):
        raise error


def test_it_has_no_cross_attention() -> None:
    with pytest.raises(ConfigError, match="reformer has no cross-attention"):
        small(decoder={"cross": "reformer(4)"}).resolved()
