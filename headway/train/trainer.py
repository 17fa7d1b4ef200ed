"""The training loop: batches in, better weights out."""

import contextlib
import copy
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.config.config import Config
from headway.errors import ConfigError, HeadwayError
from headway.files.prefetch import prefetch
from headway.nn.ops.triton import HAS_TRITON
from headway.nn.statistics import Statistics, added
from headway.nn.transformer import Transformer
from headway.storage.model_dir import WEIGHTS, fill
from headway.storage.packing import is_packed
from headway.train import checkpoints
from headway.train.carried_state import Carry
from headway.train.cuda_graphs import Graphs, can_capture
from headway.train.dataset import Corpus
from headway.train.distributed import ALONE, Team
from headway.train.finite_guard import Health
from headway.train.loader import Feed, Lines, Rows, Step, read, unlined
from headway.train.loss import Loss, Told
from headway.train.objectives import Batch, Marks
from headway.train.optimisers import set_rate
from headway.train.schedules import Run


@dataclass
class Position:
    """Where a run stands. Everything in it is saved and restored."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # steps taken in this epoch
    share: float = 0.0  # of this epoch, that they are
    seconds: float = 0.0
    warm_epochs: float = 0.0  # when the warm-up was over
    warm_seconds: float = 0.0
    best: dict[int, float] = field(default_factory=dict)  # validation score by step, higher is better
    stale: int = 0  # validations since the last better one


class Trainer:
    """Model, optimisers and position: what a step changes."""

    def __init__(
        self,
        config: Config,
        model: Transformer,
        corpus: Corpus,
        marks: Marks,
        device: torch.device,
        team: Team = ALONE,
    ) -> None:
        self.config, self.settings, self.corpus, self.marks = config, config.train, corpus, marks
        if self.settings.precision == "bfloat16" and device.type != "cuda":
            raise ConfigError(
                f'"bfloat16" needs a GPU, and this is {device}. Set "auto" or "float32".', "train.precision"
            )
        if is_packed(config):
            raise ConfigError(
                "packed weights cannot be trained: the float weights that training changes are gone. Set packed = false.",
                "model.linear",
            )
        self.model, self.device, self.team, self.at = model.to(device), device, team, Position()
        self.optimisers: list[torch.optim.Optimizer] = config.train.optimiser.build(model)
        self.ema = copy.deepcopy(self.model).requires_grad_(False).eval() if self.settings.ema else None
        self.run = Run(config.model.d_model, self.settings.steps)
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # what stays in float32 may use the fast matrix units
        self.rate = 0.0
        self.carry = Carry(self.model, self.settings.objective.carry, learns=True)
        self.health = Health(self.model, device)
        loss = Loss(self.model, self.settings.label_smoothing, self.settings.alignment)
        if self._compiles():
            torch._dynamo.config.recompile_limit = 64  # one for each shape of batch
            loss.function = torch.compile(loss.function, dynamic=False, options=compiler_options())
        self.loss = team.joined(loss, device)
        self.feed = self._feed()
        capture = device.type == "cuda" and self.settings.graphs == "auto" and team.size == 1
        # What reads lines is known to ask the device nothing; other models may, and a capture that fails spoils a run.
        capture = capture and isinstance(self.feed, Lines) and can_capture(model, self.optimisers)
        self.graphs = Graphs(self._update, self.optimisers, device) if capture else None

    def steps(self) -> Generator[Step, None, None]:
        """Batches from where the run stands, epoch after epoch, without end. An empty one: an epoch is over."""
        at = self.at
        return prefetch(read(self.corpus, self.feed, self.settings.seed, self.team.rank, at.epoch, at.batch))

    def step(self, pieces: list[Batch], labelled: int) -> Told:
        """One update of the weights. `labelled` counts the labels of all pieces in all processes. Returns this
        process's share of the mean loss and its parts, and its statistics, still on the device."""
        self.model.train()
        self.at.step += 1
        self.at.batch += 1
        self.rate = self.settings.schedule.rate(self.at.step, self.run)
        set_rate(self.optimisers, self.rate)
        whole = len(pieces) == 1 and self.feed.fits(pieces[0])
        told = self.graphs.step(pieces[0], labelled) if self.graphs and whole else None
        if told is None:
            told = self._update(pieces, labelled)
        self.carry.cut()
        self._follow()
        return told

    def _update(self, pieces: list[Batch], labelled: int | Tensor) -> Told:
        """All of a step that happens on the device."""
        told = self._gradients(pieces, labelled)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        if self.settings.clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        self.health.update(told.loss, norm, self.optimisers, self.at.step)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        return told

    def _gradients(self, pieces: list[Batch], labelled: int | Tensor) -> Told:
        """Of the mean loss, added up over pieces that fit the memory: what does not fit is halved and begun anew."""
        while True:
            if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return self._added_up(pieces, labelled)
            pieces = [part for piece in pieces for part in self.feed.parts(piece)]
            try:
                return self._added_up(pieces, labelled)
            except torch.OutOfMemoryError:
                largest = max(pieces, key=lambda piece: len(piece.labels) * piece.width)
                self._take_less(len(largest.labels) * largest.width, largest.texts)

    def _added_up(self, pieces: list[Batch], labelled: int | Tensor) -> Told:
        total, parts, statistics = torch.zeros((), device=self.device), dict[str, Tensor](), Statistics()
        for number, piece in enumerate(pieces):
            more = number + 1 < len(pieces)
            # Processes add up their gradients once a step, and take the mean where a sum is meant.
            apart = self.loss.no_sync() if more and self.team.size > 1 else contextlib.nullcontext()  # type: ignore[operator]
            with apart:
                with self.precision():
                    told = self.loss(piece.to(self.device), self.carry.state(number, len(piece.labels)))
                    loss = told.loss / labelled
                (loss * self.team.size).backward()
            total += loss.detach()
            for name, part in told.parts.items():
                parts[name] = parts.get(name, 0) + part / labelled
            statistics = added(statistics, told.statistics)
        return Told(total, parts, statistics)

    def _take_less(self, tokens: int, texts: int) -> None:
        """After the memory was too small for so many tokens."""
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.feed.at_once = tokens // 2
        if texts == 1 or self.team.size > 1 or self.carry.wanted:  # rows that go on stay in their pieces
            what = "a single example does" if texts == 1 else f"{tokens:,} tokens at once do"
            raise HeadwayError(
                f"{what} not fit into the memory of the GPU. Set train.micro_batch_tokens={self.feed.at_once} or "
                f"less, lower train.longest={self.settings.longest}, or choose a smaller model; the same command goes on "
                "from the last checkpoint."
            )

    def end_epoch(self) -> None:
        self.at.epoch, self.at.batch, self.at.share = self.at.epoch + 1, 0, 0.0
        self.carry.forget()

    def _feed(self) -> Feed:
        settings, on_gpu = self.settings, self.device.type == "cuda"
        at_once = settings.micro_batch_tokens or (settings.batch_tokens if on_gpu else 8192)
        wanted = settings.batches == "lines" or (settings.batches == "auto" and on_gpu and HAS_TRITON)
        if wanted and not unlined(settings, self.config.model):
            return Lines(settings, self.marks, self.team, at_once, pins=on_gpu)
        return Rows(settings, self.marks, self.team, at_once, self._compiles())

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

    def save(self, out: Path, seconds: float, **facts: Any) -> None:
        """By the first of the processes, with the random state of all. `facts` are kept beside the position."""
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state()
        everyones, carried = self.team.gather(random), self.team.gather(self.carry.tensors())
        if not self.team.first:
            return
        raw = {} if self.ema is None else self.model.state_dict()
        training = {f"raw.{name}": tensor for name, tensor in raw.items()}
        training |= checkpoints.optimiser_tensors(self.optimisers)
        training |= {f"random.{kind}.{rank}": x for rank, own in enumerate(everyones) for kind, x in own.items()}
        training |= {f"carried.{rank}.{name}": x for rank, own in enumerate(carried) for name, x in own.items()}
        state = {**vars(self.at), "seconds": seconds, **facts}
        state["lines"] = self.feed.told()
        checkpoints.save(out, self.at.step, self.averaged.state_dict(), training, state)

    def restore(self, saved: checkpoints.Saved) -> None:
        self.at = Position(**saved.position)
        raw = {name.removeprefix("raw."): value for name, value in saved.training.items() if name.startswith("raw.")}
        fill(self.model, raw or saved.weights, saved.folder / WEIGHTS)
        if self.ema is not None:
            fill(self.ema, saved.weights, saved.folder / WEIGHTS)
        checkpoints.restore_optimisers(self.optimisers, saved.training)
        self.carry.load(saved.carried(self.team.rank, self.team.size))
        if not self.feed.goes_on(saved.state.get("lines", {})) and self.at.batch:
            self.end_epoch()  # its other batches would be other ones
        states = {kind: saved.random(kind, self.team.rank, self.team.size) for kind in ("cpu", "cuda")}
        if states["cpu"] is not None:
            torch.set_rng_state(states["cpu"])
        else:  # another number of processes: each draws from here on what nobody has drawn
            torch.manual_seed(hash((self.settings.seed, self.at.step, self.team.rank)) & 0xFFFFFFFF)
        if self.device.type == "cuda" and states["cuda"] is not None:
            torch.cuda.set_rng_state(states["cuda"])

    @torch.no_grad()
    def _follow(self) -> None:
        """The running average moves a little towards the weights; faster at first, when they move most."""
        if self.ema is not None:
            decay = min(self.settings.ema, (1 + self.at.step) / (10 + self.at.step))
            torch._foreach_lerp_(list(self.ema.parameters()), list(self.model.parameters()), 1 - decay)

    def _compiles(self) -> bool:
        """Compiling takes most of a minute and saves a tenth of each step, so a short run never repays it."""
        worth = self.config.model.parameter_count() > 30e6 and self.settings.steps > 30_000
        worth = worth and not self.carry.wanted  # a state grows from step to step
        wanted = self.settings.compile
        return wanted == "on" or (wanted == "auto" and self.device.type == "cuda" and worth)


def compiler_options() -> dict[str, Any]:
    """Norms' gradients for gains and for inputs in separate kernels: together they take twice as long on an H200."""
    from torch._inductor import config

    return {"triton.mix_order_reduction": False} if hasattr(config.triton, "mix_order_reduction") else {}
