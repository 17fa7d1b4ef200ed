"""Widths that give every variant the same number of parameters."""

from typing import Any

import pytest

from headway.compare.parameter_budget import TOLERANCE, fit_parameters
from headway.compare.trials import fixed_settings
from headway.config.presets import find_preset
from headway.config.sources import Layer, compose
from headway.errors import ConfigError

BASE = [Layer("preset", find_preset("tiny_lm"))]
VOCABULARY = {"vocabulary": 400, "source_vocabulary": 400}


def layers_of(**decoder: Any) -> list[Layer]:
    return [*BASE, Layer("variant", {"model": {"decoder": decoder}})]


def parameters_of(layers: list[Layer]) -> int:
    return compose([*layers, Layer("tokenizer", {"model": VOCABULARY})])[0].model.parameter_count()


TARGET = parameters_of(BASE)


@pytest.mark.parametrize(
    "decoder",
    [
        {"mixer": "retention(4)"},
        {"feedforward": "swiglu"},
        {"feedforward": ["relu(64)", "gelu(512)"]},
        {"mixer": "attention(4, 1)", "feedforward": "relu(1024)"},
    ],
)
def test_feed_forwards_are_scaled(decoder: dict[str, Any]) -> None:
    layers = layers_of(**decoder)
    assert abs(parameters_of(layers) - TARGET) > TOLERANCE * TARGET
    fit = fit_parameters(layers, TARGET, VOCABULARY)
    assert fit.how.startswith("feed-forwards ×")
    assert parameters_of([*layers, *fit.layers]) == fit.parameters
    assert abs(fit.parameters - TARGET) <= TOLERANCE * TARGET


def test_what_fits_stays_as_it_is() -> None:
    assert fit_parameters(BASE, TARGET, VOCABULARY) == ([], TARGET, "as it is")


@pytest.mark.parametrize("decoder", [{"layers": 16}, {"layers": 1}, {"feedforward": "moe(8, 2, expert='gelu(512)')"}])
def test_the_width_changes_where_feed_forwards_do_not_suffice(decoder: dict[str, Any]) -> None:
    layers = layers_of(**decoder)
    fit = fit_parameters(layers, TARGET, VOCABULARY)
    assert fit.how.startswith("d_model 128 →")
    config, _ = compose([*layers, *fit.layers, Layer("tokenizer", {"model": VOCABULARY})])
    assert config.model.parameter_count() == fit.parameters and config.model.d_model % 8 == 0
    assert abs(fit.parameters - TARGET) <= TOLERANCE * TARGET


def test_what_varies_is_not_touched() -> None:
    layers = layers_of(feedforward="relu(2048)")
    fit = fit_parameters(layers, TARGET, VOCABULARY, ["feedforward"])
    config, _ = compose([*layers, *fit.layers, Layer("tokenizer", {"model": VOCABULARY})])
    assert config.model.decoder.feedforward[0].hidden == 2048 and config.model.d_model < 128  # type: ignore[attr-defined]


def test_what_cannot_be_reached_is_refused() -> None:
    with pytest.raises(ConfigError, match="no width gives it 999,999,999 within 2%"):
        fit_parameters(BASE, 999_999_999, VOCABULARY)
    with pytest.raises(ConfigError, match="this variant has"):
        fit_parameters(layers_of(layers=16), TARGET, VOCABULARY, ["feedforward", "d_model"])


def test_kinds_of_feed_forward_leave_their_width_open() -> None:
    assert fixed_settings({"feedforward": "kan", "d_model": 64}) == ["d_model"]
    assert fixed_settings({"decoder.feedforward": "relu(64)"}) == ["decoder.feedforward"]
    assert fixed_settings({"feedforward": ["relu", "moe(4, 2, expert='gelu(8)')"]}) == ["feedforward"]
    assert fixed_settings({"feedforward": ["relu", "gelu"]}) == []
