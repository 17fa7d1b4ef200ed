"""A training run: from prepared text to a model directory.

TrainingRun.run()
  └ check the datasets, lock the directory, resume from the newest checkpoint
    └ loop: Trainer.step() … report every log_every … validate and save every validate_every … until a budget is spent
      └ choose the weights: the best checkpoint, or the average of the last, whichever validates better
"""

import contextlib
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.config.config import Config, flatten
from headway.errors import HeadwayError
from headway.nn.layers.lora import trained_state
from headway.nn.transformer import Transformer
from headway.storage.adapter import has_weights, load_trained_state
from headway.storage.model_dir import average_weights
from headway.text.shortlist import SHORTLIST_FILE
from headway.text.tokenizer.pair import Tokenizers
from headway.train import checkpoints, resume
from headway.train.budget import RunBudget
from headway.train.callbacks import (
    CallbackList,
    CheckpointEvent,
    EndEvent,
    StepEvent,
    StopRequest,
    TrainingEvent,
    ValidationEvent,
)
from headway.train.checkpoints import lock_directory
from headway.train.dataset import Dataset, training_special_tokens
from headway.train.distributed import SINGLE_PROCESS, ProcessGroup, StepSync
from headway.train.history import History, NullHistory
from headway.train.loggers import LoggedRun, Logger, LoggerList
from headway.train.model_card import model_card
from headway.train.progress import ProgressListener, ProgressSnapshot, RunningLoss, peak_memory
from headway.train.result import TrainingResult
from headway.train.setup import PretrainedModel, make_datasets, refuse_oversized_model, write_trained_model
from headway.train.shortlist import load_or_build_shortlist
from headway.train.signals import DeferredSignals
from headway.train.sources import TrainingTexts
from headway.train.trainer import Trainer
from headway.train.validation import ValidationResult, take_samples
from headway.train.validator import Validator


