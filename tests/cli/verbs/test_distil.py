"""headway distil: pairs or lines in a file, in time, and gone on with."""

import io
import lzma
import sys
from pathlib import Path

import pytest

from headway.cli.app import main

Capture = pytest.CaptureFixture[str]


def distilled(capsys: Capture, model: Path, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["distil", "--model", str(model), *map(str, arguments)]) == code
    return capsys.readouterr()


@pytest.fixture
def rows(toy: Path) -> list[tuple[str, str]]:
    """What the model knows by heart."""
    return list(zip(*((toy / f"train.{side}").read_text().splitlines()[:8] for side in ("en", "qtx"))))


@pytest.fixture
def pairs(tmp_path: Path, rows: list[tuple[str, str]]) -> Path:
    path = tmp_path / "some.en-qtx.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return path


def test_pairs(capsys: Capture, translator_dir: Path, pairs: Path, rows: list[tuple[str, str]]) -> None:
    out, err = distilled(capsys, translator_dir, "--pairs", pairs, "--min-chrf", "80", "--closest")
    assert out == pairs.read_text()
    assert err == "8 lines, 8 pairs\n"
    turned = pairs.with_name("some.qtx-en.tsv")  # the name says which column is read
    turned.write_text("".join(f"{target}\t{source}\n" for source, target in rows))
    assert distilled(capsys, translator_dir, "--pairs", turned)[0] == pairs.read_text()
    pairs.write_text(f"{rows[0][0]}\tzzz\n{rows[1][0]}\t{rows[1][1]}\n")
    out, err = distilled(capsys, translator_dir, "--pairs", pairs, "--min-chrf", "50")
    assert out == f"{rows[1][0]}\t{rows[1][1]}\n"
    assert err.endswith("left out: 1 unlike their reference\n")


def test_translations_alone_stand_beside_their_lines(
    capsys: Capture, translator_dir: Path, tmp_path: Path, rows: list[tuple[str, str]]
) -> None:
    (tmp_path / "mono.en").write_text(f"{rows[0][0]}\n\n{rows[1][0]}\n")
    out = tmp_path / "mono.qtx.xz"
    distilled(capsys, translator_dir, "--text", tmp_path / "mono.en", "--out", out)
    assert lzma.decompress(out.read_bytes()).decode() == f"{rows[0][1]}\n\n{rows[1][1]}\n"


def test_standard_input(
    capsys: Capture, translator_dir: Path, rows: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{rows[0][0]}\n".encode())))
    assert distilled(capsys, translator_dir, "--text", "-")[0] == "\t".join(rows[0]) + "\n"
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input is closed" in distilled(capsys, translator_dir, "--text", "-", code=2)[1]


def test_it_stops_in_time_and_goes_on(capsys: Capture, translator_dir: Path, pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "taught.en-qtx.tsv"
    words = ["--pairs", pairs, "--out", out, "--batch-tokens", "16"]
    _, err = distilled(capsys, translator_dir, *words, "--for", "0.001s")
    assert err == "time limit reached: to continue after line 2, run it again with --resume\n"
    assert not out.exists()
    _, err = distilled(capsys, translator_dir, *words, "--resume", "--for", "10m")
    assert err == f"8 lines, 8 pairs in {out}\n"
    assert out.read_text() == pairs.read_text()
    assert "is complete: nothing to do" in distilled(capsys, translator_dir, *words, "--resume")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --pairs or --text."),
        (["--text", "a", "--closest"], "--closest and --min-chrf need references: give --pairs."),
        (["--text", "a", "--for", "9s"], "--resume, --overwrite and --for need --out."),
        (["--text", "a", "--out", "b", "--resume", "--overwrite"], "--resume continues and --overwrite starts over"),
        (["--text", "a", "--out", "./a"], "--out is one of the input files: choose another file."),
        (["--text", __file__, "--out", "m.qtx-en.tsv"], "the name m.qtx-en.tsv says that qtx comes first, but qtx is "
         "the target. Name it en-qtx."),
    ],
)  # fmt: skip
def test_c09_wrong_usage(capsys: Capture, translator_dir: Path, arguments: list[str], message: str) -> None:
    out, err = distilled(capsys, translator_dir, *arguments, code=2)
    assert out == ""
    assert err.startswith(f"error: {message}")


def test_a_missing_text_is_told_before_a_model_is_loaded(capsys: Capture, tmp_path: Path) -> None:
    _, err = distilled(capsys, tmp_path / "no-model", "--text", tmp_path / "mono.en", code=1)
    assert err.startswith(f"error: there is no file {tmp_path}/mono.en")
