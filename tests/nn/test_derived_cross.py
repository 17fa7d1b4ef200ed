"""Cross-attention that a config leaves out has the heads of its layer's mixer; of another one, where that has none; and
says which."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from contracts.toys import TOYS, Decay, in_catalogue

from headway.config.catalogue import Entry
from headway.config.config import Config
from headway.config.schema import number
from headway.config.sources import Layer, compose, format_config, parse_assignment
from headway.errors import ConfigError

TINY = {"model": {side: {"layers": 2, "mixer": "attention(4)"} for side in ("encoder", "decoder")}}


class OddHeads(Decay):
    """Its heads need not divide the width of the model."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Decay.Config):
        kind: str = "odd_heads"
        heads: int = number(3, low=1)


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with in_catalogue((*TOYS, Entry("mixer", "odd_heads", f"{__name__}:OddHeads", "a running sum with odd heads"))):
        yield


def composed(table: dict[str, Any], *assignments: str) -> tuple[Config, dict[str, str]]:
    flags = [Layer(f"flag --set {text.partition('=')[0]}", parse_assignment(text)) for text in assignments]
    return compose([Layer("preset tiny", table), *flags])


@pytest.mark.parametrize(
    ("changes", "heads", "origin"),
    [
        ([], [4], "derived from model.decoder.mixer"),
        (["model.decoder.mixer=decay"], [4], "derived from model.encoder.mixer"),
        (["model.decoder.mixer=['decay', 'attention(2)']"], [2, 2], "derived from model.decoder.mixer"),
        (["model.decoder.mixer=['decay', 'retention(2)']"], [2, 2], "derived from model.decoder.mixer"),
        (["model.decoder.mixer=['retention(2)', 'decay', 'attention(16)', 'decay']", "model.decoder.layers=4"],
         [2, 16, 16, 16], "derived from model.decoder.mixer"),
        (["model.decoder.mixer=decay", "model.encoder.mixer=decay", "model.encoder.mask=causal"],
         [4], "derived from model.encoder.mixer of preset tiny"),
        (["model.decoder.mixer=decay", "model.decoder.cross=attention(16)"], [16], "flag --set model.decoder.cross"),
    ],
    ids=["its own", "the encoder's", "another layer's", "another kind's", "attention's first", "the preset's", "given"],
)  # fmt: skip
def test_it_has_the_heads_of_a_mixer(changes: list[str], heads: list[int], origin: str) -> None:
    config, origins = composed(TINY, *changes)
    assert [part.heads for part in config.model.decoder.cross or ()] == heads
    assert origins["model.decoder.cross"] == origin
    assert f"# {origin}\n" in format_config(config, origins)


def test_a_layer_without_heads_has_all_settings_of_the_attention_beside_it() -> None:
    config, _ = composed(TINY, "model.decoder.mixer=['decay', 'attention(4, 2, bias=false)']")
    first, second = config.model.decoder.cross or ()
    assert first == second and (first.groups, first.bias) == (2, False)


def test_without_any_heads_it_has_the_defaults() -> None:
    sides = {"encoder": {"mixer": "decay", "mask": "causal"}, "decoder": {"mixer": "decay"}}
    config, origins = composed({"model": sides})
    assert [part.heads for part in config.model.decoder.cross or ()] == [8]
    assert origins["model.decoder.cross"] == "derived from the defaults of attention, as no mixer has heads"


def test_an_error_says_what_it_was_derived_from() -> None:
    with pytest.raises(
        ConfigError, match=r"16 is not a multiple of 3 heads.* is derived from decoder.mixer: "
    ) as caught:
        composed(TINY, "model.d_model=16", "model.decoder.mixer=odd_heads")
    assert caught.value.where == "model.decoder.cross.heads"
    config, _ = composed(TINY, "model.d_model=16", "model.decoder.mixer=odd_heads", "model.decoder.cross=attention(2)")
    assert [part.heads for part in config.model.decoder.cross or ()] == [2]


def test_without_an_encoder_there_is_none() -> None:
    config, origins = composed(TINY, "model.encoder.layers=0", "model.decoder.mixer=decay", "train.objective=causal")
    assert config.model.decoder.cross is None and "model.decoder.cross" not in origins
