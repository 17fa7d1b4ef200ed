"""Old names of settings still work, from anywhere, and a note says what to write instead."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from headway.cli.app import main
from headway.config.catalogue import kinds
from headway.config.config import Config, read_config
from headway.config.renamed import RENAMED_KEYS, RENAMED_KINDS, RENAMED_VALUES, current_config
from headway.config.schema import config_class, from_dict, make_part
from headway.config.shorthand import expand
from headway.config.sources import Layer, compose, find_old_names, parse_assignment, read_environment
from headway.errors import ConfigError
from headway.storage.model_dir import load_model
from headway.storage.summary import read_summary
from headway.train.config import TrainConfig

KINDS = [(slot, old, new) for slot, names in RENAMED_KINDS.items() for old, new in names.items()]
PART_KEYS = [
    (*address.split("."), old, new)
    for address, names in RENAMED_KEYS.items()
    if address != "train"
    for old, new in names.items()
]
TRAIN_KEYS = list(RENAMED_KEYS["train"].items())
VALUES = {"longest": 128, "placeholders": 0.25, "graphs": "off"}
FIELDS = {  # where a config has a part of the slot
    "position": "model.encoder.position", "mask": "model.encoder.mask", "mixer": "model.decoder.mixer",
    "residual": "model.encoder.residual", "feedforward": "model.encoder.feedforward", "objective": "train.objective",
    "optimiser": "train.optimiser",
}  # fmt: skip


def sets(*assignments: str) -> list[Layer]:
    return [Layer(f"flag --set {text.partition('=')[0]}", parse_assignment(text)) for text in assignments]


def value_of(slot: str, kind: str, name: str) -> Any:
    """Another one than the default."""
    value = getattr(config_class(slot, kind)(kind=kind), name)
    return value + 1 if isinstance(value, int) else value / 2 or 0.5


@pytest.mark.parametrize(("slot", "old", "new"), KINDS)
def test_an_old_kind_is_the_new_one(slot: str, old: str, new: str) -> None:
    assert new in kinds(slot) and old not in kinds(slot)
    assert make_part(slot, old) == make_part(slot, new) == make_part(slot, {"kind": old})
    assert make_part(slot, f"{old}()").kind == make_part(slot, old).to_dict()["kind"] == new
    field = FIELDS[slot]
    assert find_old_names(sets(f"{field}={old}")) == [f'flag --set {field}: {field}: write "{new}" instead of "{old}".']
    assert find_old_names(sets(f"{field}={new}")) == []


@pytest.mark.parametrize(("slot", "kind", "old", "new"), PART_KEYS)
def test_an_old_key_of_a_part_is_the_new_one(slot: str, kind: str, old: str, new: str) -> None:
    value = value_of(slot, kind, new)
    expected = make_part(slot, {"kind": kind, new: value})
    assert make_part(slot, {"kind": kind, old: value}) == make_part(slot, f"{kind}({old}={value})") == expected
    assert old not in expected.to_dict()
    field = FIELDS[slot]
    told = f"write {field}.{new} instead of {field}.{old}."
    assert find_old_names(sets(f"{field}={kind}({old}={value})")) == [f"flag --set {field}: {told}"]
    assert find_old_names(sets(f"{field}={kind}", f"{field}.{old}={value}")) == [f"flag --set {field}.{old}: {told}"]
    assert find_old_names(sets(f"{field}={kind}", f"{field}.{new}={value}")) == []


@pytest.mark.parametrize(("old", "new"), TRAIN_KEYS)
def test_an_old_key_of_a_section_is_the_new_one(old: str, new: str) -> None:
    value = VALUES[old]
    assert getattr(read_config({"train": {old: value}}).train, new) == value
    config, origins = compose(sets(f"train.{old}={json.dumps(value)}"))
    assert getattr(config.train, new) == value and origins[f"train.{new}"] == f"flag --set train.{old}"
    assert old not in config.to_dict()["train"]
    note = f"write train.{new} instead of train.{old}."
    assert find_old_names([Layer("file my.toml", {"train": {old: value}})]) == [f"file my.toml: {note}"]
    variable = f"HEADWAY_CONFIG__TRAIN__{old.upper()}"
    assert find_old_names(read_environment({variable: json.dumps(value)})) == [f"environment {variable}: {note}"]


@pytest.mark.parametrize(("old", "new"), RENAMED_VALUES["train.batches"].items())
def test_an_old_value_is_the_new_one(old: str, new: str) -> None:
    layers = [Layer("file my.toml", {"train": {"batches": old}})]
    model = {"model": {"d_model": 16}}
    assert from_dict(TrainConfig, {"batches": old}, "train").batches == new
    assert compose([Layer("file", model), Layer("flag", {"train": {"batches": "padded"}})])[0].train.batches == "padded"
    assert find_old_names(layers) == [
        f'file my.toml: write train.batches = "{new}" instead of train.batches = "{old}".'
    ]


def test_the_later_layer_wins_whichever_name_it_uses() -> None:
    for first, second in (("longest", "max_tokens"), ("max_tokens", "longest")):
        config, origins = compose(sets(f"train.{first}=50", f"train.{second}=60"))
        assert config.train.max_tokens == 60 and origins["train.max_tokens"] == f"flag --set train.{second}"
    config, _ = compose(sets("model.encoder.position=learned(300)", "model.encoder.position.longest=400"))
    assert config.model.encoder.position[0].max_positions == 400
    table = {"model": {"encoder": {"position": {"kind": "learned", "longest": 300}}}}
    config, _ = compose([Layer("file", table), *sets("model.encoder.position.max_positions=400")])
    assert config.model.encoder.position[0].max_positions == 400


def test_lists_and_combined_masks() -> None:
    table = {
        "decoder": {
            "layers": 2,
            "mask": ["causal & fixed(stretch=8)", {"kind": "causal"}],
            "mixer": ["attention(4)", "shared(4)"],
        }
    }
    layers = [Layer("file my.toml", {"model": table})]
    assert find_old_names(layers) == [
        "file my.toml: write model.decoder.mask.block instead of model.decoder.mask.stretch.",
        'file my.toml: model.decoder.mixer: write "shared_kv" instead of "shared".',
    ]
    config, _ = compose(layers)
    assert config.model.decoder.mask is not None and config.model.decoder.mask[0].parts[1].block == 8
    assert [part.kind for part in config.model.decoder.mixer] == ["attention", "shared_kv"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"train": {"longest": 5, "max_tokens": 6}},
         "train.max_tokens: longest is the old name of max_tokens, and both are given. Give max_tokens only."),
        ({"model": {"encoder": {"position": {"kind": "learned", "longest": 500, "max_positions": 600}}}},
         "model.encoder.position.max_positions: longest is the old name"),
        ({"model": {"encoder": {"position": "learned(500, longest=600)"}}},
         'model.encoder.position: "learned(500, longest=600)" gives max_positions twice.'),
    ],
)  # fmt: skip
def test_both_names_at_once_are_refused(table: dict[str, Any], message: str) -> None:
    for read in (read_config, lambda table: compose([Layer("file", table)])):
        with pytest.raises(ConfigError) as caught:
            read(table)
        assert str(caught.value).startswith(message)


def test_a_misspelt_old_name_suggests_the_new_one() -> None:
    with pytest.raises(ConfigError, match=r'train: there is no setting "longst" here. Did you mean "max_tokens"?'):
        read_config({"train": {"longst": 5}})
    with pytest.raises(ConfigError, match='Did you mean "residual_dual"'):
        make_part("residual", "resi-dual")


def test_old_names_that_are_no_parts_stay_errors() -> None:
    assert find_old_names(sets("model.encoder.position=xl(", "train.longest.x=3"))[0].startswith(
        "flag --set train.long"
    )
    with pytest.raises(ConfigError, match="cannot be read"):
        compose(sets("model.encoder.position=xl("))
    with pytest.raises(ConfigError, match="there is no setting"):
        expand("position", "xl(longest=3)") and make_part("position", "xl(longest=3)")


def test_a_toml_file_read_in_python_warns(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[train]\nlongest = 64\n")
    with pytest.warns(FutureWarning, match=r"c.toml: write train.max_tokens instead of train.longest\."):
        assert Config.load(tmp_path / "c.toml").train.max_tokens == 64


# ---- stored models


def with_old_names(table: dict[str, Any]) -> dict[str, Any]:
    """A config.json as it was written before."""
    table = json.loads(json.dumps(table)) | {"format_version": 1}
    train = table["train"]
    for old, new in TRAIN_KEYS:
        train[old] = train.pop(new)
    train["batches"] = {"packed": "lines", "padded": "rows"}.get(train["batches"], train["batches"])
    return table


@pytest.fixture
def old_model(translator_dir: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "old"
    shutil.copytree(translator_dir, folder)
    table = json.loads((folder / "config.json").read_text())
    assert current_config(with_old_names(table)) == table | {"format_version": 1}
    (folder / "config.json").write_text(json.dumps(with_old_names(table)))
    return folder


def test_a_stored_model_with_old_names_loads_silently(
    old_model: Path, translator_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        old, new = load_model(old_model), load_model(translator_dir)
        one, other = read_summary(old_model), read_summary(translator_dir)
    assert old.config == new.config and old.config.format_version == 2
    assert one is not None and other is not None and one[0] == other[0]
    assert one[1] == other[1] | {"format_version": 1}
    for name, weight in new.model.state_dict().items():
        assert torch.equal(old.model.state_dict()[name], weight)
    assert capsys.readouterr() == ("", "")


def test_a_run_with_old_names_goes_on(
    old_model: Path, toy: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"source": "train.en", "target": "train.qtx", "valid-source": "valid.en", "valid-target": "valid.qtx"}
    named = [word for name, file in files.items() for word in (f"--{name}", str(toy / file))]
    renamed = [flag.replace("train.max_tokens=", "train.longest=") for flag in tiny]
    assert renamed != tiny
    steps = Config.load(old_model / "config.json").train.steps + 2
    assert main(["train", *named, *renamed, "--out", str(old_model), "--steps", str(steps)]) == 0
    err = capsys.readouterr().err
    assert err.count("flag --set train.longest: write train.max_tokens instead of train.longest.\n") == 1
    table = json.loads((old_model / "config.json").read_text())
    assert table["format_version"] == 2 and "max_tokens" in table["train"] and "longest" not in table["train"]


def test_the_bundled_model_is_read_by_either_name() -> None:
    from headway.storage.registry import BUNDLED_MODELS

    table = json.loads((BUNDLED_MODELS / "en-de" / "config.json").read_text())
    read = read_summary(BUNDLED_MODELS / "en-de")
    assert read is not None and read[0].placeholders
    assert read[0].max_tokens == table["train"].get("longest", table["train"].get("max_tokens"))
