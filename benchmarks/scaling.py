"""How time and memory grow with length and batch size, in training and in decoding: tables and pictures. For one GPU.

    python benchmarks/scaling.py [--compile] [--only training] [--results FILE] [--pictures FOLDER]
    python benchmarks/scaling.py --only long       # decoding of long texts, in few rows
    python benchmarks/scaling.py --tiny    # on the CPU: checks that everything runs

Training: one step of Headway's Trainer on a batch that is already on the device, Transformer-base in bfloat16,
pre-norm, with the defaults but not compiled: packed batches, and complete steps as CUDA graphs. Lengths at a fixed
number of tokens per step, and tokens per step at a fixed length. Tokens count source and target; those of a step are
on each side.

Decoding: greedy and beam 4, the CUDA search beside the reference search, with random weights; as many output tokens as
the source has. The time includes encoding, and everything on the host until the ids are in lists. Tokens are those of
the outputs. The first search, in which CUDA graphs are captured, is not timed, except for long texts.

Memory is the peak since the start of a setting, weights included: a CUDA graph allocates its memory before it is
replayed. The ends and the middle of every curve come first, the reference search over long texts last; settings that
are not finished after --limit seconds are left out, and the others are reported.
"""

import argparse
import copy
import gc
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import ours
import torch
from curves import (
    DECODING,
    LEFT_OUT,
    LONG_TEXT,
    NO_MEMORY,
    TRAINING,
    Curve,
    Measurement,
    Point,
    Results,
    Sweep,
    draw_pictures,
    make_tables,
)
from peers import SIZES
from report import append_section, versions, wrap_text

from headway.decode import Search, SpecialTokens, decode
from headway.decode.reference.model import ModelStepper
from headway.nn.transformer import Transformer

SPECIAL_TOKENS = SpecialTokens(start=1, end=2, suppress=(0, 1, 3))
WARMUP_STEPS = 4  # before time is measured; the last of them is captured
REPORT_SECONDS = 15  # of the limit, reserved for tables and pictures
MIN_SLOW_STEPS = 1024  # from this many steps on, the reference search is measured last


class OutOfTime(BaseException):
    """The time limit was reached. A BaseException, so that no setting handles it as its own failure."""


class Sizes:
    """Of each pair, the first is for training, the second for decoding."""

    def __init__(self, tiny: bool) -> None:
        self.model = SIZES["tiny" if tiny else "base"]
        self.lengths = ([8, 16, 32, 64], [4, 8, 16, 32]) if tiny else (powers_of_two(64, 8192), powers_of_two(64, 2048))
        self.batches = (
            ([64, 128, 256, 512], [1, 2, 4, 8]) if tiny else (powers_of_two(1024, 131_072), powers_of_two(1, 1024))
        )
        self.batch = (128, 2) if tiny else (16_384, 32)  # while the length grows
        self.length = (16, 8) if tiny else (64, 64)  # while the batch grows
        self.long = ([16, 32], 1) if tiny else (powers_of_two(1024, 8192), 8)  # lengths, and rows

    def sweeps(self) -> list[Sweep]:
        (step, rows), (long, out) = self.batch, self.length
        return [
            Sweep("training", "length", self.lengths[0], f"{step:,} tokens a step", TRAINING),
            Sweep("training", "tokens a step", self.batches[0], f"texts of {long}", TRAINING),
            Sweep("decoding", "length", self.lengths[1], f"{rows} rows", DECODING),
            Sweep("decoding", "rows", self.batches[1], f"{out} tokens in and out", DECODING),
            Sweep("long", "length", self.long[0], f"{self.long[1]} rows", LONG_TEXT),
        ]


