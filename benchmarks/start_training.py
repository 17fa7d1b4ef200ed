"""The time that `headway train` takes from the command to its first step, with empty and with filled caches.

    python benchmarks/start_training.py [--preset base] [--set train.compile=on] [--results FILE]
    python benchmarks/start_training.py --source train.en --target train.de --set tokenizer.size=8000
    python benchmarks/start_training.py --tiny    # the smallest preset: seconds on a CPU

The real command in its own process, on a synthetic corpus unless files are given, three times: with empty caches
(PyTorch's compiled kernels and Headway's tokenised text), with the text cached, and with both cached. A step is
finished when it is in the run's history; after the last timed step the run is stopped. "ready" is when the training
loop begins.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from report import Table, append_section, versions, wrap_text

ROOT = Path(__file__).parent.parent
CASES = {"nothing kept": "kernels", "text kept": "others", "text and kernels kept": "kernels"}  # where kernels lie


class Moments(NamedTuple):
    """Seconds since the command."""

    ready: float
    first: float
    later: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", help="source text; default: a synthetic corpus")
    parser.add_argument("--target", help="its translation")
    parser.add_argument("--pairs", type=int, default=8000, help="size of the synthetic corpus")
    parser.add_argument("--preset", default="base")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--later", type=int, default=20, metavar="STEP", help="a later step that is timed as well")
    parser.add_argument("--limit", type=float, default=300, help="maximum seconds of a run")
    parser.add_argument("--quick", action="store_true", help="skip the second run, with only the text cached")
    parser.add_argument("--tiny", action="store_true", help="preset tiny, on little text")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    if bool(given.source) != bool(given.target):
        parser.error("--source and --target go together")
    if given.tiny:
        given.preset, given.pairs, given.later = "tiny", min(given.pairs, 500), min(given.later, 3)
    settings = "".join(f", {one}" for one in given.settings)
    table = Table(f"preset {given.preset}{settings}", ["ready", "first step", f"step {given.later}"])
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        files = [given.source, given.target] if given.source else make_toy(work, given.pairs)
        for number, (name, kernels) in enumerate(CASES.items()):
            if given.quick and kernels == "others":
                continue
            caches = {"HEADWAY_CACHE": work / "text", "TORCHINDUCTOR_CACHE_DIR": work / kernels}
            caches["TRITON_CACHE_DIR"] = work / kernels / "triton"
            command = [sys.executable, "-m", "headway", "train", "--source", files[0], "--target", files[1]]
            command += ["--preset", given.preset, "--out", str(work / f"model{number}"), "--set", "train.log_every=1"]
            command += [part for one in given.settings for part in ("--set", one)]
            table.add(name, measure_case(command, work / f"model{number}", caches, given.later, given.limit))
    text = Path(given.source).name if given.source else f"{given.pairs:,} made-up pairs"
    facts = f"{describe_device()}, {versions()}. {text}; seconds from the command on."
    print(wrap_text(facts), table.format_text(), sep="\n")
    if given.results:
        append_section(given.results, "To the first step of a training", facts, [table])


def make_toy(work: Path, pairs: int) -> list[str]:
    from headway.data.toy import write_toy

    write_toy(work / "toy", pairs)
    return [str(work / "toy" / name) for name in ("train.en", "train.qtx")]


def measure_case(command: list[str], out: Path, caches: dict[str, Path], later: int, limit: float) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **{name: str(path) for name, path in caches.items()}}
    try:
        moments = watch_run(command, out, environment, later, limit)
    except RuntimeError as error:
        return [str(error)]
    return [f"{moment:.1f} s" for moment in moments]


def watch_run(command: list[str], out: Path, environment: dict[str, str], later: int, limit: float) -> Moments:
    """Run the command, and stop it after the later step."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.monotonic()
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        try:
            entries: dict[int, tuple[float, float]] = {}  # by step: when it was seen, and the run's own clock
            while later not in entries:
                ended = process.poll() is not None  # asked before the history is read: what it wrote last is seen
                now = time.monotonic() - began
                for entry in read_steps(out / "history.jsonl"):
                    entries.setdefault(entry["step"], (now, entry["seconds"]))
                if later not in entries and (ended or now > limit):
                    said.seek(0)
                    last = (said.read().strip() or "without a word").splitlines()[-1]
                    raise RuntimeError(f"{'ended' if ended else 'stopped'} at step {max(entries, default=0)}: {last}")
                time.sleep(0.01)
        finally:
            stop(process)
    return Moments(entries[1][0] - entries[1][1], entries[1][0], entries[later][0])


def read_steps(path: Path) -> list[dict[str, Any]]:
    """The steps in all complete lines so far."""
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "step"]


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def describe_device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"


if __name__ == "__main__":
    main()
