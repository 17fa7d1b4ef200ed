"""Extreme values of every setting of a model: each is refused with a reason, or the model is built in few bytes."""

import dataclasses
import functools
import math
from importlib import import_module
from typing import Any

import pytest

from headway.config.catalogue import CATALOGUE, Entry
from headway.config.schema import from_dict
from headway.errors import ConfigError, HeadwayError
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer

VALUES = [-1, 0, 1, 1000, 10**6, 2**31, 2**63, 10**30, 1e-300, 1e308, math.inf, math.nan, "x", None]
SMALL = {"d_model": 16, "vocabulary": 29, "dropout": 0.0}
MAX_BUILT_PARAMETERS = 200_000
SLOTS = ("position", "mask", "mixer", "feedforward", "residual", "norm", "linear", "head")


def settings_of(entry: Entry) -> list[str]:
    module, _, name = entry.target.partition(":")
    config = getattr(import_module(module), name).Config
    return [field.name for field in dataclasses.fields(config) if field.name != "kind"]


@functools.cache
def decodes(mixer: str) -> bool:
    """Whether it can stand in a decoder: others refuse every mask that hides the future."""
    try:
        from_dict(Transformer.Config, {**SMALL, "decoder": {"layers": 1, "mixer": mixer}}).resolved()
    except ConfigError as error:
        return error.where != "decoder.mask"
    return True


def model_with(slot: str, part: dict[str, Any]) -> dict[str, Any]:
    if slot in ("linear", "head", "norm"):
        return {**SMALL, "encoder": {"layers": 1}, "decoder": {"layers": 1}, slot: part}
    if slot == "position" or (slot == "mixer" and decodes(part["kind"])):
        return {**SMALL, "encoder": {"layers": 0}, "decoder": {"layers": 1, slot: [part]}}
    return {**SMALL, "encoder": {"layers": 1, slot: part}, "decoder": {"layers": 0}}


def build_or_refuse(table: dict[str, Any]) -> bool:
    """Whether the config is accepted. Anything but a HeadwayError is an internal error, and fails the test."""
    try:
        config = from_dict(Transformer.Config, table)
        if config.parameter_count() < MAX_BUILT_PARAMETERS:
            Transformer(config)
    except HeadwayError:
        return False
    return True


@pytest.mark.parametrize(
    "entry", [entry for entry in CATALOGUE if entry.slot in SLOTS], ids=lambda e: f"{e.slot}-{e.kind}"
)
def test_every_setting_of_every_kind(entry: Entry) -> None:
    for name in settings_of(entry):
        accepted = [build_or_refuse(model_with(entry.slot, {"kind": entry.kind, name: value})) for value in VALUES]
        assert not all(accepted), f"{name} takes anything"


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Transformer.Config)])
def test_every_setting_of_a_model(name: str) -> None:
    accepted = [build_or_refuse({**SMALL, name: value}) for value in VALUES]
    assert not all(accepted)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Stack.Config)])
def test_every_setting_of_a_stack(name: str) -> None:
    accepted = [build_or_refuse({**SMALL, "encoder": {"layers": 1, name: value}}) for value in VALUES]
    assert not all(accepted)
