"""What is shipped is what the sources build; docs/generate.py writes variants.json, and tests/test_generated_docs.py
looks at it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

from headway.serve.app import STATIC_DIR

WEB = ROOT / "web"


def test_the_shipped_page_is_built_from_its_sources(tmp_path: Path) -> None:
    if shutil.which("node") is None or not (WEB / "node_modules/esbuild").is_dir():
        pytest.skip("Node or its packages are missing: cd web && npm ci")
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=WEB, check=True, timeout=120)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shipped = {path.name: path.read_bytes() for path in STATIC_DIR.iterdir() if path.name != "variants.json"}
    assert shipped == built, "headway/serve/static is not what web/ builds: make page"
