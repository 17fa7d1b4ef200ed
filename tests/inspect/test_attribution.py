"""On which words of its input an output depends: against finite differences, and against runs without the word."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_models import language_model_table, translator_table, write_random_model

import headway
from headway.config.config import read_config
from headway.decode.reference.model import ModelStepper
from headway.errors import ConfigError, HeadwayError
from headway.inspect.attribution import (
    Attribution,
    attribute,
    attribute_text,
    attribute_translation,
    measure_gradient,
    measure_left_out,
)
from headway.inspect.tracer import trace_forward
from headway.nn.transformer import Transformer
from headway.translate.language_model import LanguageModel
from headway.translate.scoring import score_ids
from headway.translate.translator import Translator

SOURCE, TARGET = [5, 9, 17, 4, 8, 3], [2, 11, 7, 20, 6]


def build(table: dict[str, Any]) -> Transformer:
    """Random weights, in float64."""
    objective = "translation" if table["encoder"]["layers"] else "causal"
    train = {"objective": objective, "max_tokens": 64}
    model = Transformer(read_config({"model": {**table, "vocabulary": 40}, "train": train}).model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return model.double().eval()


@contextmanager
def scaled(model: Transformer, side: str, place: int, factor: float) -> Iterator[None]:
    """The vector of one token, as it enters the first layer, is so much longer."""

    def scale(module: Any, inputs: Any, embedded: torch.Tensor) -> torch.Tensor:
        factors = torch.ones_like(embedded)
        factors[:, place] = factor
        return embedded * factors

    hook = model.embeddings[side].register_forward_hook(scale)
    yield
    hook.remove()


def token_logps(model: Transformer, source: list[int], target: list[int]) -> np.ndarray:
    """In float64: a trace would round them."""
    with torch.no_grad():
        memory = model.encode(torch.tensor([source])) if source else None
        hidden = model.decode(torch.tensor([target[:-1]]), memory=memory)[0]
        return model.logits(hidden).log_softmax(-1).gather(1, torch.tensor(target[1:])[:, None])[:, 0].numpy()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"residual": "post", "position": "rope"},
        {"mixer": "attention(4, 2)", "feedforward": "moe(3)", "position": "shaw"},
        {"mixer": "linear_attention(4)", "residual": "residual_dual"},
        {"only_decoder": True},
        {"only_decoder": True, "mixer": "retention(4)", "position": "none"},
    ],
    ids=str,
)
def test_the_gradient_is_that_of_finite_differences(changes: dict[str, Any]) -> None:
    alone = changes.pop("only_decoder", False)
    model = build(language_model_table(**changes) if alone else translator_table(**changes))
    source = [] if alone else SOURCE
    found = measure_gradient(model, source, TARGET)
    side, count = ("decoder", len(TARGET) - 1) if alone else ("encoder", len(SOURCE))
    assert found.shape == (len(TARGET) - 1, count)
    for place in range(count):
        values = []
        for factor in (1 + 1e-5, 1 - 1e-5):
            with scaled(model, side, place, factor):
                values.append(token_logps(model, source, TARGET))
        np.testing.assert_allclose(found[:, place], (values[0] - values[1]) / 2e-5, atol=1e-7)
    assert np.abs(found).max() > 1e-2
    if alone:
        assert not np.triu(found, 1).any()  # what comes later has no influence
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_is_left_out_is_gone_from_the_source() -> None:
    model = build(translator_table(position="rope"))
    units = [[0], [2, 3], [5], list(range(6))]
    logps, lost = measure_left_out(model, SOURCE, TARGET, units, pad=0)
    stepper = ModelStepper(model)

    def score(source: list[int]) -> list[float]:
        return score_ids([stepper], [source], [TARGET[1:]], start=TARGET[0], pad=0)[0]

    np.testing.assert_allclose(logps, score(SOURCE), atol=1e-6)
    for column, unit in enumerate(units[:-1]):
        again = score([token for place, token in enumerate(SOURCE) if place not in unit])
        np.testing.assert_allclose(lost[:, column], logps - again, atol=1e-6)
    assert np.isnan(lost[:, -1]).all()  # nothing would be left
    assert np.abs(lost[:, :-1]).max() > 0.05


@pytest.mark.parametrize("mixer", ["attention(4)", "retention(4)"])
def test_what_is_left_out_is_gone_from_what_was_read(mixer: str) -> None:
    model = build(language_model_table(mixer=mixer, position="sinusoidal"))
    logps, lost = measure_left_out(model, [], TARGET, [[1], [2, 3]], pad=0)
    np.testing.assert_allclose(logps, token_logps(model, [], TARGET), atol=1e-12)
    assert np.isnan(lost).tolist() == [[True, True], [False, True], [False, True], [False, False]]
    without = token_logps(model, [], [2, 7, 20, 6])
    np.testing.assert_allclose(lost[1:, 0], logps[1:] - without, atol=1e-12)
    np.testing.assert_allclose(lost[3, 1], logps[3] - token_logps(model, [], [2, 11, 6])[1], atol=1e-12)


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = headway.load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def found(translator: Translator, sentences: list[str]) -> Attribution:
    return attribute(translator, sentences[0])


def test_words_that_are_left_out_are_not_in_the_text(
    translator: Translator, found: Attribution, sentences: list[str]
) -> None:
    """As if the sentence had been typed without them."""
    words = sentences[0].split()
    assert found.columns == words
    assert found.rows[-1] == "⟨/s⟩"
    trace = translator.trace(sentences[0])
    scored = translator.score([(sentences[0], trace.output)])[0]
    np.testing.assert_allclose(found.logps, scored.token_logps, atol=1e-4)
    for column in range(len(words)):
        rest = " ".join(words[:column] + words[column + 1 :])
        without = translator.score([(rest, trace.output)])[0]
        expected = np.subtract(scored.token_logps, without.token_logps)
        np.testing.assert_allclose(found.left_out[:, column], expected, atol=1e-4)


def test_words_are_sums_of_their_tokens(translator: Translator, found: Attribution, sentences: list[str]) -> None:
    trace = translator.trace(sentences[0])
    by_token = attribute_translation(translator, trace.source.ids, trace.written.ids, "tokens")
    assert len(by_token.columns) == len(trace.source.ids) - 1  # but for the end token
    assert by_token.gradient.shape == (len(by_token.rows), len(by_token.columns))
    np.testing.assert_allclose(by_token.gradient.sum(1), found.gradient.sum(1), atol=1e-5)
    assert found.attention is not None
    assert by_token.attention is not None
    np.testing.assert_allclose(by_token.attention.sum(1), found.attention.sum(1), atol=1e-6)
    np.testing.assert_allclose(by_token.attention, trace.tensors["decoder.0.cross.weights"].mean(0)[:, :-1], atol=1e-5)


def test_the_alignment_is_that_of_the_words(translator: Translator, found: Attribution, sentences: list[str]) -> None:
    assert found.aligned is not None
    output = translator.trace(sentences[0]).output
    links = {(i, j) for i, j in translator.align([(sentences[0], output)])[0]}
    word = -1
    for row, piece in zip(found.aligned, translator.trace(sentences[0]).written.pieces):
        word += piece.startswith(" ")
        if piece != "⟨/s⟩":
            assert {(column, word) for column in np.flatnonzero(row)} == {link for link in links if link[1] == word}


def test_where_they_disagree() -> None:
    values = {"gradient": [[3.0, -4], [1, 0], [0, 0]], "left_out": [[1.0, 2], [0, 2], [np.nan, np.nan]]}
    arrays: dict[str, Any] = {name: np.array(value) for name, value in values.items()}
    made = Attribution(["a", "b", "c"], ["x", "y"], "words", np.zeros(3), **arrays, attention=None, aligned=None)
    assert made.strongest("gradient") == [1, 0, None]  # whatever its sign
    assert made.strongest("left_out") == [1, 1, None]
    assert made.strongest("attention") == [None] * 3
    assert made.disagreements() == [1]


def test_a_language_model(lm_dir: Path) -> None:
    model = headway.load(lm_dir)
    assert isinstance(model, LanguageModel)
    made = attribute(model, "The dog sees", " a house")
    assert made.columns == ["The", "dog", "sees", "a"]  # and nothing follows "house"
    assert made.aligned is None
    assert made.attention is not None
    seen = ~np.isnan(made.left_out)
    assert (seen == ~np.isnan(made.gradient)).all()
    assert (seen == ~np.isnan(made.attention)).all()
    assert not seen[0].any()  # before the first token there is no word
    assert seen[-1].all()
    ids = [model.special_tokens.start, *model.encode("The dog sees a house")]
    logps = trace_forward(model.model, [], ids[:-1])["output.logps"]
    np.testing.assert_allclose(made.logps, logps.gather(1, torch.tensor(ids[1:])[:, None])[:, 0], atol=1e-5)
    assert attribute_text(model, ids).columns == made.columns


def test_a_mixer_without_weights_has_no_attention(tmp_path: Path) -> None:
    table = translator_table()
    table["decoder"] = {**table["decoder"], "cross": "linear_attention(4)"}
    write_random_model(tmp_path, table)
    model = headway.load(tmp_path)
    assert isinstance(model, Translator)
    made = attribute(model, "no one", "two")
    assert (made.attention, made.aligned, made.columns) == (None, None, ["no", "one"])
    assert np.isfinite(made.gradient).all()


def test_what_cannot_be_attributed(translator: Translator, lm_dir: Path, masked_dir: Path) -> None:
    with pytest.raises(HeadwayError, match="there is nothing to attribute: give a text"):
        attribute(translator, " ")
    with pytest.raises(HeadwayError, match="not an ensemble of 2: load one of them"):
        attribute(Translator([*translator.engines.loaded] * 2), "a dog")
    with pytest.raises(ConfigError, match='units: must be "words" or "tokens"'):
        attribute(translator, "a dog", units="letters")  # type: ignore[arg-type]
    with pytest.raises(HeadwayError, match="a language model does not translate"):
        attribute(headway.load(lm_dir), "a dog", target="de")
    with pytest.raises(HeadwayError, match="there is nothing to attribute"):
        attribute_text(headway.load(lm_dir), [3])  # type: ignore[arg-type]
    with pytest.raises(HeadwayError, match="this is a masked language model"):
        attribute_text(headway.load(masked_dir), [3, 4])  # type: ignore[arg-type]
