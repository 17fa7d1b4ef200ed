"""headway page: what it refuses, and what it leaves alone."""

from pathlib import Path

import pytest

from headway.cli.app import main


def test_only_a_site_is_replaced(capsys: pytest.CaptureFixture[str], masked_dir: Path, tmp_path: Path) -> None:
    command = ["page", "--model", str(masked_dir), "--device", "cpu", "--static"]
    (tmp_path / "mine.txt").write_text("mine")
    assert main([*command, str(tmp_path), "--overwrite"]) == 1
    assert "holds other files, which stay" in capsys.readouterr().err
    (tmp_path / "lesson.txt").write_text("The dog sleeps.\n\nA cat runs.\n")
    site = tmp_path / "site"
    assert main([*command, str(site)]) == 0
    examples = len(list((site / "recorded").iterdir()))
    assert main([*command, str(site), "--texts", str(tmp_path / "lesson.txt")]) == 1
    assert "Add --overwrite" in capsys.readouterr().err
    assert main([*command, str(site), "--texts", str(tmp_path / "lesson.txt"), "--overwrite"]) == 0
    assert "2 recorded texts" in capsys.readouterr().err
    assert examples > len(list((site / "recorded").iterdir())) >= 2
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_texts_must_be_there(capsys: pytest.CaptureFixture[str], masked_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    command = ["page", "--model", str(masked_dir), "--static", str(tmp_path / "site")]
    assert main([*command, "--texts", str(tmp_path / "empty.txt")]) == 2
    assert "has no text" in capsys.readouterr().err
    assert main([*command, "--text", " "]) == 1
    assert "give a sentence" in capsys.readouterr().err
    assert not (tmp_path / "site").exists()
