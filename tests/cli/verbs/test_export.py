"""`headway export`: it says what it found, checked and lost."""

from pathlib import Path

import pytest
from random_models import language_model_table, write_random_model

from headway.cli.app import main

Capture = pytest.CaptureFixture[str]


def test_it_reports_and_refuses(capsys: Capture, tmp_path: Path) -> None:
    write_random_model(tmp_path / "model", language_model_table(), "causal")
    arguments = ["export", str(tmp_path / "model"), "--to", "huggingface", "--out"]
    assert main([*arguments, str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("found: a language model, ")
    assert "checked: its config.json, read as a GPT-2 model, is the architecture of this model" in lines
    assert lines[-1].startswith("Hugging Face (GPT-2): wrote README.md, config.json, ")
    assert main([*arguments, str(tmp_path / "out")]) == 1
    assert "out is not empty. Choose another --out." in capsys.readouterr().err
    write_random_model(tmp_path / "other", language_model_table(position="alibi"), "causal")
    assert main(["export", str(tmp_path / "other"), "--to", "huggingface", "--out", str(tmp_path / "new")]) == 1
    assert 'but decoder.position is "alibi"' in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