@dataclass
class TrainingRun:
    """Everything that a run needs, put together."""

    config: Config
    texts: TrainingTexts
    tokenizers: Tokenizers
    out: Path
    device: torch.device
    listener: ProgressListener
    loggers: Sequence[Logger] = ()
    group: ProcessGroup = SINGLE_PROCESS
    allow_changes: bool = False
    pretrained: PretrainedModel | None = None  # to fine-tune
    callbacks: CallbackList = field(default_factory=CallbackList)

    def __post_init__(self) -> None:
        torch.manual_seed(self.config.train.seed)
        self.settings = self.config.train
        self.lora = self.pretrained.lora if self.pretrained else None
        self.special_tokens = training_special_tokens(self.config, self.tokenizers)
        with self.group.main_first():
            self.dataset, self.valid_dataset = self._make_datasets()
        refuse_oversized_model(self.config, self.device)
        model = Transformer(self.config.model)
        if self.pretrained is not None:
            self.pretrained.fill(model, self.config)
        self.trainer = Trainer(self.config, model, self.dataset, self.special_tokens, self.device, self.group)
        if self.group.size > 1:  # from here on each process draws its own random numbers
            torch.manual_seed(self.settings.seed * 1000 + self.group.rank)
        samples = take_samples(self.texts.valid_pairs, self.settings.decode_lines)
        self.validator = Validator(self.config, self.valid_dataset, samples, self.tokenizers, self.special_tokens)
        self.started = time.monotonic()
        self.step_sync: StepSync | None = None
        self.skipped_steps = 0  # as far as reported
        self.saved_step = 0  # of the newest checkpoint that this process wrote
        self.budget = RunBudget(self.settings)
        self.results: dict[int, ValidationResult] = {}  # by step, as far as this process measured them

    def _make_datasets(self) -> tuple[Dataset, Dataset]:
        text = self.out / "checkpoints" / "text"
        return make_datasets(self.config, self.texts, self.tokenizers, text, self.group.is_main, self.listener.on_note)

    def run(self) -> TrainingResult:
        self._check_datasets()
        with lock_directory(self.out) if self.group.is_main else contextlib.nullcontext():
            self._resume()
            self.group.barrier()
            if self.group.is_main:
                checkpoints.refuse_full_disk_at_start(self.out, self.trainer.model, self.trainer.optimisers)
                self.config.save(self.out / "config.json")
                self.tokenizers.save(self.out / "tokenizer.json")
                self._write_shortlist()
            return self._run()

    def _check_datasets(self) -> None:
        """Before time is spent: is there text to learn from and to validate on?"""
        for name, dataset in (("training", self.dataset), ("validation", self.valid_dataset)):
            if dataset.skipped_summary:
                self.listener.on_note(f"{name} {dataset.skipped_summary}")
            if not dataset.size:
                raise HeadwayError(
                    f"no {name} text is left: give more text, or raise train.max_tokens = {self.settings.max_tokens} "
                    "if it is too long."
                )

    def _resume(self) -> None:
        notes: list[str] = []
        saved = checkpoints.read_newest(self.out, notes)
        if saved is not None:
            resume.check_adapter(saved.state, self.lora)
            changed = resume.check_changes(self.out, self.config, self.texts, saved.state, self.allow_changes)
            notes += [change.message for change in changed]
            self.trainer.restore(saved)
            state = self.trainer.state
            if any(change.path in resume.REBATCHING_SETTINGS for change in changed):
                self.trainer.end_epoch()
            if state.best and resume.scores_incomparable(changed, self.settings.metric):
                state.best = {}
                state.stale = 0
                notes.append("earlier validation scores are discarded: they cannot be compared with those to come")
            notes.append(f"resuming from step {state.step} in {self.out}")
        elif has_weights(self.out):
            raise HeadwayError(f"{self.out} holds a model, but no checkpoints to resume from. Choose another --out.")
        for note in notes:
            self.listener.on_note(note)

    def _write_shortlist(self) -> None:
        if self.settings.shortlist.kind == "none":
            return  # one made with `headway shortlist` stays
        shortlist = load_or_build_shortlist(
            self.settings.shortlist, self.texts.pairs, self.tokenizers, self.config.tags
        )
        shortlist.save(self.out)
        self.listener.on_note(f"{SHORTLIST_FILE} made from {int(shortlist.about['pairs']):,} pairs")

    def _run(self) -> TrainingResult:
        history = self._open_history() if self.group.is_main else NullHistory()
        self.started = time.monotonic()
        try:
            with DeferredSignals(synchronised=self.group.size > 1) as signals:
                self._train(history, signals)
                return self._finish(history)
        finally:
            history.close()
            self.dataset.close()

    def _open_history(self) -> History:
        step = self.trainer.state.step
        loggers = LoggerList(self.loggers, self.listener.on_note)
        loggers.start(LoggedRun(self.out, dict(flatten(self.config.to_dict())), step))
        return History(self.out, step, loggers)

    def _train(self, history: History, signals: DeferredSignals) -> None:
        try:
            self._take_steps(history, signals)
            if self._stop_request() is StopRequest.FAILURE:
                self._end_failed(signals)
        except (KeyboardInterrupt, SystemExit):
            if self.trainer.state.step:
                self._save_early(signals)
                self.listener.on_note(f"saved at step {self.trainer.state.step}; the same command resumes from there")
            raise

    def _save_early(self, signals: DeferredSignals) -> None:
        with signals.defer():
            self._save()
            if self.group.is_main and not has_weights(self.out):  # so that there is a model to use
                self._write_model(trained_state(self.trainer.eval_model), None)

    def _end_failed(self, signals: DeferredSignals) -> None:
        """A callback failed: lose nothing, then say whose fault it was."""
        self._save_early(signals)
        if not self.group.is_main:
            sys.exit(1)  # the main process says why
        self.callbacks.raise_failure(self.out)

    def _take_steps(self, history: History, signals: DeferredSignals) -> None:
        trainer = self.trainer
        state = trainer.state
        running = RunningLoss(self.device)
        with contextlib.closing(trainer.steps()) as steps:
            for batches in steps if not self._end_reason() else ():
                if batches:
                    with signals.defer():
                        label_count = sum(batch.label_count for batch in batches)
                        elapsed = trainer.elapsed(self.started)
                        request = self.callbacks.control.request
                        self.step_sync = self.group.sync_step(label_count, elapsed, signals.pending, request)
                        state.share = batches.share
                        context = trainer.schedule_context
                        decay_share = self.budget.decay_share(state, self._elapsed())
                        trainer.schedule_context = context._replace(decay_share=decay_share)
                        output = trainer.step(batches, self.step_sync.label_count)
                        tokens = sum(batch.token_count for batch in batches)
                        running.add(output, trainer.finite_guard.finite, tokens)
                    signals.deliver(self.step_sync.signal)
                    self._tell_step(output.loss, self.step_sync.label_count / max(label_count, 1), tokens)
                else:
                    trainer.end_epoch()
                over = bool(self._end_reason())
                if running.steps and (state.step % self.settings.log_every == 0 or over):
                    running = self._report(running, history)
                elif batches and self.listener.wants_update():
                    self.listener.on_step(self._snapshot(running))
                if self._stop_request() is StopRequest.FAILURE:
                    return
                if self._is_validation_due(over):
                    paused = time.monotonic()
                    self._validate(history)
                    running.exclude_time(time.monotonic() - paused)
                    over = bool(self._end_reason())
                if over:
                    break
        if state.step not in state.best and self._stop_request() is not StopRequest.FAILURE:
            self._validate(history)

    # ---- Budgets

    def _end_reason(self) -> str:
        """Why the run is over; "" if it is not. The same in all processes, which must stop at the same step."""
        if self._stop_request():
            return self.callbacks.control.stop_reason or "a callback failed"
        return self.budget.spent_reason(self.trainer.state, self._elapsed())

    def _stop_request(self) -> StopRequest:
        """What callbacks of the main process have asked for. Other processes learn it before the next step."""
        if self.group.size == 1:
            return self.callbacks.control.request
        return self.step_sync.stop if self.step_sync else StopRequest.NONE

    def _elapsed(self) -> float:
        """Seconds spent; the same in all processes."""
        if self.group.size == 1:
            return self.trainer.elapsed(self.started)
        return self.step_sync.seconds if self.step_sync else self.trainer.state.seconds

    # ---- Reports, validation, checkpoints

    def _snapshot(self, running: RunningLoss) -> ProgressSnapshot:
        trainer = self.trainer
        return ProgressSnapshot(
            step=trainer.state.step,
            epoch=trainer.state.epoch,
            loss=running.loss,
            learning_rate=trainer.learning_rate,
            tokens_per_second=running.tokens_per_second,
            seconds=trainer.elapsed(self.started),
            done=self.budget.share_done(trainer.state, self._elapsed()),
            memory=peak_memory(self.device),
            statistics=running.means,
        )

    def _tell(self, kind: type[TrainingEvent], **values: Any) -> None:
        """Call the callbacks, in the main process."""
        if self.group.is_main and self.callbacks.wants(kind):
            trainer = self.trainer
            known: dict[str, Any] = {
                "step": trainer.state.step,
                "seconds": trainer.elapsed(self.started),
                "model": trainer.model,
            }
            self.callbacks.send(kind(**known, control=self.callbacks.control, **values))

    def _tell_step(self, loss: Tensor, scale: float, tokens: int) -> None:
        """`loss` is this process's share of the mean over all; times `scale` it is the mean over its own labels."""
        if self.callbacks.wants(StepEvent):
            state = self.trainer.state
            own = {"loss_tensor": loss * scale, "done": self.budget.share_done(state, self._elapsed())}
            self._tell(StepEvent, epoch=state.epoch, learning_rate=self.trainer.learning_rate, tokens=tokens, **own)

    def _report(self, running: RunningLoss, history: History) -> RunningLoss:
        """Show and log the mean since the last report; returns a new RunningLoss."""
        guard = self.trainer.finite_guard
        guard.check(self.trainer.state.step, running.loss)
        snapshot = self._snapshot(running.reduce(self.group))
        self.listener.on_step(snapshot)
        skipped = int(guard.skipped)
        if skipped > self.skipped_steps:
            count = skipped - self.skipped_steps
            steps = "1 step was" if count == 1 else f"{count} steps were"
            self.listener.on_note(f"{steps} skipped: loss or gradient was NaN or infinite")
        self.skipped_steps = skipped
        values = snapshot.report(float(guard.norm), skipped)
        history.add("step", snapshot.step, **values, epoch=snapshot.epoch, seconds=round(snapshot.seconds, 2))
        return RunningLoss(self.device)

    def _validate(self, history: History) -> None:
        state = self.trainer.state
        own = (self._measure(self.trainer.eval_model), self.validator.seconds) if self.group.is_main else None
        result, seconds = self.group.broadcast(own)
        self.budget.add_validation(seconds)
        if not math.isfinite(result.loss):  # and save nothing: the run would resume from these weights
            raise HeadwayError(
                f"the validation loss is {result.loss} at step {state.step}: training has diverged. Lower the learning "
                "rate (train.schedule) or set train.clip=1, and choose another --out or resume from the last "
                "checkpoint."
            )
        score = result.score(self.settings.metric)
        best = score > max(state.best.values(), default=-math.inf)
        state.best[state.step] = score
        self.results[state.step] = result
        state.stale = 0 if best else state.stale + 1
        self._save()
        if best and self.group.is_main:
            self._write_model(trained_state(self.trainer.eval_model), result)
        self.listener.on_validation(state.step, result, best)
        self._tell(ValidationEvent, result=result, best=best)
        seconds = round(self.trainer.elapsed(self.started), 2)
        history.add("validation", state.step, **result.entries(), seconds=seconds)

    def _is_validation_due(self, over: bool) -> bool:
        state = self.trainer.state
        if state.step % self.settings.validate_every or state.step in state.best:
            return False
        if over or self.budget.allows_validation(self._elapsed()):
            return True
        self._save()
        if note := self.budget.describe_rare_validations():
            self.listener.on_note(note)
        return False

    def _measure(self, model: Transformer) -> ValidationResult:
        left = self.settings.seconds - self.trainer.elapsed(self.started) if self.settings.seconds else None
        with self.trainer.autocast():
            return self.validator.measure(model.eval(), left)

    def _save(self) -> None:
        state = self.trainer.state
        if self.saved_step == state.step:
            return  # writing it again could only lose it
        self.saved_step = state.step
        identities = {"text": self.texts.identity, "valid_text": self.texts.valid_identity}
        checkpoint = self.trainer.save(
            self.out, self.trainer.elapsed(self.started), **identities, **resume.adapter_facts(self.lora)
        )
        if checkpoint is None:  # another process has written it
            return
        ranked = sorted(state.best, key=lambda step: -state.best[step])
        last = max(self.settings.keep_last, self.settings.average)  # those to be averaged must not be deleted
        checkpoints.prune_checkpoints(self.out, last, set(ranked[: self.settings.keep_best]))
        self._tell(CheckpointEvent, folder=checkpoint.folder)

    # ---- The final model

    def _finish(self, history: History) -> TrainingResult:
        return self.group.broadcast(self._choose_weights(history) if self.group.is_main else None)

    def _choose_weights(self, history: History) -> TrainingResult:
        """The best checkpoint or the average of the last: whichever does better on the validation text."""
        step = self.trainer.state.step
        candidates = []
        for origin, weights, result in self._candidates():
            if result is None:
                load_trained_state(self.trainer.model, weights, self.out)
                result = self._measure(self.trainer.model)
            candidates.append((result, origin, weights))
        result, origin, weights = max(candidates, key=lambda candidate: candidate[0].score(self.settings.metric))
        self._write_model(weights, result)
        seconds = self.trainer.elapsed(self.started)
        history.add("end", step, **result.entries(), seconds=round(seconds, 2), chosen=origin)
        reason = self._end_reason()
        if self.callbacks.wants(EndEvent):
            load_trained_state(self.trainer.model, weights, self.out)  # those that became the model
        self._tell(EndEvent, folder=self.out, result=result, reason=reason)
        self.callbacks.raise_failure(self.out)
        return TrainingResult(self.out, step, seconds, result, origin, reason)

    def _candidates(self) -> Iterator[tuple[str, dict[str, Tensor], ValidationResult | None]]:
        """Origin, weights, and the validation result if this process has measured it."""
        saved = {checkpoint.step: checkpoint for checkpoint in checkpoints.list_checkpoints(self.out)}
        scores = {step: score for step, score in self.trainer.state.best.items() if step in saved}
        best = max(scores, key=lambda step: scores[step])
        yield f"the best checkpoint, step {best}", saved[best].weights, self.results.get(best)
        last = sorted(saved)[-self.settings.average :]
        if len(last) > 1:
            mean = average_weights([saved[step].weights for step in last])
            yield f"the average of {len(last)} checkpoints, steps {last[0]} to {last[-1]}", mean, None

    def _write_model(self, weights: dict[str, Tensor], result: ValidationResult | None) -> None:
        base = self.pretrained.folder if self.pretrained else None
        step = self.trainer.state.step
        card = model_card(self.config, self.texts, result, step, base, self.lora is not None)
        write_trained_model(self.out, self.config, self.tokenizers, weights, card, self.pretrained)
