"""A whole training: from prepared text to a model directory."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.config.config import Config
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer
from headway.storage.model_dir import WEIGHTS, average, fill, save_model
from headway.text import Tokenizers
from headway.text.shortlist import SHORTLIST
from headway.train import checkpoints
from headway.train.checkpoints import only_one
from headway.train.dataset import Corpus, marks_for
from headway.train.distributed import Beat, Team
from headway.train.history import History, Silence, finite
from headway.train.model_card import model_card
from headway.train.progress import Moment, Tally, Watcher, memory_of
from headway.train.resume import MOVING, measured_otherwise, refuse_changes
from headway.train.schedules import after_warm_up
from headway.train.setup import Start, make_corpora
from headway.train.shortlist import shortlist_for
from headway.train.signals import Signals
from headway.train.sources import Texts
from headway.train.trainer import Trainer
from headway.train.validation import Validation, sample, validate


class Outcome(NamedTuple):
    folder: Path
    step: int
    seconds: float
    result: Validation
    chosen: str  # which weights became the model


@dataclass
class Training:
    """Everything that a run needs, put together."""

    config: Config
    texts: Texts
    tokenizers: Tokenizers
    out: Path
    device: torch.device
    watcher: Watcher
    tensorboard: bool = False
    team: Team = Team()
    allow_changes: bool = False
    start: Start | None = None  # another model, to begin with

    def __post_init__(self) -> None:
        torch.manual_seed(self.config.train.seed)
        self.settings = self.config.train
        self.marks = marks_for(self.config, self.tokenizers)
        with self.team.first_alone():
            self.corpus, self.valid = self._corpora()
        model = Transformer(self.config.model)
        if self.start is not None:
            self.start.fill(model, self.config)
        self.trainer = Trainer(self.config, model, self.corpus, self.marks, self.device, self.team)
        if self.team.size > 1:  # from here on each process draws for itself
            torch.manual_seed(self.settings.seed * 1000 + self.team.rank)
        self.samples = [sample(p, self.settings.decode_lines) for p in self.texts.valid_pairs]
        self.began = time.monotonic()
        self.beat: Beat | None = None
        self.skipped = 0  # steps that were left out so far
        self.saved = 0  # the step of the newest checkpoint that this process wrote
        self.results: dict[int, Validation] = {}  # by step, as far as this process measured them

    def _corpora(self) -> tuple[Corpus, Corpus]:
        scratch = self.out / "checkpoints" / "text"
        return make_corpora(self.config, self.texts, self.tokenizers, scratch, self.team.first)

    def run(self) -> Outcome:
        self._check()
        with only_one(self.out) if self.team.first else contextlib.nullcontext():
            self._resume()
            self.team.wait()
            if self.team.first:
                checkpoints.refuse_full_at_first(self.out, self.trainer.model, self.trainer.optimisers)
                self.config.save(self.out / "config.json")
                self.tokenizers.save(self.out / "tokenizer.json")
                self._list()
            return self._run()

    def _list(self) -> None:
        if self.settings.shortlist.kind == "none":
            return  # one that was made by hand stays
        found = shortlist_for(self.settings.shortlist, self.texts.pairs, self.tokenizers, self.config.tags)
        found.save(self.out)
        self.watcher.note(f"{SHORTLIST} made from {int(found.about['pairs']):,} pairs")

    def _run(self) -> Outcome:
        history = History(self.out, self.trainer.at.step, self.tensorboard) if self.team.first else Silence()
        self.began = time.monotonic()
        try:
            with Signals(together=self.team.size > 1) as signals:
                self._train(history, signals)
                return self._finish(history)
        finally:
            history.close()
            self.corpus.close()

    def _check(self) -> None:
        """Before anything is spent: is there something to learn, and something to measure it on?"""
        for name, corpus in (("training", self.corpus), ("validation", self.valid)):
            if corpus.left_out:
                self.watcher.note(f"{name} {corpus.left_out}")
            if not corpus.size:
                raise HeadwayError(
                    f"no {name} text is left: give more of it, or raise train.longest = {self.settings.longest} if it is "
                    "too long."
                )

    def _resume(self) -> None:
        notes: list[str] = []
        saved = checkpoints.newest(self.out, notes)
        if saved is not None:
            changed = refuse_changes(self.out, self.config, self.texts, saved.state, self.allow_changes)
            notes += [change.told for change in changed]
            self.trainer.restore(saved)
            if any(change.path in MOVING for change in changed):
                self.trainer.end_epoch()
            if self.trainer.at.best and measured_otherwise(changed, self.settings.metric):
                self.trainer.at.best, self.trainer.at.stale = {}, 0
                notes.append("validations so far were measured otherwise: the best is sought among those to come")
            notes.append(f"going on from step {self.trainer.at.step} in {self.out}")
        elif (self.out / WEIGHTS).exists():
            raise HeadwayError(f"{self.out} holds a model, and no checkpoints to go on from. Choose another --out.")
        for note in notes:
            self.watcher.note(note)

    def _train(self, history: History, signals: Signals) -> None:
        try:
            self._take_steps(history, signals)
        except (KeyboardInterrupt, SystemExit):
            if self.trainer.at.step:
                with signals.held():
                    self._save()
                    if self.team.first and not (self.out / WEIGHTS).exists():  # what there is can be used at once
                        self._write(self.trainer.averaged.state_dict(), None)
                self.watcher.note(f"saved at step {self.trainer.at.step}; the same command goes on from there")
            raise

    def _take_steps(self, history: History, signals: Signals) -> None:
        trainer, settings, at = self.trainer, self.settings, self.trainer.at
        tally = Tally(self.device)
        with contextlib.closing(trainer.steps()) as steps:
            for pieces in steps if not self._over() else ():
                if pieces:
                    with signals.held():
                        spent = trainer.spent(self.began)
                        self.beat = self.team.beat(sum(piece.labelled for piece in pieces), spent, signals.heard)
                        at.share = pieces.share
                        trainer.run = trainer.run._replace(done=self._fallen())
                        told = trainer.step(pieces, self.beat.labelled)
                        tally.add(told, trainer.health.finite, sum(piece.tokens for piece in pieces))
                    signals.act_on(self.beat.signal)
                else:
                    trainer.end_epoch()
                over = self._over()
                if tally.steps and (at.step % settings.log_every == 0 or over):
                    tally = self._report(tally, history)
                elif pieces and self.watcher.due():
                    self.watcher.step(self._moment(tally))
                if at.step % settings.validate_every == 0 and at.step not in at.best:
                    paused = time.monotonic()
                    self._validate(history)
                    tally.pause(time.monotonic() - paused)
                    over = self._over()
                if over:
                    break
        if at.step not in at.best:
            self._validate(history)

    def _over(self) -> bool:
        at = self.trainer.at
        limits = zip((at.step, at.epoch, self._clock()), self._limits())
        spent = any(spent >= limit for spent, limit in limits if limit)
        return spent or 0 < self.settings.patience <= at.stale

    def _limits(self) -> tuple[int, int, float]:
        return self.settings.steps, self.settings.epochs, self.settings.seconds

    def _done(self) -> float:
        """How much of the budget is spent, by whichever limit is nearest."""
        at = self.trainer.at
        limits = zip((at.step, at.epoch + at.share, self._clock()), self._limits())
        return max((spent / limit for spent, limit in limits if limit), default=0.0)

    def _fallen(self) -> float:
        """How much of what follows the warm-up is over, by epochs and time, which a schedule cannot see in its steps."""
        at, (_, *limits) = self.trainer.at, self._limits()
        spent = (at.epoch + at.share, self._clock())
        if at.step < self.settings.schedule.warmup:
            at.warm_epochs, at.warm_seconds = spent
        shares = zip(spent, (at.warm_epochs, at.warm_seconds), limits)
        return max((after_warm_up(*share) for share in shares if share[-1]), default=0.0)

    def _clock(self) -> float:
        """Seconds spent; the same for all processes, who must stop at the same step."""
        if self.team.size == 1:
            return self.trainer.spent(self.began)
        return self.beat.seconds if self.beat else self.trainer.at.seconds

    def _moment(self, tally: Tally) -> Moment:
        at, spent = self.trainer.at, self.trainer.spent(self.began)
        done, memory = min(self._done(), 1.0), memory_of(self.device)
        speed, means = tally.tokens_per_second, tally.means
        return Moment(at.step, at.epoch, tally.loss, self.trainer.rate, speed, spent, done, memory, means)

    def _report(self, tally: Tally, history: History) -> Tally:
        health = self.trainer.health
        health.check(self.trainer.at.step, tally.loss)
        moment = self._moment(tally.together(self.team))
        self.watcher.step(moment)
        skipped = int(health.skipped)
        if skipped > self.skipped:
            self.watcher.note(f"{skipped - self.skipped} steps were left out: their loss or gradient was no number")
        self.skipped = skipped
        told: dict[str, Any] = {"loss": finite(moment.loss), "gradient": finite(float(health.norm))}
        told |= {"rate": moment.rate, "tokens_per_second": round(moment.tokens_per_second), "skipped": skipped or None}
        told |= {name: finite(value) for name, value in moment.statistics.items()}
        history.add("step", moment.step, **told, epoch=moment.epoch, seconds=round(moment.seconds, 2))
        return Tally(self.device)

    def _validate(self, history: History) -> None:
        at, settings = self.trainer.at, self.settings
        result = self.team.tell(self._measure(self.trainer.averaged) if self.team.first else None)
        if not math.isfinite(result.loss):  # a checkpoint of it would be gone on from
            raise HeadwayError(
                f"the validation loss is {result.loss} at step {at.step}: the weights have blown up. Lower the rate "
                "(train.schedule), or set train.clip=1; choose another --out, or go on from its last checkpoint."
            )
        score = result.better(settings.metric)
        best = score > max(at.best.values(), default=-math.inf)
        at.best[at.step], self.results[at.step] = score, result
        at.stale = 0 if best else at.stale + 1
        self._save()
        if best and self.team.first:
            self._write(self.trainer.averaged.state_dict(), result)
        self.watcher.validated(at.step, result, best)
        history.add("validation", at.step, **result._asdict(), seconds=round(self.trainer.spent(self.began), 2))

    def _measure(self, model: Transformer) -> Validation:
        with self.trainer.precision():
            return validate(model.eval(), self.valid, self.samples, self.config, self.tokenizers, self.marks)

    def _save(self) -> None:
        if self.saved == self.trainer.at.step:
            return  # writing it again could only lose it
        self.saved = self.trainer.at.step
        facts = {"text": self.texts.identity, "valid_text": self.texts.valid_identity}
        self.trainer.save(self.out, self.trainer.spent(self.began), **facts)
        if not self.team.first:
            return
        ranked = sorted(self.trainer.at.best, key=lambda step: -self.trainer.at.best[step])
        last = max(self.settings.keep_last, self.settings.average)  # what is to be averaged must be there
        checkpoints.prune(self.out, last, set(ranked[: self.settings.keep_best]))

    def _finish(self, history: History) -> Outcome:
        return self.team.tell(self._choose(history) if self.team.first else None)

    def _choose(self, history: History) -> Outcome:
        """The best checkpoint or the mean of the last: whichever does better on the validation text."""
        at, model = self.trainer.at, self.trainer.model
        outcomes = []
        for chosen, weights, known in self._candidates():
            if known is None:
                fill(model, weights, self.out)
                known = self._measure(model)
            outcomes.append((known, chosen, weights))
        result, chosen, weights = max(outcomes, key=lambda outcome: outcome[0].better(self.settings.metric))
        self._write(weights, result)
        seconds = self.trainer.spent(self.began)
        history.add("end", at.step, **result._asdict(), seconds=round(seconds, 2), chosen=chosen)
        return Outcome(self.out, at.step, seconds, result, chosen)

    def _candidates(self) -> Iterator[tuple[str, dict[str, Tensor], Validation | None]]:
        """Each with what was measured of it, where this process did."""
        kept = {checkpoint.step: checkpoint for checkpoint in checkpoints.checkpoints(self.out)}
        scores = {step: score for step, score in self.trainer.at.best.items() if step in kept}
        best = max(scores, key=lambda step: scores[step])
        yield f"the best checkpoint, step {best}", kept[best].weights, self.results.get(best)
        last = sorted(scores)[-self.settings.average :]
        if len(last) > 1:
            mean = average([kept[step].weights for step in last])
            yield f"the mean of {len(last)} checkpoints, steps {last[0]} to {last[-1]}", mean, None

    def _write(self, weights: dict[str, Tensor], result: Validation | None) -> None:
        base = self.start.folder if self.start else None
        card = model_card(self.config, self.texts, result, self.trainer.at.step, base)
        save_model(self.out, self.config, weights, self.tokenizers, card)
