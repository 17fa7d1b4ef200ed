"""headway trace: everything that is computed for one sentence, saved."""

from pathlib import Path

import pytest

import headway
from headway.cli.app import main
from headway.inspect.trace import load_trace

Capture = pytest.CaptureFixture[str]
TEXT = "The dog sees a red house."


def traced(capsys: Capture, model: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["trace", "--model", str(model), *arguments]) == code
    return capsys.readouterr()


def test_a_translation(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    out, err = traced(capsys, translator_dir, TEXT, "--out", str(tmp_path / "a b"))
    assert out == f"{headway.load(translator_dir)(TEXT)}\n"
    found = load_trace(tmp_path / "a b")
    assert found.output == out.strip()
    assert f"wrote {len(found.tensors)} tensors to {tmp_path / 'a b'}" in err
    assert f"next: headway attend --trace '{tmp_path / 'a b'}'" in err


def test_the_search_can_be_set(capsys: Capture, translator_dir: Path, tmp_path: Path) -> None:
    flags = ["--beam-size", "2", "--length-penalty", "0", "--max-length", "3", "--no-repeat-ngram", "2"]
    out, err = traced(capsys, translator_dir, TEXT, "--prefix", "Ta", *flags, "--out", str(tmp_path))
    found = load_trace(tmp_path)
    assert out.startswith("Ta")
    assert "warning: the output was cut at 3 tokens" in err
    expected = {"beam_size": 2, "alpha": 0.0, "max_length": 3, "no_repeat_ngram": 2}
    assert {name: found.search[name] for name in expected} == expected
    assert found.forced > 0


def test_language_models(capsys: Capture, lm_dir: Path, masked_dir: Path, tmp_path: Path) -> None:
    out, _ = traced(capsys, lm_dir, "The dog", "--max-length", "4", "--out", str(tmp_path / "lm"))
    assert out == f"{headway.load(lm_dir)('The dog', beam_size=1, length=4)}\n"
    assert load_trace(tmp_path / "lm").kind == "causal"
    out, _ = traced(capsys, lm_dir, "The dog", "--out", str(tmp_path / "long"), "--beam-size", "2")
    assert len(load_trace(tmp_path / "long").beam) <= 40
    out, _ = traced(capsys, masked_dir, "The dog", "--out", str(tmp_path / "masked"))
    assert out == ""
    assert load_trace(tmp_path / "masked").kind == "masked"


def test_what_is_wrong_is_said(capsys: Capture, translator_dir: Path, lm_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    there = ["--out", str(tmp_path / "t")]
    for model, arguments, code, message in [
        (translator_dir, ["  ", *there], 1, "there is nothing to trace: give a sentence."),
        (translator_dir, [TEXT], 2, "--out/-o is missing."),
        (translator_dir, [TEXT, "--out", str(tmp_path / "file")], 1, "file cannot be written: File exists."),
        (translator_dir, [TEXT, "--to", "de", *there], 1, 'this model does not translate to "de".'),
        (translator_dir, [TEXT, "--beam-size", "0", *there], 2, "beam_size"),
        (lm_dir, [TEXT, "--prefix", "A", *there], 2, "is a language model: leave out --to and --prefix."),
    ]:
        out, err = traced(capsys, model, *arguments, code=code)
        assert out == ""
        assert message in err
    assert not (tmp_path / "t").exists()
