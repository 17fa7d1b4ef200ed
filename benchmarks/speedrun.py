"""Multi30k English to German against the clock: from the start of the process to the score of the test text.

    python benchmarks/speedrun.py --data DIR --seeds 1,2,3 [--set train.steps=3000] [--note TEXT] [--results FILE]
    python benchmarks/speedrun.py --data DIR --seed 1    # one run, in this process, with the caches as they are

With --seeds every run is a process of its own with empty caches (tokenised text, compiled kernels). The time includes
imports, training the tokenizer, compiling, training, choosing the weights on `val` and translating test_2016_flickr;
the goal is a mean of 41.0 BLEU there (lower-cased, Moses). The config is configs/speedrun-en-de.toml, and the code is
that of `headway train` and `headway evaluate`.

Phases: "first step" is building the model and the first step, which compiles; "validating" is the loss on `val`, its
translation (greedy; the BLEU of "val" is cased), and writing checkpoints and the model.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from report import Table, versions, wrap_text

GOAL = 41.0
ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "configs" / "speedrun-en-de.toml"
PHASES = ["imports", "tokenizer", "encoding", "first step", "training", "validating", "decoding", "scoring"]
HEADING = "## Multi30k, against the clock"
HEAD = "| date | seconds | BLEU | what made it |"


class Clock:
    """Seconds by phase. Each lap goes to the phase that it ends."""

    def __init__(self, began: float) -> None:
        self.began = self.last = began
        self.phases = dict.fromkeys(PHASES, 0.0)

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.phases[phase] += now - self.last
        self.last = now


def process_start() -> float:
    """When this process started, on the clock of time.monotonic; now, if the system does not say."""
    now = time.monotonic()
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - age if 0 <= age < 60 else now


def find_text(data: Path, name: str) -> str:
    """A file of the corpus, plain or compressed."""
    found = [path for path in (data / name, data / f"{name}.xz") if path.exists()]
    if not found:
        sys.exit(f"there is no {name} or {name}.xz in {data}.")
    return str(found[0])


def run_once(given: argparse.Namespace, clock: Clock) -> dict[str, Any]:
    """A complete run in this process."""
    import torch

    from headway.config.config import read_toml
    from headway.config.sources import Layer, compose, parse_assignment
    from headway.device import choose_device
    from headway.files.text_files import read_lines
    from headway.text.metrics import compute_scores
    from headway.train.dataset import Dataset
    from headway.train.history import History
    from headway.train.prewarm import prewarm_torch
    from headway.train.progress import ProgressSnapshot, SilentProgress
    from headway.train.result import TrainingResult
    from headway.train.run import TrainingRun
    from headway.train.setup import collect_layers, compose_with_vocabulary, make_tokenizers
    from headway.train.sources import TrainingFiles, read_texts
    from headway.train.validation import ValidationResult
    from headway.translate.options import TranslateOptions
    from headway.translate.translator import load_translator

    clock.lap("imports")
    device = choose_device(given.device)

    def settle(phase: str) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()
        clock.lap(phase)

    class Watch(SilentProgress):
        """A progress listener; the first step ends a phase."""

        phase = "first step"

        def on_note(self, message: str) -> None:
            print(message, file=sys.stderr)

        def wants_update(self) -> bool:
            if self.phase == "first step":
                settle(self.phase)
                self.phase = "training"
            return False

        def on_step(self, snapshot: ProgressSnapshot) -> None:
            self.wants_update()
            speed = f"{snapshot.tokens_per_second:,.0f} tokens/s"
            print(f"step {snapshot.step}: loss {snapshot.loss:.3f}, {speed}", file=sys.stderr)

        def on_validation(self, step: int, result: ValidationResult, best: bool) -> None:
            print(f"step {step}: {result}", file=sys.stderr)

    class Timed(TrainingRun):
        def _make_datasets(self) -> tuple[Dataset, Dataset]:
            corpora = super()._make_datasets()
            clock.lap("encoding")
            return corpora

        def _validate(self, history: History) -> None:
            settle(watch.phase)
            super()._validate(history)
            settle("validating")

        def _finish(self, history: History) -> TrainingResult:
            settle(watch.phase)
            outcome = super()._finish(history)
            settle("validating")
            return outcome

    files = TrainingFiles(
        source=[find_text(given.data, "train.en")],
        target=[find_text(given.data, "train.de")],
        valid_source=[find_text(given.data, "val.en")],
        valid_target=[find_text(given.data, "val.de")],
        source_languages=["en"],
        target_languages=["de"],
    )
    asked = [
        Layer(f"--set {words}", parse_assignment(words)) for words in [*given.settings, f"train.seed={given.seed}"]
    ]
    texts = read_texts(files)
    layers, _ = collect_layers(texts, files, "tiny", [Layer("speedrun", read_toml(CONFIG)), *asked])
    with prewarm_torch(device):
        tokenizers = make_tokenizers(compose(layers)[0], texts)
    config, _ = compose_with_vocabulary(layers, tokenizers)
    clock.lap("tokenizer")
    watch = Watch()
    source, target = (list(read_lines(find_text(given.data, f"test_2016_flickr.{side}"))) for side in ("en", "de"))
    with tempfile.TemporaryDirectory() as folder:
        out = given.keep or Path(folder)
        outcome = Timed(config, texts, tokenizers, out, device, watch).run()
        translator = load_translator(out, device=given.device)
        hypotheses = [result.text for result in translator.translate(source, TranslateOptions(split_sentences=False))]
    settle("decoding")
    bleu = compute_scores(hypotheses, target, lowercase=True, tokenize="moses:de").bleu
    clock.lap("scoring")
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    return {
        "seconds": clock.last - clock.began, "phases": clock.phases, "val": outcome.result.bleu, "test": bleu,
        "steps": outcome.step, "device": where,
    }  # fmt: skip


def run_in_process(given: argparse.Namespace, seed: int) -> dict[str, Any]:
    """A run in its own process, with empty caches."""
    with tempfile.TemporaryDirectory() as caches:
        names = {"HEADWAY_CACHE": "text", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        environment = {**os.environ, **{name: str(Path(caches) / folder) for name, folder in names.items()}}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, __file__, "--data", str(given.data), "--seed", str(seed), "--device", given.device]
        command += [part for words in given.settings for part in ("--set", words)]
        began = ["--began", str(time.monotonic())]
        done = subprocess.run([*command, *began], env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the run with seed {seed} failed.")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def record(results: Path, row: str, facts: str, table: Table) -> None:
    """Add a row to the table of records; the phases are those of the last run."""
    page = results.read_text(encoding="utf-8") if results.exists() else ""
    before, heading, rest = page.partition(f"{HEADING}\n")
    section, following, after = rest.partition("\n## ")
    rows = [line for line in section.split(f"{HEAD}\n")[-1].split("\n\n")[0].split("\n")[1:] if line] if heading else []
    command = "```\npython benchmarks/speedrun.py --data DIR --seeds 1,2,3 --results FILE\n```"
    records = "\n".join([HEAD, "|---|---|---|---|", *rows, row])
    goal = f"The goal: {GOAL} BLEU on test_2016_flickr (lower-cased, Moses), the mean of the seeds."
    parts = [
        f"{HEADING}\n{goal}",
        command,
        records,
        f"The last of them by phase, in seconds. {facts}",
        table.format_markdown(),
    ]
    before = before if heading or not before else before + "\n"
    results.write_text(before + "\n\n".join(parts) + "\n" + following + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of train.en, train.de, val.en …")
    parser.add_argument("--seeds", type=lambda words: [int(seed) for seed in words.split(",")], help="one run each")
    parser.add_argument("--seed", type=int, default=1, help="of a single run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--note", default="", help="what made it, for the table of records; else what was set")
    parser.add_argument("--results", type=Path, help="a Markdown file to write to")
    parser.add_argument("--keep", type=Path, help="where the model stays, of a single run")
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)  # by the clock of whoever started this process
    given = parser.parse_args()
    if not given.seeds:
        print(json.dumps(run_once(given, Clock(process_start() if given.began is None else given.began))), flush=True)
        return
    table = Table("seed", ["all", *PHASES, "val", "test"])
    runs = []
    for seed in given.seeds:
        runs.append(run := run_in_process(given, seed))
        cells = [f"{seconds:.1f}" for seconds in (run["seconds"], *run["phases"].values())]
        table.add(str(seed), [*cells, f"{run['val']:.2f}", f"{run['test']:.2f}"])
    columns = [[run["seconds"], *run["phases"].values(), run["val"], run["test"]] for run in runs]
    means = [statistics.mean(column) for column in zip(*columns)]
    table.add("mean", [*(f"{mean:.1f}" for mean in means[:-2]), *(f"{mean:.2f}" for mean in means[-2:])])
    facts = f"{runs[0]['device']}, {os.cpu_count()} cores, {versions()}; {runs[0]['steps']:,} steps."
    print(wrap_text(facts), table.format_text(), sep="\n")
    verdict = "reached" if means[-1] >= GOAL else "missed"
    print(f"\n{means[-1]:.2f} BLEU in {means[0]:.1f} s: {GOAL} {verdict}")
    if given.results:
        made = given.note or ", ".join(given.settings) or CONFIG.name
        row = f"| {datetime.date.today()} | {means[0]:.1f} | {means[-1]:.2f} | {made} |"
        record(given.results, row, facts, table)


if __name__ == "__main__":
    main()
