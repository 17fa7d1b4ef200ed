"""Translating on the CPU, text to text: CTranslate2 called directly, Hugging Face's `generate`, and Headway's engines.

    python benchmarks/translate_cpu.py --model DIR --source test.en [--results FILE]
    python benchmarks/translate_cpu.py --model DIR --source test.en --size base      # DIR's model, grown to base size
    python benchmarks/translate_cpu.py --model DIR --source test.en --only reference,headway,'ctranslate2 int8 1x2'
    python benchmarks/translate_cpu.py --model DIR --source test.en --lines 64 --rounds 1    # quickly

The same weights, sentences and tokenizer for all, and all times include tokenisation. One process each, with the same
number of threads; all wait while one works, and rounds are interleaved, so that load on the machine affects all of them
alike. Medians of the rounds. Three ways: one sentence at a time (the median of their times), 32 at a time in the given
order, and all at once, which each may sort and batch as it likes: CTranslate2 (one worker with all threads, or a worker
per thread) and Hugging Face use the batch size that was fastest in a trial.

Output tokens are counted once for all, in the output of the reference search. The searches rank by logp / n, which all
support, with at most 50 tokens more than the longest source; Headway neither splits lines nor retries faulty outputs
here, as the others do not. "same": lines identical to those of the reference search in float32. "vs ct2" and "vs HF":
the speed relative to CTranslate2's best in that column, and to Hugging Face.

On a machine with other load, --threads 1 --cpu-time counts only the CPU time of each process.

A small trained model can be grown to the size of Transformer-base without changing its outputs (--size base, see
grow.py), so that they end where sentences end. Random weights with forced lengths would spare the searches what they
must do well: sentences that finish at different times.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convert import write_ctranslate2
from engines import Engine, make_contestants
from report import Table, append_section, versions, wrap_text

ROOT = Path(__file__).parent.parent
WAYS = {"one": 1, "batch 32": 32, "bulk": 0}
COLUMNS = ["speed", "vs ct2", "vs HF", "same", "MB"]
Reply = dict[str, Any]


class Process:
    """A contestant in its own process. If it fails to answer it is excluded, with the reason."""

    def __init__(self, name: str, given: argparse.Namespace, work: Path) -> None:
        self.name, self.size, self.fault = name, dict[tuple[int, str], int](), ""
        self.cpu_time = given.cpu_time
        self.errors = (work / f"{name}.log").open("w+")
        environment = os.environ | {"OMP_NUM_THREADS": str(given.threads), "PYTHONPATH": str(ROOT)}
        environment.setdefault("GOMP_SPINCOUNT", "1000")  # as the command sets it: spinning is ruin on a busy machine
        command = [sys.executable, __file__, "--serve", name, "--work", str(work), "--threads", str(given.threads)]
        command += ["--model", str(given.model), "--source", str(given.source), "--lines", str(given.lines)]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        self.sizes: list[int] = []
        self.sizes = self.reply().get("sizes", [])

    def ask(self, **what: Any) -> Reply:
        if self.fault:
            return {}
        assert self.child.stdin
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(json.dumps(what | {"cpu_time": self.cpu_time}) + "\n")
            self.child.stdin.flush()
        return self.reply()

    def reply(self) -> Reply:
        assert self.child.stdout
        line = self.child.stdout.readline()
        if line:
            answer: Reply = json.loads(line)
            return answer
        code = self.child.wait()
        self.errors.seek(0)
        told = [text.strip() for text in self.errors if text.strip()]
        self.fault = "illegal instruction: try ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI" if code == -4 else ""
        self.fault = self.fault or (told[-1] if told else f"ended with {code}")
        print(f"  {self.name}: {self.fault}", file=sys.stderr)
        return {}

    def close(self) -> None:
        assert self.child.stdin
        self.child.stdin.close()
        self.child.wait()
        self.errors.close()


def serve(given: argparse.Namespace) -> None:
    """The process of a contestant: questions on stdin, answers on the original stdout; all other output to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = make_contestants(given.threads)[given.serve](given.model, given.work)
    lines = read_lines(given)
    print(json.dumps({"sizes": engine.sizes}), file=answers, flush=True)
    for question in map(json.loads, sys.stdin):
        answer = run_question(engine, lines[: question["lines"]], question)
        print(json.dumps(answer), file=answers, flush=True)


def run_question(engine: Engine, lines: list[str], question: Reply) -> Reply:
    at_once, times, texts = question["batch"] or len(lines), [], []
    clock = time.process_time if question["cpu_time"] else time.perf_counter
    for start in range(0, len(lines), at_once):
        began = clock()
        texts += engine.translate(lines[start : start + at_once], question["beam"], question["size"])
        times.append(clock() - began)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": sum(times), "median": statistics.median(times), "memory": memory, "texts": texts}


def read_lines(given: argparse.Namespace) -> list[str]:
    text = given.source.read_text(encoding="utf-8")
    return [line.strip() for line in text.split("\n") if line.strip()][: given.lines]


