"""What a run reads: rows and lines hold the same sentences, and a model learns the same from both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.config import from_table
from headway.data.batches import line_sizes, packed_batches
from headway.errors import ConfigError
from headway.nn.transformer import Transformer
from headway.train import checkpoints
from headway.train.cuda_graphs import can_capture
from headway.train.dataset import Portion
from headway.train.distributed import ALONE, Team
from headway.train.loader import Lines, Rows, read
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example, Marks, unpacked
from headway.train.trainer import Trainer

MARKS = Marks(pad=0, start=1, end=2, mask=3, vocabulary=64)
SIDE = {"layers": 2, "mixer": "attention(4, 2)", "feedforward": "relu(16)", "residual": "pre"}


class Pairs:
    left_out = ""

    def __init__(self, size: int = 40, longest: int = 12) -> None:
        random = np.random.default_rng(size)
        lengths = random.integers(1, longest, (size, 2))
        rows = [[random.integers(4, 64, length) for length in pair] for pair in lengths]
        self.size = size
        self.examples = [Example(np.append(source, 2), target) for source, target in rows]

    @property
    def portion(self) -> Portion:
        return Portion(self.examples, np.array([(len(e.source), len(e.target) + 1) for e in self.examples]))

    def epoch(self, number: int) -> Any:
        yield self.portion

    def close(self) -> None: ...


def settings(decoder: dict[str, Any] | None = None, encoder: dict[str, Any] | None = None, **train: Any) -> Any:
    model = {"d_model": 16, "vocabulary": 64, "dropout": 0.0}
    sides = {"encoder": SIDE | (encoder or {}), "decoder": SIDE | (decoder or {})}
    return from_table({"model": model | sides, "train": {"longest": 16, "schedule": "constant(0.01)", **train}})


def line_of(examples: list[Example], sizes: tuple[int, int] = (320, 384)) -> Batch:
    return settings().train.objective.pack(examples, MARKS, sizes, 16)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("decoder", "encoder"),
    [
        ({}, {}),
        ({"position": "rope"}, {"position": "rope"}),
        ({"position": "learned(16)", "mask": "causal & local(3)"}, {"mask": "local(2)"}),
        ({"mask": ["causal & segments(4, 2)", "causal"], "residual": "post"}, {"position": "none"}),
    ],
    ids=["plain", "rope", "windows", "segments"],
)
def test_a_line_teaches_what_rows_teach(decoder: dict[str, Any], encoder: dict[str, Any]) -> None:
    config = settings(decoder, encoder)
    torch.manual_seed(0)
    model = Transformer(config.model).double()
    examples = Pairs().examples
    rows = config.train.objective.collate(examples, MARKS, np.random.default_rng(0))
    line = line_of(examples)
    assert (line.labelled, line.tokens) == (rows.labelled, rows.tokens)
    found = []
    for batch in (rows, line):
        loss = batch_loss(model, batch, 0.1).loss
        found.append((loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_line_can_be_taken_apart() -> None:
    examples = Pairs().examples
    again = unpacked(line_of(examples))
    assert [(a.source.tolist(), a.target.tolist()) for a in again] == [
        (a.source.tolist(), a.target.tolist()) for a in examples
    ]


def test_lines_hold_every_example_once_and_little_else() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, (5000, 2)) * [1, 2]
    sizes = line_sizes(lengths, 4096, 120)
    assert sizes[1] == 4096 and 2048 <= sizes[0] <= 2048 + 128
    lines = packed_batches(lengths, sizes, [1, 2])
    assert sorted(np.concatenate(lines).tolist()) == list(range(5000))
    assert all((lengths[line].sum(0) <= sizes).all() for line in lines)
    assert lengths.sum() / (len(lines) * sum(sizes)) > 0.95
    assert [line.tolist() for line in lines] != [line.tolist() for line in packed_batches(lengths, sizes, [1, 3])]


def test_a_small_corpus_gets_small_lines() -> None:
    assert line_sizes(np.array([[5, 7], [3, 4]]), 4096, 10) == (64, 64)
    assert line_sizes(np.array([[5, 7], [3, 4]]), 4096, 100) == (128, 128)


@pytest.mark.parametrize(("at_once", "size"), [(512, 1), (128, 1), (128, 3)])
def test_every_process_reads_its_own_part_of_every_step(at_once: int, size: int) -> None:
    config, pairs = settings(batch_tokens=512), Pairs(300)
    seen: list[str] = []
    shapes = set()
    for rank in range(size):
        feed = Lines(config.train, MARKS, Team(rank, size), at_once, pins=False)
        for step in read(pairs, feed, 1, rank, 0, 0):
            if not step:
                break
            assert len(step) <= -(-512 // size // at_once) + 1
            shapes |= {tuple(x.labels.shape) for x in step}
            seen += [str(e.source.tolist()) for x in step if x.labelled for e in unpacked(x)]
    assert sorted(seen) == sorted(str(e.source.tolist()) for e in pairs.examples)
    assert len(shapes) == 1


@pytest.mark.parametrize("order", ["as they come", "long ones first"])
def test_a_line_that_does_not_fit_is_cut(order: str) -> None:
    config, examples = settings(batch_tokens=512), Pairs().examples
    if order == "long ones first":
        examples = sorted(examples, key=lambda example: -len(example.target))
    feed = Lines(config.train, MARKS, ALONE, 512, pins=False)
    line = line_of(examples)
    assert feed.fits(line) and list(feed.parts(line)) == [line]
    for at_once, most in ((line.width // 2, 3), (100, 8), (20, 40)):
        feed.at_once = at_once
        parts = list(feed.parts(line))
        assert 1 < len(parts) <= most and sum(part.labelled for part in parts) == line.labelled
        assert all(part.texts == 1 or part.width <= max(1.25 * at_once, 64) for part in parts)
        found = [e.target.tolist() for part in parts for e in unpacked(part)]
        assert found == [e.target.tolist() for e in examples]


@pytest.mark.parametrize(("tokens", "at_once", "size"), [(512, 8, 1), (512, 512, 4), (64, 512, 1), (100, 10, 1)])
def test_a_step_holds_what_was_asked_for(tokens: int, at_once: int, size: int) -> None:
    """Or, where that is less than the longest text, one line."""
    config, pairs = settings(batch_tokens=tokens), Pairs(300)
    feeds = [Lines(config.train, MARKS, Team(rank, size), at_once, pins=False) for rank in range(size)]
    steps = [next(read(pairs, feed, 1, feed.team.rank, 0, 0)) for feed in feeds]
    held = sum(piece.labelled for step in steps for piece in step)
    assert 0.6 * tokens <= held <= tokens + 64 * size * len(steps[0])


def trained(batches: str, **train: Any) -> list[float]:
    config = settings(batches=batches, batch_tokens=512, **train)
    torch.manual_seed(1)
    trainer = Trainer(config, Transformer(config.model), Pairs(300), MARKS, torch.device("cpu"))
    assert isinstance(trainer.feed, Lines if batches == "lines" else Rows)
    losses = []
    for step in trainer.steps():
        if step:
            losses.append(float(trainer.step(step, sum(piece.labelled for piece in step)).loss))
        else:
            trainer.end_epoch()
        if len(losses) == 25:
            return losses
    raise AssertionError


def test_a_model_learns_from_lines() -> None:
    lines, pieces = trained("lines"), trained("lines", micro_batch_tokens=128)
    assert sum(lines[-5:]) < sum(lines[:5]) and sum(pieces[-5:]) < sum(pieces[:5])
    assert isinstance(
        Trainer(settings(), Transformer(settings().model), Pairs(), MARKS, torch.device("cpu")).feed, Rows
    )


def saved_run(folder: Path, steps: int = 3, **train: Any) -> checkpoints.Saved:
    config = settings(batch_tokens=512, **train)
    trainer = Trainer(config, Transformer(config.model), Pairs(300), MARKS, torch.device("cpu"))
    for step, _ in zip(trainer.steps(), range(steps)):
        trainer.step(step, sum(piece.labelled for piece in step))
    trainer.save(folder, 0.0, text="")
    saved = checkpoints.newest(folder, [])
    assert saved is not None
    return saved


def gone_on(saved: checkpoints.Saved, pairs: Pairs, **train: Any) -> Trainer:
    config = settings(**{"batch_tokens": 512, **train})
    trainer = Trainer(config, Transformer(config.model), pairs, MARKS, torch.device("cpu"))
    trainer.restore(saved)
    return trainer


def test_a_run_goes_on_with_lines_of_the_same_size(tmp_path: Path) -> None:
    """Though the corpus may by now suggest others."""
    saved = saved_run(tmp_path, batches="lines")
    same = gone_on(saved, Pairs(60, longest=5), batches="lines")
    assert same.feed.told() == saved.state["lines"] and same.at.batch == 3


@pytest.mark.parametrize(
    "changed",
    [{"batches": "rows"}, {"batch_tokens": 300}, {"micro_batch_tokens": 128}, {"longest": 32}],
    ids=lambda changed: next(iter(changed)),
)
def test_other_batches_begin_a_new_epoch(tmp_path: Path, changed: dict[str, Any]) -> None:
    trainer = gone_on(saved_run(tmp_path, batches="lines"), Pairs(300), **{"batches": "lines", **changed})
    assert (trainer.at.epoch, trainer.at.batch) == (1, 0)
    assert next(trainer.steps())


def test_rows_after_lines_and_lines_after_rows_begin_a_new_epoch(tmp_path: Path) -> None:
    assert gone_on(saved_run(tmp_path, batches="rows"), Pairs(300), batches="lines").at.epoch == 1
    assert gone_on(saved_run(tmp_path, batches="rows"), Pairs(300), batches="rows").at.epoch == 0


def test_a_text_that_fits_no_line_is_not_waited_for() -> None:
    with pytest.raises(ValueError, match="a text of .200, 3. tokens does not fit into lines of"):
        packed_batches(np.array([[200, 3], [2, 2]]), (64, 64), [1])


@pytest.mark.parametrize(
    ("decoder", "train", "reason"),
    [
        (
            {"mixer": "retention(2)", "position": "rope"},
            {},
            "only attention keeps them apart, and decoder has retention",
        ),
        ({"position": "alibi"}, {}, "scores are not bent, and decoder has alibi positions"),
        ({"mask": "causal & strided(4)"}, {}, "a token sees one stretch of its own, and decoder has other masks"),
        ({"mixer": "attention(4, kernel='math')"}, {}, 'only kernel = "auto" keeps the texts of a line apart'),
        ({"mixer": "attention(4, d_k=132)"}, {}, "heads are at most 128 wide, and decoder has wider ones"),
        ({}, {"batch_tokens": 10}, "a line holds train.longest = 16 tokens, and batch_tokens = 10 is less"),
        ({}, {"alignment": "guided"}, "only for translation without guided alignment"),
    ],
)
def test_what_cannot_lie_in_lines(decoder: dict[str, Any], train: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(decoder, batches="lines", **train)
    assert str(refused.value).startswith("train.batches: ") and reason in str(refused.value)
    config = settings(decoder, **train)
    assert config.train.batches == "auto"


@pytest.mark.parametrize(
    ("train", "decoder", "able"),
    [
        ({}, {}, True),
        ({"optimiser": "muon"}, {}, True),
        ({"optimiser": "sgd"}, {}, False),
        ({}, {"feedforward": "moe(4, 2)"}, False),
    ],
)
def test_what_can_be_captured(train: dict[str, Any], decoder: dict[str, Any], able: bool) -> None:
    config = settings(decoder, **train)
    model = Transformer(config.model)
    assert can_capture(model, config.train.optimiser.build(model)) is able
