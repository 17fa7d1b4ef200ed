"""A whole training, in small: budgets, stopping, what is kept, what comes out, and going on after an end of
any kind."""

import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import headway.train.run
from headway.config.sources import Layer, compose, parse_assignment
from headway.data.corpora import parallel_from_memory, text_from_memory
from headway.data.toy import toy_corpus
from headway.errors import ConfigError, HeadwayError
from headway.storage.model_dir import average_weights, load_model, read_tensors
from headway.train import validation
from headway.train.checkpoints import list_checkpoints
from headway.train.history import read_history
from headway.train.progress import ProgressSnapshot, SilentProgress
from headway.train.result import TrainingResult
from headway.train.run import TrainingRun
from headway.train.setup import collect_layers, compose_with_vocabulary, make_tokenizers
from headway.train.sources import TrainingFiles, TrainingTexts
from headway.train.trainer import Trainer
from headway.train.validation import ValidationResult

TOY = toy_corpus(60)
SOURCE, TARGET = [pair.source for pair in TOY], [pair.target for pair in TOY]
ALL = parallel_from_memory(SOURCE, TARGET, "en", "qtx")
TEXTS = TrainingTexts([ALL], [parallel_from_memory(SOURCE[:6], TARGET[:6], "en", "qtx")])
RUNNING = TrainingTexts(text=text_from_memory(SOURCE), valid_text=text_from_memory(SOURCE[:6]))
SMALL = [
    "tokenizer=bytes",
    "model.d_model=16",
    "model.dropout=0.1",
    *(f"model.{side}.layers=1" for side in ("encoder", "decoder")),
    *(f"model.{side}.mixer=attention(2)" for side in ("encoder", "decoder")),
    *(f"model.{side}.feedforward=relu(16)" for side in ("encoder", "decoder")),
    "train.batch_tokens=1024",
    "train.schedule=constant(0.01)",
    "train.steps=8",
    "train.validate_every=2",
    "train.log_every=2",
    "train.average=1",
    "train.decode_lines=0",
    "train.max_tokens=80",
]


class Seen(SilentProgress):
    """A listener that records everything, and may do something at a step."""

    def __init__(self, act: Callable[[int], None] = lambda step: None) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.validations: list[int] = []
        self.act = act

    def on_note(self, message: str) -> None:
        self.notes.append(message)

    def wants_update(self) -> bool:
        return False

    def on_step(self, snapshot: ProgressSnapshot) -> None:
        self.steps.append(snapshot.step)
        assert not snapshot.loss <= 0 and snapshot.tokens_per_second > 0 and snapshot.memory > 0
        assert 0 <= snapshot.done <= 1
        self.act(snapshot.step)

    def on_validation(self, step: int, result: ValidationResult, best: bool) -> None:
        self.validations.append(step)


def training(
    out: Path, *settings: str, texts: TrainingTexts = TEXTS, listener: Seen | None = None, allow_changes: bool = False
) -> TrainingRun:
    small = SMALL if texts.pairs else [*SMALL, "model.encoder.layers=0", "train.max_tokens=32"]
    preset = "tiny" if texts.pairs else "tiny_lm"
    upper = [Layer(text, parse_assignment(text)) for text in [*small, *settings]]
    layers, _ = collect_layers(texts, TrainingFiles(), preset, upper)
    tokenizers = make_tokenizers(compose(layers)[0], texts)
    config, _ = compose_with_vocabulary(layers, tokenizers)
    seen = listener or Seen()
    return TrainingRun(config, texts, tokenizers, out, torch.device("cpu"), seen, allow_changes=allow_changes)


def train(out: Path, *settings: str, **options: Any) -> TrainingResult:
    return training(out, *settings, **options).run()


def last_weights(out: Path) -> dict[str, torch.Tensor]:
    return list_checkpoints(out)[-1].weights


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


def interrupt(at: int, error: BaseException) -> Seen:
    def act(step: int) -> None:
        if step == at:
            raise error

    return Seen(act)


# ---- budgets


def test_so_many_steps(tmp_path: Path) -> None:
    listener = Seen()
    outcome = train(tmp_path, listener=listener)
    assert outcome.step == 8
    assert listener.steps == listener.validations == [2, 4, 6, 8]


def test_so_many_epochs(tmp_path: Path) -> None:
    run = training(tmp_path, "train.epochs=2", "train.steps=1000", "train.validate_every=1000")
    outcome = run.run()
    assert run.trainer.state.epoch == 2
    per_epoch = outcome.step / 2
    assert per_epoch == int(per_epoch) and per_epoch > 1


