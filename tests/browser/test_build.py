"""What is shipped is what the sources build."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

from headway.serve.app import STATIC

WEB = ROOT / "web"


def test_the_shipped_page_is_built_from_its_sources(tmp_path: Path) -> None:
    if shutil.which("node") is None or not (WEB / "node_modules/esbuild").is_dir():
        pytest.skip("node, or what npm ci installs, is missing")
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=WEB, check=True, timeout=120)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in STATIC.iterdir()}
    assert shipped == built, "headway/serve/static is not what web/ builds: make page"
