"""The trainer: one optimiser step at a time, with gradient accumulation, and its state for checkpoints.

    data loader ─► micro-batches ─► forward, backward, added up ─► clip ─► FiniteGuard: optimizer.step() ─► EMA

The loop around it (validation, budgets, checkpoints) is in headway.train.run.
"""

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
from headway.nn.layers.lora import trained_state
from headway.nn.ops.triton import HAS_TRITON
from headway.nn.statistics import LayerStatistics, merge_statistics
from headway.nn.transformer import Transformer
from headway.storage.adapter import load_trained_state
from headway.storage.model_dir import WEIGHTS_FILE
from headway.storage.packing import is_packed
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train import checkpoints
from headway.train.carried_state import CarriedState
from headway.train.cuda_graphs import StepGraphs
from headway.train.dataset import Dataset
from headway.train.distributed import SINGLE_PROCESS, ProcessGroup
from headway.train.finite_guard import FiniteGuard
from headway.train.loader import DataLoader, MicroBatches, PackedLoader, PaddedLoader, read_steps
from headway.train.loss import LossModule, LossOutput
from headway.train.objectives import Batch
from headway.train.optimisers import set_learning_rate
from headway.train.schedules import ScheduleContext
from headway.train.task_objectives import TaskConfig

CPU_MICRO_BATCH_TOKENS = 8192


