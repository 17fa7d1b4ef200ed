"""A pytest plugin, loaded by conftest.py: every error message in headway/ has a test that triggers it.

It finds the calls that make an error (`HeadwayError(…)`, `ConfigError(…)`, `ConversionError(…)`, click's UsageError,
`self.fail(…)`, `ValueError(…)`) in the source and records which of them are reached while the tests run, in one process
or several.
A run of all tests that misses some fails; where tests were skipped that might have reached them, it says so instead.
At the end one line names what was skipped and how to have it. HEADWAY_ERROR_SITES=1 lists missed errors after a run of
some tests, too."""

import ast
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import click
import pytest

from headway.errors import HeadwayError

ROOT = Path(__file__).parent.parent
MADE_BY = {"HeadwayError", "ConfigError", "ConversionError", "UsageError", "ValueError", "fail"}
BASES: list[type[Exception]] = [HeadwayError, click.UsageError]
Site = tuple[str, int, int]  # file, first line, last line
REACH_NO_ERRORS = (
    "Triton is missing",
    "a CUDA device is missing",
)  # reasons of skipped tests that trigger no error that others do not

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


def record_frames(frame: FrameType | None) -> None:
    """The innermost frames of headway: what made the error, and what called a function that makes it."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(f"{ROOT}/headway/") and not file.endswith("/errors.py"):
            reached.add((file, frame.f_lineno))
            return
        frame = frame.f_back


def record_traceback(traceback: TracebackType | None) -> None:
    """Where an error of Python's own, which cannot be wrapped, came from."""
    while traceback is not None:
        reached.add((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next


def recording(make: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Exception, *arguments: Any, **options: Any) -> None:
        if not paused:
            record_frames(sys._getframe(1))
            record_traceback(sys.exc_info()[2])  # that it is made from
        make(self, *arguments, **options)

    return __init__


def pytest_configure(config: pytest.Config) -> None:
    for base in BASES:
        base.__init__ = recording(base.__init__)  # type: ignore[method-assign]
    leave = pytest.RaisesExc.__exit__

    def recording_exit(self: Any, kind: Any, error: Any, traceback: Any) -> bool:
        record_traceback(traceback)
        return leave(self, kind, error, traceback)

    pytest.RaisesExc.__exit__ = recording_exit  # type: ignore[method-assign]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """An error reached by chance is not tested: a module of random input sets BY_CHANCE = True."""
    global paused
    paused = getattr(getattr(item, "module", None), "BY_CHANCE", False)


def is_full_run(config: pytest.Config) -> bool:
    """Whether all tests were asked for: none named, none chosen by -k or -m, none left out because one failed."""
    chosen = config.getoption("keyword") or config.getoption("deselect") or config.getoption("lf", False)
    named = [Path(argument).resolve() for argument in config.args] != [ROOT / "tests"]
    return not chosen and not named and config.getoption("markexpr") == "not slow and not gpu"


def skip_reasons(config: pytest.Config) -> Counter[str]:
    """How many tests (or files, where a whole file was skipped) were skipped for each reason, in all processes."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if reporter is not None else []
    texts = [report.longrepr[2] if isinstance(report.longrepr, tuple) else "no reason" for report in reports]
    return Counter(str(text).removeprefix("Skipped: ") for text in texts)


def might_reach_errors(reasons: Iterable[str]) -> bool:
    return any(not reason.startswith(REACH_NO_ERRORS) for reason in reasons)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of pytest-xdist: the main process judges what all of them have reached
        output["reached"] = sorted(reached)
        return
    judged = exitstatus == 0 and is_full_run(session.config) and not might_reach_errors(skip_reasons(session.config))
    if judged and unreached():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker of pytest-xdist has ended. One that crashed has no output, and its run fails anyway."""
    reached.update((file, line) for file, line in getattr(node, "workeroutput", {}).get("reached", ()))


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    reasons = skip_reasons(config)
    if os.environ.get("HEADWAY_ERROR_SITES") or is_full_run(config):
        missed = unreached()
        if missed:
            terminalreporter.section("errors that no test triggers", red=True)
            for site in missed:
                terminalreporter.write_line(site)
            if might_reach_errors(reasons):
                terminalreporter.write_line("Not counted as a failure: the tests that were skipped may trigger them.")
    if reasons:
        listed = ", ".join(f"{count} tests ({reason})" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"left out: {listed}".replace("\n", " "))
