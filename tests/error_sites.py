"""Every error message in headway/ has a test that triggers it. A pytest plugin, which conftest.py loads.

It finds the places that make an error (`HeadwayError(…)`, `ConfigError(…)`, click's UsageError, `self.fail(…)`,
`ValueError(…)`) in the source, notes which of them are reached while the tests run, and fails a run of all tests
that leaves some out, whether in one process or in several. HEADWAY_ERROR_SITES=1 lists them after a part of the tests, too."""

import ast
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import click
import pytest

from headway.errors import HeadwayError

ROOT = Path(__file__).parent.parent
MADE_BY = {"HeadwayError", "ConfigError", "UsageError", "ValueError", "fail"}
BASES: list[type[Exception]] = [HeadwayError, click.UsageError]
Site = tuple[str, int, int]  # file, first line, last line

reached: set[tuple[str, int]] = set()
paused = False


def error_sites() -> list[Site]:
    """Where errors are made. headway/errors.py only defines them."""
    paths = [path for path in sorted((ROOT / "headway").rglob("*.py")) if path.name != "errors.py"]
    return [(str(path), *lines) for path in paths for lines in sites_in(path.read_text(encoding="utf-8"))]


def sites_in(source: str) -> list[tuple[int, int]]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sorted((call.lineno, call.end_lineno or call.lineno) for call in calls if made_by(call.func) in MADE_BY)


def made_by(function: ast.expr) -> str:
    """HeadwayError, or click.UsageError, or self.fail: its last name. A plain fail() is something else."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) and function.id != "fail" else ""


def unreached() -> list[str]:
    by_file: dict[str, set[int]] = {}
    for file, line in reached:
        by_file.setdefault(file, set()).add(line)
    return [
        f"{Path(file).relative_to(ROOT)}:{first}"
        for file, first, last in error_sites()
        if not any(first <= line <= last for line in by_file.get(file, ()))
    ]


def note_frames(frame: FrameType | None) -> None:
    """The innermost frames of headway: what made the error, and what called a function that makes it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if "/headway/" in file and not file.endswith("/errors.py"):
            reached.add((file, frame.f_lineno))
            return
        frame = frame.f_back


def note_traceback(traceback: TracebackType | None) -> None:
    """Where an error of Python's own, which cannot be wrapped, came from."""
    while traceback is not None:
        reached.add((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next


def noting(make: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Exception, *arguments: Any, **options: Any) -> None:
        if not paused:
            note_frames(sys._getframe(1))
            note_traceback(sys.exc_info()[2])  # that it is made from
        make(self, *arguments, **options)

    return __init__


def pytest_configure(config: pytest.Config) -> None:
    for base in BASES:
        base.__init__ = noting(base.__init__)  # type: ignore[method-assign]
    leave = pytest.RaisesExc.__exit__

    def noting_exit(self: Any, kind: Any, error: Any, traceback: Any) -> bool:
        note_traceback(traceback)
        return leave(self, kind, error, traceback)

    pytest.RaisesExc.__exit__ = noting_exit  # type: ignore[method-assign]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is reached by chance is not tested: a module of made-up input says so with BY_CHANCE = True."""
    global paused
    paused = getattr(getattr(item, "module", None), "BY_CHANCE", False)


def is_whole(config: pytest.Config) -> bool:
    """Whether all tests were asked for: none named, none chosen by -k or -m, none left out because one failed."""
    chosen = config.getoption("keyword") or config.getoption("deselect") or config.getoption("lf", False)
    usual = "not slow and not gpu"
    named = [Path(argument).resolve() for argument in config.args] != [ROOT / "tests"]
    return not chosen and not named and config.getoption("markexpr") == usual


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    told = getattr(session.config, "workeroutput", None)
    if told is not None:  # one of several processes of pytest-xdist: the first one judges what all have reached
        told["reached"] = sorted(reached)
    elif exitstatus == 0 and is_whole(session.config) and unreached():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A process of pytest-xdist has ended. One that broke down tells nothing, and its run fails anyway."""
    reached.update((file, line) for file, line in getattr(node, "workeroutput", {}).get("reached", ()))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    asked = bool(os.environ.get("HEADWAY_ERROR_SITES"))
    if not asked and not is_whole(config):
        return
    missed = unreached()
    if missed:
        terminalreporter.section("errors that no test triggers", red=True)
        for site in missed:
            terminalreporter.write_line(site)