def test_so_many_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it a second later; threads that other tests left behind do not count."""
    clock, plain, own = iter(range(10**6)), time.monotonic, threading.get_ident()
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)) if threading.get_ident() == own else plain())
    outcome = train(tmp_path, "train.seconds=60", "train.steps=0")
    assert 1 < outcome.step < 30
    assert 50 <= outcome.seconds <= 75


class Clock:
    """Only work makes it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: float, loss: float, lines: float) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(Trainer, "step", self.taking(step, Trainer.step))
        monkeypatch.setattr(validation, "mean_loss", self.taking(loss, validation.mean_loss))
        monkeypatch.setattr(validation, "_translate", self.taking(lines, lambda translator, part, config: part.source))

    def taking(self, seconds: float, act: Callable[..., Any]) -> Callable[..., Any]:
        def acted(*given: Any) -> Any:
            self.now += seconds
            return act(*given)

        return acted


@pytest.mark.parametrize(
    ("every", "average", "metric"), [(7, 1, "loss"), (7, 3, "bleu"), (1000, 1, "bleu"), (1000, 3, "loss")]
)
def test_the_end_of_a_run_is_part_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, average: int, metric: str
) -> None:
    """A validation takes as long as 30 steps, and none begins that cannot end in time, as far as that is known."""
    Clock(monkeypatch, step=1.0, loss=6.0, lines=4.0)
    monkeypatch.setattr(validation, "LINES_PER_LOOK", 1)
    settings = ("train.seconds=200", "train.steps=0", "train.decode_lines=6", f"train.validate_every={every}")
    outcome = train(tmp_path, *settings, f"train.average={average}", f"train.metric={metric}")
    assert 150 < outcome.seconds <= 200 + 6
    assert outcome.step == (170 if (every, average) == (7, 3) else 180)  # five in a hundred seconds go to validations


def test_validations_before_the_last_take_a_small_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds each would be more than half of the time, if there were one every seven steps."""
    Clock(monkeypatch, step=1.0, loss=6.0, lines=4.0)
    monkeypatch.setattr(validation, "LINES_PER_LOOK", 1)
    settings = ("train.seconds=1000", "train.steps=0", "train.decode_lines=6", "train.validate_every=7")
    outcome = train(tmp_path, *settings, "train.average=1")
    found = [entry for entry in read_history(tmp_path) if entry["kind"] == "validation"]
    assert 3 <= len(found) <= 7
    assert len({entry["lines"] for entry in found}) == 1
    assert outcome.step >= 0.93 * 1000


def test_translations_for_which_no_time_is_left_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first validation is the last, and nobody could know how long it takes."""
    Clock(monkeypatch, step=1.0, loss=1.0, lines=4.0)
    monkeypatch.setattr(validation, "LINES_PER_LOOK", 1)
    outcome = train(tmp_path, "train.seconds=20", "train.steps=0", "train.decode_lines=6", "train.validate_every=1000")
    assert outcome.step == 18 and outcome.seconds <= 20 + 4
    assert outcome.result.lines == 1 and outcome.result.bleu is not None
    assert "(greedy, 1 lines: there was no time for more)" in (tmp_path / "README.md").read_text()


def test_the_first_budget_that_is_reached_ends_the_run(tmp_path: Path) -> None:
    assert train(tmp_path, "train.epochs=1000", "train.seconds=3600", "train.steps=3").step == 3


SPREAD = replace(TEXTS, pairs=[replace(ALL, weight=0.7), replace(ALL, weight=1.9)])


def rates(out: Path) -> list[float]:
    return [entry["rate"] for entry in read_history(out) if entry["kind"] == "step"]


