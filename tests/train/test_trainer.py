"""One step: gradients of pieces add up, clipping, the running average; and a trainer that is saved and goes on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.config import Config, read_config
from headway.errors import ConfigError
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.checkpoints import list_checkpoints
from headway.train.dataset import EpochShard
from headway.train.loader import MicroBatches
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example
from headway.train.trainer import Trainer

SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)


class FewPairs:
    """The same sixty pairs in every epoch."""

    skipped_summary = ""
    size = 60

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        lengths = random.integers(1, 20, (self.size, 2))
        rows = [[random.integers(4, 64, length) for length in pair] for pair in lengths]
        self.examples = [Example(np.append(source, 2), target) for source, target in rows]

    def epoch(self, number: int) -> Iterator[EpochShard]:
        yield EpochShard(self.examples, np.array([(len(e.source), len(e.target) + 1) for e in self.examples]))

    def close(self) -> None: ...


def make_config(**train: Any) -> Config:
    stack = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(16)", "residual": "pre"}
    model = {"d_model": 8, "vocabulary": 64, "dropout": 0.0, "encoder": stack, "decoder": stack}
    settings = {"batch_tokens": 256, "schedule": "constant(0.01)", **train}
    return read_config({"model": model, "train": settings})


def make_trainer(dropout: float = 0.0, **train: Any) -> Trainer:
    config = make_config(**train)
    torch.manual_seed(1)
    model = Transformer(config.model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = dropout
    return Trainer(config, model, FewPairs(), SPECIAL, torch.device("cpu"))


def stepped(trainer: Trainer, pieces: MicroBatches) -> float:
    return float(trainer.step(pieces, sum(piece.label_count for piece in pieces)).loss)


def take(trainer: Trainer, count: int) -> list[float]:
    """So many steps, epoch ends passed over."""
    losses: list[float] = []
    for pieces in trainer.steps():
        if pieces:
            losses.append(stepped(trainer, pieces))
        else:
            trainer.end_epoch()
        if len(losses) == count:
            return losses
    raise AssertionError


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def test_micro_batches_give_the_gradient_of_the_whole() -> None:
    gradients = []
    for budget in (100_000, 40):
        trainer = make_trainer(micro_batch_tokens=budget, optimiser="sgd", schedule="constant(0.0)")
        pieces = next(trainer.steps())
        assert (len(pieces) > 1) == (budget == 40)
        caught: dict[str, torch.Tensor] = {}
        for optimiser in trainer.optimisers:
            optimiser.register_step_pre_hook(
                lambda *_, t=trainer, c=caught: c.update({n: p.grad.clone() for n, p in t.model.named_parameters()})
            )
        loss = stepped(trainer, pieces)
        gradients.append((loss, caught))
    (one_loss, one), (other_loss, other) = gradients
    assert one_loss == pytest.approx(other_loss, rel=1e-5)
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-6, msg=name)


def test_the_loss_of_a_step_is_a_mean_over_its_tokens() -> None:
    trainer = make_trainer(label_smoothing=0.1, micro_batch_tokens=40)
    pieces = next(trainer.steps())
    with torch.no_grad():
        total = sum(float(batch_loss(trainer.model, piece, 0.1).loss) for piece in pieces)
    count = sum(piece.label_count for piece in pieces)
    assert stepped(trainer, pieces) == pytest.approx(total / count, rel=1e-5)


def test_gradients_are_clipped_to_the_norm_asked_for() -> None:
    norms = []
    for clip in (0.0, 1e-3):
        trainer = make_trainer(clip=clip, optimiser="sgd", schedule="constant(1.0)")
        before = weights_of(trainer)
        take(trainer, 1)
        change = [tensor - before[name] for name, tensor in trainer.model.state_dict().items()]
        norms.append(float(torch.cat([part.flatten() for part in change]).norm()))
    assert norms[0] > 0.01
    assert norms[1] == pytest.approx(1e-3, rel=1e-3)


def test_the_running_average_follows_its_formula() -> None:
    trainer = make_trainer(ema=0.9)
    assert trainer.ema is not None
    expected = {name: tensor.clone() for name, tensor in trainer.model.named_parameters()}
    for step in range(1, 21):
        take(trainer, 1)
        decay = min(0.9, (1 + step) / (10 + step))
        for name, weight in trainer.model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * weight.detach()
    for name, average in trainer.eval_model.named_parameters():
        torch.testing.assert_close(average, expected[name], rtol=1e-4, atol=1e-6)
        assert not torch.equal(average, dict(trainer.model.named_parameters())[name])


def test_without_an_average_the_model_itself_is_kept() -> None:
    trainer = make_trainer()
    assert trainer.eval_model is trainer.model


def test_the_rate_is_the_schedules() -> None:
    trainer = make_trainer(schedule="inverse_sqrt(0.02, warmup=4)")
    found = []
    for _ in range(5):
        take(trainer, 1)
        found.append((trainer.learning_rate, trainer.optimisers[0].param_groups[0]["lr"]))
    assert found == [(rate, rate) for rate, _ in found]
    assert [rate for rate, _ in found] == pytest.approx([0.005, 0.01, 0.015, 0.02, 0.02 * (4 / 5) ** 0.5])


def test_steps_and_epochs_are_counted() -> None:
    trainer = make_trainer()
    batches = 0
    for pieces in trainer.steps():
        if not pieces:
            break
        batches += 1
        stepped(trainer, pieces)
    assert (trainer.state.step, trainer.state.batch, trainer.state.epoch) == (batches, batches, 0)
    trainer.end_epoch()
    assert (trainer.state.batch, trainer.state.epoch) == (0, 1)


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_going_on_equals_never_having_stopped(tmp_path: Path, optimiser: str, ema: float) -> None:
    """Over the end of an epoch, with dropout, to the bit."""
    settings: dict[str, Any] = {"optimiser": optimiser, "ema": ema, "dropout": 0.2}
    straight = make_trainer(**settings)
    torch.manual_seed(5)
    expected = take(straight, 14)

    first = make_trainer(**settings)
    torch.manual_seed(5)
    losses = take(first, 5)
    first.save(tmp_path, seconds=12.5)
    torch.manual_seed(99)
    torch.rand(3)
    second = make_trainer(**settings)
    second.restore(list_checkpoints(tmp_path)[-1].read())
    assert (second.state.step, second.state.seconds) == (5, 12.5)
    losses += take(second, 9)
    assert losses == expected
    assert straight.state.epoch >= 1
    for name, weight in straight.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    for name, weight in straight.eval_model.state_dict().items():
        assert torch.equal(weight, second.eval_model.state_dict()[name]), name


def test_what_was_best_and_how_long_ago_is_restored(tmp_path: Path) -> None:
    trainer = make_trainer()
    take(trainer, 3)
    trainer.state.best, trainer.state.stale = {1: -5.0, 3: -4.5}, 2
    trainer.save(tmp_path, seconds=1.0)
    other = make_trainer()
    other.restore(list_checkpoints(tmp_path)[-1].read())
    assert (other.state.best, other.state.stale) == ({1: -5.0, 3: -4.5}, 2)


def test_learning_happens() -> None:
    trainer = make_trainer(label_smoothing=0.0, schedule="constant(0.02)")
    losses = take(trainer, 120)
    assert np.mean(losses[-6:]) < 0.8 * np.mean(losses[:6])


def test_a_small_model_on_a_cpu_is_neither_cast_nor_compiled() -> None:
    trainer = make_trainer()
    with trainer.autocast():
        assert not torch.is_autocast_enabled("cpu")
    assert trainer.loss.function is batch_loss


@pytest.mark.parametrize("micro", [0, 100])
def test_a_compiled_model_meets_few_shapes_and_the_same_loss(monkeypatch: pytest.MonkeyPatch, micro: int) -> None:
    """Compiling itself takes a compiler and minutes: here the shapes alone."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    trainer = make_trainer(compile="on", micro_batch_tokens=micro, batch_tokens=200)
    plain = make_trainer(batch_tokens=200)
    budget = micro or 200
    shapes = set()
    epochs = 0
    for pieces in trainer.steps():
        epochs += not pieces
        for piece in pieces:
            assert piece.source is not None and piece.inputs is not None
            shapes.add((*piece.source.shape, piece.inputs.shape[1]))
            rows, longest = len(piece.source), max(piece.source.shape[1], piece.inputs.shape[1])
            assert rows == 1 or rows * longest <= budget
            assert piece.labels.shape == piece.inputs.shape
            assert int((piece.labels != -100).sum()) == piece.label_count
        if epochs == 3:
            break
    assert len(shapes) <= 8
    step = next(trainer.steps())
    real = [piece.label_count for piece in step]
    assert sum(real) > 0
    losses = [float(batch_loss(plain.model.eval(), piece, 0.1).loss.detach()) for piece in step]
    cut = [trimmed(piece) for piece in step]
    assert losses == pytest.approx(
        [float(batch_loss(plain.model, piece, 0.1).loss.detach()) for piece in cut], rel=1e-5
    )


def trimmed(batch: Batch) -> Batch:
    """Without the rows and columns that are only padding."""
    assert batch.source_valid is not None and batch.inputs_valid is not None
    rows = batch.source_valid.any(1)
    source_width, target_width = int(batch.source_valid.sum(1).max()), int(batch.inputs_valid.sum(1).max())
    parts = [x if x is None else x[rows] for x in batch[:5]]
    widths = (source_width, source_width, target_width, target_width, target_width)
    return Batch(*(x[:, :w] for x, w in zip(parts, widths)), batch.label_count, batch.token_count)  # type: ignore[index, arg-type]


def test_bfloat16_without_a_gpu_is_refused() -> None:
    with pytest.raises(ConfigError, match=r'train.precision: "bfloat16" needs a GPU, and this is cpu. Set "auto"'):
        make_trainer(precision="bfloat16")
