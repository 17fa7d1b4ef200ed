"""Where settings come from: --set (rule 5 of the config), precedence (rule 6), and --print-config."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.config.config import flatten, read_config
from headway.config.sources import Layer, compose, format_config, parse_assignment, parse_literal, read_environment
from headway.errors import ConfigError


def composed(*layers: dict[str, Any] | str) -> tuple[Any, dict[str, str]]:
    """Later ones win; a string is an assignment. Origins are numbered."""
    return compose(
        [
            Layer(f"layer {number}", parse_assignment(layer) if isinstance(layer, str) else layer)
            for number, layer in enumerate(layers, 1)
        ]
    )


# ---- rule 5: --set a.b.c=v


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-4", 3e-4),
        ("true", True),
        ('"3"', "3"),
        ("[1, 2]", [1, 2]),
        ("{kind = 'local', window = 3}", {"kind": "local", "window": 3}),
        ("word", "word"),
        ("attention(8, dropout=0.1)", "attention(8, dropout=0.1)"),
        ("causal & local(4)", "causal & local(4)"),
        ("", ""),
        ("True", "True"),
    ],
)
def test_a_value_is_a_toml_literal_or_else_a_string(text: str, value: Any) -> None:
    assert parse_literal(text) == value
    assert parse_assignment(f"a.b_c.d={text}") == {"a": {"b_c": {"d": value}}}


@given(st.text(max_size=20))
def test_any_text_is_some_value(text: str) -> None:
    parse_literal(text)


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 5000 + "]" * 5000])
def test_what_toml_cannot_hold_is_a_string(text: str) -> None:
    assert parse_literal(text) == text
    with pytest.raises(ConfigError, match=r"^train.steps: must be an integer, not .*… .a string"):
        compose([Layer("flag --set train.steps", parse_assignment(f"train.steps={text}"))])


def test_sections_without_end_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^flag: sections are nested too deeply"):
        compose([Layer("flag", parse_assignment(".".join(["model"] * 5000) + "=1"))])


@pytest.mark.parametrize("text", ["train.seed", "=3", "a..b=3", ".a=3", "a.=3", ""])
def test_what_sets_nothing_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"is not an assignment: write section.key=value, as in --set model.d_model=256"
    ):
        parse_assignment(text)


def test_space_around_the_sign_does_not_matter() -> None:
    assert parse_assignment(" train.seed = 3 ") == {"train": {"seed": 3}}


def test_setting_a_part_replaces_it() -> None:
    config, _ = composed("train.schedule=cosine(0.5, warmup=7)", "train.schedule=linear")
    assert config.train.schedule.kind == "linear"
    assert config.train.schedule.warmup == 1000
    config, _ = composed("tokenizer=bpe(8000)", {"tokenizer": {"kind": "bpe", "dropout": 0.1}})
    assert (config.tokenizer.size, config.tokenizer.dropout) == (None, 0.1)


def test_setting_a_field_expands_the_shorthand_first() -> None:
    config, _ = composed("train.schedule=cosine(0.5, warmup=7)", "train.schedule.floor=0.25")
    assert config.train.schedule.to_dict() == {"kind": "cosine", "peak": 0.5, "warmup": 7, "floor": 0.25}
    config, _ = composed("model.encoder.mixer=attention(4, dropout=0.3)", "model.encoder.mixer.heads=2")
    assert (config.model.encoder.mixer[0].heads, config.model.encoder.mixer[0].dropout) == (2, 0.3)


def test_setting_a_field_of_a_default_keeps_its_kind() -> None:
    config, _ = composed("train.optimiser.beta2=0.9")
    assert (config.train.optimiser.kind, config.train.optimiser.beta2) == ("adam", 0.9)


def test_setting_a_field_of_a_list_of_one() -> None:
    """As --print-config writes a part that is the same in all layers."""
    config, _ = composed({"model": {"encoder": {"mixer": ["attention(4)"]}}}, "model.encoder.mixer.dropout=0.5")
    assert (config.model.encoder.mixer[0].heads, config.model.encoder.mixer[0].dropout) == (4, 0.5)
    config, _ = composed(
        {"model": {"encoder": {"mixer": [{"kind": "attention", "heads": 2}]}}}, "model.encoder.mixer.heads=4"
    )
    assert config.model.encoder.mixer[0].heads == 4


def test_setting_a_field_of_a_longer_list_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        composed("model.encoder.mask=['full', 'local(3)']", "model.encoder.mask.window=4")
    assert str(caught.value) == (
        "model.encoder.mask: this is a list with an entry for each layer, so a single field cannot be set. Set the "
        "whole list."
    )


def test_setting_a_field_of_a_plain_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train.metric: this is a single value, which has no fields to set"):
        composed("train.metric=bleu", "train.metric.kind_of=3")
    with pytest.raises(ConfigError, match=r"train.seed: must be an integer, not .*a table"):
        composed("train.seed=1", "train.seed.x=3")


def test_a_shorthand_that_cannot_be_read_names_its_place() -> None:
    with pytest.raises(ConfigError, match=r'train.schedule: "cosine\(" cannot be read'):
        composed("train.schedule=cosine(", "train.schedule.warmup=3")


def test_unknown_paths_are_refused_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match=r'train: there is no setting "sead" here. Did you mean "seed"'):
        composed("train.sead=3")
    with pytest.raises(ConfigError, match=r'"attn" is not a kind of mixer'):
        composed("model.encoder.mixer=attn")


def test_no_layer_is_changed_by_composing() -> None:
    preset = {"train": {"schedule": {"kind": "cosine", "warmup": 3}}, "model": {"encoder": {"layers": 2}}}
    before = repr(preset)
    composed(preset, "train.schedule.warmup=9", "model.encoder.layers=1")
    assert repr(preset) == before


# ---- rule 6: precedence


def test_the_environment() -> None:
    found = read_environment(
        {"HEADWAY_CONFIG__TRAIN__SEED": "7", "HEADWAY_CONFIG__MODEL__D_MODEL": "64", "HEADWAY_DEBUG": "1"}
    )
    assert found == [
        ("environment HEADWAY_CONFIG__MODEL__D_MODEL", {"model": {"d_model": 64}}),
        ("environment HEADWAY_CONFIG__TRAIN__SEED", {"train": {"seed": 7}}),
    ]


def test_the_later_layer_wins_and_is_named() -> None:
    config, origins = composed({"train": {"seed": 1, "steps": 10}}, {"train": {"seed": 2, "clip": 1.0}}, "train.seed=3")
    assert (config.train.seed, config.train.steps, config.train.clip) == (3, 10, 1.0)
    assert origins["train.seed"] == "layer 3"
    assert origins["train.steps"] == "layer 1"
    assert origins["train.clip"] == "layer 2"
    assert origins["train.epochs"] == "default"


def test_what_is_worked_out_is_called_derived() -> None:
    _, origins = composed({"model": {"vocabulary": 640}})
    assert origins["model.source_vocabulary"] == "derived"
    assert origins["model.vocabulary"] == "layer 1"


def test_a_part_and_its_changed_field_are_both_named() -> None:
    _, origins = composed(
        "train.schedule=cosine(0.5)",
        "train.schedule.warmup=3",
        "model.encoder.mixer=attention(4)",
        "model.encoder.mixer.dropout=0.2",
    )
    assert (origins["train.schedule.peak"], origins["train.schedule.warmup"]) == ("layer 1", "layer 2")
    assert origins["model.encoder.mixer"] == "layer 3, layer 4"


def test_a_part_that_is_replaced_is_the_new_ones() -> None:
    _, origins = composed("train.schedule.warmup=3", "train.schedule=cosine(0.5)")
    assert {origins[path] for path in origins if path.startswith("train.schedule.")} == {"layer 2"}


# ---- --print-config


@pytest.mark.parametrize(
    "layers",
    [
        [],
        ["model.encoder.mask=['full', 'local(3)']", "model.decoder.mask=causal & local(4)", "model.norm=rmsnorm"],
        ["train.objective=causal", "model.encoder.layers=0", "model.decoder.position=rope", "source_languages=['en']"],
    ],
)
def test_the_printed_config_is_toml_that_gives_the_same_config(layers: list[str]) -> None:
    config, origins = composed(*layers)
    printed = format_config(config, origins)
    assert read_config(tomllib.loads(printed)) == config
    assert set(origins) == {path for path, _ in flatten(config.to_dict())}
    for line in printed.splitlines():
        path = line.partition(" = ")[0]
        assert line.endswith(f"  # {origins[path]}")


def test_a_printed_config_can_be_changed_by_set() -> None:
    config, origins = composed("model.encoder.mixer=attention(4)")
    printed = tomllib.loads(format_config(config, origins))
    changed, _ = composed(printed, "model.encoder.mixer.dropout=0.5", "train.schedule=linear")
    assert (changed.model.encoder.mixer[0].dropout, changed.train.schedule.kind) == (0.5, "linear")
