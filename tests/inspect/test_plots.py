"""Pictures of masks, positions and curves: what is drawn is what the functions say."""

from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
import torch

from headway.errors import ConfigError, HeadwayError
from headway.inspect.attention import AttentionMap
from headway.inspect.plots import (
    draw_attention,
    draw_curves,
    draw_mask,
    draw_panels,
    draw_positions,
    draw_table,
    draw_ternary,
)
from headway.inspect.positions import position_table
from headway.nn.masks.masks import dense_mask, make_mask
from headway.nn.positions.positions import alibi_slopes, sinusoids


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved, to look into."""
    found: list[Any] = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda self, *a, **k: (found.append(self), save(self, *a, **k))[1]
    )
    return found


@pytest.mark.parametrize("length", [12, 60])
def test_a_mask(figures: list[Any], tmp_path: Path, length: int) -> None:
    mask = make_mask("causal & local(4)")
    draw_mask(mask, length, tmp_path / "mask.png")
    (axis,) = figures[0].axes
    drawn = axis.images[0] if axis.images else axis.collections[0]
    np.testing.assert_array_equal(np.asarray(drawn.get_array()).reshape(length, length), dense_mask(mask, length))
    assert axis.get_title() == "(causal & local(4))"
    if not axis.images:  # as in a matrix, the first query is on top
        assert axis.get_ylim() == (length, 0)
    assert (tmp_path / "mask.png").read_bytes().startswith(b"\x89PNG")


def test_a_rounded_weight(figures: list[Any], tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.randn(50, 40))
    draw_ternary(weight, tmp_path / "bits.png", corner=8)
    spread, before, after = figures[0].axes
    scaled = (weight / weight.abs().mean()).detach().numpy()
    counts = [sum(bar.get_height() for bar in bars) for bars in spread.containers]
    assert counts == [(scaled < -0.5).sum(), (np.abs(scaled) <= 0.5).sum(), (scaled > 0.5).sum()]
    assert [text.get_text() for text in spread.get_legend().get_texts()] == [
        f"{number}: {count / 2000:.0%}" for number, count in zip((-1, 0, 1), counts)
    ]
    np.testing.assert_allclose(before.images[0].get_array(), scaled[:8, :8], rtol=1e-6)
    np.testing.assert_array_equal(after.images[0].get_array(), scaled[:8, :8].round().clip(-1, 1))
    assert (tmp_path / "bits.png").read_bytes().startswith(b"\x89PNG")


def test_a_table(figures: list[Any], tmp_path: Path) -> None:
    table = position_table("sinusoidal", 30, 16)
    draw_table(table, tmp_path / "waves.svg")
    axis = figures[0].axes[0]
    np.testing.assert_allclose(axis.images[0].get_array(), sinusoids(torch.arange(30), 16), atol=1e-6)
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_title()) == (
        "channel",
        "position",
        "sinusoidal: what is added",
    )
    assert axis.images[0].get_clim() == (-1, 1)
    assert "<svg" in (tmp_path / "waves.svg").read_text()
    draw_positions(np.zeros((4, 3)), tmp_path / "zeros.png")
    assert figures[1].axes[0].images[0].get_clim() == (-1, 1)


def test_curves(figures: list[Any], tmp_path: Path) -> None:
    curves = {"one $": [1.0, 0.1, 0.01], "two": [1.0, 0.9]}
    draw_curves(curves, tmp_path / "c.png", title="t", xlabel="layer", ylabel="distance", log=True)
    (axis,) = figures[0].axes
    assert [line.get_ydata().tolist() for line in axis.lines] == list(curves.values())
    assert [text.get_text() for text in axis.get_legend().get_texts()] == [r"one \$", "two"]
    assert (axis.get_yscale(), axis.get_xlabel(), axis.get_ylabel()) == ("log", "layer", "distance")
    assert axis.lines[1].get_xdata().tolist() == [0, 1]
    draw_curves(curves, tmp_path / "c.png", title="t", xlabel="layer", ylabel="distance", first=1)
    assert figures[1].axes[0].lines[1].get_xdata().tolist() == [1, 2]


def test_a_long_text_is_drawn_small_and_numbered(figures: list[Any], tmp_path: Path) -> None:
    long = [f" w{n}" for n in range(320)]
    draw_attention(AttentionMap(np.zeros((1, 320, 320)), long, long, "encoder", 1, "a b " * 99), tmp_path / "long.png")
    assert max(figures[0].get_size_inches()) < 80
    assert not any("w1" in label.get_text() for label in figures[0].axes[0].get_xticklabels())
    draw_attention(AttentionMap(np.zeros((1, 3, 3)), long[:3], long[:3], "encoder", 1, "a"), tmp_path / "short.png", 1)
    assert [label.get_text() for label in figures[1].axes[0].get_xticklabels()] == ["w0", "w1", "w2"]


# ---- what is drawn of a position


def test_scores_of_alibi() -> None:
    table = position_table("alibi", 10, 16, heads=4, head=3)
    places = np.arange(10)
    expected = 1 - alibi_slopes(4)[2] * np.abs(places[:, None] - places[None])
    np.testing.assert_allclose(table.values, expected, atol=1e-6)
    assert (table.rows, table.columns) == ("query", "key")
    assert table.title == "alibi: scores of equal vectors, head 3 of 4"


def test_scores_of_rope() -> None:
    table = position_table("rope", 10, 16, heads=2)
    places, rates = np.arange(10), 10000.0 ** (-np.arange(0, 8, 2) / 8)
    expected = np.cos((places[:, None] - places[None])[..., None] * rates).mean(-1)
    np.testing.assert_allclose(table.values, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("written", "columns"),
    [
        ("shaw(2)", [[2, 3, 4, 4], [1, 2, 3, 4], [0, 1, 2, 3], [0, 0, 1, 2]]),
        ("transformer_xl", [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]]),
        ("t5(8, 16)", [[0, 5, 6, 6], [1, 0, 5, 6], [2, 1, 0, 5], [2, 2, 1, 0]]),
    ],
)
def test_a_table_of_distances_shows_its_columns(written: str, columns: list[list[int]], tmp_path: Path) -> None:
    table = position_table(written, 4, 16, heads=2)
    assert table.values.tolist() == columns
    draw_table(table, tmp_path / "columns.png")
    assert (tmp_path / "columns.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("none", '"none" encodes no positions: there is nothing to plot'),
        ("learned", '"learned" is learned: before training there is nothing to plot'),
        ("sinus", '"sinus" is not a kind of position'),
    ],
)
def test_what_cannot_be_drawn(written: str, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        position_table(written)


def test_what_is_added_needs_no_heads() -> None:
    for heads in (8, 3):
        table = position_table("sinusoidal", 5, d_model=100, heads=heads)
        np.testing.assert_allclose(table.values, sinusoids(torch.arange(5), 100), atol=1e-6)


@pytest.mark.parametrize("written", ["rope", "alibi", "t5", "shaw", "transformer_xl"])
def test_heads_that_do_not_fit(written: str) -> None:
    with pytest.raises(ConfigError, match="8 heads do not divide d_model = 100. Choose --heads that do, or another"):
        position_table(written, d_model=100)
    assert position_table(written, 4, d_model=100, heads=10).values.shape == (4, 4)


def test_a_head_of_an_odd_width_cannot_be_turned() -> None:
    with pytest.raises(
        ConfigError,
        match="rotation needs an even number of channels per head, not 3 .*Choose other --heads or --d-model",
    ):
        position_table("rope", d_model=24)


def test_a_head_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="there is no head 9: choose 1 to 8"):
        position_table("alibi", head=9)


def test_panels_stand_side_by_side(tmp_path: Path) -> None:
    tables = {name: np.tri(4) for name in ("one", "two", "three")}
    draw_panels(tables, tmp_path / "p.svg", xlabel="key", ylabel="query")
    drawn = (tmp_path / "p.svg").read_text()
    assert drawn.count("<image") == 3 + 1, "and the scale"
    draw_panels({"alone": np.tri(4)}, tmp_path / "p.png", xlabel="key", ylabel="query")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