@pytest.mark.parametrize("schedule", ["cosine(0.01, warmup=4, floor=0.0001)", "linear(0.01, warmup=4, floor=0.0001)"])
@pytest.mark.parametrize(
    ("epochs", "texts", "portion"), [(1, TEXTS, 1 << 20), (3, SPREAD, 1 << 20), (3, SPREAD, 40), (2, RUNNING, 1 << 20)]
)
def test_the_rate_falls_within_an_epoch_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: str, epochs: int, texts: TrainingTexts, portion: int
) -> None:
    """To its floor at the last step, without a stair; and where the run stands is known all the time."""
    monkeypatch.setattr("headway.train.dataset.EXAMPLES_PER_SHARD", portion)
    settings = (f"train.epochs={epochs}", "train.steps=0", f"train.schedule={schedule}", "train.log_every=1")
    small = ("train.batch_tokens=256", "train.micro_batch_tokens=128", "train.validate_every=1000")
    done: list[float] = []
    listener = Seen()
    listener.on_step = lambda snapshot: done.append(snapshot.done)  # type: ignore[method-assign]
    steps = train(tmp_path, *settings, *small, texts=texts, listener=listener).step
    found = rates(tmp_path)
    assert len(found) == len(done) == steps >= 12
    assert found[3] == pytest.approx(0.01)  # where the warm-up ends
    assert all(later < earlier for earlier, later in pairwise(found[3:]))
    assert found[-1] == pytest.approx(0.0001)
    steepest = max(earlier - later for earlier, later in pairwise(found[3:]))
    assert steepest < 3 * 0.01 / (steps - 4)
    assert done[-1] == 1
    assert done == pytest.approx([step / steps for step in range(1, steps + 1)], abs=0.1)


