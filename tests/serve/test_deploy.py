"""The files for nginx, systemd and containers say what their programs understand, and commands that exist."""

import configparser
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from serve.conftest import Running

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
Check = Callable[[list[str]], None]


def nginx_blocks(text: str) -> list[Any]:
    """nginx's grammar: directives that end with ; or hold a block in braces."""
    tokens = re.findall(r'#[^\n]*|"[^"]*"|[{};]|[^\s{};"]+', text)
    stack: list[list[Any]] = [[]]
    words: list[str] = []
    for token in (token for token in tokens if not token.startswith("#")):
        if token == "{":
            assert words, "a block without a name"
            block: list[Any] = []
            stack[-1].append((words, block))
            stack.append(block)
            words = []
        elif token == "}":
            assert not words, f"{words} has no ;"
            stack.pop()
            assert stack, "a } too many"
        elif token == ";":
            assert words, "a ; without a directive"
            stack[-1].append((words, None))
            words = []
        else:
            words.append(token)
    assert len(stack) == 1, "a } is missing"
    assert not words, f"{words} has no ;"
    return stack[0]


def test_nginx() -> None:
    blocks = nginx_blocks((DEPLOY / "nginx.conf").read_text())
    (server,) = [inside for words, inside in blocks if words == ["server"]]
    (upstream,) = [words[1] for words, _ in blocks if words[0] == "upstream"]
    locations = {
        " ".join(words[1:]): {name: rest for (name, *rest), _ in inside}
        for words, inside in server
        if words[0] == "location"
    }
    assert locations["/"]["proxy_pass"] == [f"http://{upstream}"]
    assert locations["= /metrics"] == {"return": ["404"]}
    # what the server believes of a trusted proxy, no client may bring
    headers = [words[1] for words, _ in server if words[0] == "proxy_set_header"]
    assert {"Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Prefix"} <= set(headers)


def test_the_check_says_what_it_skips(tmp_path: Path) -> None:
    """`deploy/check` runs all of this for real, where there are systemd, nginx and podman."""
    environment = {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(DEPLOY / "check"), "systemd", "container"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "skipped: podman and docker are missing, or have no daemon: apt-get install podman" in done.stdout
    wrong = subprocess.run([sys.executable, str(DEPLOY / "check"), "nothing"], capture_output=True, text=True)
    assert wrong.returncode == 1
    assert "deploy/check [systemd] [nginx] [container]" in wrong.stderr


def test_stream_responses_tell_nginx_not_to_buffer(served: Running) -> None:
    body = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}
    assert served.post("/api/translate", body).headers["x-accel-buffering"] == "no"


def test_systemd(check_command: Check) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(re.sub(r"\\\n\s*", "", text := (DEPLOY / "headway.service").read_text()))
    assert text.count("SystemCallFilter=") == 2
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[0].startswith("/")
    check_command(["headway", *words[1:]])
    assert int(unit["Service"]["TimeoutStopSec"]) > 30  # what is running has as long


def instructions(text: str) -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()]


def test_container(check_command: Check) -> None:
    found = instructions((DEPLOY / "Containerfile").read_text())
    known = {
        "ARG",
        "ENV",
        "FROM",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    assert {name for name, _ in found} <= known
    assert [name for name, _ in found][:2] == ["ARG", "FROM"]
    table = dict(found)
    assert table["USER"] == "headway"
    check_command([*json.loads(table["ENTRYPOINT"]), "--model", "m"])
    for name, rest in found:
        if name == "COPY":
            assert all((DEPLOY.parent / path).exists() for path in rest.split()[:-1]), rest
        if name == "RUN":
            assert shlex.split(rest)


def test_compose(check_command: Check) -> None:
    """Enough of YAML for this file: the lists are JSON."""
    text = (DEPLOY / "compose.yaml").read_text()
    assert "\t" not in text
    entries = dict(re.findall(r"^    (\w+): (.+)$", text, re.MULTILINE))
    check_command(["headway", "serve", *json.loads(entries["command"])])
    assert entries["read_only"] == "true"
    assert (DEPLOY.parent / re.findall(r"dockerfile: (\S+)", text)[0]).exists()