@dataclass
class TrainState:
    """How far a run has come: saved in and restored from checkpoints. The field names are keys of state.json."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # steps taken in this epoch
    share: float = 0.0  # of this epoch that is done
    seconds: float = 0.0
    warm_epochs: float = 0.0  # when the warm-up ended, in epochs
    warm_seconds: float = 0.0  # and in seconds
    best: dict[int, float] = field(default_factory=dict)  # validation score by step, higher is better
    stale: int = 0  # validations since the best one


class Trainer:
    """Model, optimisers and TrainState: everything that a step changes."""

    def __init__(
        self,
        config: Config,
        model: Transformer,
        dataset: Dataset,
        special_tokens: SpecialTokens,
        device: torch.device,
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.config = config
        self.settings = config.train
        self.dataset = dataset
        self.special_tokens = special_tokens
        if self.settings.precision == "bfloat16" and device.type != "cuda":
            raise ConfigError(
                f'"bfloat16" needs a GPU, and this is {device}. Set "auto" or "float32".', "train.precision"
            )
        if is_packed(config):
            raise ConfigError(
                "packed weights cannot be trained: the float weights that training changes are gone. Set packed = "
                "false.",
                "model.linear",
            )
        self.model = model.to(device)
        if isinstance(self.settings.objective, TaskConfig):
            self.settings.objective.prepare(self.model)
        self.device = device
        self.group = group
        self.state = TrainState()
        self.optimisers: list[torch.optim.Optimizer] = config.train.optimiser.build(model)
        self.ema = copy.deepcopy(self.model).requires_grad_(False).eval() if self.settings.ema else None
        self.schedule_context = ScheduleContext(config.model.d_model, self.settings.steps)
        self.learning_rate = 0.0
        if device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32 for what stays in float32
        self.carried_state = CarriedState(self.model, self.settings.objective.carry, trainable=True)
        self.finite_guard = FiniteGuard(self.model, device)
        loss = LossModule(self.model, self.settings.label_smoothing, self.settings.alignment, self.settings.objective)
        if self._should_compile():
            torch._dynamo.config.recompile_limit = 64  # one for each batch shape
            loss.function = torch.compile(loss.function, dynamic=False, options=compile_options())
        self.loss = group.wrap_module(loss, device)
        self.loader = self._make_loader()
        capture = device.type == "cuda" and self.settings.cuda_graphs == "auto" and group.size == 1
        # Models that can read packed batches never wait for the device in a step. Others may, and a failed capture
        # would end the run.
        capture = capture and isinstance(self.loader, PackedLoader)
        capture = capture and not StepGraphs.unsupported(model, self.optimisers)
        self.graphs = StepGraphs(self._update, self.optimisers, device) if capture else None

    def steps(self) -> Generator[MicroBatches, None, None]:
        """Endless steps from the current state on, prefetched. An empty one marks the end of an epoch."""
        state = self.state
        seed, rank = self.settings.seed, self.group.rank
        return prefetch(read_steps(self.dataset, self.loader, seed, rank, state.epoch, state.batch))

    def step(self, batches: list[Batch], label_count: int) -> LossOutput:
        """One optimiser step over micro-batches. `label_count` is the number of labels in all of them, in all
        processes. Returns this process's share of the mean loss and its parts, and statistics, still on the device."""
        self.model.train()
        self.state.step += 1
        self.state.batch += 1
        self.learning_rate = self.settings.schedule.rate(self.state.step, self.schedule_context)
        set_learning_rate(self.optimisers, self.learning_rate)
        unsplit = len(batches) == 1 and self.loader.fits(batches[0])
        output = self.graphs.step(batches[0], label_count) if self.graphs and unsplit else None
        if output is None:
            output = self._update(batches, label_count)
        self.carried_state.detach()
        self._update_ema()
        return output

    def _update(self, batches: list[Batch], label_count: int | Tensor) -> LossOutput:
        """The part of a step that runs on the device: gradients, clipping, update of the weights."""
        output = self._compute_gradients(batches, label_count)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        if self.settings.clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self.settings.clip, norm)
        self.finite_guard.step_if_finite(output.loss, norm, self.optimisers, self.state.step)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        return output

    def _compute_gradients(self, batches: list[Batch], label_count: int | Tensor) -> LossOutput:
        """Gradients of the mean loss. When the GPU runs out of memory, micro-batches are halved and the
        step restarted."""
        while True:
            if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return self._accumulate(batches, label_count)
            batches = [part for batch in batches for part in self.loader.split(batch)]
            try:
                return self._accumulate(batches, label_count)
            except torch.OutOfMemoryError:
                largest = max(batches, key=lambda batch: len(batch.labels) * batch.width)
                self._shrink_micro_batches(len(largest.labels) * largest.width, largest.text_count)

    def _accumulate(self, batches: list[Batch], label_count: int | Tensor) -> LossOutput:
        total = torch.zeros((), device=self.device)
        parts: dict[str, Tensor] = {}
        statistics = LayerStatistics()
        for number, batch in enumerate(batches):
            is_last = number + 1 == len(batches)
            # Processes exchange gradients once a step. DDP averages them; times group.size makes it the sum.
            no_sync = not is_last and self.group.size > 1
            with self.loss.no_sync() if no_sync else contextlib.nullcontext():  # type: ignore[operator]
                with self.autocast():
                    state = self.carried_state.state_for(number, len(batch.labels))
                    output = self.loss(batch.to(self.device), state)
                    loss = output.loss / label_count
                (loss * self.group.size).backward()
            total += loss.detach()
            for name, part in output.parts.items():
                parts[name] = parts.get(name, 0) + part / label_count
            statistics = merge_statistics(statistics, output.statistics)
        return LossOutput(total, parts, statistics)

    def _shrink_micro_batches(self, tokens: int, text_count: int) -> None:
        """After so many tokens did not fit the GPU's memory: halve micro-batches, or give up if that is impossible."""
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.loader.micro_batch_tokens = tokens // 2
        # Rows with a carried state must stay in their micro-batch, and processes must split alike.
        if text_count == 1 or self.group.size > 1 or self.carried_state.enabled:
            what = "a single example does" if text_count == 1 else f"a micro-batch of {tokens:,} tokens does"
            raise HeadwayError(
                f"{what} not fit into GPU memory. Set train.micro_batch_tokens={self.loader.micro_batch_tokens} or "
                f"less, lower train.max_tokens={self.settings.max_tokens}, or choose a smaller model. The same command "
                "then resumes from the last checkpoint."
            )

    def end_epoch(self) -> None:
        self.state.epoch += 1
        self.state.batch = 0
        self.state.share = 0.0
        self.carried_state.reset()

    def _make_loader(self) -> DataLoader:
        settings = self.settings
        on_gpu = self.device.type == "cuda"
        default = settings.batch_tokens if on_gpu else CPU_MICRO_BATCH_TOKENS
        micro_batch_tokens = settings.micro_batch_tokens or default
        packed = settings.batches == "packed" or (settings.batches == "auto" and on_gpu and HAS_TRITON)
        if packed and not PackedLoader.unsupported(settings, self.config.model):
            return PackedLoader(settings, self.special_tokens, self.group, micro_batch_tokens, pin_memory=on_gpu)
        compiled = self._should_compile()
        return PaddedLoader(settings, self.special_tokens, self.group, micro_batch_tokens, compiled)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """bfloat16 as the settings say. A small model is bound by kernel launches, and casting adds launches: "auto"
        leaves it in float32."""
        precision = self.settings.precision
        large_on_gpu = self.device.type == "cuda" and self.config.model.parameter_count() > 20e6
        if precision == "bfloat16" or (precision == "auto" and large_on_gpu):
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def elapsed(self, since: float) -> float:
        """Seconds of training in all, earlier runs included. `since`: when this one began, by time.monotonic()."""
        return self.state.seconds + time.monotonic() - since

    @property
    def eval_model(self) -> Transformer:
        """What is validated and saved: the moving average of the weights if there is one."""
        return self.model if self.ema is None else self.ema

    def save(self, out: Path, seconds: float, **facts: Any) -> checkpoints.Checkpoint | None:
        """Write a checkpoint, with the random state of all processes; None in those that write nothing. `facts` are
        added to state.json."""
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state()
        random_states = self.group.gather(random)
        carried_states = self.group.gather(self.carried_state.tensors())
        if not self.group.is_main:
            return None
        raw = {} if self.ema is None else trained_state(self.model)
        training = {f"raw.{name}": tensor for name, tensor in raw.items()}
        training |= checkpoints.optimiser_tensors(self.optimisers)
        training |= {f"random.{kind}.{rank}": x for rank, own in enumerate(random_states) for kind, x in own.items()}
        training |= {f"carried.{rank}.{name}": x for rank, own in enumerate(carried_states) for name, x in own.items()}
        state = {**vars(self.state), "seconds": seconds, **facts, "lines": self.loader.fingerprint()}
        return checkpoints.save_checkpoint(out, self.state.step, trained_state(self.eval_model), training, state)

    def restore(self, saved: checkpoints.CheckpointContents) -> None:
        rank, size = self.group.rank, self.group.size
        self.state = TrainState(**saved.train_state)
        raw = {name.removeprefix("raw."): value for name, value in saved.training.items() if name.startswith("raw.")}
        load_trained_state(self.model, raw or saved.weights, saved.folder / WEIGHTS_FILE)
        if self.ema is not None:
            load_trained_state(self.ema, saved.weights, saved.folder / WEIGHTS_FILE)
        checkpoints.restore_optimisers(self.optimisers, saved.training)
        self.carried_state.load(saved.carried_state(rank, size))
        if not self.loader.resume(saved.state.get("lines", {})) and self.state.batch:
            self.end_epoch()  # the rest of this epoch would be batched differently
        cpu_state = saved.random_state("cpu", rank, size)
        if cpu_state is not None:
            torch.set_rng_state(cpu_state)
        else:  # another number of processes: new random numbers for each of them
            torch.manual_seed(hash((self.settings.seed, self.state.step, rank)) & 0xFFFFFFFF)
        cuda_state = saved.random_state("cuda", rank, size)
        if self.device.type == "cuda" and cuda_state is not None:
            torch.cuda.set_rng_state(cuda_state)

    @torch.no_grad()
    def _update_ema(self) -> None:
        """Move the average towards the weights; faster at first, when they change most."""
        if self.ema is not None:
            decay = min(self.settings.ema, (1 + self.state.step) / (10 + self.state.step))
            torch._foreach_lerp_(averaged_tensors(self.ema), averaged_tensors(self.model), 1 - decay)

    def _should_compile(self) -> bool:
        """Compiling takes most of a minute and saves a tenth of each step, so a short run never repays it."""
        worthwhile = self.config.model.parameter_count() > 30e6 and self.settings.steps > 30_000
        worthwhile = worthwhile and not self.carried_state.enabled  # its size changes from step to step
        worthwhile = worthwhile and not isinstance(
            self.settings.objective, TaskConfig
        )  # whose batches have many shapes
        wanted = self.settings.compile
        return wanted == "on" or (wanted == "auto" and self.device.type == "cuda" and worthwhile)


def averaged_tensors(model: Transformer) -> list[Tensor]:
    """The weights, and what batch norms keep beside them."""
    return [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]


def compile_options() -> dict[str, Any]:
    """Separate kernels for the gradients of a norm's gain and of its input: fused, they take twice as long on
    an H200."""
    from torch._inductor import config

    return {"triton.mix_order_reduction": False} if hasattr(config.triton, "mix_order_reduction") else {}