class Race:
    def __init__(self, given: argparse.Namespace, processes: list[Process]) -> None:
        self.given, self.processes = given, processes
        self.racing = [p for p in processes if p.name != "reference" or given.reference]
        self.right: dict[int, list[str]] = {}  # what the reference search writes, by beam

    def tables(self) -> Iterator[Table]:
        reference = next(process for process in self.processes if process.name == "reference")
        for beam in self.given.beams:
            self.right[beam] = reference.ask(beam=beam, batch=0, size=0, lines=self.given.lines)["texts"]
            for way in self.given.ways:
                yield self.table(beam, way)

    def table(self, beam: int, way: str) -> Table:
        count = {"one": self.given.ones, "batch 32": 32 * self.given.groups}.get(way, self.given.lines)
        right = self.right[beam][:count]
        found = self.rounds(beam, way, count)
        value = {name: compute_speed(replies, way, self.tokens(right)) for name, replies in found.items() if replies}
        best = max((v for name, v in value.items() if name.startswith("ctranslate2")), default=0.0)
        other = value.get("huggingface", 0.0)
        unit = "ms a sentence" if way == "one" else "output tokens/s"
        table = Table(f"{'greedy' if beam == 1 else f'beam {beam}'}, {way}, {len(right)} lines: {unit}", COLUMNS)
        for process in self.racing:
            replies = found.get(process.name)
            if not replies:
                table.add(process.name, [process.fault or "left out"])
                continue
            speed, last = value[process.name], replies[-1]
            same = sum(a == b for a, b in zip(last["texts"], right)) / len(right)
            told = f"{1000 / speed:.1f}" if way == "one" else f"{speed:,.0f}"
            ratios = [f"{speed / peer:.2f}" if peer else "-" for peer in (best, other)]
            size = process.size.get((beam, way), 0)
            table.add(
                process.name + (f", batches of {size}" if size else ""),
                [told, *ratios, f"{same:.1%}", str(last["memory"])],
            )
        return table

    def rounds(self, beam: int, way: str, count: int) -> dict[str, list[Reply]]:
        found: dict[str, list[Reply]] = {}
        for process in self.racing:
            process.size[beam, way] = self.choose_batch_size(process, beam, way)
        for _ in range(self.given.rounds):
            for process in self.racing:
                size = process.size[beam, way]
                answer = process.ask(beam=beam, batch=WAYS[way], size=size, lines=count)
                if answer:
                    found.setdefault(process.name, []).append(answer)
        return found

    def choose_batch_size(self, process: Process, beam: int, way: str) -> int:
        """The fastest batch size on some of the lines; the trial is also the warm-up."""
        trial = min(self.given.lines, self.given.trial if way == "bulk" else 4 if way == "one" else 32)
        if way != "bulk":
            process.ask(beam=beam, batch=WAYS[way], size=0, lines=trial)
            return 0
        times = {size: process.ask(beam=beam, batch=0, size=size, lines=trial) for size in process.sizes}
        known = {size: answer["seconds"] for size, answer in times.items() if answer}
        return min(known, key=lambda size: known[size], default=0)

    def tokens(self, texts: list[str]) -> int:
        from headway.text.tokenizer.pair import Tokenizers

        target = Tokenizers.load(self.given.model / "tokenizer.json").target
        return sum(len(ids) + 1 for ids in target.encode_batch(texts))


def compute_speed(replies: list[Reply], way: str, tokens: int) -> float:
    """Tokens per second, or sentences per second if given one at a time."""
    if way == "one":
        return 1 / statistics.median(float(reply["median"]) for reply in replies)
    return tokens / statistics.median(float(reply["seconds"]) for reply in replies)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a trained model directory")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument("--size", choices=["own", "base"], default="own", help="base: 6 + 6 layers, 512/2048")
    parser.add_argument("--lines", type=int, default=512, help="number of lines of the bulk measurement")
    parser.add_argument("--ones", type=int, default=32, help="number of lines given one at a time")
    parser.add_argument("--groups", type=int, default=4, help="number of batches of 32")
    parser.add_argument("--trial", type=int, default=256, help="lines for choosing batch sizes")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time instead of elapsed time")
    parser.add_argument("--only", help="names of contestants, comma-separated")
    parser.add_argument("--reference", action="store_true", help="time the reference search, too")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given)
        return 0
    given.lines = len(read_lines(given))
    names = list(make_contestants(given.threads))
    wanted = ["reference", *(name for name in (given.only or ",".join(names)).split(",") if name != "reference")]
    if unknown := [name for name in wanted if name not in names]:
        parser.error(f"there is no {unknown[0]}: one of {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if given.size == "base":
            from grow import grow

            grow(given.model, work / "model")
            given.model = work / "model"
        write_ctranslate2(given.model, work / "ctranslate2")
        processes = [Process(name, given, work) for name in wanted]
        tables = list(Race(given, processes).tables())
        facts = f"{versions()}; {given.threads} threads; {shape(given.model)}; medians of {given.rounds} rounds"
        facts += ", of the processor's time." if given.cpu_time else "."
        for process in processes:
            process.close()
    print(wrap_text(facts), *(table.format_text() for table in tables), sep="\n")
    if given.results:
        append_section(given.results, "Translating on the CPU", facts, tables)
    return 0


def shape(folder: Path) -> str:
    model = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    layers = f"{model['encoder']['layers']} + {model['decoder']['layers']}"
    hidden = model["decoder"]["feedforward"][0]["hidden"]
    return f"{layers} layers, {model['d_model']}/{hidden} wide, {model['vocabulary']:,} words"


if __name__ == "__main__":
    sys.exit(main())
