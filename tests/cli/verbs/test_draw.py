"""headway draw: masks and positions, in the terminal and as pictures."""

from pathlib import Path
from typing import Any

import pytest

from headway.cli.app import main

Capture = pytest.CaptureFixture[str]


def test_a_mask_in_the_terminal(capsys: Capture) -> None:
    assert main(["draw", "mask", "causal & local(2)", "--length", "4"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "query key 0 … 3",
        "    0  @ . . .",
        "    1  @ @ . .",
        "    2  . @ @ .",
        "    3  . . @ @",
    ]
    assert err == ""


@pytest.mark.parametrize("value", ["sinusoidal", "rope", "alibi"])
def test_a_position_in_the_terminal(capsys: Capture, monkeypatch: Any, value: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["draw", "position", value, "--length", "30", "--d-model", "256"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"{value}: ")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 32 + ("columns are not shown" in out)
    assert lines[-1].startswith("scale: ")


def test_in_colours(capsys: Capture, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert main(["draw", "mask", "causal", "--color", "always"]) == 0
    assert "\x1b[48;2;" in capsys.readouterr().out


@pytest.mark.parametrize("what", [["mask", "causal"], ["position", "alibi", "--head", "2"]])
def test_as_pictures(capsys: Capture, tmp_path: Path, what: list[str]) -> None:
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    assert main(["draw", *what, "--length", "6", "--png", str(png), "--svg", str(svg)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(f"wrote {png}\nwrote {svg}\n")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["mask", "causl"], 2, '"causl" is not a kind of mask. Did you mean "causal"?'),
        (["mask", "local(0)"], 2, "window: 0"),
        (["position", "learned"], 1, '"learned" is learned: before training there is nothing to plot.'),
        (["position", "alibi", "--head", "9"], 2, "there is no head 9: choose 1 to 8."),
        (
            ["position", "rope", "--d-model", "24", "--heads", "8"],
            2,
            "rotation needs an even number of channels per head, not 3",
        ),
        (["position", "rope", "--d-model", "10"], 2, "8 heads do not divide d_model = 10. Choose --heads"),
        (["position", "alibi", "--length", "0"], 2, "--length: 0 is not in the range"),
        (["mask", "causal", "--png", "a.svg"], 2, "--png: a.svg does not end in .png."),
        (["head", "causal"], 2, "'head' is not one of"),
    ],
)
def test_what_is_wrong_is_said(capsys: Capture, arguments: list[str], code: int, message: str) -> None:
    assert main(["draw", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
