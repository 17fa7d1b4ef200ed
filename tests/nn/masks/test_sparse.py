"""Sparse masks against the matrices of their authors' code, and against their own definitions."""

import re

import pytest
import torch
from golden_files import golden
from torch import Tensor

from headway.config import catalogue
from headway.errors import ConfigError
from headway.nn.masks.masks import BoundMask, Mask, dense_mask, make_mask
from headway.nn.masks.sparse import bigbird, draw_random_blocks, fixed
from headway.nn.ops.attention import attend
from headway.nn.sequence import positions_from_start


def of_head(mask: Mask, length: int, head: int, block: int = 1) -> Tensor:
    q, k = (torch.arange(length) // block).view(-1, 1), (torch.arange(length) // block).view(1, -1)
    return mask(torch.tensor(0), torch.tensor(head), q, k).expand(length, length)


def test_local_and_strided_are_openais() -> None:
    tensors, _ = golden("sparse_masks")
    n = int(tensors["in.n"])
    tested = 0
    for name, wanted in tensors.items():
        if found := re.fullmatch(r"out\.(local|strided)_(\d+)", name):
            assert torch.equal(dense_mask(make_mask(f"causal & {found[1]}({found[2]})"), n), wanted.bool()), name
            tested += 1
    assert tested == 10


def test_fixed_is_openais() -> None:
    """Their blocks of B places are our places, seen from further away; inside a block they stay causal."""
    tensors, _ = golden("sparse_masks")
    n = int(tensors["in.n"])
    causal = torch.ones(n, n).tril().bool()
    tested = 0
    for name, wanted in tensors.items():
        if found := re.fullmatch(r"out\.fixed_ctx(\d+)_heads(\d+)_verts(\d+)_size(\d+)_block(\d+)", name):
            context, _, groups, size, block = map(int, found.groups())
            mask = fixed(context // block, size, groups)
            for head, expected in enumerate(wanted.bool()):
                assert torch.equal(of_head(mask, n, head, block) & causal, expected), (name, head)
            tested += 1
    assert tested > 2


def test_bigbird_is_hugging_faces() -> None:
    """With the same plan of random blocks, the attention of a whole layer."""
    tensors, config = golden("bigbird")
    heads, block = int(config["heads"]), int(config["block"])  # type: ignore[call-overload]
    drawn = tensors["in.rand_blocks"].long()  # (H, N - 2, R)
    plan = torch.nn.functional.pad(drawn, (0, 0, 1, 1))  # the first and the last block see all
    x = tensors["in.x"]
    q, k, v = (
        torch.nn.functional.linear(
            x, tensors[f"w.attention.self.{name}.weight"], tensors[f"w.attention.self.{name}.bias"]
        ).unflatten(-1, (heads, -1)).transpose(1, 2)
        for name in ("query", "key", "value")
    )  # fmt: skip
    masks = torch.stack([of_head(bigbird(block, plan), x.shape[1], head) for head in range(heads)])  # (H, T, S)
    heard = attend(q, k, v, mask=masks[None], kernel="math").transpose(1, 2).flatten(2)
    wanted = tensors["out.attn_random"]
    if wanted.shape == heard.shape and not torch.allclose(heard, wanted, atol=1e-9):  # with the output projection
        dense, norm = "w.attention.output.dense", "w.attention.output.LayerNorm"
        added = x + torch.nn.functional.linear(heard, tensors[f"{dense}.weight"], tensors[f"{dense}.bias"])
        heard = torch.nn.functional.layer_norm(
            added, x.shape[-1:], tensors[f"{norm}.weight"], tensors[f"{norm}.bias"], 1e-12
        )
    torch.testing.assert_close(heard, wanted, rtol=0, atol=1e-11)


def test_a_random_plan_names_what_is_not_seen_anyway() -> None:
    plan = draw_random_blocks(blocks=12, random=3, heads=4, seed=5)
    assert torch.equal(plan, draw_random_blocks(12, 3, 4, 5))
    assert not torch.equal(plan, draw_random_blocks(12, 3, 4, 6))
    for head in range(4):
        for one in range(12):
            chosen = plan[head, one].tolist()
            assert len(set(chosen)) == 3
            assert all(1 <= other <= 10 and abs(other - one) > 1 for other in chosen)


def test_bigbird_sees_blocks_of_the_same_number_everywhere() -> None:
    mask = make_mask("bigbird(4, random=2, max_positions=64)")
    seen = dense_mask(mask, 64)
    assert seen[:4].all() and seen[:, :4].all() and seen[-4:].all() and seen[:, -4:].all()
    middle = seen[20:44].sum(1)
    assert middle.min() == middle.max() == 4 * (1 + 1 + 3 + 2)
    assert mask.lookback is None and not mask.hides_future
    assert make_mask("causal & bigbird(4)").hides_future


COMPILED = [
    "segments(48, 32)",
    "causal & fixed(48, 4, 2)",
    "strided(24)",
    "bigbird(16, 2, 256)",
    "bigbird(16, 2, 256, 2)",
    "atrous(3, 60)",
    "longformer(20, (0, 1, 150))",
    "prefix(70)",
]
COMPILED += [  # every further kind, as it is by default
    kind
    for kind in catalogue.kinds("mask")
    if kind not in ("full", "causal", "local", "all", "any") and not any(f"{kind}(" in rule for rule in COMPILED)
]


QUICK = ("causal & fixed(48, 4, 2)", "bigbird(16, 2, 256)", "prefix(70)")  # compiling one takes seconds


@pytest.mark.parametrize(
    "rule", [rule if rule in QUICK else pytest.param(rule, marks=pytest.mark.slow) for rule in COMPILED]
)
@pytest.mark.filterwarnings("ignore")  # the compiler warns of itself, in each version of something else
def test_compiled_kernels_see_the_same(rule: str) -> None:
    """A rule is compiled into FlexAttention's kernel, which may not understand all that tensors can do."""
    q, k, v = (torch.randn(2, 2, 300, 16) for _ in range(3))
    places = positions_from_start(
        300, torch.arange(300).expand(2, -1) < torch.tensor([[300], [211]]), torch.device("cpu")
    )
    pattern = BoundMask(make_mask(rule), places, places, heads=2)
    with torch.no_grad():
        fast, plain = (attend(q, k, v, mask=pattern, kernel=kernel) for kernel in ("flex", "math"))
    torch.testing.assert_close(fast, plain, rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("rule", "keys"),
    [
        ("local(8)", 8),
        ("segments(8, 4)", 12),
        ("strided(64)", None),
        ("fixed(64)", None),
        ("bigbird(64, 2)", 7 * 128),
        ("causal & bigbird(256, 2)", 7 * 256),
        ("local(8) | segments(8, 4)", 20),
        ("local(8) | strided(64)", None),
    ],
)
def test_how_many_keys_a_kernel_must_look_at(rule: str, keys: int | None) -> None:
    assert make_mask(rule).keys_per_query == keys


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("full", 528),
        ("strided(64)", 528),
        ("strided(255)", 528),
        ("strided(256)", 272),
        ("strided(512)", 144),
        ("fixed(128, 8)", 528),
        ("fixed(135, 8)", 528),
        ("fixed(1024, 8)", 192),
        ("local(64)", 63),
    ],
)
def test_how_many_blocks_a_kernel_must_compute(rule: str, left: int) -> None:
    """Of 4,096 places, as docs/masks.md has it."""
    places = positions_from_start(4096, None, torch.device("cpu"))
    blocks = BoundMask(make_mask(f"causal & {rule}"), places, places, heads=1).block_mask(1)
    assert int(blocks.kv_num_blocks.sum() + blocks.full_kv_num_blocks.sum()) == left


def test_fixed_places_must_fit() -> None:
    with pytest.raises(ConfigError, match=r"groups · summary = 4 · 8 does not fit into block = 16. Lower groups"):
        make_mask("fixed(16, 8, 4)")


def test_random_blocks_must_be_there() -> None:
    with pytest.raises(
        ConfigError, match=r"random = 4, but 120 positions in blocks of 16 leave 3 to draw from: a block"
    ):
        make_mask("bigbird(16, 4, 120)")
    with pytest.raises(ConfigError, match=r"random = 1, but 16 positions in blocks of 16 leave 0 to draw from"):
        make_mask("bigbird(16, 1, 16)")
    assert make_mask("bigbird(16, 0, 16)") and make_mask("bigbird(16, 3, 120)")
    for blocks in range(6, 12):  # as many as can be drawn for every block
        plan = draw_random_blocks(blocks, blocks - 5, heads=1, seed=0)[0]
        assert all(len(set(plan[one].tolist())) == blocks - 5 and plan[one].all() for one in range(blocks))
