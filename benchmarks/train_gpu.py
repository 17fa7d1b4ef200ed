"""Training throughput of Headway beside other implementations, all in one run. For one GPU.

    python benchmarks/train_gpu.py [--size big] [--only headway,plain-compiled] [--results FILE]
    python benchmarks/train_gpu.py --headway 'compile=on' 'compile=on clip=1' 'compile=off residual=post'
    python benchmarks/train_gpu.py --only headway,data --tokens 16384 --data FOLDER
    python benchmarks/train_gpu.py --tiny    # on the CPU: checks that everything runs and is correct

A step is forward, loss, backward and optimiser, in bfloat16 autocast, on a batch that is already on the device;
Headway's is that of its Trainer, which also computes the norm of the gradient and checks for NaN. All have the same
sizes, dropout, label smoothing, fused Adam and padding mask: one row in eight ends a token early (--full: no row does,
and none has a mask). Tokens count source and target, without padding.

The first step, which compiles, is timed separately. TFLOP/s are those of the model's matrix products, counted once for
all; "of peak" is their share of one large bfloat16 product, "ratio" is the speed relative to the fastest peer.

Real batches (--data) go through Headway's own pipeline, in several shapes: "first" is a complete pass over them, which
compiles, then the same steps are timed. "made up" is the speed relative to synthetic batches with as many tokens,
"loader/s" the batches per second without training.
"""

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import ours
import peers
import torch
from peers import PEERS, SIZES
from report import Table, append_section, versions, wrap_text

from headway.train.objectives import Batch

STEPS_PER_ROUND = 10  # without synchronisation
MIN_TIMED_STEPS = 20
HEADWAY_SETTINGS = ["compile=on", "compile=off"]
TINY_SETTINGS = ["compile=off", "compile=off residual=post"]  # compiling for a CPU takes minutes, even this
SYNTHETIC_COLUMNS = ["first", "ms/step", "tokens/s", "GB", "TFLOP/s", "of peak", "ratio"]
REAL_COLUMNS = ["first", "steps", "steps/s", "tokens/s", "made up", "padding", "loader/s"]


class Measurement(NamedTuple):
    first: float  # seconds of the first step
    step: float  # seconds of the others
    memory: float  # GB at most


