"""Positions as plain numbers: by their definition, each text with its own length, and refused where they cannot be."""

import pytest
import torch
from nn.building import small

from headway.errors import ConfigError
from headway.nn.positions.counting import Counting, Normalised
from headway.nn.sequence import PackedPositions, PackedTexts, TokenPositions, positions_from_start
from headway.nn.transformer import Transformer, valid_mask

CPU = torch.device("cpu")
COUNTING = Counting(Counting.Config(), None)  # type: ignore[arg-type]
NORMALISED = Normalised(Normalised.Config(), None)  # type: ignore[arg-type]


def added(position: Counting | Normalised, tokens: TokenPositions, rows: int) -> list[list[float]]:
    x = torch.randn(rows, tokens.length, 3, dtype=torch.float64)
    change = position.add(x, tokens) - x
    torch.testing.assert_close(change, change[..., :1].expand_as(x), rtol=0, atol=1e-12)
    return [[round(value, 9) for value in row] for row in change[..., 0].tolist()]


def test_counting_begins_with_one() -> None:
    assert added(COUNTING, positions_from_start(4, None, CPU), 2) == [[1, 2, 3, 4]] * 2
    later = TokenPositions(torch.tensor([[4, 5], [0, 1]]), None, 6)
    assert added(COUNTING, later, 2) == [[5, 6], [1, 2]]


def test_normalised_runs_from_zero_to_one_in_each_row() -> None:
    assert added(NORMALISED, positions_from_start(5, None, CPU), 1) == [[0, 0.25, 0.5, 0.75, 1]]
    rows = added(NORMALISED, positions_from_start(5, valid_mask(torch.tensor([5, 3, 1]), 5), CPU), 3)
    assert rows[0] == [0, 0.25, 0.5, 0.75, 1]
    assert rows[1][:3] == [0, 0.5, 1]
    assert rows[2][:1] == [0], "a text of one token"


def test_normalised_runs_from_zero_to_one_in_each_packed_text() -> None:
    texts = PackedTexts(
        torch.tensor([[0, 0, 0, 1, 1, 2]], dtype=torch.int32),
        torch.tensor([0, 3, 5, 0], dtype=torch.int32),
        torch.tensor([3, 5, 6, 0], dtype=torch.int32),
    )
    packed = PackedPositions(torch.tensor([[0, 1, 2, 0, 1, 0]]), torch.tensor([[True] * 5 + [False]]), texts, 3)
    assert added(NORMALISED, positions_from_start(6, packed, CPU), 1) == [[0, 0.5, 1, 0, 1, 0]]


@torch.no_grad()
def test_padding_changes_no_text() -> None:
    model = Transformer(small(decoder=0, encoder={"position": "normalised"})).double().eval()
    ids, valid = torch.randint(29, (2, 7)), valid_mask(torch.tensor([7, 4]), 7)
    padded = model.encode(ids, valid).values[1, :4]
    torch.testing.assert_close(padded, model.encode(ids[1:, :4]).values[0], rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_layer_norm_removes_what_is_the_same_in_every_channel() -> None:
    """As docs/positions.md has it: under `pre` the order of tokens is invisible; without centring it is not."""
    ids, order = torch.randint(29, (1, 6)), torch.tensor([5, 3, 1, 0, 2, 4])
    for norm, blind in (("layernorm", True), ("rmsnorm", False)):
        side = {"position": "counting", "residual": "pre"}
        model = Transformer(small(decoder=0, encoder=side, norm=norm)).double().eval()
        there, back = model.encode(ids[:, order]).values, model.encode(ids).values[:, order]
        assert torch.allclose(there, back, atol=1e-9) == blind


def test_a_decoder_refuses_what_needs_the_length() -> None:
    with pytest.raises(
        ConfigError, match=r"decoder\.position: normalised divides by the length of the text, which a decoder does not"
    ):
        small(encoder=0, decoder={"position": "normalised"}).resolved()
    small(encoder={"position": ["normalised", "rope"]}).resolved()
