"""Progress of a translation, in sentences."""

from pathlib import Path

import pytest

from headway.cli import search_progress
from headway.cli.search_progress import SearchProgress, show_progress
from headway.translate.translator import load_translator


def test_one_long_line_shows_progress(
    translator_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("QUIET_SECONDS", "LOG_SECONDS"):
        monkeypatch.setattr(search_progress, name, 0.0)
    translator = load_translator(translator_dir, device="cpu")
    translator.batch_tokens = 64
    with show_progress(translator) as progress:
        translator("The dog sleeps. " * 30)
    assert progress.sentences >= 30
    told = [line for line in capsys.readouterr().err.splitlines() if "sentences" in line]
    assert len(told) > 2


def test_a_live_line_is_drawn_now_and_then_and_cleared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headway.cli.terminal.shows_progress", lambda: True)
    now = [0.0]
    monkeypatch.setattr("headway.cli.search_progress.time.monotonic", lambda: now[0])
    progress = SearchProgress()
    for now[0] in (1.0, 3.0, 3.1, 3.3):
        progress.add(10)
    progress.clear()
    told = capsys.readouterr().err
    assert "20 sentences, 7 a second" in told and "40 sentences" in told
    assert "10 sentences" not in told and "30 sentences" not in told
    assert not told.endswith("second")


def test_what_is_short_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress() as progress:
        progress.add(1)
    assert "sentences" not in capsys.readouterr().err
    assert progress.sentences == 1
