"""Masks: one rule gives the same answer as direct loops, as a dense tensor and as FlexAttention's blocks; composition,
names, lookback; what local(W) means; documents; padding; block masks are cached."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from nn.building import small
from torch.nn.attention import flex_attention
from torch.nn.attention.flex_attention import create_mask

from headway.errors import ConfigError
from headway.nn.context import Context
from headway.nn.masks.masks import (
    CAUSAL,
    FULL,
    MAX_BLOCK_MASKS,
    BoundMask,
    Mask,
    dense_mask,
    local,
    make_mask,
)
from headway.nn.masks.texts import documents
from headway.nn.sequence import TokenPositions, positions_after, positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
RULES: dict[str, Callable[[int, int], bool]] = {
    "full": lambda q, k: True,
    "causal": lambda q, k: k <= q,
    "local(3)": lambda q, k: q - 3 < k < q + 3,
    "local(1)": lambda q, k: k == q,
    "causal & local(3)": lambda q, k: q - 3 < k <= q,
    "causal | local(3)": lambda q, k: k < q + 3,
    "(causal & local(4)) | local(2)": lambda q, k: q - 4 < k < q + 2,
    "causal & local(5) & local(2)": lambda q, k: q - 2 < k <= q,
}


@pytest.mark.parametrize("text", RULES)
def test_a_rule_is_what_loops_say(text: str) -> None:
    expected = torch.tensor([[RULES[text](q, k) for k in range(13)] for q in range(11)])
    mask = make_mask(text)
    assert torch.equal(dense_mask(mask, 11, 13), expected)
    pattern = BoundMask(mask, positions_from_start(11, None, CPU), positions_from_start(13, None, CPU), 2)
    assert torch.equal(pattern.dense(3).expand(3, 2, 11, 13), expected.expand(3, 2, 11, 13))


def test_local_keeps_window_places_oneself_counted() -> None:
    """The window's edge, where libraries differ by one: as Hugging Face's k > q - W, W keys to look back at."""
    seen = dense_mask(CAUSAL & local(4), 10)
    assert seen[9].nonzero().flatten().tolist() == [6, 7, 8, 9]
    assert seen.sum(1).tolist() == [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
    assert dense_mask(local(4), 10)[4].nonzero().flatten().tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("text", [*RULES, "local(70)", "causal & local(70)"])
@pytest.mark.parametrize("where", ["padded", "plain", "out of order"])
def test_blocks_are_the_dense_mask_seen_from_afar(text: str, where: str) -> None:
    """A block of 128 by 128 is worked on where the dense mask has a place in it."""
    length, keys = 300, 420
    valid = torch.arange(keys) < torch.tensor([[420], [130]]) if where == "padded" else None
    places = positions_from_start(keys, valid, CPU)
    if where == "out of order":
        places = TokenPositions(torch.randperm(keys)[None], None, keys)
    pattern = BoundMask(make_mask(text), positions_from_start(length, None, CPU), places, 2)
    dense = pattern.dense(2).expand(2, 2, length, keys)
    padded = torch.nn.functional.pad(dense, (0, 512 - keys, 0, 384 - length))
    seen = padded.unflatten(3, (4, 128)).unflatten(2, (3, 128)).any(5).any(3)
    found = pattern.block_mask(2).to_dense().bool().expand_as(seen)
    if where == "padded":  # what the mask alone would show there, without blocks of nothing but padding
        assert (found | ~seen).all() and not found[1, :, :, 2:].any()
    else:
        assert torch.equal(found, seen)
    rendered = create_mask(pattern.block_mask(2).mask_mod, 2, 2, length, keys, device="cpu")
    assert torch.equal(rendered, dense)


def test_composition_is_pointwise_and_named() -> None:
    odd = Mask("odd", lambda b, h, q, k: (k % 2 == 1) & (q == q))
    for joined, expected, name in (
        (CAUSAL & odd, dense_mask(CAUSAL, 8) & dense_mask(odd, 8), "(causal & odd)"),
        (CAUSAL | odd, dense_mask(CAUSAL, 8) | dense_mask(odd, 8), "(causal | odd)"),
        (CAUSAL & (odd | local(2)), dense_mask(CAUSAL, 8) & (dense_mask(odd, 8) | dense_mask(local(2), 8)), None),
    ):
        assert torch.equal(dense_mask(joined, 8), expected)
        assert name in (None, joined.name)
    assert (CAUSAL & (odd | local(2))).name == "(causal & (odd | local(2)))"


def test_shorthand_and_names() -> None:
    assert make_mask("causal").name == "causal"
    assert make_mask("causal & local(256)").name == "(causal & local(256))"
    assert make_mask("full | local(8)").name == "(full | local(8))"
    assert make_mask("causal & local(5) & local(2)").name == "((causal & local(5)) & local(2))"
    assert make_mask({"kind": "local", "window": 7}).name == "local(7)"
    with pytest.raises(ConfigError, match="at least 1"):
        make_mask("local(0)")
    with pytest.raises(ConfigError, match="empty"):
        make_mask("all")


@pytest.mark.parametrize("text", RULES)
def test_reach_and_future_are_told_truly(text: str) -> None:
    mask, seen = make_mask(text), dense_mask(make_mask(text), 24)
    q, k = torch.arange(24)[:, None], torch.arange(24)[None]
    if mask.lookback is not None:
        assert (q - k)[seen].max() < mask.lookback
    assert not (mask.hides_future and (seen & (k > q)).any())
    assert mask.hides_future == text.startswith("causal") & ("|" not in text), "known from how it is composed"


def test_reach_of_a_composition() -> None:
    assert (CAUSAL & local(4)).lookback == 4
    assert (local(9) & local(4)).lookback == 4
    assert (local(9) | local(4)).lookback == 9
    assert (CAUSAL | local(4)).lookback is None
    assert (CAUSAL | local(4)).hides_future is False
    assert (CAUSAL | (CAUSAL & local(4))).hides_future is True


def test_documents_are_each_rows_own() -> None:
    ids = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 2, 2]])
    pattern = BoundMask(
        documents(ids) & CAUSAL, positions_from_start(5, None, CPU), positions_from_start(5, None, CPU), 2
    )
    expected = torch.tensor(
        [[[bool(ids[b, q] == ids[b, k]) and k <= q for k in range(5)] for q in range(5)] for b in range(2)]
    )
    assert torch.equal(pattern.dense(2).expand(2, 2, 5, 5), expected[:, None].expand(2, 2, 5, 5))
    rendered = create_mask(pattern.block_mask(2).mask_mod, 2, 2, 5, 5, device="cpu")
    assert torch.equal(rendered, expected[:, None].expand(2, 2, 5, 5))


def test_a_rule_may_differ_by_head() -> None:
    mask = Mask("own reach", lambda b, h, q, k: (q - k).abs() <= h)
    pattern = BoundMask(mask, positions_from_start(4, None, CPU), positions_from_start(4, None, CPU), 3)
    assert pattern.dense(1).shape == (1, 3, 4, 4)
    assert [int(pattern.dense(1)[0, h].sum()) for h in range(3)] == [4, 10, 14]


def test_padding_is_hidden_as_keys_only() -> None:
    valid = torch.tensor([[True, True, False], [True, False, False]])
    pattern = BoundMask(FULL, positions_from_start(3, valid, CPU), positions_from_start(3, valid, CPU), 1)
    assert torch.equal(pattern.dense(2).expand(2, 1, 3, 3), valid[:, None, None].expand(2, 1, 3, 3))
    assert not pattern.allows_all
    assert BoundMask(FULL, positions_from_start(3, valid, CPU), positions_from_start(3, None, CPU), 1).allows_all


def test_masks_ask_positions_not_slots() -> None:
    """Keys may lie in any order, as in a ring: what counts is where they stand."""
    queries = TokenPositions(torch.tensor([[6]]), None, 7)
    keys = TokenPositions(torch.tensor([[4, 5, 6, 3]]), None, 7)
    assert BoundMask(CAUSAL & local(3), queries, keys, 1).dense(1).flatten().tolist() == [True, True, True, False]


def test_tokens_that_follow_stand_after_what_came_before() -> None:
    valid = torch.tensor([[True, False, True], [False, True, False]])
    places = positions_after(torch.tensor([2, 5]), 5, 3, valid, False)
    assert places.positions[valid].tolist() == [2, 3, 5]
    assert positions_after(torch.tensor([4, 4]), 4, 2, None, True).positions.tolist() == [[4, 5]]
    assert positions_after(torch.tensor([4, 1]), 4, 2, None, False).positions.tolist() == [[4, 5], [1, 2]]


def test_layers_with_the_same_keys_share_a_pattern() -> None:
    ctx = Context(positions_from_start(4, None, CPU))
    keys = positions_from_start(4, None, CPU)
    inside = ctx.for_sublayer("0.self", CAUSAL)
    assert inside.bound_mask(keys, 2, "self") is ctx.for_sublayer("1.self", make_mask("causal")).bound_mask(
        keys, 2, "self"
    )
    assert inside.bound_mask(keys, 2, "self") is not inside.bound_mask(keys, 2, "source")
    assert inside.bound_mask(keys, 2, "self") is not inside.bound_mask(keys, 4, "self")
    assert inside.bound_mask(keys, 2, "self") is not ctx.for_sublayer("1.self", local(2)).bound_mask(keys, 2, "self")


def test_a_copied_model_looks_through_the_same_masks() -> None:
    assert copy.deepcopy({"mask": CAUSAL})["mask"] is CAUSAL


@torch.no_grad()
def test_a_block_mask_is_built_once_for_all_forward_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building one takes quadratic time: under a sliding window, longer than attention itself."""
    config = {"mask": "local(8)", "mixer": {"heads": 4, "kernel": "flex"}}
    model = Transformer(small(encoder=config, decoder=0)).eval().double()  # which is not compiled
    plain = Transformer(small(encoder={"mask": "local(8)"}, decoder=0)).eval().double()
    plain.load_state_dict(model.state_dict())
    calls: list[tuple[int, int]] = []
    create = flex_attention.create_block_mask

    def count(rule: Any, rows: Any, heads: Any, queries: int, keys: int, **more: Any) -> Any:
        calls.append((queries, keys))
        return create(rule, rows, heads, queries, keys, **more)

    monkeypatch.setattr(flex_attention, "create_block_mask", count)
    ids = torch.randint(29, (2, 40))
    first = model.encode(ids).values
    assert calls == [(40, 40)], "all layers share it"
    assert torch.equal(model.encode(ids).values, first) and calls == [(40, 40)]
    with torch.inference_mode():
        model.encode(ids[:, :30])
    assert calls == [(40, 40), (30, 30)]
    valid = valid_mask(torch.tensor([40, 33]), 40)  # padding differs from batch to batch, blocks do not
    padded = model.encode(ids, valid).values[valid]
    assert len(calls) == 2
    torch.testing.assert_close(plain.encode(ids, valid).values[valid], padded, rtol=0, atol=1e-12)
    torch.testing.assert_close(plain.encode(ids).values, first, rtol=0, atol=1e-12)


def test_block_masks_are_kept_for_a_few_sizes_only() -> None:
    mask = local(3)
    for length in range(5, 5 + 2 * MAX_BLOCK_MASKS):
        tokens = positions_from_start(length, None, CPU)
        kept = BoundMask(mask, tokens, tokens, 2).block_mask(1)
    assert len(mask.block_masks) == MAX_BLOCK_MASKS
    assert BoundMask(mask, tokens, tokens, 2).block_mask(4) is kept, "the same for all rows"
    other = make_mask("fixed(4, 1, 2)")  # a rule may depend on row and head
    assert BoundMask(other, tokens, tokens, 2).block_mask(1) is not BoundMask(other, tokens, tokens, 2).block_mask(4)
    assert copy.deepcopy(mask) is mask
