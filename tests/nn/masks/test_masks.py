"""Masks: one rule gives the same answer as direct loops, as a dense tensor and as FlexAttention's blocks; composition,
names, reach; what local(W) means; documents; padding."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from headway.errors import ConfigError
from headway.nn.context import Context
from headway.nn.masks.masks import CAUSAL, FULL, Mask, Pattern, dense_mask, documents, local, make_mask
from headway.nn.sequence import Places, places_after, places_from

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
    pattern = Pattern(mask, places_from(11, None, CPU), places_from(13, None, CPU), 2)
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
    """A block of 128 by 128 is worked on exactly where the dense mask has a place in it."""
    length, keys = 300, 420
    valid = torch.arange(keys) < torch.tensor([[420], [130]]) if where == "padded" else None
    places = places_from(keys, valid, CPU)
    if where == "out of order":
        places = Places(torch.randperm(keys)[None], None, keys)
    pattern = Pattern(make_mask(text), places_from(length, None, CPU), places, 2)
    dense = pattern.dense(2).expand(2, 2, length, keys)
    padded = torch.nn.functional.pad(dense, (0, 512 - keys, 0, 384 - length))
    seen = padded.unflatten(3, (4, 128)).unflatten(2, (3, 128)).any(5).any(3)
    assert torch.equal(pattern.blocks(2).to_dense().bool().expand_as(seen), seen)
    rendered = create_mask(pattern.blocks(2).mask_mod, 2, 2, length, keys, device="cpu")
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
    if mask.reach is not None:
        assert (q - k)[seen].max() < mask.reach
    assert not (mask.hides_future and (seen & (k > q)).any())
    assert mask.hides_future == text.startswith("causal") & ("|" not in text), "known from how it is composed"


def test_reach_of_a_composition() -> None:
    assert (CAUSAL & local(4)).reach == 4
    assert (local(9) & local(4)).reach == 4
    assert (local(9) | local(4)).reach == 9
    assert (CAUSAL | local(4)).reach is None
    assert (CAUSAL | local(4)).hides_future is False
    assert (CAUSAL | (CAUSAL & local(4))).hides_future is True


def test_documents_are_each_rows_own() -> None:
    ids = torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 2, 2]])
    pattern = Pattern(documents(ids) & CAUSAL, places_from(5, None, CPU), places_from(5, None, CPU), 2)
    expected = torch.tensor(
        [[[bool(ids[b, q] == ids[b, k]) and k <= q for k in range(5)] for q in range(5)] for b in range(2)]
    )
    assert torch.equal(pattern.dense(2).expand(2, 2, 5, 5), expected[:, None].expand(2, 2, 5, 5))
    rendered = create_mask(pattern.blocks(2).mask_mod, 2, 2, 5, 5, device="cpu")
    assert torch.equal(rendered, expected[:, None].expand(2, 2, 5, 5))


def test_a_rule_may_differ_by_head() -> None:
    mask = Mask("own reach", lambda b, h, q, k: (q - k).abs() <= h)
    pattern = Pattern(mask, places_from(4, None, CPU), places_from(4, None, CPU), 3)
    assert pattern.dense(1).shape == (1, 3, 4, 4)
    assert [int(pattern.dense(1)[0, h].sum()) for h in range(3)] == [4, 10, 14]


def test_padding_is_hidden_as_keys_only() -> None:
    valid = torch.tensor([[True, True, False], [True, False, False]])
    pattern = Pattern(FULL, places_from(3, valid, CPU), places_from(3, valid, CPU), 1)
    assert torch.equal(pattern.dense(2).expand(2, 1, 3, 3), valid[:, None, None].expand(2, 1, 3, 3))
    assert not pattern.allows_all
    assert Pattern(FULL, places_from(3, valid, CPU), places_from(3, None, CPU), 1).allows_all


def test_masks_ask_positions_not_slots() -> None:
    """Keys may lie in any order, as in a ring: what counts is where they stand."""
    queries = Places(torch.tensor([[6]]), None, 7)
    keys = Places(torch.tensor([[4, 5, 6, 3]]), None, 7)
    assert Pattern(CAUSAL & local(3), queries, keys, 1).dense(1).flatten().tolist() == [True, True, True, False]


def test_tokens_that_follow_stand_after_what_came_before() -> None:
    valid = torch.tensor([[True, False, True], [False, True, False]])
    places = places_after(torch.tensor([2, 5]), 5, 3, valid, False)
    assert places.positions[valid].tolist() == [2, 3, 5]
    assert places_after(torch.tensor([4, 4]), 4, 2, None, True).positions.tolist() == [[4, 5]]
    assert places_after(torch.tensor([4, 1]), 4, 2, None, False).positions.tolist() == [[4, 5], [1, 2]]


def test_layers_with_the_same_keys_share_a_pattern() -> None:
    ctx = Context(places_from(4, None, CPU))
    keys = places_from(4, None, CPU)
    inside = ctx.inside("0.self", CAUSAL)
    assert inside.pattern(keys, 2, "self") is ctx.inside("1.self", make_mask("causal")).pattern(keys, 2, "self")
    assert inside.pattern(keys, 2, "self") is not inside.pattern(keys, 2, "source")
    assert inside.pattern(keys, 2, "self") is not inside.pattern(keys, 4, "self")
    assert inside.pattern(keys, 2, "self") is not ctx.inside("1.self", local(2)).pattern(keys, 2, "self")


def test_a_copied_model_looks_through_the_same_masks() -> None:
    assert copy.deepcopy({"mask": CAUSAL})["mask"] is CAUSAL