def powers_of_two(first: int, last: int) -> list[int]:
    return [first << n for n in range((last // first).bit_length())]


def order_points(sweeps: list[Sweep]) -> list[Point]:
    """In order of importance: ends and middle of every curve, then every other value, then the rest."""
    found = []
    for number, sweep in enumerate(sweeps):
        values = sweep.values
        first_values = {values[0], values[len(values) // 2], values[-1]}
        for value in values:
            turn = 0 if value in first_values else 1 + values.index(value) % 2
            for curve in sweep.curves:
                slow = curve.engine == "reference" and sweep.by == "length" and value >= MIN_SLOW_STEPS
                found.append((3 if slow else turn, value if slow else 0, Point(number, curve, value)))
    return [point for _, _, point in sorted(found, key=lambda entry: entry[:2])]


class Bench:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.began, self.limit = given, time.perf_counter(), float(given.limit - REPORT_SECONDS)
        self.device = torch.device("cpu" if given.tiny else "cuda")
        self.cuda, self.sizes = self.device.type == "cuda", Sizes(given.tiny)
        self.sweeps = [sweep for sweep in self.sizes.sweeps() if sweep.what in given.only]
        self.results, self.notes, self.busy = Results(), list[str](), False
        self.model = Transformer(ours.make_config(self.sizes.model, 1).model).to(self.device)
        dtype = torch.bfloat16 if self.cuda else torch.float32
        self.stepper = ModelStepper(copy.deepcopy(self.model).to(dtype).eval())

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() - self.began > self.limit

    def run(self) -> None:
        for point in order_points(self.sweeps):
            if self.out_of_time:
                return
            self.results[point] = found = self.attempt(point)
            text = (
                "{} ms, {} tokens/s, {} GB".format(*found.cells)
                if isinstance(found, Measurement)
                else found or LEFT_OUT
            )
            name = f"{point.curve.name}, {self.sweeps[point.sweep].by} {point.value:,}"
            print(f"{time.perf_counter() - self.began:5.0f} s  {name}: {text}", file=sys.stderr, flush=True)

    def attempt(self, point: Point) -> Measurement | str:
        """Measure a setting; a failure does not end the run."""
        self.clean()
        try:
            self.busy = True
            return self.measure(point)
        except OutOfTime:
            return ""
        except Exception as error:
            if any(phrase in str(error) for phrase in ("out of memory", "memory of the GPU", "does not fit")):
                return NO_MEMORY  # as CUDA, the Trainer and these benchmarks say it
            first = (str(error).strip().splitlines() or [""])[0]
            self.notes.append(f"{point.curve.name}, {point.value:,}: {type(error).__name__}: {first}")
            return "failed"
        finally:
            self.busy = False

    def clean(self) -> None:
        """Free everything of the previous setting but the weights."""
        self.stepper.cuda_search = None
        self.model.zero_grad(set_to_none=True)
        gc.collect()
        if self.given.compile:
            torch._dynamo.reset()
        if self.cuda:
            torch.cuda.empty_cache()
        torch.manual_seed(0)

    def measure(self, point: Point) -> Measurement:
        training = not point.curve.beam
        length, batch = self.sizes.length[not training], self.sizes.batch[not training]
        sweep = self.sweeps[point.sweep]
        length, batch = (point.value, batch) if sweep.by == "length" else (length, point.value)
        long = sweep.what == "long"
        batch = self.sizes.long[1] if long else batch
        model = self.model if training else self.stepper.model
        before = -sum(weights.nbytes for weights in model.parameters())  # they belong to the setting, too
        if self.cuda:
            before += torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        seconds, tokens = self.train(length, batch) if training else self.decode(point.curve, length, batch, long)
        return Measurement(seconds, tokens, (torch.cuda.max_memory_allocated() - before) / 1e9 if self.cuda else 0.0)

    def train(self, length: int, tokens: int) -> tuple[float, int]:
        """Seconds of a step, and its tokens on both sides."""
        size = self.sizes.model._replace(length=length)
        # the default on a GPU
        settings = f"batches=packed max_tokens={length} compile={'on' if self.given.compile else 'off'}"
        trainer = ours.make_trainer(ours.make_config(size, tokens, settings), self.device, self.model)
        batch, step = ours.make_batch(size, tokens, True, self.device), ours.make_step(trainer)
        for _ in range(WARMUP_STEPS):
            step(batch)
        if self.cuda and not (trainer.graphs and trainer.graphs.captured):
            self.notes.append(f"training, {tokens:,} tokens in texts of {length:,}: without a CUDA graph")
        return self.seconds(lambda: step(batch), together=5), batch.token_count

    def decode(self, curve: Curve, length: int, rows: int, once: bool = False) -> tuple[float, int]:
        """Seconds of a search, and its output tokens. `once`: of the first one, which captures CUDA graphs."""
        source = torch.randint(4, self.sizes.model.vocabulary, (rows, length), device=self.device)
        engine = curve.engine
        assert engine

        def search(steps: int) -> None:
            settings = Search(beam_size=curve.beam, min_length=steps, max_length=steps)
            found = decode(self.stepper, source, special_tokens=SPECIAL_TOKENS, search=settings, search_kind=engine)
            assert all(len(row[0].token_logps) == steps for row in found)
            if engine == "cuda" and self.stepper.cuda_search is None:
                raise torch.OutOfMemoryError("the CUDA search does not fit, and the reference search has taken over")

        # The reference search has nothing to record; kernels are compiled in a short search as well.
        search(length if engine == "cuda" and not once else min(length, 8))
        return self.seconds(lambda: search(length), min_seconds=0.0 if once else None), rows * length

    def seconds(self, act: Callable[[], object], together: int = 1, min_seconds: float | None = None) -> float:
        """Of one among `together` without synchronisation; the median of the rounds within min_seconds."""
        found: list[float] = []
        min_seconds = self.given.seconds if min_seconds is None else min_seconds
        while not found or sum(found) < min_seconds:
            self.wait()
            began = time.perf_counter()
            for _ in range(together):
                act()
            self.wait()
            found.append(time.perf_counter() - began)
        return statistics.median(found) / together

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def stop(self, number: int, frame: object) -> None:
        """Signal handler: stop the current setting, and start no other."""
        self.limit = min(self.limit, time.perf_counter() - self.began)
        if self.busy:
            raise OutOfTime


def report(bench: Bench) -> None:
    size, given = bench.sizes.model, bench.given
    where = torch.cuda.get_device_name() if bench.cuda else "CPU, tiny"
    facts = [
        f"{where}, {versions()}",
        f"{size.layers} + {size.layers} layers, {size.d_model}/{size.hidden}, {size.heads} heads, {size.vocabulary:,} "
        f"tokens, pre-norm; {'bfloat16' if bench.cuda else 'float32'}; "
        f"training {'' if given.compile else 'not '}compiled",
        *bench.notes,
    ]
    made = make_tables(bench.sweeps, bench.results)
    print("\n".join([*map(wrap_text, facts), *(table.format_text() for table in made)]), flush=True)
    try:
        about = f"Transformer-{'tiny' if given.tiny else 'base'}, {where}, torch {torch.__version__}"
        paths = draw_pictures(bench.sweeps, bench.results, given.pictures, about)
        facts.append(f"Drawn in {' and '.join(path.name for path in paths)}")
    except Exception as error:
        print(f"no picture: {error}", file=sys.stderr)
    if given.results:
        append_section(given.results, "Scaling with length and batch", f"{'. '.join(facts)}.", made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ["training", "decoding", "long"]
    parser.add_argument("--tiny", action="store_true", help="tiny sizes on the CPU")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds[:2])
    parser.add_argument("--compile", action="store_true", help="training compiled: most of a minute for each setting")
    parser.add_argument("--seconds", type=float, help="minimum time to measure each setting")
    parser.add_argument("--limit", type=float, default=240, help="seconds for all of it, pictures included")
    parser.add_argument(
        "--pictures", type=Path, default=Path(), help="the folder to draw into; this one if none is given"
    )
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        parser.error("no CUDA device: add --tiny")
    given.pictures.mkdir(parents=True, exist_ok=True)  # now: afterwards it would cost the pictures
    given.seconds = given.seconds or (0.02 if given.tiny else 0.4)
    bench = Bench(given)
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, bench.stop)
    signal.setitimer(signal.ITIMER_REAL, max(bench.limit, 0.001), 5)  # again, should one be lost in a callback
    try:
        bench.run()
    finally:  # whatever happens, report what was measured
        if bench.out_of_time:
            bench.notes.append(f"What was not done after {bench.limit:.0f} s is left out")
        report(bench)


if __name__ == "__main__":
    main()
