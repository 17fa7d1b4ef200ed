"""Tensor rules: theirs to ours and back is the identity; what does not fit is refused."""

import pytest
import torch

from headway.convert.tensor_rules import (
    AppendRow,
    Reshape,
    RowSlice,
    SkipRows,
    TensorRule,
    Transpose,
    read_tensor,
    write_tensor,
)
from headway.errors import HeadwayError


def test_parts_of_one_tensor_are_read_and_joined_again() -> None:
    theirs = torch.randn(4, 12)
    rules = [TensorRule(f"ours.{n}", "c_attn", (Transpose(), RowSlice(4 * n, 4))) for n in range(3)]
    parts = [read_tensor(rule, theirs) for rule in rules]
    assert [tuple(part.shape) for part in parts] == [rule.shape((4, 12)) for rule in rules] == [(4, 4)] * 3
    torch.testing.assert_close(parts[1], theirs.T[4:8], rtol=0, atol=0)
    torch.testing.assert_close(write_tensor(rules, parts), theirs, rtol=0, atol=0)


def test_unused_rows_come_back_as_zeros() -> None:
    rule = TensorRule("ours", "theirs", (SkipRows(2),))
    theirs = torch.cat([torch.zeros(2, 3), torch.randn(5, 3)])
    ours = read_tensor(rule, theirs)
    assert tuple(ours.shape) == rule.shape((7, 3)) == (5, 3)
    assert torch.equal(write_tensor([rule], [ours]), theirs)


def test_a_row_is_added_and_dropped_again() -> None:
    rule = TensorRule("ours", "theirs", (AppendRow(-1.0),))
    theirs = torch.randn(3, 2)
    ours = read_tensor(rule, theirs)
    assert tuple(ours.shape) == rule.shape((3, 2)) == (4, 2) and ours[3].tolist() == [-1, -1]
    assert torch.equal(write_tensor([rule], [ours]), theirs)
    with pytest.raises(HeadwayError, match="it is a single number, and has no rows"):
        rule.shape(())


def test_a_reshape_is_undone() -> None:
    rule = TensorRule("ours", "theirs", (Reshape((1, 4), (4,)),))
    theirs = torch.randn(1, 4)
    assert rule.shape((1, 4)) == (4,)
    assert torch.equal(write_tensor([rule], [read_tensor(rule, theirs)]), theirs)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (RowSlice(4, 4), "it has 7 rows, fewer than 8"),
        (SkipRows(7), "the first 7 are not used"),
        (Reshape((1, 4), (4,)), r"it has the shape \(7, 3\), not \(1, 4\)"),
    ],
)
def test_a_tensor_of_another_shape_is_refused(change: object, reason: str) -> None:
    with pytest.raises(HeadwayError, match=f"the tensor theirs does not fit its config: .*{reason}"):
        TensorRule("ours", "theirs", (change,)).shape((7, 3))  # type: ignore[arg-type]
