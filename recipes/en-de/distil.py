"""Step 3: the teacher translates its training text, in both directions (distillation).

    python recipes/en-de/distil.py --work WORK --for 9m

WORK/distilled/NAME.N.{de,en}.xz are its translations, line by line beside WORK/clean/NAME.N.en-de.tsv.xz, blank where
there is none. Several processes run at a time, so that the GPU is busy while others read, compare and compress.
Complete parts are not made again, and partial ones are resumed: run the same command as often as needed. With --close,
partial ones are final: the remaining lines are blank.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from recipe import HERE, TARGETS, corpora, headway

MIN_SECONDS = 20.0  # less is not worth starting a process


class Job(NamedTuple):
    pairs: Path
    to: str
    out: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--teacher", default="teacher", help="a folder in WORK")
    parser.add_argument("--for", dest="seconds", type=parse_seconds, required=True, help="90s, 20m …")
    parser.add_argument("--at-once", type=int, default=12, help="number of processes; 0: only this one")
    parser.add_argument("--batch-tokens", type=int, default=8192, help="of each process; they share the GPU's memory")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--min-chrf", type=float, default=15.0)
    parser.add_argument(
        "--closest", action="store_true", help="take the translation of the beam that is closest to the reference"
    )
    parser.add_argument("--compute", default="bfloat16")
    parser.add_argument("--close", action="store_true", help="at the end, treat partial files as complete")
    given = parser.parse_args()
    end = time.monotonic() + given.seconds
    jobs = [
        Job(given.work / "clean" / f"{part}.en-de.tsv.xz", to, given.work / "distilled" / f"{part}.{to}.xz")
        for corpus in sorted(corpora(given.corpora), key=lambda corpus: corpus.pieces)  # the small ones surely
        for part in corpus.parts[: corpus.taught]
        for to in TARGETS
    ]
    left = [job for job in jobs if not job.out.exists()]
    with ThreadPoolExecutor(max(given.at_once, 1)) as pool:
        codes = list(pool.map(lambda job: distil(job, given, end), left))
        list(pool.map(close, jobs if given.close else []))
    done = [job for job in jobs if job.out.exists()]
    size = sum(job.out.stat().st_size for job in done)
    print(f"{len(done)} of {len(jobs)} pieces are complete, {size / 1e6:.1f} MB", file=sys.stderr)
    sys.exit(status(codes))


def status(codes: Sequence[int]) -> int:
    """The highest exit code. A killed process has its signal as a negative code: 128 + signal, as in shells."""
    return max((code if code >= 0 else 128 - code for code in codes), default=0)


def distil(job: Job, given: argparse.Namespace, end: float) -> int:
    """Distil one piece in one direction, within the time; its log is beside it."""
    left = end - time.monotonic()
    if left < MIN_SECONDS and given.at_once:
        return 0
    job.out.parent.mkdir(parents=True, exist_ok=True)
    words = ["distil", "--model", given.work / given.teacher, "--pairs", job.pairs, "--to", job.to, "--out", job.out]
    words += ["--no-split", "--beam-size", given.beam_size, "--min-chrf", given.min_chrf, "--compute", given.compute]
    words += [
        "--batch-tokens",
        given.batch_tokens,
        "--resume",
        "--for",
        f"{max(left - MIN_SECONDS / 2, 1):.0f}s",
        *["--closest"] * given.closest,
    ]
    if not given.at_once:
        headway(*words)
        repack(job.out)
        return 0
    with job.out.with_suffix(".log").open("ab") as log:
        command = [sys.executable, "-m", "headway", *map(str, words)]
        code = subprocess.run(command, stdout=log, stderr=log, env=environment(given.at_once), check=False).returncode
    if not given.close:  # else nothing is carried to another day, and time is short
        repack(job.out)
    print(
        f"{job.out.name}: {'failed, see its log' if code else 'done' if job.out.exists() else 'begun'}", file=sys.stderr
    )
    return code


def repack(path: Path) -> None:
    """Compress again in one stream: written group by group, the file is a third larger."""
    if path.exists():
        partial = path.with_name(f".{path.name}")
        partial.write_bytes(lzma.compress(lzma.decompress(path.read_bytes()), preset=8))
        partial.replace(path)


def close(job: Job) -> None:
    """Complete a partial file with blank lines; no file if there is no translation."""
    partial, progress = (job.out.with_name(f"{job.out.name}.{end}") for end in ("partial", "progress"))
    if job.out.exists() or not progress.exists():
        return
    said = lzma.decompress(partial.read_bytes()[: json.loads(progress.read_text(encoding="utf-8"))["bytes"]])
    rest = lzma.decompress(job.pairs.read_bytes()).count(b"\n") - said.count(b"\n")
    packed = job.out.with_name(f".{job.out.name}")
    packed.write_bytes(lzma.compress(said + b"\n" * rest, preset=0))
    packed.replace(job.out)
    partial.unlink()
    progress.unlink()
    print(f"{job.out.name}: closed, {rest:,} lines are left out", file=sys.stderr)


def environment(processes: int) -> dict[str, str]:
    """One thread per process, and half of the GPU's memory for CUDA graphs, shared by all."""
    path = os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
        "HEADWAY_SEARCH_MEMORY": f"{0.5 / processes:.4f}",
    }


def parse_seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


if __name__ == "__main__":
    main()
