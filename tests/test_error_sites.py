"""The check that every error has a test is itself checked."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import error_sites
import pytest
from error_sites import is_full_run, might_reach_errors, reached, sites_in, unreached

from headway.errors import ConfigError, HeadwayError

SOURCE = """
def f(x):
    if x:
        raise HeadwayError(
            "one"
        )
    raise click.UsageError("two", context) from None
    self.fail("three")
    fail("not an error")
    return ConfigError("four", "where")
    raise KeyError("not one of ours")
    int(x) or ValueError
"""


def test_sites_are_found_by_what_they_make() -> None:
    assert sites_in(SOURCE) == [(4, 6), (7, 7), (8, 8), (10, 10)]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A headway of one file, whose errors are those that count."""
    (tmp_path / "headway").mkdir()
    file = tmp_path / "headway" / "made.py"
    monkeypatch.setattr(error_sites, "ROOT", tmp_path)

    def run(source: str, *names: str) -> Any:
        file.write_text(source)
        space: dict[str, Any] = {"HeadwayError": HeadwayError, "ConfigError": ConfigError, "click": click}
        exec(compile(source, str(file), "exec"), space)
        return SimpleNamespace(**{name: space[name] for name in names})

    yield run
    reached.difference_update({place for place in reached if place[0] == str(file)})


def test_what_is_raised_is_reached(own: Any) -> None:
    made = own(
        "def one(): raise HeadwayError('x')\n"
        "def two():\n    raise ConfigError(\n        'x',\n        'y'\n    )\n"
        "def three(): return HeadwayError('x')\n"
        "def four(): raise click.UsageError('x')\n"
        "def five(): raise ValueError('x')\n"
        "def six():\n    try:\n        raise ValueError('x')\n"
        "    except ValueError:\n        raise HeadwayError('y') from None\n",
        *("one", "two", "three", "four", "five", "six"),
    )
    lines = [1, 3, 7, 8, 9, 12, 14]
    assert unreached() == [f"headway/made.py:{line}" for line in lines]
    for call, error, now in (
        (made.one, HeadwayError, lines[1:]),
        (made.two, ConfigError, lines[2:]),
        (made.four, click.UsageError, [7, 9, 12, 14]),
        (made.five, ValueError, [7, 12, 14]),
        (made.six, HeadwayError, [7]),
    ):
        with pytest.raises(error):
            call()
        assert unreached() == [f"headway/made.py:{line}" for line in now]
    made.three()
    assert unreached() == []


def test_an_error_is_recorded_where_the_package_makes_it_whatever_the_checkout_is_called(
    own: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A checkout called headway has a virtual environment whose path contains the name, too."""
    other = tmp_path / "headway.venv" / "headway" / "click.py"
    space: dict[str, Any] = {}
    exec(compile("def fail(error):\n    raise error('x')\n", str(other), "exec"), space)
    made = own("def one(fail): fail(HeadwayError)  # as self.fail\n", "one")
    with pytest.raises(HeadwayError):
        made.one(space["fail"])
    assert (str(tmp_path / "headway" / "made.py"), 1) in reached


def test_what_is_met_by_chance_does_not_count(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = own("def one(): raise HeadwayError('x')\n", "one")
    monkeypatch.setattr(error_sites, "paused", False)
    for by_chance, left in ((True, ["headway/made.py:1"]), (False, [])):
        item: Any = SimpleNamespace(module=SimpleNamespace(BY_CHANCE=by_chance))
        error_sites.pytest_runtest_setup(item)
        with contextlib.suppress(HeadwayError):
            made.one()
        assert unreached() == left


@pytest.mark.parametrize(
    ("options", "arguments", "whole"),
    [
        ({}, ["tests"], True),
        ({"keyword": "x"}, ["tests"], False),
        ({"markexpr": "slow"}, ["tests"], False),
        ({"deselect": ["x"]}, ["tests"], False),
        ({"lf": True}, ["tests"], False),
        ({}, ["tests/cli"], False),
        ({}, ["tests", "tests/cli"], False),
    ],
)
def test_only_a_run_of_all_tests_counts(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], arguments: list[str], whole: bool
) -> None:
    monkeypatch.chdir(error_sites.ROOT)
    given = {"keyword": "", "markexpr": "not slow and not gpu", "deselect": None, "lf": False, **options}
    config: Any = SimpleNamespace(args=arguments, getoption=lambda name, default=None: given[name])
    assert is_full_run(config) == whole


@pytest.mark.parametrize(
    ("code", "left", "skipped", "ends"),
    [
        (0, ["x"], [], 1),
        (0, ["x"], ["Triton is missing: pip install triton"], 1),
        (0, ["x"], ["Triton is missing: pip install triton", "Chromium is missing: apt-get install chromium"], 0),
        (0, [], [], 0),
        (2, ["x"], [], 2),
    ],
)
def test_a_full_run_fails_for_errors_without_a_test_unless_skipped_tests_may_trigger_them(
    monkeypatch: pytest.MonkeyPatch, code: int, left: list[str], skipped: list[str], ends: int
) -> None:
    monkeypatch.setattr(error_sites, "skip_reasons", lambda config: skipped)
    monkeypatch.setattr(error_sites, "is_full_run", lambda config: True)
    monkeypatch.setattr(error_sites, "unreached", lambda: left)
    session: Any = SimpleNamespace(config=None, exitstatus=code)
    error_sites.pytest_sessionfinish(session, code)
    assert session.exitstatus == ends


def test_the_run_ends_with_one_line_of_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    report = SimpleNamespace(longrepr=("file.py", 3, "Skipped: Chromium is missing: apt-get install chromium"))
    written: list[str] = []
    reporter: Any = SimpleNamespace(
        stats={"skipped": [report, report]}, write_line=written.append, section=lambda *given, **more: None
    )
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: reporter))
    monkeypatch.setattr(error_sites, "unreached", lambda: ["headway/x.py:1"])
    for full, lines in (
        (False, ["left out: 2 tests (Chromium is missing: apt-get install chromium)"]),
        (True, ["headway/x.py:1", "Not counted as a failure: the tests that were skipped may trigger them."]),
    ):
        written.clear()
        monkeypatch.setattr(error_sites, "is_full_run", lambda config, full=full: full)
        error_sites.pytest_terminal_summary(reporter, 0, config)
        assert written[: len(lines)] == lines
        assert written[-1] == "left out: 2 tests (Chromium is missing: apt-get install chromium)"
    assert not might_reach_errors([])


def test_what_several_processes_reach_is_put_together(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = own("def one(): raise HeadwayError('x')\ndef two(): raise HeadwayError('x')\n", "one", "two")
    monkeypatch.setattr(error_sites, "is_full_run", lambda config: True)
    nodes = []
    for call in (made.one, made.two):  # each in a process that has not seen the other
        monkeypatch.setattr(error_sites, "reached", set())
        with pytest.raises(HeadwayError):
            call()
        session: Any = SimpleNamespace(config=SimpleNamespace(workeroutput={}), exitstatus=0)
        error_sites.pytest_sessionfinish(session, 0)
        assert session.exitstatus == 0
        nodes.append(SimpleNamespace(workeroutput=json.loads(json.dumps(session.config.workeroutput))))
    monkeypatch.setattr(error_sites, "reached", set())
    nodes.append(SimpleNamespace())  # broke down
    for node, left in zip(nodes, (["headway/made.py:2"], [], [])):
        error_sites.pytest_testnodedown(node, None)
        assert unreached() == left
