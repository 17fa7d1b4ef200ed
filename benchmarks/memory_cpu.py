"""Memory of `headway translate` on a long file: it must not grow, and must stay below a limit.

    python benchmarks/memory_cpu.py --model DIR --source test.en                      # 100,000 lines
    python benchmarks/memory_cpu.py --model DIR --source test.en --lines 5000         # quickly
    python benchmarks/memory_cpu.py --model DIR --source test.en --with='--engine torch'

The command runs in its own process, and its resident memory, with that of its children, is read ten times a second.
After a tenth of the lines, memory should have stopped growing: "growth" is the peak of the run minus that of its first
tenth, by lines written. The limit ("bar") is twice the weights on disk plus 300 MB with the ctranslate2 engine, 700 MB
with torch.
"""

import argparse
import itertools
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from report import Table, append_section, versions, wrap_text

ROOT = Path(__file__).parent.parent
MEMORY_LIMITS = {"native": 300, "ctranslate2": 300, "torch": 700}  # MB beyond the weights
MAX_GROWTH = 0.05  # relative to the peak of the first tenth
COLUMNS = ["MB at 10 %", "MB in all", "growth", "bar", "lines/s"]


class Sample(NamedTuple):
    lines: int  # written so far
    memory: float  # MB


def resident_mb(process: int) -> float:
    """MB of a process and its children; 0 if it has ended."""
    total = 0.0
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1]) / 1024
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return total
    return total + sum(resident_mb(int(child)) for child in children)


def watch_memory(command: list[str], written: Path, threads: int) -> list[Sample]:
    """Samples from the start of a command to its end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    samples, lines, read = [], 0, 0
    with written.open("w+b") as output, tempfile.TemporaryFile("w+") as told:  # warnings, of which there may be many
        process = subprocess.Popen(command, stdout=output, stderr=told, env=environment)
        while process.poll() is None:
            with written.open("rb") as file:
                file.seek(read)
                new = file.read()
            read, lines = read + len(new), lines + new.count(b"\n")
            samples.append(Sample(lines, resident_mb(process.pid)))
            time.sleep(0.1)
        if process.returncode:
            told.seek(0)
            raise SystemExit(f"{shlex.join(command)} ended with {process.returncode}:\n{told.read()[-2000:]}")
    return samples


def write_repeated(source: Path, lines: int, to: Path) -> int:
    """Write this many lines, repeating the file; how many different ones there are."""
    own = source.read_text(encoding="utf-8").splitlines()
    with to.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in itertools.islice(itertools.cycle(own), lines))
    return len(own)


def measure(given: argparse.Namespace, more: str) -> tuple[list[str], bool]:
    """The cells of a row, and whether memory stayed within the limits."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "source.txt"
        write_repeated(given.source, given.lines, text)
        command = [sys.executable, "-m", "headway", "translate", "--model", str(given.model), "--input", str(text)]
        began = time.perf_counter()
        samples = watch_memory([*command, *shlex.split(more)], Path(folder) / "target.txt", given.threads)
        took = time.perf_counter() - began
    tenth = max(sample.memory for sample in samples if sample.lines <= given.lines / 10)
    peak = max(sample.memory for sample in samples)
    weights = (given.model / "model.safetensors").stat().st_size / 1e6
    bar = 2 * weights + MEMORY_LIMITS[next((name for name in MEMORY_LIMITS if name in more), "torch")]
    sound = peak <= bar and peak - tenth <= MAX_GROWTH * tenth
    cells = [f"{tenth:.0f}", f"{peak:.0f}", f"{peak - tenth:+.0f}", f"{bar:.0f}", f"{given.lines / took:.0f}"]
    return cells, sound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a trained model directory")
    parser.add_argument("--source", type=Path, required=True, help="text; repeated until there are enough lines")
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--with", dest="options", action="append", metavar="OPTIONS", help="of the command; a run for each of these"
    )
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    weights = (given.model / "model.safetensors").stat().st_size / 1e6
    table = Table(f"headway translate, {given.lines:,} lines, a model of {weights:.0f} MB", COLUMNS)
    sound = True
    for more in given.options or ["--beam-size 4"]:
        cells, within = measure(given, more)
        table.add(more, cells)
        sound = sound and within
    facts = f"{versions()}; {given.threads} threads. Resident memory, with that of child processes."
    print(wrap_text(facts), table.format_text(), "" if sound else "over the bar", sep="\n")
    if given.results:
        append_section(given.results, "Memory of translating a long file", facts, [table])
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
