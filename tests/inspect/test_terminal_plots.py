"""Pictures of characters: each cell stands for its number, and nothing is wider than the terminal."""

from io import StringIO

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from headway.inspect.attention import AttentionMap
from headway.inspect.terminal_plots import (
    COLOUR_RAMP,
    SHADES,
    background_style,
    render_cells,
    render_heatmap,
    render_mask,
    render_numbers,
    render_table,
    shade_character,
)

KEYS = [f" key{n}" for n in range(50)]
QUERIES = ["⟨s⟩", " 日本語の単語" * 3, " x"]


def wide() -> AttentionMap:
    return AttentionMap(np.random.default_rng(0).dirichlet(np.full(50, 0.05), (1, 3)), QUERIES, KEYS, "cross", 1, "x")


def test_shades_and_colours() -> None:
    assert [shade_character(value) for value in (-1, 0, 0.09, 0.1, 0.55, 0.99, 1, 2)] == [
        " ",
        " ",
        " ",
        ".",
        "+",
        "@",
        "@",
        "@",
    ]
    for value, expected in (
        (-1, COLOUR_RAMP[0]),
        (0, COLOUR_RAMP[0]),
        (0.5, COLOUR_RAMP[2]),
        (1, COLOUR_RAMP[-1]),
        (2, COLOUR_RAMP[-1]),
    ):
        background = background_style(value).bgcolor
        assert background is not None
        assert background.triplet is not None
        assert tuple(background.triplet) == tuple(int(part) for part in expected)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_heatmap_fits_or_says_what_is_cut(width: int) -> None:
    printed = render_heatmap(wide(), wide().weights[0], width).plain.splitlines()
    told = [line for line in printed if "columns are not shown" in line]
    assert max(cell_len(line) for line in printed if line not in told) <= max(width, len("scale: 0  .:-=+*#%@ 1"))
    shown = len(printed[0].split())
    if width == 200:
        assert shown == 50
        assert not told
    else:
        assert told == [f"{50 - shown} of 50 columns are not shown: draw all with --png FILE"]
    for line, row in zip(printed[1:4], wide().weights[0]):
        assert [line[-3 * shown :][3 * n + 2] for n in range(shown)] == [
            shade_character(value) for value in row[:shown]
        ]


def test_keys_are_numbered_and_listed() -> None:
    lines = render_heatmap(wide(), wide().weights[0], 80).plain.splitlines()
    listed = " ".join(lines[lines.index(next(line for line in lines if line.startswith("keys:"))) : -1])
    shown = len(lines[0].split())
    assert listed.split()[1:] == [f"{n}:key{n}" for n in range(shown)]
    assert lines[-1] == f"scale: 0 {SHADES} 1"


def test_colours_are_the_numbers() -> None:
    """In true colours, each cell's background is the colour of its weight; what is masked has none."""
    weights = np.array([[0.0, 0.25, 1.0]])
    found = AttentionMap(weights[None], [" a"], [" b", " c", " d"], "decoder", 1, "x")
    sink = StringIO()
    Console(file=sink, force_terminal=True, color_system="truecolor").print(
        render_heatmap(found, weights, 80, coloured=True)
    )
    row = sink.getvalue().splitlines()[1]
    half, full = (tuple(int(part) for part in COLOUR_RAMP[n]) for n in (1, 4))
    assert row == "a    " + "".join(f"\x1b[48;2;{r};{g};{b}m   \x1b[0m" for r, g, b in (half, full))


@pytest.mark.parametrize("width", [30, 80])
def test_every_number_is_written(width: int) -> None:
    found = wide()
    printed = render_numbers(found, found.weights[0], width)
    assert max(cell_len(line) for line in printed.splitlines()) <= width
    blocks = printed.split("\n\n")
    read = np.concatenate([[line.split()[-size:] for line in block.splitlines()[1:]] for block in blocks
                           for size in [len(block.splitlines()[0].split())]], axis=1).astype(float)  # fmt: skip
    np.testing.assert_allclose(read, found.weights[0], atol=5.1e-7)
    assert [key for block in blocks for key in block.splitlines()[0].split()] == [key.strip() for key in KEYS]


def test_a_mask_is_marked_where_looking_is_allowed() -> None:
    allowed = np.tril(np.ones((3, 3), dtype=bool))
    printed = render_mask(allowed, 80).plain.splitlines()
    assert printed == ["query key 0 … 2", "    0  @ . .", "    1  @ @ .", "    2  @ @ @"]
    coloured = render_mask(allowed, 80, coloured=True)
    assert len(coloured.spans) == 6, "only what is allowed has a colour"


def test_a_table_is_between_its_least_and_greatest() -> None:
    printed = render_table(np.array([[-2.0, 0.0, 2.0]]), 80, "position", "channel").plain.splitlines()
    assert printed == ["position channel 0 … 2", "       0    + @", f"scale: -2 {SHADES} 2"]
    flat = render_table(np.full((2, 2), 3.0), 80, "position", "channel").plain
    assert "scale: 3" in flat


@pytest.mark.parametrize("width", [20, 80])
def test_a_wide_table_is_cut_and_says_so(width: int) -> None:
    printed = render_table(np.random.default_rng(0).random((4, 300)), width, "position", "channel").plain.splitlines()
    shown = width - len("position") - 1
    assert printed[0] == f"position channel 0 … {shown - 1}"
    assert [len(line) for line in printed[1:5]] == [width] * 4
    assert printed[5] == f"{300 - shown} of 300 columns are not shown: draw all with --png FILE"


def test_cells_are_as_wide_as_asked() -> None:
    assert render_cells([0.0, 1.0], 4, False).plain == "       @"
    assert render_cells([0.0, 1.0], 4, True).plain == " " * 8
