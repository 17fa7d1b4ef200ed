"""Time from the start of a process to a translation on standard output, relative to `import torch` in the same run.

The model has the size of the paper's base model, a vocabulary of 8,000 tokens and random weights; its outputs are cut
at six tokens, the length of a translation of this sentence. Every measurement is a fresh process; the rounds are
interleaved, so that load on the machine affects all of them alike. Nothing is written unless --results names a file.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import Table, append_section, versions

ROOT = Path(__file__).parent.parent
MAX_RATIO = 0.4
PEER = "import torch"
TEXT = "A dog runs."


def make_model(folder: Path, vocabulary: int) -> None:
    """Runs in its own process, because it imports torch."""
    import torch

    from headway.config.config import read_config
    from headway.nn.transformer import Transformer
    from headway.storage.model_dir import save_model
    from headway.text.tokenizer.pair import Tokenizers
    from headway.text.tokenizer.tokenizer import Tokenizer

    torch.manual_seed(1)
    rng = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 5))) for _ in range(30_000)]
    tokenizer = Tokenizer.train((" ".join(rng.choices(words, k=12)) for _ in range(10_000)), f"bpe({vocabulary})")
    table = {"model": {"vocabulary": tokenizer.size}, "search": {"max_length": 6}}
    config = read_config(table)
    weights = Transformer(config.model).state_dict()
    save_model(folder, config, weights, Tokenizers(tokenizer, tokenizer), "# Random weights\n")


def time_first_line(arguments: list[str], models: Path) -> float:
    """Seconds until the first line of output. models: the folder of models that are given by name."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADWAY_MODELS": str(models)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    start = time.perf_counter()
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
        process.stdout.read()
    if process.returncode or not line:
        raise SystemExit(f"{' '.join(arguments)} failed with exit code {process.returncode}")
    return seconds


def make_commands(model: Path) -> dict[str, list[str]]:
    translate = ["-m", "headway", "translate", "--device", "cpu", "--model", str(model), TEXT]
    return {
        PEER: ["-c", "import torch; print()"],
        "headway translate, beam 4": translate,
        "headway translate, greedy": [*translate, "--beam-size", "1"],
        "headway translate, by its name": [*translate[:-2], model.name, TEXT],
        "headway translate, one thread": [*translate, "--threads", "1"],
        "headway translate --engine torch": [*translate, "--engine", "torch"],
        "import ctranslate2": ["-c", "import ctranslate2; print()"],
        "headway --version": ["-m", "headway", "--version"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--words", type=int, default=8000)
    parser.add_argument("--model", type=Path, help="a model directory, instead of random weights")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.make:
        make_model(given.make, given.words)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        model = given.model or Path(folder, "base")
        if not given.model:
            made = [sys.executable, __file__, "--make", str(model), "--words", str(given.words)]
            subprocess.run(made, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        table = measure(make_commands(model), given.rounds, model.resolve().parent)
    print(table.format_text())
    if given.results:
        facts = f"{versions()}; {os.cpu_count()} cores, median of {given.rounds} rounds. Bar: {MAX_RATIO} of {PEER}."
        append_section(given.results, "From a process's start to a translation", facts, [table])
    return 0


def measure(each: dict[str, list[str]], rounds: int, models: Path) -> Table:
    for arguments in each.values():
        time_first_line(arguments, models)  # the first run reads from disk and writes bytecode
    times: dict[str, list[float]] = {name: [] for name in each}
    for _ in range(rounds):
        for name, arguments in each.items():
            times[name].append(time_first_line(arguments, models))
    table = Table("Cold start", ["seconds", "of import torch"])
    for name, values in times.items():
        ratio = statistics.median(own / peer for own, peer in zip(values, times[PEER]))
        table.add(name, [f"{statistics.median(values):.2f}", f"{ratio:.2f}"])
    return table


if __name__ == "__main__":
    sys.exit(main())
