"""The command itself: Ctrl-C at any moment ends it with code 130 and no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from headway import __main__

STARTED = "import sys; from headway.__main__ import main; sys.exit(main())"
# Says when the first module is imported that takes time: before, Python itself is starting.
ANNOUNCE = """
import sys

class Announcer:
    def find_spec(self, name, path=None, target=None):
        if name == "headway.cli":
            print(flush=True)

sys.meta_path.insert(0, Announcer())
"""


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 10, 20, 30, 50, 80, 120, 200, 300])
def test_ctrl_c_shows_no_traceback(milliseconds: int) -> None:
    command = [sys.executable, "-c", ANNOUNCE + STARTED, "translate"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[1].decode()
    assert "Traceback" not in told and told in ("", "error: interrupted\n")
    assert process.returncode == 130


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + STARTED
    ended = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and ended.stdout.strip().startswith("headway ")


def test_before_and_after_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("headway.cli.main", interrupt)
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    try:
        assert __main__.main() == 130
    finally:
        signal.signal(signal.SIGINT, before)
    __main__.exit_at_once(signal.SIGINT, None)
    assert ended == [130]
