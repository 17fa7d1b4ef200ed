"""What listens to the encoder: attention like the mixer, unless the config says otherwise."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from nn.building import small

from headway.config.config import Config, read_config
from headway.config.schema import from_dict
from headway.errors import ConfigError
from headway.nn.mixers.attention import Attention
from headway.nn.transformer import Transformer


def cross_of(mixer: Any, **changes: Any) -> list[Any]:
    return list(small(decoder={"mixer": mixer}, **changes).resolved().decoder.cross or ())


@pytest.mark.parametrize("mixer", ["attention(4)", "retention(4)", "shared_kv(4)", "retention(4, gated=true)"])
def test_it_has_the_heads_of_the_mixer(mixer: str) -> None:
    (cross,) = cross_of(mixer)
    assert (cross.kind, cross.heads, cross.d_k, cross.d_v, cross.bias) == ("attention", 4, 4, 4, True)


def test_it_has_all_that_attention_has_of_layers_that_share() -> None:
    written = "(2, 1, d_k=6, d_v=10, bias=false, dropout=0.25, scale=0.5, kernel='math')"
    (cross,), (plain,) = cross_of(f"shared_kv{written}"), cross_of(f"attention{written}")
    assert type(cross) is Attention.Config
    assert cross == plain
    assert (cross.heads, cross.groups, cross.d_k, cross.d_v, cross.bias, cross.scale) == (2, 1, 6, 10, False, 0.5)
    (normed,) = cross_of("attention(2, output_bias=false, qk_norm='rmsnorm', output_norm='layernorm')")
    assert (normed.output_bias, normed.qk_norm.kind, normed.output_norm.kind) == (False, "rmsnorm", "layernorm")
    assert len(fields(cross)) == 12, "a new setting is carried over too: give it here"


def test_each_layer_has_its_own() -> None:
    crosses = cross_of(["retention(2)", "attention(4, 2)"])
    assert [(cross.heads, cross.groups) for cross in crosses] == [(2, 2), (4, 2)]


def test_heads_that_nobody_wrote_are_not_complained_of() -> None:
    (cross,) = cross_of("retention(6)", sides={"mixer": "attention(6)"}, d_model=36)
    assert (cross.heads, cross.d_k) == (6, 6)
    (cross,) = cross_of("retention(5, d_k=8)", sides={"mixer": "attention(6)"}, d_model=36)
    assert (cross.heads, cross.d_k, cross.d_v) == (5, 8, 8)


@pytest.mark.parametrize("mixer", ["attention(4)", "retention(4)", "shared_kv(4)"])
def test_a_saved_config_says_what_it_was(mixer: str, tmp_path: Path) -> None:
    """So that a model keeps what it was trained with, whatever is derived today."""
    side = {"layers": 1, "mixer": mixer}
    table = {
        "model": {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 1, "mixer": "attention(4)"}, "decoder": side}
    }
    read_config(table).save(tmp_path / "config.json")
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model"]["decoder"]["cross"][0]["heads"] == 4
    saved["model"]["decoder"]["cross"][0] |= {"heads": 8, "groups": 8, "d_k": 2, "d_v": 2, "scale": 2**-0.5}
    (tmp_path / "config.json").write_text(json.dumps(saved))
    cross: Any = Config.load(tmp_path / "config.json").model.decoder.cross
    assert cross[0].heads == 8


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"encoder": {"cross": "attention(4)"}}, "encoder.cross", "an encoder has no cross-attention"),
        ({"encoder": {"cross": "attention(4)"}, "decoder": 0}, "encoder.cross", "an encoder has no cross-attention"),
        ({"encoder": 0, "decoder": {"cross": "attention(4)"}}, "decoder.cross", "there is no encoder to attend to"),
    ],
)
def test_where_nothing_is_to_be_heard_it_is_refused(changes: dict[str, Any], where: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"{says}. Leave cross out.") as caught:
        small(**changes).resolved()
    assert caught.value.where == where


def test_a_side_that_is_not_there_needs_nothing() -> None:
    config = small(encoder=0, decoder={"cross": None}).resolved()
    assert from_dict(Transformer.Config, config.to_dict()).resolved() == config
    small(decoder={"layers": 0, "cross": "attention(4)"}).resolved()
