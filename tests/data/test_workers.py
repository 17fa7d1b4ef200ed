"""Processes that work for another end with it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import multiprocessing, os, time
from concurrent.futures import ProcessPoolExecutor
from {module} import {name}

pool = ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), initializer={name}, initargs={given})
print(*{{pool.submit(time.sleep, 0.2) and pool.submit(os.getpid).result() for _ in range(4)}}, flush=True)
time.sleep(60)
"""


def alive(process: int) -> bool:
    """Not even waiting for whoever should take note of its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("module", "name", "given"),
    [
        ("headway.data.workers", "tie_to_parent", "()"),  # as epochs are encoded
        ("headway.data.encoding", "_start_worker", "([],)"),
        ("headway.data.check.pool", "_start_worker", "([], None, None)"),
    ],
)
def test_a_process_that_is_killed_leaves_no_workers_behind(module: str, name: str, given: str) -> None:
    program = PROGRAM.format(module=module, name=name, given=given)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(word) for word in parent.stdout.readline().split()]
        assert workers and all(map(alive, workers))
        os.kill(parent.pid, signal.SIGKILL)
        ends = time.monotonic() + 30
        while any(map(alive, workers)) and time.monotonic() < ends:
            time.sleep(0.1)
        left = [worker for worker in workers if alive(worker)]
        for worker in left:
            os.kill(worker, signal.SIGKILL)
        assert not left
