"""The commands of README and docs run, in their order and in one folder, on text of their names and for a few steps.

What they print is not looked at here; that they end well is."""

import io
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import ROOT, SHELLS, commands, snippets

from headway.cli import main
from headway.data.toy import toy_corpus

PAGES = ["README.md", "docs/training.md", "docs/translating.md", "docs/models.md"]
SMALL = {"TRAIN__STEPS": "4", "TRAIN__DECODE_LINES": "5", "TRAIN__VALIDATE_EVERY": "2", "MODEL__D_MODEL": "16"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file that the pages name."""
    folder = tmp_path_factory.mktemp("docs")
    pairs = toy_corpus(300)
    parts = {"train": pairs[:200], "val": pairs[200:220], "test": pairs[220:230], "a": pairs[:80], "b": pairs[80:200]}
    for name, part in parts.items():
        for suffix, side in (("en", "source"), ("de", "target"), ("fr", "target")):
            lines = "".join(getattr(pair, side) + "\n" for pair in part)
            (folder / f"{name}.{suffix}").write_text(lines, encoding="utf-8")
    for name in ("law.en", "law.de"):
        (folder / name).write_text((folder / name.replace("law", "b")).read_text(encoding="utf-8"), encoding="utf-8")
    table = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
    (folder / "mine.en-de.tsv").write_text(table, encoding="utf-8")
    (folder / "europarl.en-de.tsv.xz").write_bytes(lzma.compress(table.encode()))
    everything = "".join(pair.source + "\n" for pair in pairs)
    for name in ("corpus.txt", "test.txt", "text.en"):
        (folder / name).write_text(everything, encoding="utf-8")
    return folder


def test_everything_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one test: each page goes on with what those before it have made."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HEADWAY_MODELS", str(folder / "installed"))
    for name, value in SMALL.items():
        monkeypatch.setenv(f"HEADWAY_CONFIG__{name}", value)
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        found = [words for part in snippets(text) if part.language in SHELLS for words in commands(part)]
        assert found, page
        for words in found:
            with io.TextIOWrapper(io.BytesIO(b"The dog sleeps.\n"), encoding="utf-8") as typed:
                monkeypatch.setattr(sys, "stdin", typed)
                assert main(words[words[0] == "headway" :]) == 0, (page, words)
    run_snippet(folder)


def run_snippet(folder: Path) -> None:
    """The one that needs a trained model, in a process of its own as a user would run it."""
    page = (ROOT / "docs/translating.md").read_text(encoding="utf-8")
    snippet = page.split("<!-- not run: needs a trained model -->\n```python\n")[1].split("```")[0]
    ran = subprocess.run([sys.executable, "-c", snippet], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 2
