"""A whole training: from prepared text to a model directory."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from headway.config import Config
from headway.errors import HeadwayError
from headway.model_dir import average, fill, save_model
from headway.nn.transformer import Transformer
from headway.text import Tokenizers
from headway.train import checkpoints
from headway.train.card import model_card
from headway.train.corpus import ParallelText, marks_of
from headway.train.history import History
from headway.train.loop import Trainer
from headway.train.prepare import Texts, make_corpora
from headway.train.validation import Validation, validate


class Moment(NamedTuple):
    """How a run stands."""

    step: int
    epoch: int
    loss: float
    rate: float
    tokens_per_second: float
    seconds: float
    done: float  # share of the budget that is spent
    memory: int  # bytes


class Watcher(Protocol):
    """Whoever wants to know: the terminal, a test, nobody."""

    def note(self, message: str) -> None: ...
    def step(self, moment: Moment) -> None: ...
    def validated(self, step: int, result: Validation, best: bool) -> None: ...


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

    def __post_init__(self) -> None:
        torch.manual_seed(self.config.train.seed)
        self.settings = self.config.train
        self.marks = marks_of(self.tokenizers.target)
        self.corpus, self.valid = make_corpora(self.config, self.texts, self.tokenizers)
        self.trainer = Trainer(self.config, Transformer(self.config.model), self.corpus, self.marks, self.device)
        self.began = time.monotonic()

    def run(self) -> Outcome:
        self._check()
        self._resume()
        history = History(self.out, self.tensorboard)
        self.config.save(self.out / "config.json")
        self.tokenizers.save(self.out / "tokenizer.json")
        self.began = time.monotonic()
        try:
            self._train(history)
            outcome = self._finish(history)
        except (KeyboardInterrupt, SystemExit):
            if self.trainer.at.step:
                self._save()
                self.watcher.note(f"saved at step {self.trainer.at.step}; the same command goes on from there")
            raise
        finally:
            history.close()
            self.corpus.close()
        return outcome

    def _check(self) -> None:
        """Before anything is spent: is there something to learn, and something to measure it on?"""
        for name, corpus in (("training", self.corpus), ("validation", self.valid)):
            if isinstance(corpus, ParallelText) and not corpus.plain:
                raise HeadwayError(
                    f"no {name} example is left: all are empty or longer than train.longest = {self.settings.longest}."
                )
        dropped = self.corpus.dropped if isinstance(self.corpus, ParallelText) else 0
        if dropped:
            self.watcher.note(f"{dropped:,} pairs are left out: empty, or longer than {self.settings.longest} tokens")

    def _resume(self) -> None:
        found = checkpoints.checkpoints(self.out)
        if found:
            self.trainer.restore(found[-1])
            self.watcher.note(f"going on from step {found[-1].step} in {self.out}")

    def _train(self, history: History) -> None:
        trainer, settings, at = self.trainer, self.settings, self.trainer.at
        losses = torch.zeros((), device=self.device)
        steps, tokens, mark = 0, 0, time.monotonic()  # since the last report; time for validation does not count
        if self._over():
            return
        for pieces in trainer.steps():
            if not pieces:
                trainer.end_epoch()
            else:
                losses += trainer.step(pieces)
                steps, tokens = steps + 1, tokens + sum(piece.tokens for piece in pieces)
            over = self._over()
            if steps and (at.step % settings.log_every == 0 or over):
                loss = float(losses) / steps
                now = time.monotonic()
                moment = self._moment(loss, tokens / max(now - mark, 1e-9))
                self.watcher.step(moment)
                told = {"loss": moment.loss, "rate": moment.rate, "tokens_per_second": round(moment.tokens_per_second)}
                history.add("step", at.step, **told, epoch=at.epoch, seconds=round(moment.seconds, 2))
                losses, steps, tokens, mark = torch.zeros((), device=self.device), 0, 0, now
            if (at.step % settings.validate_every == 0 or over) and at.step not in at.best:
                paused = time.monotonic()
                self._validate(history)
                mark += time.monotonic() - paused
            if over or (settings.patience and at.stale >= settings.patience):
                return

    def _over(self) -> bool:
        return self._done() >= 1

    def _done(self) -> float:
        """How much of the budget is spent, by whichever limit is nearest."""
        at, s = self.trainer.at, self.settings
        limits = ((at.step, s.steps), (at.epoch, s.epochs), (self.trainer.spent(self.began), s.seconds))
        return max((spent / limit for spent, limit in limits if limit), default=0.0)

    def _moment(self, loss: float, speed: float) -> Moment:
        at, spent = self.trainer.at, self.trainer.spent(self.began)
        return Moment(at.step, at.epoch, loss, self.trainer.rate, speed, spent, min(self._done(), 1.0), _memory())

    def _validate(self, history: History) -> None:
        at, settings = self.trainer.at, self.settings
        with self.trainer.averaged() as model:
            result = self._measure(model)
        score = result.better(settings.metric)
        best = score > max(at.best.values(), default=-math.inf)
        at.best[at.step] = score
        at.stale = 0 if best else at.stale + 1
        self._save()
        if best:
            self._write(self.trainer.weights(), result)
        self.watcher.validated(at.step, result, best)
        history.add("validation", at.step, **result._asdict(), seconds=round(self.trainer.spent(self.began), 2))

    def _measure(self, model: Transformer) -> Validation:
        with self.trainer.precision():
            return validate(model.eval(), self.valid, self.texts.valid_pairs, self.config, self.tokenizers, self.marks)

    def _save(self) -> None:
        self.trainer.save(self.out, self.trainer.spent(self.began), "")
        ranked = sorted(self.trainer.at.best, key=lambda step: -self.trainer.at.best[step])
        checkpoints.prune(self.out, self.settings.keep_last, set(ranked[: self.settings.keep_best]))

    def _finish(self, history: History) -> Outcome:
        """The best checkpoint or the mean of the last: whichever does better on the validation text."""
        at, model = self.trainer.at, self.trainer.model
        outcomes = []
        for chosen, weights in self._candidates():
            fill(model, weights, self.out)
            outcomes.append((self._measure(model), chosen, weights))
        result, chosen, weights = max(outcomes, key=lambda outcome: outcome[0].better(self.settings.metric))
        self._write(weights, result)
        seconds = self.trainer.spent(self.began)
        history.add("end", at.step, **result._asdict(), seconds=round(seconds, 2), chosen=chosen)
        return Outcome(self.out, at.step, seconds, result, chosen)

    def _candidates(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        kept = {checkpoint.step: checkpoint for checkpoint in checkpoints.checkpoints(self.out)}
        scores = {step: score for step, score in self.trainer.at.best.items() if step in kept}
        best = max(scores, key=lambda step: scores[step])
        yield f"the best checkpoint, step {best}", kept[best].weights
        last = sorted(scores)[-self.settings.average :]
        if len(last) > 1:
            mean = average([kept[step].weights for step in last])
            yield f"the mean of {len(last)} checkpoints, steps {last[0]} to {last[-1]}", mean

    def _write(self, weights: dict[str, Tensor], result: Validation) -> None:
        card = model_card(self.config, self.texts, result, self.trainer.at.step)
        save_model(self.out, self.config, weights, self.tokenizers, card)


def _memory() -> int:
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
