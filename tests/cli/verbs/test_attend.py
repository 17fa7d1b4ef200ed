"""headway attend: where each head looks, in the terminal and as a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.cli.app import main
from headway.inspect.attention import compute_attention, format_token
from headway.inspect.terminal_plots import SHADES
from headway.translate.translator import load_translator

Capture = pytest.CaptureFixture[str]
TEXT = "The dog sees a red house."


def attended(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["attend", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


def test_one_head_in_the_terminal(capsys: Capture, translator_dir: Path) -> None:
    out, err = attended(capsys, translator_dir, TEXT, "--kind", "cross", "--layer", "1", "--head", "2")
    found = compute_attention(load_translator(translator_dir), TEXT, "cross")
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


def test_numbers_are_the_weights(capsys: Capture, translator_dir: Path) -> None:
    """C12: what is printed is what the trace holds; piped, it is TSV with nothing cut."""
    found = compute_attention(load_translator(translator_dir), TEXT, "cross")
    out, _ = attended(capsys, translator_dir, TEXT, "--numbers", "--head", "3")
    header, *rows = (line.split("\t") for line in out.splitlines())
    assert header == ["", *(format_token(key) for key in found.keys)]
    assert [row[0] for row in rows] == [format_token(query) for query in found.queries]
    np.testing.assert_allclose(np.array([row[1:] for row in rows], dtype=float), found.weights[2], atol=5.1e-7)


def test_numbers_on_a_terminal_fit(capsys: Capture, translator_dir: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("headway.cli.verbs.attend.is_interactive", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = attended(capsys, translator_dir, TEXT, "--numbers")
    assert "\t" not in out
    assert max(map(len, out.splitlines())) <= 60


def test_colours_where_they_are_wanted(capsys: Capture, translator_dir: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    out, _ = attended(capsys, translator_dir, TEXT, "--color", "always")
    assert "\x1b[48;2;" in out
    out, _ = attended(capsys, translator_dir, TEXT)
    assert "\x1b" not in out


def test_language_models(capsys: Capture, lm_dir: Path, masked_dir: Path) -> None:
    out, err = attended(capsys, lm_dir, "The dog sees", "--head", "2")
    assert err == "The dog sees\n"
    assert out.splitlines()[-3].startswith("…")  # the last row: nobody knows what follows
    out, err = attended(capsys, masked_dir, "The dog sees")
    assert err == "The dog sees\n"
    assert "keys: 0:<0A>" in out


def test_out_of_a_saved_trace(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    direct, _ = attended(capsys, translator_dir, TEXT, "--kind", "decoder", "--head", "1")
    load_translator(translator_dir).trace(TEXT).save(tmp_path / "t")
    assert main(["attend", "--trace", str(tmp_path / "t"), "--kind", "decoder", "--head", "1"]) == 0
    assert capsys.readouterr().out == direct


def test_pictures(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    """Both at once; the ending may be in capitals."""
    png, svg = tmp_path / "a.PNG", tmp_path / "a.svg"
    out, err = attended(capsys, translator_dir, "A dog.", "--head", "1", "--png", str(png), "--svg", str(svg))
    assert out == ""
    assert err.endswith(f"wrote {png}\nwrote {svg}\n")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 5000
    assert "head 1" in svg.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([TEXT, "--layer", "2"], 1, "error: there is no layer 2: this model has 1 to 1."),
        ([TEXT, "--head", "5"], 1, "error: there is no head 5: this layer has heads 1 to 4."),
        ([TEXT, "--head", "0"], 2, "error: --head: 0 is not in the range x>=1."),
        ([TEXT, "--kind", "crossed"], 2, "error: --kind: 'crossed' is not one of"),
        ([TEXT, "--png", "a.gif"], 2, "error: --png: a.gif does not end in .png."),
        ([TEXT, "--svg", "a.png"], 2, "error: --svg: a.png does not end in .svg."),
        ([TEXT, "--trace", "t"], 2, "error: give TEXT for a model, or --trace alone."),
        (["  "], 1, "error: there is nothing to trace: give a sentence."),
        ([TEXT, "--to", "de"], 1, 'error: this model does not translate to "de". It knows: qtx.'),
        ([], 2, "error: give TEXT for a model, or --trace alone."),
    ],
)
def test_what_is_wrong_is_said(
    capsys: Capture, translator_dir: Path, arguments: list[str], code: int, message: str
) -> None:
    out, err = attended(capsys, translator_dir, *arguments, code=code)
    assert out == ""
    assert message in err


def test_neither_model_nor_trace(capsys: Capture, tmp_path: Path) -> None:
    for arguments in ([TEXT, "--trace", str(tmp_path)], []):
        assert main(["attend", *arguments]) == 2
        assert "give TEXT for a model, or --trace alone." in capsys.readouterr().err
    assert main(["attend", "--trace", str(tmp_path)]) == 1
    assert "holds no trace" in capsys.readouterr().err
