"""The data loaders: padded and packed batches hold the same sentences, and a model learns the same from both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.config import read_config
from headway.data.batches import choose_packed_sizes, make_packed_batches
from headway.errors import ConfigError
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train import checkpoints
from headway.train.cuda_graphs import StepGraphs
from headway.train.dataset import EpochShard
from headway.train.distributed import SINGLE_PROCESS, ProcessGroup
from headway.train.loader import PackedLoader, PaddedLoader, read_steps
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example, unpack_batch
from headway.train.trainer import Trainer

SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)
SIDE = {"layers": 2, "mixer": "attention(4, 2)", "feedforward": "relu(16)", "residual": "pre"}


class Pairs:
    skipped_summary = ""

    def __init__(self, size: int = 40, longest: int = 12) -> None:
        random = np.random.default_rng(size)
        lengths = random.integers(1, longest, (size, 2))
        rows = [[random.integers(4, 64, length) for length in pair] for pair in lengths]
        self.size = size
        self.examples = [Example(np.append(source, 2), target) for source, target in rows]

    @property
    def portion(self) -> EpochShard:
        return EpochShard(self.examples, np.array([(len(e.source), len(e.target) + 1) for e in self.examples]))

    def epoch(self, number: int) -> Any:
        yield self.portion

    def close(self) -> None: ...


def settings(decoder: dict[str, Any] | None = None, encoder: dict[str, Any] | None = None, **train: Any) -> Any:
    model = {"d_model": 16, "vocabulary": 64, "dropout": 0.0}
    sides = {"encoder": SIDE | (encoder or {}), "decoder": SIDE | (decoder or {})}
    return read_config({"model": model | sides, "train": {"max_tokens": 16, "schedule": "constant(0.01)", **train}})


def pack_examples(examples: list[Example], sizes: tuple[int, int] = (320, 384)) -> Batch:
    return settings().train.objective.pack(examples, SPECIAL, sizes, 16)  # type: ignore[no-any-return]


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
def test_a_packed_batch_teaches_what_a_padded_one_teaches(decoder: dict[str, Any], encoder: dict[str, Any]) -> None:
    config = settings(decoder, encoder)
    torch.manual_seed(0)
    model = Transformer(config.model).double()
    examples = Pairs().examples
    padded = config.train.objective.collate(examples, SPECIAL, np.random.default_rng(0))
    packed = pack_examples(examples)
    assert (packed.label_count, packed.token_count) == (padded.label_count, padded.token_count)
    found = []
    for batch in (padded, packed):
        loss = batch_loss(model, batch, 0.1).loss
        found.append((loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_packed_batch_can_be_unpacked() -> None:
    examples = Pairs().examples
    again = unpack_batch(pack_examples(examples))
    assert [(a.source.tolist(), a.target.tolist()) for a in again] == [
        (a.source.tolist(), a.target.tolist()) for a in examples
    ]


def test_packed_batches_hold_every_example_once_and_little_else() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, (5000, 2)) * [1, 2]
    sizes = choose_packed_sizes(lengths, 4096, 120)
    assert sizes[1] == 4096 and 2048 <= sizes[0] <= 2048 + 128
    packed_batches = make_packed_batches(lengths, sizes, [1, 2])
    assert sorted(np.concatenate(packed_batches).tolist()) == list(range(5000))
    assert all((lengths[own].sum(0) <= sizes).all() for own in packed_batches)
    assert lengths.sum() / (len(packed_batches) * sum(sizes)) > 0.95
    assert [own.tolist() for own in packed_batches] != [
        own.tolist() for own in make_packed_batches(lengths, sizes, [1, 3])
    ]


def test_a_small_corpus_gets_small_packed_batches() -> None:
    assert choose_packed_sizes(np.array([[5, 7], [3, 4]]), 4096, 10) == (64, 64)
    assert choose_packed_sizes(np.array([[5, 7], [3, 4]]), 4096, 100) == (128, 128)


@pytest.mark.parametrize(("max_tokens", "size"), [(512, 1), (128, 1), (128, 3)])
def test_every_process_reads_its_own_part_of_every_step(max_tokens: int, size: int) -> None:
    config, pairs = settings(batch_tokens=512), Pairs(300)
    seen: list[str] = []
    shapes = set()
    for rank in range(size):
        loader = PackedLoader(config.train, SPECIAL, ProcessGroup(rank, size), max_tokens, pin_memory=False)
        for step in read_steps(pairs, loader, 1, rank, 0, 0):
            if not step:
                break
            assert len(step) <= -(-512 // size // max_tokens) + 1
            shapes |= {tuple(x.labels.shape) for x in step}
            seen += [str(e.source.tolist()) for x in step if x.label_count for e in unpack_batch(x)]
    assert sorted(seen) == sorted(str(e.source.tolist()) for e in pairs.examples)
    assert len(shapes) == 1


@pytest.mark.parametrize("order", ["as they come", "long ones first"])
def test_a_packed_batch_that_does_not_fit_is_split(order: str) -> None:
    config, examples = settings(batch_tokens=512), Pairs().examples
    if order == "long ones first":
        examples = sorted(examples, key=lambda example: -len(example.target))
    loader = PackedLoader(config.train, SPECIAL, SINGLE_PROCESS, 512, pin_memory=False)
    packed = pack_examples(examples)
    assert loader.fits(packed) and list(loader.split(packed)) == [packed]
    for max_tokens, most in ((packed.width // 2, 3), (100, 8), (20, 40)):
        loader.micro_batch_tokens = max_tokens
        parts = list(loader.split(packed))
        assert 1 < len(parts) <= most and sum(part.label_count for part in parts) == packed.label_count
        assert all(part.text_count == 1 or part.width <= max(1.25 * max_tokens, 64) for part in parts)
        found = [e.target.tolist() for part in parts for e in unpack_batch(part)]
        assert found == [e.target.tolist() for e in examples]


@pytest.mark.parametrize(("tokens", "max_tokens", "size"), [(512, 8, 1), (512, 512, 4), (64, 512, 1), (100, 10, 1)])
def test_a_step_holds_what_was_asked_for(tokens: int, max_tokens: int, size: int) -> None:
    """Or, where that is less than the longest text, one packed sequence."""
    config, pairs = settings(batch_tokens=tokens), Pairs(300)
    loaders = [
        PackedLoader(config.train, SPECIAL, ProcessGroup(rank, size), max_tokens, pin_memory=False)
        for rank in range(size)
    ]
    steps = [next(read_steps(pairs, loader, 1, loader.group.rank, 0, 0)) for loader in loaders]
    held = sum(piece.label_count for step in steps for piece in step)
    assert 0.6 * tokens <= held <= tokens + 64 * size * len(steps[0])


def trained(batches: str, **train: Any) -> list[float]:
    config = settings(batches=batches, batch_tokens=512, **train)
    torch.manual_seed(1)
    trainer = Trainer(config, Transformer(config.model), Pairs(300), SPECIAL, torch.device("cpu"))
    assert isinstance(trainer.loader, PackedLoader if batches == "packed" else PaddedLoader)
    losses = []
    for step in trainer.steps():
        if step:
            losses.append(float(trainer.step(step, sum(piece.label_count for piece in step)).loss))
        else:
            trainer.end_epoch()
        if len(losses) == 25:
            return losses
    raise AssertionError


def test_a_model_learns_from_lines() -> None:
    packed_batches, pieces = trained("packed"), trained("packed", micro_batch_tokens=128)
    assert sum(packed_batches[-5:]) < sum(packed_batches[:5]) and sum(pieces[-5:]) < sum(pieces[:5])
    assert isinstance(
        Trainer(settings(), Transformer(settings().model), Pairs(), SPECIAL, torch.device("cpu")).loader, PaddedLoader
    )


def saved_run(folder: Path, steps: int = 3, **train: Any) -> checkpoints.CheckpointContents:
    config = settings(batch_tokens=512, **train)
    trainer = Trainer(config, Transformer(config.model), Pairs(300), SPECIAL, torch.device("cpu"))
    for step, _ in zip(trainer.steps(), range(steps)):
        trainer.step(step, sum(piece.label_count for piece in step))
    trainer.save(folder, 0.0, text="")
    saved = checkpoints.read_newest(folder, [])
    assert saved is not None
    return saved


def gone_on(saved: checkpoints.CheckpointContents, pairs: Pairs, **train: Any) -> Trainer:
    config = settings(**{"batch_tokens": 512, **train})
    trainer = Trainer(config, Transformer(config.model), pairs, SPECIAL, torch.device("cpu"))
    trainer.restore(saved)
    return trainer


def test_a_run_goes_on_with_lines_of_the_same_size(tmp_path: Path) -> None:
    """Though the corpus may by now suggest others."""
    saved = saved_run(tmp_path, batches="packed")
    same = gone_on(saved, Pairs(60, longest=5), batches="packed")
    assert same.loader.fingerprint() == saved.state["lines"] and same.state.batch == 3


@pytest.mark.parametrize(
    "changed",
    [{"batches": "padded"}, {"batch_tokens": 300}, {"micro_batch_tokens": 128}, {"max_tokens": 32}],
    ids=lambda changed: next(iter(changed)),
)
def test_other_batches_begin_a_new_epoch(tmp_path: Path, changed: dict[str, Any]) -> None:
    trainer = gone_on(saved_run(tmp_path, batches="packed"), Pairs(300), **{"batches": "packed", **changed})
    assert (trainer.state.epoch, trainer.state.batch) == (1, 0)
    assert next(trainer.steps())


def test_rows_after_lines_and_lines_after_rows_begin_a_new_epoch(tmp_path: Path) -> None:
    assert gone_on(saved_run(tmp_path, batches="padded"), Pairs(300), batches="packed").state.epoch == 1
    assert gone_on(saved_run(tmp_path, batches="padded"), Pairs(300), batches="padded").state.epoch == 0


def test_a_text_that_fits_no_line_is_not_waited_for() -> None:
    with pytest.raises(ValueError, match="a text of .200, 3. tokens does not fit a packed sequence of"):
        make_packed_batches(np.array([[200, 3], [2, 2]]), (64, 64), [1])


@pytest.mark.parametrize(
    ("decoder", "train", "reason"),
    [
        (
            {"mixer": "retention(2)", "position": "rope"},
            {},
            "packed batches need attention in every layer, and decoder has retention",
        ),
        ({"position": "alibi"}, {}, "need positions that leave scores alone, and decoder has alibi"),
        ({"mask": "causal & strided(4)"}, {}, "need masks of one interval per query, and decoder has others"),
        ({"mixer": "attention(4, kernel='math')"}, {}, 'packed batches need kernel = "auto", and decoder has "math"'),
        ({"mixer": "attention(4, d_k=132)"}, {}, "need heads of width 128 or less, and decoder has wider ones"),
        (
            {},
            {"batch_tokens": 10},
            "a packed sequence holds at least train.max_tokens = 16 tokens, and batch_tokens = 10 is less",
        ),
        ({}, {"alignment": "guided"}, "packed batches support only translation without guided alignment"),
    ],
)
def test_what_cannot_be_packed(decoder: dict[str, Any], train: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(decoder, batches="packed", **train)
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
    assert (StepGraphs.unsupported(model, config.train.optimiser.build(model)) == "") is able
