"""What is learned: which token is the label of which place, and what the loss counts."""

import math

import numpy as np
import pytest
import torch

from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.loss import batch_loss
from headway.train.objectives import Batch, Example, pad_sequences

SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, vocabulary=64)
NOTHING = np.array([], dtype=np.int32)


def ids(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


def collate(kind: str, examples: list[Example], seed: int = 0) -> Batch:
    batch = make_part("objective", kind).collate(examples, SPECIAL, np.random.default_rng(seed))  # type: ignore[attr-defined]
    assert isinstance(batch, Batch)
    return batch


def test_padding_is_behind_and_not_valid() -> None:
    rows, valid = pad_sequences([ids(5, 6, 7), ids(8)], 0, lead=[1], tail=[2])
    assert rows[:, :5].tolist() == [[1, 5, 6, 7, 2], [1, 8, 2, 0, 0]]
    assert valid.sum(1).tolist() == [5, 3]
    assert not rows[~valid].any()


def test_a_translator_reads_the_start_and_says_the_end() -> None:
    batch = collate("translation", [Example(ids(9, 8, 2), ids(5, 6, 7)), Example(ids(9, 2), ids(8))])
    assert batch.source is not None and batch.inputs is not None
    assert batch.source[:, :3].tolist() == [[9, 8, 2], [9, 2, 0]]
    assert batch.inputs[:, :4].tolist() == [[1, 5, 6, 7], [1, 8, 0, 0]]
    assert batch.labels[:, :4].tolist() == [[5, 6, 7, 2], [8, 2, IGNORE_INDEX, IGNORE_INDEX]]
    assert (batch.label_count, batch.token_count) == (6, 11)
    assert int((batch.labels != IGNORE_INDEX).sum()) == 6


def test_a_language_model_says_what_comes_next() -> None:
    batch = collate("causal", [Example(NOTHING, ids(1, 5, 6, 7)), Example(NOTHING, ids(8, 9))])
    assert batch.source is None and batch.inputs is not None
    assert batch.inputs[:, :3].tolist() == [[1, 5, 6], [8, 0, 0]]
    assert batch.labels[:, :3].tolist() == [[5, 6, 7], [9, IGNORE_INDEX, IGNORE_INDEX]]
    assert batch.label_count == 4


def test_masked_words_are_hidden_in_the_right_shares() -> None:
    examples = [Example(NOTHING, np.full(200, 50, dtype=np.int32)) for _ in range(100)]
    batch = collate("masked", examples)
    assert batch.source is not None and batch.inputs is None
    guessed = batch.labels != IGNORE_INDEX
    assert batch.label_count == int(guessed.sum())
    assert guessed.float().mean() == pytest.approx(0.15, abs=0.01)
    shown = batch.source[guessed]
    assert (shown == SPECIAL.mask).float().mean() == pytest.approx(0.8, abs=0.03)
    assert (shown == 50).float().mean() == pytest.approx(0.1, abs=0.03)
    swapped = shown[(shown != SPECIAL.mask) & (shown != 50)]
    assert len(swapped) / len(shown) == pytest.approx(0.1, abs=0.03)
    assert swapped.min() > SPECIAL.mask and swapped.max() < SPECIAL.vocabulary
    assert (batch.source[~guessed & batch.source_valid] == 50).all()
    assert (batch.labels[guessed] == 50).all()


def test_every_row_has_something_to_guess_and_padding_is_never_it() -> None:
    examples = [Example(NOTHING, ids(*range(4, 4 + length))) for length in range(1, 30)]
    batch = collate("masked(0.001)", examples)
    guessed = batch.labels != IGNORE_INDEX
    assert guessed.any(1).all()
    assert not (guessed & ~batch.source_valid).any()  # type: ignore[operator]


def test_chance_decides_what_is_hidden_and_the_same_chance_the_same() -> None:
    examples = [Example(NOTHING, ids(*range(4, 34)))] * 4
    first, again, other = collate("masked", examples, 1), collate("masked", examples, 1), collate("masked", examples, 2)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.labels, other.labels)


