"""Axes: how they are written, where in the config they go, and what is refused."""

import pytest

from headway.compare.axes import Axis, format_value, grid, make_variant, parse_axis, placements, split_values
from headway.config.config import Config
from headway.config.presets import find_preset
from headway.config.sources import Layer, compose
from headway.errors import ConfigError

TRANSLATOR = [Layer("preset", find_preset("tiny")), Layer("text", {"train": {"objective": "translation"}})]
LANGUAGE_MODEL = [Layer("preset", find_preset("tiny_lm"))]


def config_of(base: list[Layer], **choices: object) -> Config:
    variant = make_variant(choices, base)
    assert not variant.refusal
    return compose([*base, *variant.layers])[0]


def test_values_are_split_outside_of_brackets_and_quotes() -> None:
    assert split_values("attention(4, 2),retention(4)") == ["attention(4, 2)", "retention(4)"]
    assert split_values("moe(4, expert='relu(8, bias=false)'), relu") == [
        "moe(4, expert='relu(8, bias=false)')",
        "relu",
    ]
    assert split_values("['a', 'b'],c") == ["['a', 'b']", "c"]


def test_an_axis_reads_numbers_and_parts() -> None:
    assert parse_axis("d_model=64,128") == Axis("d_model", (64, 128))
    assert parse_axis(" mixer = attention(4),retention") == Axis("mixer", ("attention(4)", "retention"))
    for wrong in ("mixer", "mixer=", "=a"):
        with pytest.raises(ConfigError, match="is not an axis: write setting=value"):
            parse_axis(wrong)


def test_a_grid_has_every_combination() -> None:
    found = list(grid([Axis("a", (1, 2)), Axis("b", ("x", "y", "z"))]))
    assert len(found) == 6 and found[0] == {"a": 1, "b": "x"} and found[-1] == {"a": 2, "b": "z"}


def test_values_are_shown_as_they_are_written() -> None:
    assert format_value(["local(4)", "causal"]) == "local(4) + causal"
    assert format_value({"kind": "relu", "hidden": 8}) == "relu(hidden=8)"
    assert format_value({"kind": "relu"}) == "relu" and format_value(True) == "true" and format_value(0.5) == "0.5"


def test_a_slot_goes_to_both_sides_that_take_it() -> None:
    config = config_of(TRANSLATOR, position="rope")
    assert [part.kind for side in (config.model.encoder, config.model.decoder) for part in side.position] == [
        "rope"
    ] * 2


def test_a_slot_that_an_encoder_refuses_goes_to_the_decoder_and_says_so() -> None:
    variant = make_variant({"mixer": "retention(4)"}, TRANSLATOR)
    config, _ = compose([*TRANSLATOR, *variant.layers])
    assert config.model.encoder.mixer[0].kind == "attention" and config.model.decoder.mixer[0].kind == "retention"
    assert variant.notes == ("retention(4): in the decoder only, as the other side does not take it",)


def test_a_mask_is_made_causal_in_a_decoder() -> None:
    config = config_of(TRANSLATOR, mask="local(8)")
    assert config.model.encoder.mask is not None and config.model.decoder.mask is not None
    assert config.model.encoder.mask[0].kind == "local" and config.model.decoder.mask[0].kind == "all"
    one = config_of(LANGUAGE_MODEL, mask=["local(8)", "causal"]).model.decoder
    assert one.mask is not None and [part.kind for part in one.mask] == ["all", "causal"]


@pytest.mark.parametrize(
    ("axis", "value", "path"),
    [
        ("norm", "rmsnorm", "model.norm"),
        ("d_model", 64, "model.d_model"),
        ("batch_tokens", 99, "train.batch_tokens"),
        ("decoder.layers", 3, "model.decoder.layers"),
        ("train.seed", 3, "train.seed"),
        ("beam_size", 2, "search.beam_size"),
    ],
)
def test_other_settings_are_found_in_their_section(axis: str, value: object, path: str) -> None:
    assert placements(axis, value, compose(TRANSLATOR)[0]) == [({path: value}, "")]


def test_what_cannot_be_is_kept_with_its_reason() -> None:
    variant = make_variant({"mixer": "retention(4)", "position": "alibi"}, LANGUAGE_MODEL)
    assert "retention has none" in variant.refusal and variant.name == "retention(4), alibi"
    with pytest.raises(ConfigError, match=r'there is no setting "mixr" to vary. Did you mean "mixer"\?'):
        make_variant({"mixr": "retention"}, LANGUAGE_MODEL)


def test_a_value_may_be_several_settings_with_a_name() -> None:
    value = {"name": "YOCO", "mixer": ["attention(4)", "shared_kv(4)"], "mask": ["causal & local(8)", "causal"]}
    assert format_value(value) == "YOCO"
    variant = make_variant({"decoder": value}, LANGUAGE_MODEL)
    decoder = compose([*LANGUAGE_MODEL, *variant.layers])[0].model.decoder
    assert variant.name == "YOCO" and [part.kind for part in decoder.mixer] == ["attention", "shared_kv"]
    assert decoder.mask is not None and [part.kind for part in decoder.mask] == ["all", "causal"]


def test_choices_are_judged_together() -> None:
    """The base has rope, which mamba refuses: the other axis mends it, whichever comes first."""
    for choices in ({"mixer": "mamba", "position": "none"}, {"position": "none", "mixer": "mamba"}):
        variant = make_variant(choices, LANGUAGE_MODEL)
        assert not variant.refusal and len(variant.layers) == 2


@pytest.mark.parametrize("name", ["rate", "train.rate"])
def test_the_learning_rate_has_a_short_name(name: str) -> None:
    assert config_of(TRANSLATOR, **{name: 0.003}).train.schedule.peak == 0.003


def test_a_mixer_without_use_for_the_positions_of_a_preset_has_none() -> None:
    """--vary mixer=attention,retention,rwkv: the last marks order by its state."""
    variant = make_variant({"mixer": "rwkv"}, LANGUAGE_MODEL)
    config = compose([*LANGUAGE_MODEL, *variant.layers])[0]
    decoder = config.model.decoder
    assert (variant.name, decoder.mixer[0].kind, decoder.position[0].kind) == ("rwkv", "rwkv7", "none")
    assert variant.notes == ("rwkv: without positions, as it takes none of those that the others have",)
    chosen = [*LANGUAGE_MODEL, Layer("flag --set", {"model": {"decoder": {"position": "rope"}}})]
    assert "rope changes queries" in make_variant({"mixer": "rwkv"}, chosen).refusal
    assert "rope changes queries" in make_variant({"mixer": "rwkv", "position": "rope"}, LANGUAGE_MODEL).refusal
