"""Training that remembers: rows that go on from step to step, gradients that do not, runs that go on after a stop."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.config.config import Config, read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train import checkpoints
from headway.train.lm_dataset import ContiguousTextDataset, make_validation_dataset
from headway.train.trainer import Trainer
from headway.train.validation import mean_loss

SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)


def make_config(decoder: dict[str, Any] | None = None, **train: Any) -> Config:
    stack = {"layers": 2, "position": "transformer_xl", "mask": "causal & segments(8, 8)", "mixer": "attention(2)",
             "feedforward": "relu(16)", **(decoder or {})}  # fmt: skip
    model = {"d_model": 8, "vocabulary": 64, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": stack}
    settings = {"objective": "causal(true)", "batch_tokens": 32, "max_tokens": 8, "schedule": "constant(0.01)", **train}
    return read_config({"model": model, "train": settings})


def stream(tokens: int = 400) -> np.ndarray:
    return np.random.default_rng(0).integers(4, 64, tokens)


def make_trainer(**train: Any) -> Trainer:
    config = make_config(**train)
    torch.manual_seed(1)
    model = Transformer(config.model)
    corpus = ContiguousTextDataset(stream(), config.train.max_tokens, config.train.batch_tokens, seed=1)
    return Trainer(config, model, corpus, SPECIAL, torch.device("cpu"))


def take(trainer: Trainer, count: int) -> list[float]:
    losses: list[float] = []
    for pieces in trainer.steps():
        if pieces:
            losses.append(float(trainer.step(pieces, sum(piece.label_count for piece in pieces)).loss))
        else:
            trainer.end_epoch()
        if len(losses) == count:
            break
    return losses


@pytest.mark.parametrize("tokens", [2, 9, 33, 100, 397, 400, 1003])
def test_lanes_read_every_token_once_and_each_row_goes_on(tokens: int) -> None:
    text = np.arange(tokens)
    corpus = ContiguousTextDataset(text, 8, budget=32)
    [portion] = corpus.epoch(0)
    read = {row: [] for row in range(corpus.rows)}  # type: ignore[var-annotated]
    for batch in portion.batches(0, []):
        assert len(batch) == corpus.rows
        for row, index in enumerate(batch):
            piece = portion.examples[index].target
            assert portion.lengths[index, 1] == len(piece) <= 9
            if read[row] and len(piece) > 1:
                assert piece[0] == read[row][-1]  # what was guessed last is read first
            read[row] += piece[1:].tolist()
    assert [token for row in read.values() for token in row] == list(range(1, tokens))
    assert corpus.size == tokens - 1


def test_every_epoch_begins_elsewhere_and_rows_are_no_more_than_make_sense() -> None:
    corpus = ContiguousTextDataset(np.arange(1001), 8, budget=64, seed=3)
    firsts = {int(next(corpus.epoch(number)).examples[0].target[0]) for number in range(20)}
    assert len(firsts) > 4 and max(firsts) < 8
    assert corpus.rows == 8
    assert ContiguousTextDataset(np.arange(101), 8, budget=64).rows == 3  # four pieces each
    assert ContiguousTextDataset(np.arange(9), 8, budget=64).rows == 1


def test_a_step_reads_on_with_what_the_step_before_left() -> None:
    trainer = make_trainer(schedule="constant(0.0)")
    steps = trainer.steps()
    first, second = next(steps)[0], next(steps)[0]
    losses = [float(trainer.step([piece], piece.label_count).loss) for piece in (first, second)]
    together = torch.cat([first.inputs, second.inputs], 1)  # type: ignore[list-item]
    hidden = trainer.model.decode(together)[:, first.labels.shape[1] :]
    logits = trainer.model.logits(hidden).flatten(0, 1)
    smooth = trainer.settings.label_smoothing
    whole = torch.nn.functional.cross_entropy(logits, second.labels.flatten(), label_smoothing=smooth)
    assert losses[1] == pytest.approx(whole.item(), rel=1e-5)
    alone = trainer.loss(second.to(trainer.device)).loss / second.label_count
    assert abs(losses[1] - alone.item()) > 1e-4


@pytest.mark.parametrize(
    "recurrent",
    [
        {"mixer": "retention(2, chunk=4)", "mask": "causal", "position": "rope"},
        {"mixer": "rwkv7(2)", "mask": "causal", "position": "none", "feedforward": "rwkv_channel_mix(24)"},
    ],
    ids=lambda side: side["mixer"],
)
def test_a_sum_that_fades_is_carried_too(recurrent: dict[str, Any]) -> None:
    config = make_config(recurrent)
    torch.manual_seed(1)
    trainer = Trainer(
        config, Transformer(config.model), ContiguousTextDataset(stream(), 8, 32, seed=1), SPECIAL, torch.device("cpu")
    )
    assert all(np.isfinite(take(trainer, 5)))
    (state,) = trainer.carried_state.states
    assert state.lengths.tolist() == [40] * 4 and not any(x.requires_grad for x in state.tensors().values())


def test_memory_tokens_are_carried_too(tmp_path: Path) -> None:
    """A stopped run goes on with the memory that its last step left."""
    config = make_config({"memory_tokens": "recurrent(2, 4)", "mask": "causal", "position": "learned(4)"})

    def trainer() -> Trainer:
        torch.manual_seed(1)
        text = ContiguousTextDataset(stream(), 8, 32, seed=1)
        return Trainer(config, Transformer(config.model), text, SPECIAL, torch.device("cpu"))

    losses, first, second = take(trainer(), 7), trainer(), trainer()
    take(first, 4)
    (state,) = first.carried_state.states
    tensors = state.tensors()
    assert state.lengths.tolist() == [32] * 4 and not any(x.requires_grad for x in tensors.values())
    assert tensors["0.memory_tokens.vectors"].shape[:2] == (4, 2)
    assert tensors["0.memory_tokens.segment.0.self.lengths"].tolist() == [0] * 4, "a step ends with a segment"
    first.save(tmp_path, 0.0, text="")
    saved = checkpoints.read_newest(tmp_path, [])
    assert saved is not None
    second.restore(saved)
    assert take(second, 3) == losses[4:]


def test_pieces_of_a_step_keep_their_own_memory() -> None:
    """Four rows at once, or two and two: the same steps."""
    whole = take(make_trainer(), 12)
    parts = take(make_trainer(micro_batch_tokens=16), 12)
    assert whole == pytest.approx(parts, rel=1e-4)


def test_a_run_that_was_stopped_remembers(tmp_path: Path) -> None:
    whole = make_trainer()
    losses = take(whole, 17)  # into the second epoch
    first = make_trainer()
    take(first, 9)
    first.save(tmp_path, 0.0, text="")
    saved = checkpoints.read_newest(tmp_path, [])
    assert saved is not None
    assert any(name.startswith("carried.0.0.") for name in saved.training)
    second = make_trainer()
    second.restore(saved)
    assert take(second, 8) == losses[9:]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[name], value), name


def test_another_number_of_processes_begins_with_nothing_remembered(tmp_path: Path) -> None:
    trainer = make_trainer()
    take(trainer, 3)
    trainer.save(tmp_path, 0.0, text="")
    saved = checkpoints.read_newest(tmp_path, [])
    assert saved is not None and saved.carried_state(0, 1)
    assert saved.carried_state(0, 2) == {}


def test_a_run_may_go_on_with_other_pieces(tmp_path: Path) -> None:
    """Their rows remember nothing at first; then they do."""
    trainer = make_trainer()
    take(trainer, 3)
    trainer.save(tmp_path, 0.0, text="")
    saved = checkpoints.read_newest(tmp_path, [])
    assert saved is not None
    other = make_trainer(micro_batch_tokens=16)
    other.restore(saved)
    assert all(np.isfinite(take(other, 2)))
    assert [state.lengths.tolist() for state in other.carried_state.states] == [[16]] * 4


def test_what_is_no_number_is_not_remembered() -> None:
    trainer = make_trainer()
    take(trainer, 2)
    for state in trainer.carried_state.states:
        for tensor in state.tensors().values():
            if tensor.is_floating_point():
                tensor[0].fill_(torch.nan)
    trainer.carried_state.detach()
    assert all(x.isfinite().all() for x in trainer.carried_state.tensors().values())
    assert all(np.isfinite(take(trainer, 2)))


def test_an_epoch_begins_with_nothing_remembered() -> None:
    trainer = make_trainer()
    take(trainer, 3)
    assert trainer.carried_state.states
    trainer.end_epoch()
    assert not trainer.carried_state.states


def test_measured_loss_does_not_depend_on_how_the_text_was_cut() -> None:
    """In one piece, or read on with a memory that reaches as far as the mask."""
    config = make_config()
    model = Transformer(config.model).double().eval()
    text = stream(33)
    found = mean_loss(model, make_validation_dataset(text, 8, config.train.objective), config, SPECIAL)
    hidden = model.decode(torch.tensor(text[None, :-1]))
    whole = torch.nn.functional.cross_entropy(model.logits(hidden)[0].float(), torch.tensor(text[1:]))
    assert found.loss == pytest.approx(whole.item(), rel=1e-6) and found.tokens == 32
    other = make_config(objective="causal")
    apart = mean_loss(model, make_validation_dataset(text, 8, other.train.objective), other, SPECIAL)
    assert abs(apart.loss - found.loss) > 1e-4


@pytest.mark.parametrize(
    ("decoder", "train", "message"),
    [
        ({"position": "sinusoidal"}, {}, "model.decoder.position: with carry, a text continues from step to step"),
        (
            {"mask": "causal"},
            {},
            'model.decoder.mask: with carry, a layer keeps everything that its mask can see, and "causal"',
        ),
        ({}, {"compile": "on"}, "train.compile: with carry, the carried state changes its size"),
    ],
)
def test_what_cannot_be_carried(decoder: dict[str, Any], train: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_config(decoder, **train)
    assert str(refused.value).startswith(message)


def test_too_little_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make_trainer()

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(trainer, "_accumulate", full)
    with pytest.raises(HeadwayError, match="tokens does not fit into GPU memory. Set"):
        take(trainer, 1)
