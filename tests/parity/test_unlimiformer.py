"""Unlimiformer: with enough keys the numbers of torch's own cross-attention, with fewer those of a loop over the
definition; encoding in chunks."""

import pytest
import torch
from nn.building import small
from torch import Tensor, nn

from headway.nn.chunked_encoder import encode_in_chunks, plan_chunks
from headway.nn.ops.retrieval import best_keys
from headway.nn.transformer import Transformer, valid_mask
from parity.mixing import make_mixer, run_mixer

EXACT = {"rtol": 0.0, "atol": 1e-12}


@pytest.mark.parametrize("top_k", [7, 100])
def test_with_all_keys_it_is_torchs_cross_attention(top_k: int) -> None:
    module = make_mixer(f"unlimiformer(2, top_k={top_k})", 8)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True).double()
    layers = (module.query, module.key, module.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
        theirs.out_proj.load_state_dict(module.output.state_dict())
    x, source = (torch.randn(2, length, 8, dtype=torch.float64) for length in (3, 7))
    valid = valid_mask(torch.tensor([7, 4]), 7)
    expected, weights = theirs(x, source, source, key_padding_mask=~valid, average_attn_weights=False)
    found = run_mixer(module, x, source=source, valid=valid)
    torch.testing.assert_close(found.output, expected, **EXACT)
    torch.testing.assert_close(found.trace["weights"], weights, **EXACT)


@torch.no_grad()
def test_weights_of_attention_serve_it_as_they_are() -> None:
    """A value of the config at decoding: nothing is trained for it."""
    plain = Transformer(small(decoder={"cross": "attention(4)"})).double().eval()
    source, target = torch.randint(29, (2, 12)), torch.randint(29, (2, 6))
    outputs = {}
    for top_k in (12, 3):
        other = Transformer(small(decoder={"cross": f"unlimiformer(4, top_k={top_k})"})).double().eval()
        other.load_state_dict(plain.state_dict())
        outputs[top_k] = other(source, target).hidden
    expected = plain(source, target).hidden
    torch.testing.assert_close(outputs[12], expected, **EXACT)
    assert (outputs[3] - expected).abs().max() > 1e-3


def test_each_head_and_query_retrieves_its_own_keys() -> None:
    """By definition: the states whose products with the query, transformed by the key projection, are the largest."""
    module = make_mixer("unlimiformer(2, top_k=3, bias=false)", 8)
    x, source = (torch.randn(1, length, 8, dtype=torch.float64) for length in (4, 9))
    found = run_mixer(module, x, source=source, valid=valid_mask(torch.tensor([8]), 9)).trace["weights"][0]
    keys = module.key.weight.view(2, 4, 8)
    q = module.query(x)[0].view(4, 2, 4)
    for head in range(2):
        for t in range(4):
            transformed = q[t, head] @ keys[head]  # (d,): compared with encoder states themselves
            scores = source[0, :8] @ transformed / 2
            best = scores.topk(3)
            expected = torch.zeros(9, dtype=torch.float64)
            expected[best.indices] = best.values.softmax(0)
            torch.testing.assert_close(found[head, t], expected, **EXACT)


def test_what_the_mask_hides_is_not_retrieved() -> None:
    scores, mask = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.rand(2, 1, 5, 8) < 0.4
    mask[0, 0, 0], mask[0, 0, 1] = False, True
    best = best_keys(scores, mask, 3)
    assert best is not None and not (best & ~mask).any()
    assert torch.equal(best.sum(-1), mask.sum(-1).clamp(max=3).expand(2, 3, 5))
    assert best_keys(scores, mask, 8) is mask and best_keys(scores, None, 9) is None


def test_chunks_keep_every_token_once() -> None:
    for length in (1, 7, 8, 9, 12, 13, 40, 41):
        for size in (2, 3, 8):
            chunks = plan_chunks(0, length, size)
            kept = [token for chunk in chunks for token in range(chunk.keep_from, chunk.keep_to)]
            assert kept == list(range(length))
            for chunk in chunks:
                assert 0 <= chunk.start <= chunk.keep_from <= chunk.keep_to <= min(chunk.start + size, length)
    assert [tuple(chunk) for chunk in plan_chunks(2, 16, 8)] == [(2, 0, 0, 6), (2, 4, 6, 10), (2, 8, 10, 16)]


@torch.no_grad()
def test_a_long_text_is_encoded_in_chunks_of_which_the_middle_is_kept() -> None:
    """Each token as in the chunk that keeps it, encoded alone; every row by its own length."""
    model = Transformer(small(encoder={"position": "learned(8)"})).double().eval()
    ids, lengths = torch.randint(29, (3, 19)), [19, 16, 5]
    valid = valid_mask(torch.tensor(lengths), 19)
    memory = encode_in_chunks(model, ids, valid, max_tokens=8)
    assert memory.values.shape == (3, 19, 16) and memory.positions.valid is valid
    for row, length in enumerate(lengths):
        for chunk in plan_chunks(row, length, 8):
            alone = model.encode(ids[row : row + 1, chunk.start : min(chunk.start + 8, length)]).values[0]
            expected = alone[chunk.keep_from - chunk.start : chunk.keep_to - chunk.start]
            torch.testing.assert_close(memory.values[row, chunk.keep_from : chunk.keep_to], expected, **EXACT)
    model.decode(torch.randint(29, (3, 4)), memory=memory)


@torch.no_grad()
def test_a_short_text_is_encoded_as_ever() -> None:
    model = Transformer(small()).double().eval()
    ids, valid = torch.randint(29, (2, 8)), valid_mask(torch.tensor([8, 3]), 8)

    def real(values: Tensor) -> Tensor:
        return values[valid]

    found = encode_in_chunks(model, ids, valid, max_tokens=8)
    assert torch.equal(real(found.values), real(model.encode(ids, valid).values))
    far = encode_in_chunks(model, torch.cat([ids, ids], 1), max_tokens=16)
    torch.testing.assert_close(far.values, model.encode(torch.cat([ids, ids], 1)).values, **EXACT)


def test_chunks_that_cannot_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 tokens"):
        encode_in_chunks(Transformer(small()), torch.zeros(1, 5, dtype=torch.long), max_tokens=1)
