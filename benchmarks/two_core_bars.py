"""What `headway train --for` makes of a few minutes on two cores, everything default, against its bars.

    python benchmarks/two_core_bars.py --data ../shared/data --work WORK --results benchmarks/RESULTS.md
    python benchmarks/two_core_bars.py --data ../shared/data --work WORK --only multi30k

Each is the command that a user would give, in a process of its own that may use two cores. A quiet machine is needed:
whatever else runs is training that is missing. About 25 minutes in all. A model that WORK has already is measured
again, and not trained.

multi30k    captions, from nothing, `--for 6m`: at least 14 BLEU on test_2016_flickr
fine-tuned  the bundled en-de on the same captions, `--for 5m`: at least 34 BLEU (27.1 as it is)
shakespeare a language model of tinyshakespeare, `--for 2m`: perplexity below 20 per token of its own vocabulary, or the
            same in bits a character; the last tenth is held out

"first report" is the first line on stderr after training has begun, in seconds from the start; the bar is 10."""

import argparse
import lzma
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from report import Table, append_section, versions

CORES = 2
MAX_FIRST_REPORT = 10.0  # seconds
HELD_OUT_SHARE = 10  # one part in so many of tinyshakespeare
TEST = "test_2016_flickr"
STEP = re.compile(r"\bstep=(\d+)")


class Bar(NamedTuple):
    arguments: list[str]
    measure: Callable[[Path], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", help="one of them")
    parser.add_argument("--results", type=Path, help="Markdown file to append the table to")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    bars = make_bars(given.data, given.work)
    if given.only and given.only not in bars:
        parser.error(f"--only is one of {', '.join(bars)}")
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)  # of the programs that it starts, too
    table = Table("two cores, everything default", ["bar", "first report, s", "whole command, s", "last step"])
    for name, bar in bars.items():
        if given.only in (None, name):
            out = given.work / name
            timed = ["", "", ""] if (out / "model.safetensors").exists() else train(bar.arguments, out)
            table.add(name, [bar.measure(out), *timed])
    print(table.format_text())
    if given.results:
        load = f"{versions()}; {len(cores)} cores, load average {os.getloadavg()[0]:.1f} at the end."
        append_section(given.results, "Training in minutes on two cores", load, [table])


def make_bars(data: Path, work: Path) -> dict[str, Bar]:
    captions = data / "multi30k"
    for side in ("en", "de"):
        plain = work / f"train.{side}"
        if not plain.exists():
            plain.write_bytes(lzma.decompress((captions / f"train.{side}.xz").read_bytes()))
    pairs = ["--source", f"{work}/train.en", "--target", f"{work}/train.de"]
    pairs += ["--valid-source", f"{captions}/val.en", "--valid-target", f"{captions}/val.de"]
    text = (data / "lm" / "tinyshakespeare.txt").read_text(encoding="utf-8")
    cut = text.index("\n", len(text) * (HELD_OUT_SHARE - 1) // HELD_OUT_SHARE) + 1
    (work / "shakespeare.txt").write_text(text[:cut], encoding="utf-8")
    held_out = text[cut:]

    def measure_bleu(bar: float) -> Callable[[Path], str]:
        return lambda out: format_bar(bleu(out, captions), bar)

    return {
        "multi30k": Bar([*pairs, "--for", "6m"], measure_bleu(14)),
        "fine-tuned": Bar(["--from-model", "en-de", *pairs, "--for", "5m"], measure_bleu(34)),
        "shakespeare": Bar(["--text", f"{work}/shakespeare.txt", "--for", "2m"], lambda out: perplexity(out, held_out)),
    }


def format_bar(score: float, bar: float) -> str:
    return f"{score:.1f} BLEU, {'passed' if score >= bar else 'MISSED'}: {bar:g}"


def train(arguments: list[str], out: Path) -> list[str]:
    """Seconds to the first report of a step, seconds in all, and the last step."""
    command = [sys.executable, "-m", "headway", "train", *arguments, "--out", str(out)]
    print(f"$ headway {' '.join(command[3:])}", file=sys.stderr, flush=True)
    started = time.monotonic()
    first, steps = "", "0"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        assert process.stderr is not None
        with out.with_name(f"{out.name}.log").open("w", encoding="utf-8") as log:
            for line in process.stderr:
                log.write(line)
                if found := STEP.search(line):
                    seconds = time.monotonic() - started
                    first = first or f"{seconds:.0f}{'' if seconds <= MAX_FIRST_REPORT else ' (MISSED)'}"
                    steps = found[1]
    if process.returncode:
        sys.exit(f"{out.name} failed: see {out}.log")
    return [first, f"{time.monotonic() - started:.0f}", steps]


def bleu(model: Path, captions: Path) -> float:
    from headway.text.metrics import compute_scores
    from headway.translate.translator import load_translator

    source, target = (
        (captions / f"{TEST}.{side}").read_text(encoding="utf-8").split("\n")[:-1] for side in ("en", "de")
    )
    return compute_scores(load_translator(model, source="en", target="de")(source), target).bleu


def perplexity(model: Path, text: str) -> str:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    loaded = load(model)
    assert isinstance(loaded, LanguageModel)
    found = loaded.perplexity(text)
    verdict = "passed" if found.perplexity < 20 else "MISSED"
    return f"perplexity {found.perplexity:.1f} a token, {found.bits_per_character:.2f} bits a character, {verdict}: 20"


if __name__ == "__main__":
    main()
