"""A micro-batch that does not fit the memory is halved, and the step is the same step."""

from typing import Any

import pytest
import torch
from train.test_trainer import make_trainer, stepped, weights_of

from headway.errors import HeadwayError
from headway.train.distributed import ProcessGroup
from headway.train.objectives import Batch
from headway.train.trainer import Trainer


def short_of_memory(trainer: Trainer, rows: int) -> list[int]:
    """Let the loss run out of memory for more than so many rows, half-way through; returns the sizes it was given."""
    loss, seen = trainer.loss, []

    def limited(batch: Batch, *more: Any) -> Any:
        seen.append(len(batch.labels))
        if len(batch.labels) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return loss(batch, *more)

    trainer.loss = limited  # type: ignore[assignment]
    return seen


def test_the_step_is_the_same_in_smaller_pieces() -> None:
    settings: dict[str, Any] = {"optimiser": "sgd", "schedule": "constant(0.1)", "batch_tokens": 512}
    roomy, tight = make_trainer(**settings), make_trainer(**settings)
    seen = short_of_memory(tight, 5)
    losses = []
    for trainer in (roomy, tight):
        steps = trainer.steps()
        losses.append([stepped(trainer, next(steps)) for _ in range(3)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for name, weight in weights_of(roomy).items():
        torch.testing.assert_close(weight, weights_of(tight)[name], rtol=1e-5, atol=1e-6, msg=name)
    assert max(seen) > 5 >= seen[-1]
    assert tight.loader.micro_batch_tokens < roomy.loader.micro_batch_tokens
    assert sum(size > 5 for size in seen) < 8  # it remembers


def test_less_at_once_is_known_to_later_steps() -> None:
    trainer = make_trainer(batch_tokens=512)
    trainer.loader.micro_batch_tokens = 40
    pieces = next(trainer.steps())
    assert all(len(piece.labels) * max(piece.labels.shape[1], piece.source.shape[1]) <= 40 for piece in pieces)  # type: ignore[union-attr]


def test_an_example_that_does_not_fit_alone_ends_the_run_with_advice() -> None:
    trainer = make_trainer()
    short_of_memory(trainer, 0)
    with pytest.raises(HeadwayError, match=r"a single example does not fit into GPU memory. Set train.micro"):
        stepped(trainer, next(trainer.steps()))


def test_several_processes_are_told_what_to_set() -> None:
    trainer = make_trainer()
    short_of_memory(trainer, 2)
    pieces = next(trainer.steps())
    trainer.group = ProcessGroup(0, 2)
    trainer.loss.no_sync = torch.no_grad  # type: ignore[attr-defined]
    with pytest.raises(HeadwayError, match=r"tokens does not fit into GPU memory. Set train.micro_batch"):
        stepped(trainer, pieces)