def test_a_run_that_goes_on_has_the_rates_of_one_that_was_never_interrupted(tmp_path: Path) -> None:
    settings = ("train.epochs=3", "train.steps=0", "train.schedule=cosine(0.01, warmup=5)", "train.log_every=1")
    settings += ("train.batch_tokens=256", "train.validate_every=1000")
    train(tmp_path / "whole", *settings, texts=SPREAD)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "parts", *settings, texts=SPREAD, listener=interrupt(9, KeyboardInterrupt()))
    train(tmp_path / "parts", *settings, texts=SPREAD)
    whole = rates(tmp_path / "whole")
    assert rates(tmp_path / "parts") == [*whole[:8], *whole[9:]]  # the step that ended it was not logged


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it a second later."""
    clock = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))


TIMED = ("train.seconds=300", "train.steps=0", "train.log_every=1", "train.validate_every=1000")


@pytest.mark.usefixtures("ticking")
def test_warm_up_is_no_part_of_the_fall(tmp_path: Path) -> None:
    """Nor is it after an interruption: when it was over is remembered."""
    settings = (*TIMED, "train.schedule=linear(0.01, warmup=12)")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, *settings, listener=interrupt(15, KeyboardInterrupt()))
    train(tmp_path, *settings)
    found = rates(tmp_path)
    assert len(found) > 30
    assert max(found) == found[11] == pytest.approx(0.01)
    falls = [earlier - later for earlier, later in pairwise(found[11:])]
    assert min(falls) > 0 and found[-1] < 0.0005
    assert max(falls) < 3 * 0.01 / (len(found) - 12)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("budget", ["train.seconds=300", "train.steps=50"])
def test_a_warm_up_that_is_longer_than_the_run_ends_too(tmp_path: Path, budget: str) -> None:
    train(tmp_path, *TIMED, "train.schedule=cosine(0.01, warmup=1000)", budget)
    found = rates(tmp_path)
    highest = found.index(max(found))
    assert 0.8 < highest / len(found) < 0.95
    assert found[-1] < 0.2 * max(found)


def test_the_last_step_is_validated_too(tmp_path: Path) -> None:
    listener = Seen()
    train(tmp_path, "train.steps=5", listener=listener)
    assert listener.validations == [2, 4, 5]


def test_early_stopping(tmp_path: Path) -> None:
    """A rate of 0 never gets better: the first validation is the best, and two more end the run."""
    outcome = train(tmp_path, "train.schedule=constant(0.0)", "train.steps=100", "train.patience=2")
    assert outcome.step == 6
    again = train(tmp_path, "train.schedule=constant(0.0)", "train.steps=100", "train.patience=2")
    assert again.step == 6  # it stays stopped


# ---- what is kept


def test_the_last_and_the_best_checkpoints_stay(tmp_path: Path) -> None:
    run = training(tmp_path, "train.keep_last=2", "train.keep_best=2", "train.steps=14")
    scores = iter([-3.0, -1.0, -9.0, -2.0, -5.0, -6.0, -7.0])
    run._measure = lambda model: ValidationResult(-next(scores, -7.0))  # type: ignore[method-assign]
    run.run()
    assert [found.step for found in list_checkpoints(tmp_path)] == [4, 8, 12, 14]


def test_as_many_stay_as_are_averaged(tmp_path: Path) -> None:
    train(tmp_path, "train.keep_last=1", "train.average=3", "train.steps=12")
    assert [found.step for found in list_checkpoints(tmp_path)][-3:] == [8, 10, 12]


def test_the_mean_of_the_last_checkpoints_becomes_the_model_where_it_is_better(tmp_path: Path) -> None:
    run = training(tmp_path, "train.average=3")
    measured = iter([-1.0, -2.0, -3.0, -4.0, -0.5])  # four validations, the mean; the best one is known
    run._measure = lambda model: ValidationResult(-next(measured))  # type: ignore[method-assign]
    outcome = run.run()
    assert outcome.weights_origin == "the average of 3 checkpoints, steps 4 to 8"
    mean = average_weights([found.weights for found in list_checkpoints(tmp_path)[-3:]])
    assert_same(read_tensors(tmp_path / "model.safetensors"), mean)


def test_the_best_checkpoint_becomes_the_model_where_it_is_better(tmp_path: Path) -> None:
    run = training(tmp_path, "train.average=3")
    measured = iter([5.0, 2.0, 3.0, 4.0, 6.0])
    run._measure = lambda model: ValidationResult(next(measured))  # type: ignore[method-assign]
    outcome = run.run()
    assert (outcome.weights_origin, outcome.result.loss) == ("the best checkpoint, step 4", 2.0)
    best = next(found for found in list_checkpoints(tmp_path) if found.step == 4)
    assert_same(read_tensors(tmp_path / "model.safetensors"), best.weights)


def test_better_may_mean_bleu(tmp_path: Path) -> None:
    run = training(tmp_path, "train.metric=bleu", "train.steps=4")
    measured = iter([ValidationResult(1.0, 10.0, 1.0), ValidationResult(2.0, 20.0, 2.0)])
    run._measure = lambda model: next(measured)  # type: ignore[method-assign]
    assert run.run().weights_origin == "the best checkpoint, step 4"


def test_the_model_directory_is_complete_and_has_no_pickle(tmp_path: Path) -> None:
    train(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"config.json", "model.safetensors", "tokenizer.json", "README.md", "history.jsonl", "checkpoints"}
    endings = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert endings == {".json", ".jsonl", ".safetensors", ".md", ".lock"}
    assert load_model(tmp_path).config.target_languages == ("qtx",)


def test_the_card_says_what_it_is_and_how_good(tmp_path: Path) -> None:
    outcome = train(tmp_path, "train.decode_lines=4")
    card = (tmp_path / "README.md").read_text()
    assert (
        card.startswith("---\nlanguage:\n- en\n- qtx\nscores:\n  validation: ")
        and "\n---\n\n# A translator, en → qtx\n" in card
    )
    assert "8 steps, seed 1" in card
    assert f"{outcome.result.loss:.4f} nats per token" in card
    assert f"{outcome.result.bleu:.2f}, {outcome.result.chrf:.2f} (greedy)" in card
    assert 'headway translate --model . "…"' in card
    train(tmp_path / "lm", texts=RUNNING)
    assert (tmp_path / "lm" / "README.md").read_text().startswith("# A language model (causal)\n")


def test_the_history_tells_steps_validations_and_the_end(tmp_path: Path) -> None:
    train(tmp_path, "train.decode_lines=4")
    entries = read_history(tmp_path)
    assert [(entry["kind"], entry["step"]) for entry in entries] == [
        *((kind, step) for step in (2, 4, 6, 8) for kind in ("step", "validation")),
        ("end", 8),
    ]
    assert entries[0].keys() == {"kind", "step", "loss", "rate", "tokens_per_second", "epoch", "seconds", "gradient"}
    assert entries[1].keys() == {"kind", "step", "loss", "bleu", "chrf", "seconds"}
    assert entries[-1]["chosen"] == "the best checkpoint, step 8"


@pytest.mark.parametrize("ema", ["0", "0.9"])
def test_loss_falls(tmp_path: Path, ema: str) -> None:
    train(tmp_path, "train.steps=80", "train.validate_every=10", f"train.ema={ema}")
    losses = [entry["loss"] for entry in read_history(tmp_path) if entry["kind"] == "validation"]
    assert losses[-1] < 0.8 * losses[0]


# ---- going on


@pytest.mark.parametrize("ema", ["0", "0.9"])
@pytest.mark.parametrize("texts", [TEXTS, RUNNING], ids=["pairs", "text"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(tmp_path: Path, texts: TrainingTexts, ema: str) -> None:
    settings = ("train.steps=9", f"train.ema={ema}", "train.validate_every=4")
    train(tmp_path / "straight", *settings, texts=texts)
    cut = tmp_path / "cut"
    first = interrupt(6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        train(cut, *settings, texts=texts, listener=first)
    assert first.notes[-1] == "saved at step 6; the same command resumes from there"
    assert [found.step for found in list_checkpoints(cut)] == [4, 6]
    second = Seen()
    outcome = train(cut, *settings, texts=texts, listener=second)
    assert second.notes[-1] == f"resuming from step 6 in {cut}"
    assert second.steps == [8, 9]
    assert second.validations == [8, 9]
    assert outcome.step == 9
    assert_same(last_weights(tmp_path / "straight"), last_weights(cut))
    assert_same(*(read_tensors(folder / "model.safetensors") for folder in (tmp_path / "straight", cut)))
    logged = [(entry["kind"], entry["step"]) for entry in read_history(cut)]
    assert logged == sorted(set(logged), key=logged.index)


def test_a_signal_in_the_middle_of_a_step_waits_for_its_end(tmp_path: Path) -> None:
    """Else the step would count as taken, with weights from before it."""
    train(tmp_path / "straight", "train.steps=5", "train.validate_every=5")
    run = training(tmp_path / "cut", "train.validate_every=100")
    [optimiser] = run.trainer.optimisers
    step = optimiser.step

    def interrupted() -> None:
        if run.trainer.state.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
        step()

    optimiser.step = interrupted  # type: ignore[assignment, method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert list_checkpoints(tmp_path / "cut")[-1].step == 5
    assert_same(last_weights(tmp_path / "cut"), last_weights(tmp_path / "straight"))


def test_sigterm_saves_too(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        train(tmp_path, listener=interrupt(6, SystemExit(143)))
    assert list_checkpoints(tmp_path)[-1].step == 6


def test_an_interrupt_before_the_first_step_leaves_no_checkpoint(tmp_path: Path) -> None:
    run = training(tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    run.trainer.steps = stop  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert list_checkpoints(tmp_path) == []
    assert train(tmp_path).step == 8


def test_an_interrupt_at_the_very_end_does_not_spoil_the_checkpoint(tmp_path: Path) -> None:
    """At the end averaged weights are tried in the model: they must not be saved as if training had made them."""
    train(tmp_path / "straight", "train.average=3")
    out = tmp_path / "cut"
    run = training(out, "train.average=3")
    measure, calls = run._measure, []

    def measured(model: Any) -> ValidationResult:
        calls.append(0)
        if len(calls) == 5:  # four validations, then the mean
            raise KeyboardInterrupt
        return measure(model)

    run._measure = measured  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert_same(last_weights(out), last_weights(tmp_path / "straight"))
    outcome = train(out, "train.average=3")
    assert outcome.step == 8
    assert_same(*(read_tensors(folder / "model.safetensors") for folder in (tmp_path / "straight", out)))


def test_a_finished_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    train(tmp_path)
    assert train(tmp_path).step == 8
    listener = Seen()
    assert train(tmp_path, "train.steps=12", listener=listener).step == 12
    assert listener.steps == [10, 12]
    assert [entry["kind"] for entry in read_history(tmp_path)].count("end") >= 2


def test_time_that_is_up_before_a_validation_still_gives_a_model(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, "train.validate_every=100", listener=interrupt(6, KeyboardInterrupt()))
    outcome = train(tmp_path, "train.validate_every=100", "train.seconds=0.000001")
    assert outcome.step == 6
    assert (tmp_path / "model.safetensors").exists()


def test_the_same_out_with_other_settings_is_refused(tmp_path: Path) -> None:
    train(tmp_path)
    with pytest.raises(HeadwayError) as caught:
        train(tmp_path, "model.d_model=32")
    assert "holds a run with other settings: model.d_model was 16 and is 32 now. Give the same settings" in str(
        caught.value
    )
    with pytest.raises(HeadwayError, match=r"train.optimiser.kind was adam and is sgd now"):
        train(tmp_path, "train.optimiser=sgd")


def test_a_model_without_checkpoints_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"somebody's work")
    with pytest.raises(HeadwayError, match=r"holds a model, but no checkpoints to resume from. Choose another --out"):
        train(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == b"somebody's work"


# ---- what is wrong is said


def test_pairs_left_out_are_counted(tmp_path: Path) -> None:
    pairs = parallel_from_memory([*SOURCE[:20], "", "x" * 200], [*TARGET[:20], "y", "y"], "en", "qtx")
    listener = Seen()
    train(tmp_path, texts=TrainingTexts([pairs], TEXTS.valid_pairs), listener=listener)
    assert listener.notes[-1] == "training pairs left out: 1 with an empty side, 1 longer than 80 tokens"


@pytest.mark.parametrize("part", ["training", "validation"])
def test_nothing_left_is_refused(tmp_path: Path, part: str) -> None:
    long = [parallel_from_memory(["x" * 200], ["y"], "en", "qtx")]
    texts = TrainingTexts(long, TEXTS.valid_pairs) if part == "training" else TrainingTexts([ALL], long)
    with pytest.raises(HeadwayError, match=f"no {part} text is left: give more text, or raise train.max_tokens = 80"):
        train(tmp_path / "out", texts=texts)
    assert not (tmp_path / "out").exists()


def poisoned(run: TrainingRun, steps: set[int]) -> TrainingRun:
    """The loss of these steps is no number."""
    loss = run.trainer.loss

    def spoil(batch: Any, *more: Any) -> Any:
        output = loss(batch, *more)
        return output._replace(loss=output.loss * math.nan) if run.trainer.state.step in steps else output

    run.trainer.loss = spoil  # type: ignore[assignment]
    return run


def test_a_step_that_is_no_number_is_left_out_and_counted(tmp_path: Path) -> None:
    poisoned(training(tmp_path), {3, 6}).run()
    steps = [entry for entry in read_history(tmp_path) if entry["kind"] == "step"]
    assert [entry.get("skipped") for entry in steps] == [None, 1, 2, 2]
    assert all(math.isfinite(entry["loss"]) for entry in steps)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in last_weights(tmp_path).values())


def test_many_in_a_row_end_the_run_with_a_diagnosis_and_nothing_spoiled(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError) as caught:
        poisoned(training(tmp_path, "train.steps=100"), set(range(5, 100))).run()
    message = str(caught.value)
    assert "10 steps in a row were skipped, up to step 14: the loss was nan and the norm of its gradient nan" in message
    assert "all weights are finite, the largest is" in message
    assert "Lower the learning rate" in message
    assert [found.step for found in list_checkpoints(tmp_path)][-1] < 15
    for line in (tmp_path / "history.jsonl").read_text().splitlines():
        assert json.loads(line)
    assert train(tmp_path, "train.steps=16").step == 16


def test_a_validation_that_is_no_number_is_not_saved_either(tmp_path: Path) -> None:
    run = training(tmp_path)
    losses = iter([2.0, math.nan])
    run._measure = lambda model: ValidationResult(next(losses))  # type: ignore[method-assign]
    with pytest.raises(HeadwayError, match=r"the validation loss is nan at step 4: training has diverged"):
        run.run()
    assert [found.step for found in list_checkpoints(tmp_path)] == [2]


def test_live_watchers_are_told_between_reports(tmp_path: Path) -> None:
    class Impatient(Seen):
        def wants_update(self) -> bool:
            return True

    listener = Impatient()
    train(tmp_path, "train.log_every=4", listener=listener)
    assert listener.steps == list(range(1, 9))
    assert [entry["step"] for entry in read_history(tmp_path) if entry["kind"] == "step"] == [4, 8]


def test_memory_of_a_gpu_is_asked_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 123)
    assert headway.train.run.peak_memory(torch.device("cuda")) == 123
    assert headway.train.run.peak_memory(torch.device("cpu")) > 10**6


@pytest.mark.parametrize("peak", ["1e9", "1e30"])
def test_a_rate_that_is_far_too_high_is_named(tmp_path: Path, peak: str) -> None:
    settings = (f"train.schedule.peak={peak}", "train.schedule.warmup=1", "train.clip=0")
    with pytest.raises(HeadwayError, match=r"training has diverged|steps in a row were skipped") as caught:
        train(tmp_path, "train.schedule=constant", *settings)
    assert "Lower the learning rate" in str(caught.value) and "damaged" not in str(caught.value)


def test_a_model_that_cannot_fit_into_memory_is_refused_before_it_is_built(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model: [\d,]+ parameters take [\d,]+ GiB in training, and cpu has"):
        training(tmp_path, "model.d_model=1000000")


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"m\xff\xfe")
    assert train(folder).step
    assert load_model(folder).config