def tiny_model(**parts: object) -> Transformer:
    stack = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(16)"}
    settings = {"d_model": 8, "vocabulary": 64, "dropout": 0.0, "encoder": stack, "decoder": stack, **parts}
    return Transformer(Transformer.Config(**settings)).eval()  # type: ignore[arg-type]


def test_the_loss_is_smoothed_cross_entropy_without_padding() -> None:
    model, smoothing = tiny_model(), 0.1
    batch = collate("translation", [Example(ids(9, 8, 2), ids(5, 6, 7)), Example(ids(9, 2), ids(8))])
    expected = 0.0
    for row, length in ((0, 4), (1, 2)):
        output = model(
            batch.source[row : row + 1], batch.inputs[row : row + 1, :length], batch.source_valid[row : row + 1]
        )  # type: ignore[index]
        logps = model.logits(output.hidden)[0].detach().double().log_softmax(-1)
        for place in range(length):
            right = float(logps[place, batch.labels[row, place]])
            expected -= (1 - smoothing) * right + smoothing * float(logps[place].mean())
    assert float(batch_loss(model, batch, smoothing).loss.detach()) == pytest.approx(expected, rel=1e-5)


def test_what_stands_in_the_padding_does_not_change_the_loss() -> None:
    model = tiny_model()
    batch = collate("translation", [Example(ids(9, 8, 2), ids(5, 6, 7)), Example(ids(9, 2), ids(8))])
    assert batch.source is not None and batch.inputs is not None
    assert batch.source_valid is not None and batch.inputs_valid is not None
    other = batch._replace(
        source=batch.source.masked_fill(~batch.source_valid, 33),
        inputs=batch.inputs.masked_fill(~batch.inputs_valid, 44),
    )
    assert torch.equal(batch_loss(model, batch, 0.1).loss, batch_loss(model, other, 0.1).loss)


def test_without_smoothing_a_certain_model_has_no_loss() -> None:
    logits = torch.full((1, 2, 64), -1e4)
    logits[0, 0, 5] = logits[0, 1, 2] = 1e4

    class Certain:
        def __call__(self, *inputs: object) -> object:
            inputs[4].losses.append(("balance", torch.tensor(0.25)))  # type: ignore[attr-defined]
            return type("Output", (), {"hidden": None})

        def factors(self, hidden: object) -> tuple[torch.Tensor, torch.Tensor, None]:
            return logits, torch.eye(logits.shape[-1]), None

    batch = Batch(None, None, None, None, torch.tensor([[5, 2]]), 2, 2)
    assert float(batch_loss(Certain(), batch, 0.0).loss) == 0.5  # type: ignore[arg-type]  # what layers add, a token each


@pytest.mark.parametrize(
    ("objective", "encoder", "decoder", "message"),
    [
        (
            "translation",
            0,
            1,
            "translation needs an encoder and a decoder. Set encoder.layers and decoder.layers, or train on --text",
        ),
        ("causal", 1, 1, "a language model has a decoder only. Set model.encoder.layers = 0"),
        ("masked", 1, 1, "the masked objective needs an encoder only. Set decoder.layers = 0"),
    ],
)
def test_an_objective_that_a_model_cannot_learn_is_refused(
    objective: str, encoder: int, decoder: int, message: str
) -> None:
    model = Transformer.Config(encoder={"layers": encoder}, decoder={"layers": decoder})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=message):
        make_part("objective", objective).check(model)  # type: ignore[attr-defined]


def test_masked_words_need_a_head_for_words_and_shares_that_fit() -> None:
    model = Transformer.Config(decoder={"layers": 0}, head="pooled")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r'a pooled head predicts no tokens. Set model.head = "masked"'):
        make_part("objective", "masked").check(model)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"masked = 0.8 and random = 0.5 are shares of the same tokens"):
        make_part("objective", "masked(random=0.5)").check(model)  # type: ignore[attr-defined]


def test_uniform_guessing_costs_the_logarithm_of_the_vocabulary() -> None:
    model = tiny_model()
    for weight in model.parameters():
        torch.nn.init.zeros_(weight)
    batch = collate("translation", [Example(ids(9, 2), ids(5, 6))])
    assert float(batch_loss(model, batch, 0.1).loss.detach()) / batch.label_count == pytest.approx(math.log(64))
