"""Headway's side of train_gpu.py and scaling.py: its Trainer, on synthetic batches and on those of a real corpus."""

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from peers import DROPOUT, PAD, SMOOTHING, PlainModel, Size
from torch import Tensor

from headway.config.config import Config
from headway.config.sources import Layer, compose, parse_assignment
from headway.data.corpora import open_parallel
from headway.data.parallel_files import ParallelFiles, read_parallel
from headway.files.text_files import read_lines
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens, special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.dataset import ParallelDataset
from headway.train.lm_dataset import TextDataset
from headway.train.loader import MicroBatches as MicroBatches
from headway.train.loader import PackedLoader
from headway.train.objectives import Batch, Example
from headway.train.trainer import Trainer, TrainState

SHORT_ROW_EVERY = 8  # rows; it ends a token early, so that no implementation can skip the mask
TOKENIZER_PAIRS = 50_000  # that a vocabulary is trained on
PLAIN_WEIGHTS = {  # weights of a layer of PlainModel, and those of Headway that they contain
    "qkv": ["self.query", "self.key", "self.value"], "out": ["self.output"], "up": ["feedforward.inner"],
    "down": ["feedforward.outer"],
}  # fmt: skip
PLAIN_CROSS_WEIGHTS = {"q": ["cross.query"], "kv": ["cross.key", "cross.value"], "cross_out": ["cross.output"]}


def make_batch(size: Size, tokens: int, masked: bool, device: torch.device) -> Batch:
    """A random batch with this many tokens on each side, on the device."""
    rows = tokens // size.length
    source, inputs, labels = torch.randint(4, size.vocabulary, (3, rows, size.length))
    valid = torch.ones(rows, size.length, dtype=torch.bool)
    if masked:
        valid[::SHORT_ROW_EVERY, -1] = False
    source, inputs = source.where(valid, PAD), inputs.where(valid, PAD)
    count, mask = int(valid.sum()), valid if masked else None
    return Batch(source, mask, inputs, mask, labels.where(valid, IGNORE_INDEX), count, 2 * count).to(device)


def make_config(size: Size, tokens: int, settings_text: str = "") -> Config:
    """`written`: settings with space between them, as in "compile=on model.norm=rmsnorm". A name without a dot is one
    of [train]; `residual` is that of both sides."""
    stack = {
        "layers": size.layers, "mixer": f"attention({size.heads})", "feedforward": f"relu({size.hidden})",
        "residual": "pre",
    }  # fmt: skip
    sizes = {"d_model": size.d_model, "vocabulary": size.vocabulary, "dropout": DROPOUT}
    train = {"batch_tokens": tokens, "micro_batch_tokens": tokens, "label_smoothing": SMOOTHING}
    table = {
        "model": {**sizes, "encoder": stack, "decoder": dict(stack)},
        "train": {**train, "schedule": f"constant({size.rate}, warmup=1)"},
    }
    layers = [Layer("benchmark", table)]
    for one in settings_text.split():
        paths = [one if "." in one.partition("=")[0] else f"train.{one}"]
        if one.startswith("residual="):
            paths = [f"model.{side}.{one}" for side in ("encoder", "decoder")]
        layers += [Layer("command line", parse_assignment(path)) for path in paths]
    return compose(layers)[0]


def make_trainer(config: Config, device: torch.device, model: Transformer | None = None) -> Trainer:
    """A trainer without a dataset, of a new model unless one is given."""
    special = SpecialTokens(pad=PAD, start=1, end=2, mask=3, vocabulary=config.model.vocabulary or 0)
    nothing = TextDataset(np.zeros(2, np.int64), 2, 0)
    return Trainer(config, model or Transformer(config.model), nothing, special, device)


def make_step(trainer: Trainer) -> Callable[[Batch], Tensor]:
    batches: dict[int, Batch] = {}  # the sentences of a batch, as this trainer reads them

    def step(batch: Batch) -> Tensor:
        if id(batch) not in batches:
            batches[id(batch)] = pack_batch(batch, trainer) if isinstance(trainer.loader, PackedLoader) else batch
        try:
            return trainer.step([batches[id(batch)]], batch.label_count).loss
        finally:  # also where cutting it fails: the trainer expects to find lines on the host
            if trainer.loader.micro_batch_tokens < batch.labels.numel():
                raise torch.OutOfMemoryError("the batch does not fit at once, and would be trained in pieces")

    return step


def pack_batch(batch: Batch, trainer: Trainer) -> Batch:
    """The same sentences, packed. The inputs already begin with the start token, which packing adds again."""
    assert isinstance(batch.source, torch.Tensor) and batch.inputs is not None
    lengths = (batch.labels != IGNORE_INDEX).sum(1).tolist()
    rows = zip(batch.source.cpu().numpy(), batch.inputs.cpu().numpy(), lengths)
    examples = [Example(source[:length], target[1:length]) for source, target, length in rows]
    size, settings = batch.labels.numel(), trainer.settings
    packed: Batch = settings.objective.pack(examples, trainer.special_tokens, (size, size), settings.max_tokens)
    assert (packed.label_count, packed.token_count) == (batch.label_count, batch.token_count)
    return packed.to(trainer.device)


