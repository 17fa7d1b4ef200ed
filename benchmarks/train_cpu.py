"""Training on the CPU: Headway's step beside a plain loop around torch.nn.Transformer, in one run.

    python benchmarks/train_cpu.py                                         # the toy task, preset tiny
    python benchmarks/train_cpu.py --source train.en --target train.de     # and real text, 4 + 4 layers, 256 wide
    python benchmarks/train_cpu.py --compiled                              # torch.nn.Transformer compiled, too
    python benchmarks/train_cpu.py --profile toy                           # only where Headway's time goes

A step is forward, loss, backward, clipping and Adam, on batches that Headway's pipeline made and that are in memory:
the same ones for all, in the same order, with the same padding. Sizes, pre-norm, dropout 0.1, label smoothing 0.1,
tied embeddings and fused Adam are the same; Headway's Trainer also checks for NaN. Rounds are interleaved, so that
load on the machine affects all of them alike; medians. Tokens are those of both sides, without padding. On a machine
with other load, --threads 1 --cpu-time counts only the CPU time of the process.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # for all alike: threads that spin while others work cost most of all

import ours
import torch
import torch.nn.functional as F
from peers import DROPOUT, SMOOTHING, Size, TiedEmbedding
from report import Table, append_section, versions, wrap_text
from torch import Tensor, nn

from headway.data.corpora import open_parallel
from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.data.toy import write_toy
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import ParallelDataset
from headway.train.objectives import Batch
from headway.train.trainer import Trainer

CLIP = 1.0
COLUMNS = ["tokens/s", "ms/step", "ratio"]
Step = Callable[[Batch], object]


class Task(NamedTuple):
    name: str
    size: Size
    tokens: int  # a step, on each side
    tokenizer: str
    steps: int  # that make a round


TOY = Task("toy task, 2 + 2 layers, 128 wide", Size(128, 256, 4, 2, 0, 256, 1e-3), 768, "bpe(1000)", 20)
REAL = Task("real text, 4 + 4 layers, 256 wide", Size(256, 1024, 4, 4, 0, 256, 1e-3), 4096, "bpe(8000)", 2)


class TorchModel(nn.Module):
    """torch.nn.Transformer as its documentation uses it, pre-norm."""

    later: Tensor

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = TiedEmbedding(size)
        warnings.filterwarnings("ignore", message="enable_nested_tensor")  # which norms first rule out
        self.model = nn.Transformer(
            size.d_model,
            size.heads,
            size.layers,
            size.layers,
            size.hidden,
            DROPOUT,
            batch_first=True,
            norm_first=True,
        )
        later = torch.triu(torch.ones(size.length, size.length, dtype=torch.bool), diagonal=1)
        self.register_buffer("later", later, persistent=False)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.source is not None and batch.inputs is not None and isinstance(batch.source_valid, Tensor)
        hidden, length = ~batch.source_valid, batch.inputs.shape[1]
        x = self.model(
            self.embedding(batch.source), self.embedding(batch.inputs), tgt_mask=self.later[:length, :length],
            tgt_is_causal=True, src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
        )  # fmt: skip
        return self.embedding.logits(x)


def plain_loop(size: Size, compiled: bool) -> Step:
    model = TorchModel(size).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=size.rate, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss_of(batch: Batch) -> Tensor:
        logits = model(batch).flatten(0, 1)
        return F.cross_entropy(logits, batch.labels.flatten(), ignore_index=IGNORE_INDEX, label_smoothing=SMOOTHING)

    run = torch.compile(loss_of) if compiled else loss_of

    def step(batch: Batch) -> float:
        optimiser.zero_grad()
        loss = run(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        return loss.item()

    return step


def headway(trainer: Trainer) -> Step:
    return lambda batch: float(trainer.step([batch], batch.label_count).loss)


def prepare(task: Task, source: Path, target: Path) -> tuple[Task, Trainer, list[Batch]]:
    """The task with its vocabulary, a trainer for it, and its first batches."""
    files = ParallelFiles(str(source), str(target))
    lines = (line for pair in read_parallel(files) for line in pair)
    tokenizer = Tokenizer.train(lines, task.tokenizer)
    text = ParallelDataset([open_parallel(files)], Tokenizers(tokenizer, tokenizer), (), max_tokens=task.size.length)
    task = task._replace(size=task.size._replace(vocabulary=tokenizer.size))
    config = ours.make_config(task.size, task.tokens, f"clip={CLIP}")
    special, device = special_tokens(tokenizer), torch.device("cpu")
    trainer = Trainer(config, Transformer(config.model), text, special, device)
    steps = (pieces for pieces in trainer.steps() if pieces)
    return task, trainer, [piece for pieces in islice(steps, task.steps) for piece in pieces]


def time_contenders(
    contenders: dict[str, Step], batches: list[Batch], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Median seconds of a round of each, without the first, which allocates memory and compiles."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, step in contenders.items():
            began = clock()
            for batch in batches:
                step(batch)
            took = clock() - began
            if number:
                times[name].append(took)
            elif took > 30:
                print(f"  {name}: the first round took {took:.0f} s", file=sys.stderr)
    return {name: statistics.median(found) for name, found in times.items()}


def measure(task: Task, source: Path, target: Path, given: argparse.Namespace) -> Table:
    task, trainer, batches = prepare(task, source, target)
    contenders: dict[str, Step] = {"torch.nn.Transformer": plain_loop(task.size, compiled=False)}
    if given.compiled:
        contenders["torch.nn.Transformer, compiled"] = plain_loop(task.size, compiled=True)
    contenders["Headway"] = headway(trainer)
    clock = time.process_time if given.cpu_time else time.perf_counter
    found = time_contenders(contenders, batches, given.rounds, clock)
    peer = min(took for name, took in found.items() if name != "Headway")
    tokens = sum(batch.token_count for batch in batches)
    cells = sum(x.numel() for batch in batches for x in (batch.source, batch.labels) if isinstance(x, torch.Tensor))
    padding = 1 - tokens / cells
    title = f"{task.name}, {task.size.vocabulary:,} words; {task.tokens:,} tokens a side, {padding:.0%} of them padding"
    table = Table(title, COLUMNS)
    for name, took in found.items():
        table.add(name, [f"{tokens / took:,.0f}", f"{1000 * took / len(batches):.1f}", f"{peer / took:.2f}"])
    return table


def profile(task: Task, source: Path, target: Path) -> None:
    _, trainer, batches = prepare(task, source, target)
    step = headway(trainer)
    step(batches[0])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        for batch in batches:
            step(batch)
    print(seen.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=60))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="source text, one sentence per line")
    parser.add_argument("--target", type=Path, help="its translation")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time instead of elapsed time")
    parser.add_argument("--compiled", action="store_true", help="also torch.nn.Transformer under torch.compile")
    parser.add_argument("--profile", choices=["toy", "real"], help="only print what Headway's steps consist of")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    if bool(given.source) != bool(given.target) or (given.profile == "real" and not given.source):
        parser.error("real text needs --source and --target")
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        toy = Path(folder)
        write_toy(toy, 2000)
        tasks = [(TOY, toy / "train.en", toy / "train.qtx")]
        tasks += [(REAL, given.source, given.target)] if given.source else []
        if given.profile:
            profile(*tasks[given.profile == "real"])
            return 0
        tables = [measure(*task, given) for task in tasks]
    clock = "seconds of the processor" if given.cpu_time else "seconds by the clock"
    facts = f"{versions()}; {given.threads} threads; {clock}. Ratio: to the faster torch.nn.Transformer."
    print(wrap_text(facts), *(table.format_text() for table in tables), sep="\n")
    if given.results:
        append_section(given.results, "Training on the CPU", facts, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
