"""The training loop: batches in, better weights out."""

import contextlib
import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import Config
from headway.data.batches import GRAIN, micro_batches, prefetch, rounded, rows_that_fit, token_batches
from headway.errors import ConfigError
from headway.nn.transformer import Transformer
from headway.train import checkpoints
from headway.train.corpus import Corpus, lengths_of
from headway.train.objectives import IGNORED, Batch, Example, Marks
from headway.train.optimisers import set_rate
from headway.train.schedules import Run

Step = list[Batch]  # micro-batches whose gradients are added up


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Cross-entropy summed over the labels that count, with what layers add to it."""
    output = model(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid)
    logits = model.logits(output.hidden).float()  # (B, T, V)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum"
    )
    for _, extra in output.losses:
        loss = loss + extra * batch.labelled
    return loss


@dataclass
class Position:
    """Where a run stands. Everything in it is saved and restored."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # steps taken in this epoch
    seconds: float = 0.0
    best: dict[int, float] = field(default_factory=dict)  # validation score by step, higher is better
    stale: int = 0  # validations since the last better one


class Trainer:
    """Model, optimisers and position: what a step changes."""

    def __init__(self, config: Config, model: Transformer, corpus: Corpus, marks: Marks, device: torch.device) -> None:
        self.config, self.settings, self.corpus, self.marks = config, config.train, corpus, marks
        if self.settings.precision == "bfloat16" and device.type != "cuda":
            raise ConfigError(
                f'"bfloat16" needs a GPU, and this is {device}. Set "auto" or "float32".', "train.precision"
            )
        self.model, self.device, self.at = model.to(device), device, Position()
        self.optimisers: list[torch.optim.Optimizer] = config.train.optimiser.build(model)
        self.ema = copy.deepcopy(self.model).requires_grad_(False).eval() if self.settings.ema else None
        self.run = Run(config.model.d_model, self.settings.steps)
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # what stays in float32 may use the fast matrix units
        self.rate = 0.0
        self._loss = self._compiled() if self._compiles() else batch_loss
        self.grain = 4 * GRAIN if self._compiles() else GRAIN  # every shape is compiled once

    def steps(self) -> Iterator[Step]:
        """Batches from where the run stands, epoch after epoch, without end."""
        return prefetch(self._steps(self.at.epoch, self.at.batch))

    def _steps(self, epoch: int, skip: int) -> Iterator[Step]:
        for examples in self.corpus.epochs(epoch):
            lengths = lengths_of(examples)
            batches = token_batches(lengths, self.settings.batch_tokens, self.settings.seed, epoch, self.grain)
            for number in range(skip, len(batches)):
                random = np.random.default_rng([self.settings.seed, epoch, number])
                pieces = micro_batches(batches[number], lengths, self._micro_budget(), self.grain)
                yield [self._collated([examples[i] for i in piece], random) for piece in pieces]
            yield []  # an epoch is over
            epoch, skip = epoch + 1, 0

    def _collated(self, examples: list[Example], random: np.random.Generator) -> Batch:
        batch: Batch = self.settings.objective.collate(examples, self.marks, random)
        if not self._compiles():
            return batch
        longest = int(rounded(lengths_of(examples), self.grain).max())
        budget = min(self.settings.batch_tokens, self._micro_budget())
        return batch.shaped(rows_that_fit(longest, budget), self.grain)

    def step(self, pieces: Step) -> Tensor:
        """One update of the weights. Returns the mean loss, still on the device."""
        self.model.train()
        self.at.step += 1
        self.at.batch += 1
        self.rate = self.settings.schedule.rate(self.at.step, self.run)
        set_rate(self.optimisers, self.rate)
        count = sum(piece.labelled for piece in pieces)
        total = torch.zeros((), device=self.device)
        for piece in pieces:
            with self.precision():
                loss = self._loss(self.model, piece.to(self.device), self.settings.label_smoothing) / count
            loss.backward()
            total += loss.detach()
        if self.settings.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        self._follow()
        return total

    def end_epoch(self) -> None:
        self.at.epoch, self.at.batch = self.at.epoch + 1, 0

    def precision(self) -> contextlib.AbstractContextManager[Any]:
        wanted = self.settings.precision
        # A small model is bound by launches, and casting launches more: it is faster as it is.
        worth = self.device.type == "cuda" and self.config.model.parameter_count() > 20e6
        if wanted == "bfloat16" or (wanted == "auto" and worth):
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def spent(self, since: float) -> float:
        return self.at.seconds + time.monotonic() - since

    @property
    def averaged(self) -> Transformer:
        """What is validated and kept: the running average where there is one."""
        return self.model if self.ema is None else self.ema

    def save(self, out: Path, seconds: float) -> checkpoints.Checkpoint:
        raw = {} if self.ema is None else self.model.state_dict()
        training = {f"raw.{name}": tensor for name, tensor in raw.items()}
        training |= checkpoints.optimiser_tensors(self.optimisers)
        training["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            training["random.cuda"] = torch.cuda.get_rng_state()
        state = {**vars(self.at), "seconds": seconds}
        return checkpoints.save(out, self.at.step, self.averaged.state_dict(), training, state)

    def restore(self, checkpoint: checkpoints.Checkpoint) -> None:
        state, training, weights = checkpoint.state, checkpoint.training, checkpoint.weights
        known = {name: state[name] for name in vars(self.at)}
        known["best"] = {int(step): score for step, score in state["best"].items()}
        self.at = Position(**known)
        raw = {name.removeprefix("raw."): value for name, value in training.items() if name.startswith("raw.")}
        self.model.load_state_dict(raw or weights)
        if self.ema is not None:
            self.ema.load_state_dict(weights)
        checkpoints.restore_optimisers(self.optimisers, training)
        torch.set_rng_state(training["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in training:
            torch.cuda.set_rng_state(training["random.cuda"])

    @torch.no_grad()
    def _follow(self) -> None:
        """The running average moves a little towards the weights; faster at first, when they move most."""
        if self.ema is not None:
            decay = min(self.settings.ema, (1 + self.at.step) / (10 + self.at.step))
            torch._foreach_lerp_(list(self.ema.parameters()), list(self.model.parameters()), 1 - decay)

    def _micro_budget(self) -> int:
        return self.settings.micro_batch_tokens or (65_536 if self.device.type == "cuda" else 8_192)

    def _compiles(self) -> bool:
        """Compiling costs minutes for all the shapes of a corpus, so a short run or a small model never repays it."""
        worth = self.config.model.parameter_count() > 30e6 and self.settings.steps > 5000
        wanted = self.settings.compile
        return wanted == "on" or (wanted == "auto" and self.device.type == "cuda" and worth)

    def _compiled(self) -> Any:
        torch._dynamo.config.recompile_limit = 64  # one for each shape of batch
        return torch.compile(batch_loss, dynamic=False)
