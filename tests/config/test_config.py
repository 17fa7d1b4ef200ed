"""Config: strict, in our words, the same after any way through a file."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from headway.config import presets
from headway.config.config import Config, flatten, format_toml_value, read_config, to_toml
from headway.errors import ConfigError, HeadwayError


def refused(table: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(table)
    return str(caught.value)


def test_the_default_is_the_papers_base_model() -> None:
    assert Config().resolved() == read_config({})
    model = read_config({}).model
    assert (model.d_model, model.encoder.layers, model.decoder.layers) == (512, 6, 6)


def test_json_and_back(tmp_path: Path) -> None:
    config = presets.small(640)
    config.save(tmp_path / "config.json")
    assert Config.load(tmp_path / "config.json") == config
    table = json.loads((tmp_path / "config.json").read_text())
    assert table["format_version"] == 2
    assert table["model"]["encoder"]["mixer"][0] == config.model.encoder.mixer[0].to_dict()  # full tables, no shorthand
    assert table["train"]["schedule"] == {"kind": "cosine", "peak": 0.003, "warmup": 1000, "floor": 0.0}


@pytest.mark.parametrize("config", [presets.base(), presets.gpt2(), presets.bert(), presets.small(640)])
def test_toml_and_back(tmp_path: Path, config: Config) -> None:
    (tmp_path / "c.toml").write_text(to_toml(config.to_dict()), encoding="utf-8")
    assert Config.load(tmp_path / "c.toml") == config


@pytest.mark.parametrize(
    "value", [True, 3, 1e-09, 2.5, "a", 'q"u\\o', "tab\tnul\0del\x7f", "ü→", [1, [2]], {"a": {"b": [True]}}, [], {}]
)
def test_values_are_written_as_toml_reads_them(value: Any) -> None:
    assert tomllib.loads(f"x = {format_toml_value(value)}")["x"] == value


def test_leaves_are_dotted() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": [1, 2]}}, "e": {}}) == [("a.b", 1), ("a.c.d", [1, 2]), ("e", {})]


def test_a_remark_never_leaves_its_line() -> None:
    text = to_toml({"a": {"b": 1}}, {"a.b": "file evil\nc = 2\x7f"})
    assert tomllib.loads(text) == {"a": {"b": 1}}


# ---- refusals


def test_unknown_keys_and_typos() -> None:
    assert refused({"modle": {}}).startswith(
        'there is no setting "modle" here. Did you mean "model"? Known: format_version,'
    )
    assert refused({"train": {"sead": 1}}).startswith('train: there is no setting "sead" here. Did you mean "seed"?')
    assert refused({"model": {"encoder": {"mixer": "attention(haeds=4)"}}}).startswith(
        'model.encoder.mixer: there is no setting "haeds" here. Did you mean "heads"?'
    )


@pytest.mark.parametrize(
    ("slot", "written", "meant"),
    [
        ("residual", "resi-dual", "residual_dual"),
        ("residual", "ResiDual", "residual_dual"),
        ("residual", "Pre-LN", "pre"),
        ("position", "ALiBi", "alibi"),
        ("feedforward", "Swi-GLU(64)", "swiglu"),
        ("mask", "causal & Big-Bird(4)", "bigbird"),
    ],
)
def test_kinds_spelt_as_papers_do(slot: str, written: str, meant: str) -> None:
    assert f' Did you mean "{meant}"?' in refused({"model": {"encoder": {slot: written}}})


def test_what_cannot_be_read_and_is_near_nothing() -> None:
    assert refused({"model": {"encoder": {"mask": "x-y-z"}}}) == (
        'model.encoder.mask: "x-y-z" cannot be read. Write a kind, as in "causal", or with values, as in "local(256)".'
    )


def test_wrong_types_and_ranges() -> None:
    assert refused({"train": {"steps": "many"}}) == "train.steps: must be an integer, not 'many' (a string)."
    assert (
        refused({"train": {"label_smoothing": 2}})
        == "train.label_smoothing: 2.0 is out of range: it must be at least 0 and at most 1."
    )
    assert refused({"train": {"metric": "blue"}}) == (
        "train.metric: 'blue' is not allowed here. Did you mean \"bleu\"? Choose one of: loss, bleu, chrf, task."
    )
    assert refused({"train": 3}) == "train: 3 is not a table. Write its fields as key = value."
    assert "is out of range" in refused({"search": {"beam_size": 0}})


def test_impossible_combinations() -> None:
    assert refused({"model": {"encoder": {"layers": 0}, "decoder": {"layers": 0}}}).startswith(
        "model: encoder.layers and"
    )
    assert refused({"model": {"encoder": {"layers": 0}}}).startswith(
        "model: translation needs an encoder and a decoder"
    )
    assert refused({"model": {"encoder": {"position": "learned(100)"}}}) == (
        "model.encoder.position: 100 learned positions are too few for texts of train.max_tokens = 256 tokens. "
        "Raise the one or lower the other."
    )


def test_a_newer_format_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        HeadwayError, match=r"this model was written in format 3, and this Headway reads up to 2. Install a newer"
    ):
        read_config({"format_version": 3, "something": "new"})
    (tmp_path / "config.json").write_text('{"format_version": 3}')
    with pytest.raises(HeadwayError, match=r"config.json: this model was written in format 3"):
        Config.load(tmp_path / "config.json")


def test_a_file_names_itself_in_its_errors(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[train]\nsead = 1\n")
    with pytest.raises(ConfigError, match=r'c.toml: train: there is no setting "sead" here'):
        Config.load(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[train]\nseed = \n", "line 2, column 8"),
        ("seed = yes", "line 1, column 8"),
        ("a = 1\na = 2\n", "line 2, column 6"),
        ("[train\n", "line 1, column 7"),
        ('a = "open', "end of document"),
    ],
)
def test_broken_toml_in_our_words(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Config.load(tmp_path / "c.toml")
    assert f"c.toml is not valid TOML: {place}. Each line is [section] or key = value; strings are in" in str(
        caught.value
    )


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 5000 + "]" * 5000, "{b = " * 3000 + "1" + "}" * 3000])
def test_toml_without_end(tmp_path: Path, value: str) -> None:
    (tmp_path / "c.toml").write_text(f"a = {value}")
    with pytest.raises(ConfigError, match=r"c.toml cannot be read: a number has thousands of digits, or lists"):
        Config.load(tmp_path / "c.toml")


def test_a_mark_in_front_is_read_over(tmp_path: Path) -> None:
    """Notepad puts one before UTF-8."""
    (tmp_path / "c.toml").write_text("[train]\nseed = 7\n", encoding="utf-8-sig")
    (tmp_path / "c.json").write_text('{"train": {"seed": 7}}', encoding="utf-8-sig")
    assert [Config.load(tmp_path / f"c.{kind}").train.seed for kind in ("toml", "json")] == [7, 7]


def test_damaged_json(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n "model": {')
    with pytest.raises(HeadwayError, match=r"config.json is damaged: line 2 is not JSON. Copy it again"):
        Config.load(path)
    path.write_text("[1]")
    with pytest.raises(HeadwayError, match=r"config.json is not a config: it must hold one JSON object"):
        Config.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(HeadwayError, match=r"config.json cannot be read: a config must be UTF-8 text"):
        Config.load(path)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(HeadwayError, match=r"there is no config file"):
            Config.load(path)


def test_tags_are_for_several_targets() -> None:
    assert read_config({"target_languages": ["de"]}).tags == ()
    assert read_config({"target_languages": ["de", "fr"]}).tags == ("de", "fr")
