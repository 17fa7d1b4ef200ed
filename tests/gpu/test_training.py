"""Training on a GPU: memory that is too small, numbers that are none, compiled steps. Run with -m gpu."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.config import read_config
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.checkpoints import list_checkpoints
from headway.train.dataset import EpochShard
from headway.train.loader import MicroBatches
from headway.train.objectives import Example
from headway.train.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # the compiler warns of itself, in each version of something else
]
CUDA = torch.device("cuda")
SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=32_000)


class ManyPairs:
    """Long and many: a batch of them takes gigabytes."""

    skipped_summary, size = "", 4000

    def epoch(self, number: int) -> Iterator[EpochShard]:
        random = np.random.default_rng(0)
        lengths = random.integers(20, 100, (self.size, 2))
        rows = [Example(random.integers(4, 32_000, a), random.integers(4, 32_000, b)) for a, b in lengths]
        yield EpochShard(rows, lengths + np.array([0, 1]))

    def close(self) -> None: ...


def trainer(**train: Any) -> Trainer:
    stack = {"layers": 2, "mixer": "attention(8)", "feedforward": "relu(1024)", "residual": "pre"}
    model = {"d_model": 256, "vocabulary": 32_000, "dropout": 0.0, "encoder": stack, "decoder": stack}
    settings = {"batch_tokens": 60_000, "schedule": "constant(0.001)", **train}
    config = read_config({"model": model, "train": settings})
    torch.manual_seed(1)
    return Trainer(config, Transformer(config.model), ManyPairs(), SPECIAL, CUDA)


def stepped(of: Trainer, pieces: MicroBatches) -> float:
    return float(of.step(pieces, sum(piece.label_count for piece in pieces)).loss)


def test_a_batch_that_does_not_fit_is_taken_in_pieces_and_the_step_is_the_same() -> None:
    roomy = trainer(batch_tokens=60_000)
    steps = roomy.steps()
    expected = [stepped(roomy, next(steps)) for _ in range(3)]
    assert roomy.loader.micro_batch_tokens == 60_000
    del roomy, steps
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(CUDA).total_memory
    torch.cuda.set_per_process_memory_fraction(4e9 / total)
    try:
        tight = trainer(batch_tokens=60_000)
        steps = tight.steps()
        found = [stepped(tight, next(steps)) for _ in range(3)]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    print(f"60,000 tokens were asked for at once, {tight.loader.micro_batch_tokens} fit into 4 GB")
    assert tight.loader.micro_batch_tokens < 60_000
    assert found == pytest.approx(expected, rel=1e-3)  # TF32: sums in another order


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "muon", "sgd"])
def test_a_step_that_is_no_number_changes_nothing(optimiser: str) -> None:
    one = trainer(optimiser=optimiser, batch_tokens=4000)
    steps = one.steps()
    stepped(one, next(steps))
    before = {name: weights.clone() for name, weights in one.model.state_dict().items()}
    loss = one.loss

    def no_number(*given: Any) -> Any:
        output = loss(*given)
        return output._replace(loss=output.loss * math.nan)

    one.loss = no_number  # type: ignore[assignment]
    stepped(one, next(steps))
    assert all(torch.equal(weights, before[name]) for name, weights in one.model.state_dict().items())
    assert (int(one.finite_guard.skipped), int(one.finite_guard.streak)) == (1, 1)
    one.loss = loss
    stepped(one, next(steps))
    assert any(not torch.equal(weights, before[name]) for name, weights in one.model.state_dict().items())
    assert int(one.finite_guard.streak) == 0
    assert all(bool(torch.isfinite(weights).all()) for weights in one.model.state_dict().values())


def test_compiled_steps_are_the_steps() -> None:
    losses = []
    for compile_ in ("off", "on"):
        one = trainer(batch_tokens=4000, compile=compile_)
        steps = one.steps()
        losses.append([stepped(one, next(steps)) for _ in range(6)])
    # Grouping differs a little when shapes are compiled; both learn.
    assert all(found[-1] < found[0] for found in losses)
    assert losses[0][0] == pytest.approx(losses[1][0], rel=0.02)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    straight, first = trainer(batch_tokens=4000, ema=0.9), trainer(batch_tokens=4000, ema=0.9)
    steps = straight.steps()
    expected = [stepped(straight, next(steps)) for _ in range(6)]
    steps = first.steps()
    found = [stepped(first, next(steps)) for _ in range(3)]
    first.save(tmp_path, 1.0)
    second = trainer(batch_tokens=4000, ema=0.9)
    second.restore(list_checkpoints(tmp_path)[-1].read())
    steps = second.steps()
    found += [stepped(second, next(steps)) for _ in range(3)]
    assert found == pytest.approx(expected, rel=1e-4)
