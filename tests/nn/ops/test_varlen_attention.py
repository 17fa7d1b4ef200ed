"""Which stretch of a line each query sees: as the dense mask has it, for every mask that is one stretch."""

import pytest
import torch

from headway.data.ragged import ragged_from_lists
from headway.nn.masks.masks import BoundMask, make_mask
from headway.nn.ops.attention import attend
from headway.nn.ops.varlen_attention import naive_varlen
from headway.nn.sequence import TokenPositions, positions_from_start
from headway.train.objectives import pack_sequences

RULES = ["full", "causal", "local(3)", "causal & local(4)", "segments(4, 2)", "causal & segments(3, 5)"]


def line(lengths: list[int], size: int) -> TokenPositions:
    _, where = pack_sequences(ragged_from_lists([range(length) for length in lengths]), size, 0, max_tokens=32)
    return positions_from_start(size, where, torch.device("cpu"))


@pytest.mark.parametrize("rule", RULES)
def test_a_stretch_is_the_mask(rule: str) -> None:
    places = line([5, 12, 2, 9], 30)
    pattern = BoundMask(make_mask(rule), places, places, heads=2)
    spans, dense = pattern.intervals(), pattern.dense(1)[0, 0]
    assert spans is not None
    j = torch.arange(30)
    real = places.valid[0]  # type: ignore[index]
    seen = (j >= spans.first[:, None]) & (j < spans.last[:, None])
    assert torch.equal(seen[real][:, real], dense[real][:, real])
    assert not seen[real][:, ~real].any()
    for key in j.tolist():  # nobody outside these sees it
        who = seen[:, key].nonzero()[:, 0]
        assert not len(who) or (spans.earliest[key] <= who.min() and who.max() < spans.latest[key])


def test_across_two_lines_a_text_sees_its_own() -> None:
    queries, keys = line([3, 1, 4], 12), line([2, 6, 5], 16)
    pattern = BoundMask(make_mask("full"), queries, keys, heads=1)
    spans = pattern.intervals()
    assert spans is not None
    assert spans.first[:8].tolist() == [0, 0, 0, 2, 8, 8, 8, 8] and spans.last[:8].tolist() == [2] * 3 + [8] + [13] * 4
    assert spans.earliest[:13].tolist() == [0, 0, *[3] * 6, *[4] * 5] and spans.latest[:3].tolist() == [3, 3, 4]


def test_the_definition_is_attention_under_the_dense_mask() -> None:
    places = line([5, 12, 2, 9], 30)
    pattern = BoundMask(make_mask("causal & local(4)"), places, places, heads=4)
    q, k, v = (torch.randn(1, heads, 30, 8, dtype=torch.float64) for heads in (4, 2, 2))
    real = places.valid[0]  # type: ignore[index]
    spans = pattern.intervals()
    assert spans is not None
    one = naive_varlen(*(x[0].transpose(0, 1) for x in (q, k, v)), spans, 0.3)
    other = attend(q, k, v, mask=pattern, scale=0.3, kernel="math")[0].transpose(0, 1)
    torch.testing.assert_close(one[real], other[real], rtol=0, atol=1e-12)


def test_masks_with_holes_have_no_stretch() -> None:
    places = line([5, 12], 20)
    for rule in (
        "strided(2)",
        "causal & strided(2)",
        "local(2) | segments(4, 2)",
        "bigbird(2, random=0, max_positions=32)",
    ):
        assert BoundMask(make_mask(rule), places, places, heads=1).intervals() is None
    rows = positions_from_start(20, None, torch.device("cpu"))
    assert BoundMask(make_mask("causal"), rows, rows, heads=1).intervals() is None
