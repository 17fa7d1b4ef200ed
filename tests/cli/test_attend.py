"""headway attend: where each head looks, in the terminal and as a picture."""

from pathlib import Path

import numpy as np
import pytest

import headway
from headway.cli.attend import SHADES, heatmap
from headway.cli.root import main
from headway.inspect.attention import Attended, attention
from headway.translator import Translator

Capture = pytest.CaptureFixture[str]
TEXT = "The dog sees a red house."


def attended(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["attend", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


def test_one_head_in_the_terminal(capsys: Capture, translator_dir: Path) -> None:
    translator = headway.load(translator_dir)
    assert isinstance(translator, Translator)
    out, err = attended(capsys, translator_dir, TEXT, "--kind", "cross", "--layer", "1", "--head", "2")
    found = attention(translator, TEXT, "cross")
    assert err == f"{found.text}\n"
    rows = out.splitlines()
    shown = min(len(found.keys), len(rows[0].split()))
    assert rows[0].split() == [str(n) for n in range(shown)]
    for row, name, weights in zip(rows[1:], found.queries, found.weights[1]):
        assert row.startswith(name.strip())
        cells = row[-3 * shown :]
        assert [cells[3 * n + 2] for n in range(shown)] == [SHADES[min(int(w * 10), 9)] for w in weights[:shown]]
    assert "keys: 0:" in out


def test_without_a_head_the_mean(capsys: Capture, translator_dir: Path) -> None:
    mean, _ = attended(capsys, translator_dir, TEXT, "--kind", "encoder")
    one, _ = attended(capsys, translator_dir, TEXT, "--kind", "encoder", "--head", "1")
    assert mean != one


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_it_fits_the_terminal_or_says_what_is_cut(width: int) -> None:
    keys = [f" key{n}" for n in range(50)]
    found = Attended(np.full((1, 3, 50), 0.02), ["⟨s⟩", " 日本語の単語" * 3, " x"], keys, "cross", 1, "x")
    from rich.cells import cell_len

    printed = heatmap(found, found.weights[0], width).splitlines()
    told = [line for line in printed if "columns are not shown" in line]
    assert max(cell_len(line) for line in printed if line not in told) <= width
    if width == 200:
        assert not told
    else:
        shown = len(printed[0].split())
        assert told == [f"{50 - shown} of 50 columns are not shown: draw all with --png FILE"]


def test_a_picture(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    out, err = attended(capsys, translator_dir, "A dog.", "--png", str(tmp_path / "a.png"))
    assert out == ""
    assert err.endswith(f"drawn to {tmp_path}/a.png\n")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([TEXT, "--layer", "2"], 1, "error: there is no layer 2: this model has 1 to 1."),
        ([TEXT, "--head", "5"], 1, "error: there is no head 5: this layer has 1 to 4."),
        ([TEXT, "--head", "0"], 2, "error: --head: 0 is not in the range x>=1."),
        ([TEXT, "--kind", "crossed"], 2, "error: --kind: 'crossed' is not one of"),
        ([TEXT, "--png", "a.gif"], 1, ""),
        (["  "], 1, "error: there is nothing to look at: give a sentence."),
        ([TEXT, "--to", "de"], 1, 'error: this model does not translate to "de". It knows: qtx.'),
        ([], 2, "error: TEXT is missing."),
    ],
)
def test_what_is_wrong_is_said(
    capsys: Capture, translator_dir: Path, arguments: list[str], code: int, message: str
) -> None:
    out, err = attended(capsys, translator_dir, *arguments, code=code)
    assert out == ""
    assert message in err
    if "a.gif" in arguments:
        assert "a.gif: a picture's name ends in .png, .svg or .pdf." in err
