"""Names on the hub, against a small server that speaks its protocol: downloads, the cache, each failure."""

import builtins
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from convert.hub_server import COMMIT, Hub, point_to, serve_hub
from headway.convert.hub import download_model, is_hub_name
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError

FILES = {
    "config.json": b'{"model_type": "dodo"}',
    "README.md": b"# A dodo\n",
    "model.safetensors": b"weights",
    "pytorch_model.bin": b"pickle",
    "tf_model.h5": b"more weights",
    "onnx/model.onnx": b"still more",
    "model-q8_0.gguf": b"GGUF",
}
REPOSITORIES = {
    "org/dodo": FILES,
    "org/pickled": {name: FILES[name] for name in ("config.json", "pytorch_model.bin")},
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve_hub(REPOSITORIES, monkeypatch, tmp_path) as server:
        yield server


def test_only_what_is_needed_is_downloaded_and_only_once(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    folder = download_model("org/dodo")
    assert {path.name for path in folder.iterdir()} == {"config.json", "README.md", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert folder.name == COMMIT and "Bearer hf_secret" in hub.tokens
    hub.requests.clear()
    assert download_model("org/dodo") == folder
    assert not [request for request in hub.requests if request.startswith("GET /org")]
    hub.down = True
    assert download_model("org/dodo") == folder
    with pytest.raises(HeadwayError, match='models of the type "dodo" cannot be imported'):
        plan_import("org/dodo", ImportOptions())


def test_one_file_of_a_repository(hub: Hub) -> None:
    assert download_model("org/dodo/model-q8_0.gguf").read_bytes() == b"GGUF"
    with pytest.raises(HeadwayError, match="org/dodo has no such file on the hub"):
        download_model("org/dodo/other.gguf")


def test_pickles_are_downloaded_with_consent(hub: Hub) -> None:
    with pytest.raises(HeadwayError, match="org/pickled has no weights in safetensors.*--allow-pickle"):
        download_model("org/pickled")
    folder = download_model("org/pickled", allow_pickle=True)
    assert (folder / "pytorch_model.bin").read_bytes() == b"pickle"


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("org/gone", "", "there is no directory org/gone, and no model of this name on the hub"),
        ("org/gated", "", "org/gated is gated: its owners want you to agree"),
        ("org/dodo", "v9", "org/dodo has no revision v9. Check --revision"),
        ("org/do--do", "", "org/do--do cannot be downloaded: Cannot have -- or .. in repo_id"),
    ],
)
def test_failures_say_what_to_do(hub: Hub, name: str, revision: str, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        download_model(name, revision)


def test_without_a_network_only_the_cache_is_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    point_to(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(HeadwayError, match="org/dodo is not in the cache, and the hub cannot be reached"):
        download_model("org/dodo")
    import_module = builtins.__import__

    def refuse(name: str, *rest: Any, **options: Any) -> Any:
        if name == "huggingface_hub":
            raise ImportError(name)
        return import_module(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HeadwayError, match="downloaded by the package huggingface_hub. Install it: pip install"):
        download_model("org/dodo")


def test_its_settings_are_those_of_the_environment(hub: Hub, tmp_path: Path) -> None:
    """HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE, which the library reads when it is imported."""
    code = "from headway.convert.hub import download_model; print(download_model('org/dodo'))"
    endpoint = f"http://127.0.0.1:{hub.server_port}"
    for offline in ("0", "1"):
        settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": offline}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, **settings}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert Path(done.stdout.strip()).is_relative_to(tmp_path / "home")
        assert bool(hub.requests) == (offline == "0")
        hub.requests.clear()


def test_names_look_like_names() -> None:
    assert all(map(is_hub_name, ("org/name", "org/name-1.5_b", "org/name/sub/file-q8.gguf")))
    assert not any(
        map(is_hub_name, ("name", "./org/name", "/org/name", "org/../name", "a/b/c", "org/name/", "a/b/../c.gguf"))
    )
