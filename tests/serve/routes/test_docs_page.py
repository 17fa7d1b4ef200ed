"""/docs: every example on it is run, as it stands, against the server that shows it."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from serve.conftest import Running, running

from headway.serve.examples import SENTENCE

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


def read_examples(server: Running) -> dict[str, str]:
    """The command in each section."""
    page = server.get("/docs").text
    sections = re.findall(r"<h2>.*?<code>(.*?)</code></h2>(.*?)(?=<h2>|</body>)", page, re.DOTALL)
    return {
        html.unescape(path): html.unescape(found[1])
        for path, section in sections
        if (found := re.search(r"<pre>(.*?)</pre>", section, re.DOTALL))
    }


def run_example(command: str, **environment: str) -> tuple[int, str]:
    """Status and answer."""
    assert command.startswith("curl ")
    shown = "curl -sS --max-time 60 -w '\n%{http_code}' " + command.removeprefix("curl ")
    ran = subprocess.run(
        ["sh", "-c", shown], capture_output=True, text=True, timeout=90, env={**os.environ, **environment}, check=True
    )
    answer, _, status = ran.stdout.rpartition("\n")
    return int(status), answer


def test_every_example_works_as_it_stands(served: Running) -> None:
    examples = read_examples(served)
    assert set(examples) == {
        "/translate", "/detect", "/languages", "/frontend/settings", "/health", "/translate_file", "/api/translate",
        "/v1/models", "/v1/models/{name}", "/v1/completions", "/metrics", "/api/models", "/api/models/{name}",
        "/api/read", "/api/places", "/api/inside", "/api/column", "/api/layer", "/api/vectors",
        "/api/studies",
    }  # fmt: skip
    for path, command in examples.items():
        status, answer = run_example(command)
        assert status == 200, (path, command, answer)
        assert answer, command
    assert "translatedText" in json.loads(run_example(examples["/translate"])[1])
    assert SENTENCE in examples["/translate"]
    assert "segments" in json.loads(run_example(examples["/translate_file"])[1])


def test_examples_where_keys_are_required_and_suggestions_taken(translator_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("it's-a-key\n")
    with running(
        translator_dir, api_keys=str(tmp_path / "keys.txt"), suggestions=str(tmp_path / "suggestions.jsonl")
    ) as server:
        examples = read_examples(server)
        assert "/v1/completions" not in examples  # there is no language model
        for path in ("/translate", "/detect", "/suggest", "/translate_file", "/api/translate", "/api/models"):
            assert run_example(examples[path], API_KEY="it's-a-key")[0] == 200, path
        assert run_example(examples["/translate"], API_KEY="another")[0] == 403


def test_a_server_without_translators_shows_what_it_has(lm_dir: Path) -> None:
    with running(lm_dir) as server:
        examples = read_examples(server)
        assert not {"/translate", "/translate_file", "/detect", "/api/models/{name}"} & set(examples)
        assert run_example(examples["/v1/completions"])[0] == 200
