"""headway doctor: one line a finding, in 80 columns, and an exit code."""

import json
import sys

import pytest

from headway.cli.app import main
from headway.cli.terminal import reset_settings
from headway.cli.verbs.doctor import format_finding
from headway.workflows import doctor
from headway.workflows.doctor import DoctorFinding

Capture = pytest.CaptureFixture[str]
FINE, SCARCE = (
    DoctorFinding("torch", "2.13"),
    DoctorFinding("plot", "matplotlib missing", "note", "pip install 'headway[plot]'"),
)
BROKEN = DoctorFinding(
    "numpy", "1.0 cannot be imported: " + "x " * 60, "broken", "pip install --force-reinstall 'numpy'"
)


def examined(monkeypatch: pytest.MonkeyPatch, *findings: DoctorFinding) -> None:
    monkeypatch.setattr(doctor, "run_checks", lambda: list(findings))


def test_here_it_is_usable(capsys: Capture) -> None:
    assert main(["doctor"]) == 0
    out, err = capsys.readouterr()
    assert "ok     torch " in out
    assert out.endswith("everything that is needed is here\n")
    assert err == ""


def test_what_is_missing_is_shown_with_what_to_type(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, SCARCE)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok     torch            2.13",
        "note   plot             matplotlib missing",
        "                        try: pip install 'headway[plot]'",
        "everything that is needed is here",
    ]


def test_what_is_broken_exits_1(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, SCARCE, BROKEN)
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert out.endswith("1 broken: try what stands below it\n")
    assert "try: pip install --force-reinstall 'numpy'" in out
    assert max(map(len, out.splitlines())) <= 80
    assert err == ""


@pytest.mark.parametrize("code", [0, 1])
def test_json(capsys: Capture, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    examined(monkeypatch, FINE, *[BROKEN] * code)
    assert main(["doctor", "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["usable"] == (code == 0)
    assert told["findings"][0] == {"about": "torch", "told": "2.13", "state": "ok", "advice": ""}


def test_without_torch_it_still_speaks(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert "broken torch " in out
    assert "Traceback" not in out + err


def test_colours_where_they_are_wanted(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    examined(monkeypatch, FINE, BROKEN)
    assert main(["doctor", "--color", "always"]) == 1
    out = capsys.readouterr().out
    assert "\x1b[32mok     \x1b[0m" in out
    assert "\x1b[31mbroken \x1b[0m" in out


def test_a_command_is_not_broken_up() -> None:
    reset_settings()
    long = "export SOMETHING=" + "x" * 70
    assert long in format_finding(DoctorFinding("cache", "full", "note", long))
