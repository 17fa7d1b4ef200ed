"""What the documentation says is true: its Python runs, and its commands exist with the options shown.

A snippet is left out when the line above it says `<!-- not run: reason -->`."""

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from event_loops import run_in_thread

ROOT = Path(__file__).parent.parent
SHELLS = ("console", "sh", "bash", "shell")
FENCE = re.compile(r"^ {0,3}```+ *(?P<language>[\w-]*).*$")
NOT_RUN = re.compile(r"^<!-- *not run: *\S.*-->$")


@dataclass(frozen=True)
class Snippet:
    language: str
    line: int  # of its first line, counted from 1
    text: str


def snippets(page: str) -> list[Snippet]:
    """The fenced blocks of a page, without those that are marked as not run."""
    found = []
    lines = page.split("\n")
    opened: int | None = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if opened is None:
            opened = number
            continue
        start = FENCE.match(lines[opened])
        above = lines[opened - 1].strip() if opened else ""
        if start and not NOT_RUN.match(above):
            text = "\n".join(lines[opened + 1 : number])
            found.append(Snippet(start["language"], opened + 2, text))
        opened = None
    return found


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """The words of each `headway` command in a shell snippet; in a console one, what follows "$ "."""
    lines = snippet.text.replace("\\\n", " ").split("\n")
    if snippet.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        tokens = iter([*lexer, ";"])
        for token in tokens:
            if token[0] in "<>":  # a redirection and its file; 2> has a number before it
                if words and words[-1].isdigit():
                    words.pop()
                next(tokens)
            elif token[0] in ";&|()":
                while words and re.match(r"\w+=", words[0]):
                    words.pop(0)
                if words[:3] == ["python", "-m", "headway"]:
                    words = words[2:]
                if words[:1] == ["headway"]:
                    yield words
                words = []
            else:
                words.append(token)


def pages_with(*languages: str) -> list[str]:
    """Those in English: the code of others is the same, as `test_docs_zh.py` checks."""
    pages = [
        ROOT / "README.md",
        *(page for name in ("docs", "recipes") for page in sorted((ROOT / name).rglob("*.md"))),
    ]
    return [
        str(page.relative_to(ROOT))
        for page in pages
        if page.parent.name != "zh" and any(s.language in languages for s in snippets(page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page is one program, run in an empty folder."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for snippet in snippets((ROOT / page).read_text(encoding="utf-8")):
        if snippet.language == "python":
            # The empty lines make a traceback point into the page.
            source = "\n" * (snippet.line - 1) + snippet.text
            program = compile(source, str(ROOT / page), "exec")
            if "asyncio.run" in snippet.text:
                run_in_thread(exec, program, namespace)
            else:
                exec(program, namespace)


@pytest.mark.parametrize("page", pages_with(*SHELLS))
def test_commands_exist(page: str, check_command: Callable[[list[str]], None]) -> None:
    for snippet in snippets((ROOT / page).read_text(encoding="utf-8")):
        for words in commands(snippet) if snippet.language in SHELLS else ():
            try:
                check_command(words)
            except click.ClickException as error:
                pytest.fail(f"{page}, line {snippet.line}: {shlex.join(words)}: {error.format_message()}")


def test_a_page_draws_its_pictures_again(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs/draw.py")
    assert spec is not None and spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    before = Path.cwd()
    assert draw.draw_page(ROOT / "docs/retention.md", tmp_path) == [tmp_path / "retention.png"]
    assert (tmp_path / "retention.png").read_bytes().startswith(b"\x89PNG")
    page = tmp_path / "page.md"
    page.write_text(
        "![](pictures/a.png) ![](pictures/b.png)\n```python\nopen('a.png', 'w').close()\nopen('c', 'w').close()\n```\n"
        "<!-- not run: why -->\n```python\nopen('b.png', 'w').close()\n```\n"
    )
    assert draw.draw_page(page, tmp_path) == [tmp_path / "a.png"], "no more than it shows, and nothing that is not run"
    assert Path.cwd() == before


PAGE = """\
# A page
```python
x = 1
```
<!-- not run: needs a model -->
```python
broken(
```
```console
$ echo hello | headway translate --model m 2>&1 | head -1 > out.txt
Hallo
$ LANG=C headway toy --out "a b" \\
    --pairs 5 && python -m headway --version  # a comment
```
```sh
cd somewhere; headway -q toy --out x > log 2>/dev/null &
```
    ```
    an indented fence is text
"""


def test_snippets_are_found_with_their_lines() -> None:
    found = [(s.language, s.line, s.text.split("\n")[0]) for s in snippets(PAGE)]
    assert found == [
        ("python", 3, "x = 1"),
        ("console", 10, "$ echo hello | headway translate --model m 2>&1 | head -1 > out.txt"),
        ("sh", 16, "cd somewhere; headway -q toy --out x > log 2>/dev/null &"),
    ]


def test_commands_are_found_as_the_shell_reads_them() -> None:
    assert [words for snippet in snippets(PAGE)[1:] for words in commands(snippet)] == [
        ["headway", "translate", "--model", "m"],
        ["headway", "toy", "--out", "a b", "--pairs", "5"],
        ["headway", "--version"],
        ["headway", "-q", "toy", "--out", "x"],
    ]


def test_a_wrong_command_is_noticed(check_command: Callable[[list[str]], None]) -> None:
    check_command(["headway", "toy", "--out", "x"])
    check_command(["headway", "toy", "--help"])
    for wrong in (["--ouch", "x"], ["--out", "x", "--pairs", "many"], []):
        with pytest.raises(click.UsageError):
            check_command(["headway", "toy", *wrong])
    with pytest.raises(click.UsageError):
        check_command(["headway", "toil"])
