"""How long the command takes to print something, relative to `import torch` in the same run.

Every measurement is a fresh process; the rounds are interleaved, so that load on the machine affects all of them alike.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_RATIO = 0.15
PEER = "import torch"
COMMANDS = {
    PEER: ["-c", "import torch"],
    "import headway": ["-c", "import headway"],
    "headway --help": ["-m", "headway", "--help"],
    "headway --version": ["-m", "headway", "--version"],
    "headway --no-such-option": ["-m", "headway", "--no-such-option"],
    "headway translate --help": ["-m", "headway", "translate", "--help"],
}


def time_command(arguments: list[str]) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, check=False)
    return time.perf_counter() - start


def measure(rounds: int) -> dict[str, float]:
    """The median of each command."""
    for arguments in COMMANDS.values():
        time_command(arguments)  # the first run reads from disk and writes bytecode
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            times[name].append(time_command(arguments))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    medians = measure(parser.parse_args().rounds)
    print(f"{'':26}{'median':>9}{'ratio':>8}   (bar: {MAX_RATIO:.2f} of {PEER})")
    slow = 0
    for name, value in medians.items():
        ratio = value / medians[PEER]
        too_slow = name != PEER and ratio > MAX_RATIO
        slow += too_slow
        print(f"{name:26}{value:8.3f}s{ratio:8.3f}{'   over the bar' if too_slow else ''}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
