"""A wheel with a model in it, installed where the user may not write: `pytest -m slow tests/test_wheel.py`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from installing_models import OBEDIENT, read_only

ROOT = Path(__file__).parent.parent


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.mark.slow
def test_a_wheel_brings_its_models_along(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests", "node_modules")
    shutil.copytree(ROOT, source, ignore=left_out)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    run(*pip, "wheel", source, "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path)
    run(*pip, "install", "--no-deps", "--target", site, *tmp_path.glob("*.whl"))
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(site)}
    headway = [
        *OBEDIENT,
        sys.executable,
        "-c",
        "import sys; from headway.cli import main; sys.exit(main(sys.argv[1:]))",
    ]
    settings = {"cwd": home, "env": environment}
    with read_only(site):
        assert run(*headway, "models", **settings).splitlines()[1].startswith("en-de\ten ↔ de\t")
        use(headway, settings)


def use(headway: list[str], settings: dict[str, object]) -> None:
    for words in ([], ["--from", "auto"], ["--engine", "torch"], ["--engine", "ctranslate2"]):
        said = run(*headway, "translate", *words, "Where is the station?", **settings)
        assert said == "Wo ist der Bahnhof?\n"
    said = run(*headway, "translate", "--from", "de", "--to", "en", "Ich habe zwei Brüder.", **settings)
    assert said == "I have two brothers.\n"