@torch.no_grad()
def max_logit_difference(size: Size, batch: Batch) -> float:
    """Between the logits of PlainModel and of Headway's model with the same weights, where a label counts."""
    ours, plain = Transformer(make_config(size, 1).model).double().eval(), PlainModel(size).double().eval()
    plain.embedding.table.weight.copy_(ours.output_embedding)
    weights, theirs = ours.state_dict(), plain.state_dict()
    for side, pairs in (("encoder", PLAIN_WEIGHTS), ("decoder", PLAIN_WEIGHTS | PLAIN_CROSS_WEIGHTS)):
        for n, (to, parts) in itertools.product(range(size.layers), pairs.items()):
            inside = f"stacks.{side}.blocks.{n}.sublayers"
            theirs[f"{side}.{n}.{to}.weight"].copy_(torch.cat([weights[f"{inside}.{part}.weight"] for part in parts]))
    hidden = ours(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid).hidden
    difference = ours.logits(hidden) - plain(batch.source, batch.source_valid, batch.inputs)
    return float(difference[batch.labels != IGNORE_INDEX].abs().max())


class RealBatches(NamedTuple):
    first: float  # seconds of the first pass, which compiles
    steps: int
    seconds: float
    tokens: int  # real ones, source and target
    padding: float  # share of what is computed
    loading: float  # batches per second without training


def find_europarl(folder: Path) -> list[Path]:
    return sorted(folder.rglob("europarl.part1.tsv*"))


class Corpus:
    """Europarl through the real pipeline: a vocabulary of its own, ids on disk, batches of like length."""

    def __init__(self, folder: Path, pairs: int, vocabulary: int, work: Path) -> None:
        os.environ["HEADWAY_CACHE"] = str(work / "cache")
        file = work / "sample.en-de.tsv"
        found = find_europarl(folder)[0]
        lines = itertools.islice(read_lines(str(found)), pairs)
        file.write_text("".join(f"{packed}\n" for packed in lines), encoding="utf-8")
        sides = itertools.chain.from_iterable(
            itertools.islice(read_parallel(ParallelFiles(str(file))), TOKENIZER_PAIRS)
        )
        self.tokenizer = Tokenizer.train(sides, f"bpe({vocabulary})")
        both = Tokenizers(self.tokenizer, self.tokenizer)
        self.text = ParallelDataset([open_parallel(ParallelFiles(str(file)))], both, (), max_tokens=256)

    def trainer(self, config: Config, device: torch.device) -> Trainer:
        return Trainer(config, Transformer(config.model), self.text, special_tokens(self.tokenizer), device)


@contextlib.contextmanager
def open_corpus(folder: Path, pairs: int, vocabulary: int) -> Iterator[Corpus]:
    with tempfile.TemporaryDirectory() as work:
        yield Corpus(folder, pairs, vocabulary, Path(work))


def time_real_batches(trainer: Trainer, steps: int, seconds: float, wait: Callable[[], None]) -> RealBatches:
    """The same steps three times: to compile every shape, for at most `seconds`; timed; and only loaded."""

    def learn(pieces: MicroBatches) -> None:
        trainer.step(pieces, sum(piece.label_count for piece in pieces))

    began = time.perf_counter()
    reached, _, _ = _run_steps(trainer, steps, seconds, learn, wait)
    first = time.perf_counter() - began
    count, seconds_taken, pieces = _run_steps(trainer, reached, np.inf, learn, wait)
    loaded, loading, _ = _run_steps(trainer, reached, np.inf, lambda _: None, wait)
    cells = sum(x.numel() for piece in pieces for x in (piece.source, piece.labels) if isinstance(x, torch.Tensor))
    tokens = sum(piece.token_count for piece in pieces)
    return RealBatches(first, count, seconds_taken, tokens, 1 - tokens / cells, loaded / loading)


def _run_steps(
    trainer: Trainer, steps: int, seconds: float, act: Callable[[MicroBatches], Any], wait: Callable[[], None]
) -> tuple[int, float, list[Batch]]:
    """The number of steps, the seconds from the first batch on, and the batches."""
    trainer.state = TrainState()  # the same batches each time
    taken: list[MicroBatches] = []
    with contextlib.closing(trainer.steps()) as stream:
        full = (pieces for pieces in stream if pieces)  # an empty one ends an epoch
        first = next(full)
        wait()
        began = time.perf_counter()
        for pieces in itertools.islice(itertools.chain([first], full), steps):
            act(pieces)
            taken.append(pieces)
            if time.perf_counter() - began > seconds:
                break
        wait()
        seconds_taken = time.perf_counter() - began
    return len(taken), seconds_taken, [piece for pieces in taken for piece in pieces]