class Bench:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.device = torch.device("cpu" if given.tiny else "cuda")
        self.cuda, self.size = self.device.type == "cuda", SIZES["tiny" if given.tiny else given.size]
        self.began = time.perf_counter()
        self.peak = self.product()
        self.rates: dict[tuple[str, int], float] = {}  # tokens/s by contender and tokens a step

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def seconds(self, act: Callable[[], object], times: int = 1) -> float:
        self.wait()
        began = time.perf_counter()
        for _ in range(times):
            act()
        self.wait()
        return time.perf_counter() - began

    def product(self) -> float:
        """TFLOP/s of one large matrix product: an upper bound."""
        n = 8192 if self.cuda else 256
        a, b = torch.randn(2, n, n, device=self.device, dtype=torch.bfloat16 if self.cuda else torch.float32)
        self.seconds(lambda: a @ b, 5)
        return 2 * n**3 / min(self.seconds(lambda: a @ b, 20) / 20 for _ in range(3)) / 1e12

    def contenders(self, tokens: int) -> Iterator[tuple[str, Callable[[], peers.Step]]]:
        """By name, each as a function that makes its step; nothing is built before it is called."""
        for name in self.given.headway if self.wanted("headway") else []:
            yield f"headway {name}", partial(self.headway, name, tokens)
        for name, peer in PEERS.items():
            if self.wanted(name):
                yield name, partial(self.peer, peer)

    def wanted(self, name: str) -> bool:
        return not self.given.only or name in self.given.only

    def headway(self, written: str, tokens: int) -> peers.Step:
        return ours.make_step(ours.make_trainer(ours.make_config(self.size, tokens, written), self.device))

    def peer(self, peer: peers.Peer) -> peers.Step:
        return peers.make_step(peer.model(self.size), self.size, self.device, peer.compiled)

    def measure(self, make: Callable[[], peers.Step], batch: Batch) -> Measurement:
        before = torch.cuda.memory_allocated() if self.cuda else 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()  # from the start: a CUDA graph has its memory before it is replayed
        step = make()
        first = self.seconds(lambda: step(batch))
        self.seconds(lambda: step(batch), 3)
        count, spent = 0, 0.0
        while count < MIN_TIMED_STEPS or spent < self.given.seconds:
            spent += self.seconds(lambda: step(batch), STEPS_PER_ROUND)
            count += STEPS_PER_ROUND
        memory = torch.cuda.max_memory_allocated() - before if self.cuda else 0
        return Measurement(first, spent / count, memory / 1e9)

    def attempt(self, act: Callable[[], list[str]]) -> list[str]:
        """The cells of a row, or one that says why it failed; a failure does not end the run."""
        gc.collect()
        torch._dynamo.reset()
        if self.cuda:
            torch.cuda.empty_cache()
        torch.manual_seed(0)
        if time.perf_counter() - self.began > self.given.limit:
            return [f"left out: {self.given.limit:.0f} s are over"]
        try:
            return act()
        except Exception as error:
            return [f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"]

    def time_synthetic(self, tokens: int) -> Table:
        batch = ours.make_batch(self.size, tokens, not self.given.full, self.device)
        work = 3 * ours.make_config(self.size, tokens).model.forward_flops(self.size.length, self.size.length)
        rows = tokens // self.size.length
        table = Table(f"{tokens:,} + {tokens:,} tokens a step ({rows} x {self.size.length})", SYNTHETIC_COLUMNS)

        def cells(name: str, make: Callable[[], peers.Step]) -> list[str]:
            found = self.measure(make, batch)
            self.rates[name, tokens] = batch.token_count / found.step
            speed = work * rows / found.step / 1e12
            memory, share = f"{found.memory:.1f}" if self.cuda else "-", speed / self.peak
            rate = f"{self.rates[name, tokens]:,.0f}"
            return [f"{found.first:.1f} s", f"{1000 * found.step:.1f}", rate, memory, f"{speed:.1f}", f"{share:.1%}"]

        for name, make in self.contenders(tokens):
            table.add(name, self.attempt(partial(cells, name, make)))
        best = max((self.rates.get((name, tokens), 0.0) for name in PEERS), default=0.0)
        for name, row in table.rows.items():
            if len(row) > 1:
                row.append(f"{self.rates[name, tokens] / best:.2f}" if best else "-")
        return table

    def time_real(self) -> Table:
        """Batches of a real corpus; tokens without padding."""
        tokens = 256 if self.given.tiny else 16_384
        table = Table(f"Europarl, at most {tokens:,} tokens a side", REAL_COLUMNS)

        def cells(corpus: ours.Corpus, written: str) -> list[str]:
            size = self.size._replace(vocabulary=corpus.tokenizer.size)
            trainer = corpus.trainer(ours.make_config(size, tokens, written), self.device)
            found = ours.time_real_batches(trainer, self.given.steps, self.given.compiling, self.wait)
            rate = found.tokens / found.seconds
            known = self.rates.get((f"headway {written}", tokens))
            share, pace = f"{rate / known:.2f}" if known else "-", f"{found.steps / found.seconds:.1f}"
            counts = [f"{found.padding:.1%}", f"{found.loading:.0f}"]
            return [f"{found.first:.0f} s", str(found.steps), pace, f"{rate:,.0f}", share, *counts]

        pairs, vocabulary = (2000, 500) if self.given.tiny else (self.given.pairs, self.size.vocabulary)
        with ours.open_corpus(self.given.data, pairs, vocabulary) as corpus:
            for written in self.given.headway:
                table.add(f"headway {written}", self.attempt(partial(cells, corpus, written)))
        return table


def check(bench: Bench) -> None:
    """Check that PlainModel computes what Headway computes, that all have as many parameters, and that all learn."""
    size = bench.size
    batch = ours.make_batch(size, 8 * size.length, True, bench.device)
    apart = ours.max_logit_difference(size, batch)
    assert apart < 1e-5, apart  # positions are kept in float32
    count = ours.make_config(size, 1).model.parameter_count()
    makers = [partial(bench.headway, "", 8 * size.length)]
    for model in dict.fromkeys(peer.model for peer in PEERS.values()):
        own = sum(weights.numel() for weights in model(size).parameters() if weights.requires_grad)
        assert abs(own - count) <= 0.01 * count, (model, own, count)
        makers.append(partial(bench.peer, peers.Peer(model, compiled=False)))
    for make in makers:
        torch.manual_seed(0)
        step = make()
        losses = [float(step(batch)) for _ in range(60)]
        assert losses[-1] < 0.8 * losses[0], (make, losses[0], losses[-1])
    print(f"checked: {count:,} weights each, all learn; by hand and Headway {apart:.0e} apart", file=sys.stderr)


def report(bench: Bench, tables: list[Table]) -> None:
    size, where = bench.size, torch.cuda.get_device_name() if bench.cuda else "CPU, tiny"
    layers = f"{size.layers} + {size.layers} layers, {size.d_model}/{size.hidden}, {size.heads} heads"
    facts = [
        f"{where}, {versions()}",
        f"{layers}, {size.vocabulary:,} words; {'no mask' if bench.given.full else 'a padding mask'}",
        f"one large matrix product: {bench.peak:.1f} TFLOP/s",
    ]
    print("\n".join([*map(wrap_text, facts), *(table.format_text() for table in tables)]))
    if bench.given.results:
        append_section(bench.given.results, "Training beside its peers", f"{'. '.join(facts)}.", tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["headway", *PEERS, "data"]
    parser.add_argument("--size", choices=["base", "big"], default="base")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes on the CPU, with checks")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help=f"some of {','.join(names)}")
    parser.add_argument("--headway", nargs="+", metavar="SETTINGS", help="settings of Headway to compare")
    parser.add_argument(
        "--tokens", type=lambda text: [int(n) for n in text.split(",")], help="tokens per step, on each side"
    )
    parser.add_argument("--full", action="store_true", help="without padding and masks")
    parser.add_argument("--seconds", type=float, help="minimum time to measure each contender")
    parser.add_argument("--limit", type=float, default=450, help="seconds after which no further contender starts")
    parser.add_argument("--data", type=Path, help="the folder of europarl.part1.tsv.xz, for real batches")
    parser.add_argument("--pairs", type=int, default=150_000, help="pairs of it to use")
    parser.add_argument("--steps", type=int, default=200, help="timed steps of real batches")
    parser.add_argument("--compiling", type=float, default=120, help="maximum seconds of the first pass over them")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    if unknown := set(given.only) - set(names):
        parser.error(f"--only knows {', '.join(names)}, not {', '.join(sorted(unknown))}")
    if "data" in given.only and not given.data:
        parser.error("--only data needs --data FOLDER")
    if given.data and not ours.find_europarl(given.data):
        parser.error(f"there is no europarl.part1.tsv.xz in {given.data} or below")
    if not given.tiny and not torch.cuda.is_available():
        parser.error("no CUDA device: add --tiny")
    given.headway = given.headway or (TINY_SETTINGS if given.tiny else HEADWAY_SETTINGS)
    given.tokens = given.tokens or ([128, 256] if given.tiny else [16_384, 65_536])
    given.seconds = given.seconds or (0.1 if given.tiny else 3.0)
    given.steps = min(given.steps, 10) if given.tiny else given.steps
    torch.set_float32_matmul_precision("high")  # as Headway's Trainer does, for all
    bench = Bench(given)
    if given.tiny:
        check(bench)
    tables: list[Table] = []
    try:
        for tokens in given.tokens if any(map(bench.wanted, names[:-1])) else []:
            tables.append(bench.time_synthetic(tokens))
        if given.data and bench.wanted("data"):
            tables.append(bench.time_real())
    finally:  # whatever happens, what was measured is told
        report(bench, tables)


if __name__ == "__main__":
    main()
