"""The file of suggestions: one line each, bounded, and told at the start where it cannot be written."""

from pathlib import Path

import pytest
from event_loops import run_async

from headway.errors import HeadwayError
from headway.serve import suggestions
from headway.serve.errors import ApiError
from headway.serve.suggestions import SuggestionFile


def test_a_full_file_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.jsonl"
    file = SuggestionFile(str(path))
    assert path.stat().st_mode & 0o077 == 0  # what readers send is not for everybody
    monkeypatch.setattr(suggestions, "MAX_FILE_BYTES", 50)
    run_async(file.add(q="a", s="b"))
    run_async(file.add(q="c", s="d"))
    with pytest.raises(ApiError, match="Suggestions cannot be stored at the moment") as error:
        run_async(file.add(q="e", s="f"))
    assert error.value.status == 503
    assert path.read_text(encoding="utf-8") == '{"q": "a", "s": "b"}\n{"q": "c", "s": "d"}\n'
    monkeypatch.setattr(suggestions, "MAX_FILE_BYTES", 10)
    with pytest.raises(HeadwayError, match="has reached 0 MiB"):
        SuggestionFile(str(path))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"--suggestions .* cannot be written: Is a directory"):
        SuggestionFile(str(tmp_path))
    with pytest.raises(HeadwayError, match=r"cannot be written: No such file or directory"):
        SuggestionFile(str(tmp_path / "no" / "file"))
    off = SuggestionFile(None)
    assert not off.enabled
    with pytest.raises(ApiError, match="Suggestions are disabled on this server"):
        off.check_enabled()
