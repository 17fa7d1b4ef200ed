"""The folder of an index: complete or resumed, never mixed, never written by two."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.retrieval.index_folder import build_index, read_about


def test_an_index_is_complete_when_it_says_so(tmp_path: Path) -> None:
    out = tmp_path / "index"
    with build_index(out, "chunks", {"text": "a", "size": 1}) as build:
        assert build.complete is None
        (out / "part").write_text("half")
    with pytest.raises(HeadwayError, match="is not finished: run headway index again"):
        read_about(out)
    with build_index(out, "chunks", {"text": "a", "size": 1}) as build:
        assert build.complete is None and (out / "part").read_text() == "half", "it goes on from there"
        build.finish({"rows": 2})
    about = read_about(out, "chunks")
    assert about.counts == {"rows": 2} and not (out / "building.json").exists()
    with build_index(out, "chunks", {"text": "a", "size": 1}) as build:
        assert build.complete == about
    with build_index(out, "chunks", {"text": "b", "size": 1}, overwrite=True) as build:
        assert sorted(path.name for path in out.iterdir()) == ["building.json"]
        build.finish({"rows": 2})
    assert read_about(out).fingerprint != about.fingerprint


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "index"
    with pytest.raises(HeadwayError, match=r"index is not an index: make one"):
        read_about(out)
    with build_index(out, "chunks", {"chunk_tokens": 8}):
        pass
    with (
        pytest.raises(HeadwayError, match=r"another chunk tokens: 8, not 9"),
        build_index(out, "chunks", {"chunk_tokens": 9}),
    ):
        pass
    (out / "building.json").write_text("{")
    with pytest.raises(HeadwayError, match=r"building.json is damaged"), build_index(out, "chunks", {}):
        pass
    with build_index(out, "chunks", {"chunk_tokens": 8}, overwrite=True) as build:
        build.finish({})
    with pytest.raises(HeadwayError, match="another kind: 'chunks', not 'passages'"), build_index(out, "passages", {}):
        pass
    with pytest.raises(HeadwayError, match="an index of chunks, and this needs one of passages"):
        read_about(out, "passages")
    table = json.loads((out / "index.json").read_text())
    (out / "index.json").write_text(json.dumps({**table, "format_version": 99}))
    with pytest.raises(HeadwayError, match="written in format 99"):
        read_about(out)
    (out / "index.json").write_text("[]")
    with pytest.raises(HeadwayError, match="index.json is damaged"):
        read_about(out)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for overwrite, words in ((False, "is not empty, and holds no index"), (True, "nothing in it is overwritten")):
        with pytest.raises(HeadwayError, match=words), build_index(tmp_path, "chunks", {}, overwrite=overwrite):
            pass
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_only_one_run_writes(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(HeadwayError, match="another run is writing"), build_index(tmp_path, "chunks", {}):
        pass
    os.close(held)
