"""The files for nginx, systemd and containers say what their programs understand, and commands that exist."""

import configparser
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    assert all(inside["proxy_pass"] == [f"http://{upstream}"] for inside in locations.values())
    assert locations["~ ^/(api|v1)/"]["proxy_buffering"] == ["off"]
    assert locations["= /metrics"]["deny"] == ["all"]


def test_systemd(check_command: Check) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "headway.service")
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
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in found} <= known
    assert found[0][0] == "FROM"
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
