"""Kinds of other packages: named in a config or declared by an installed package; never imported because a model
directory says so."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from own_package import NAMES, example_source, forget, installed_package, new_process, own_package, write_package

from headway.cli.app import main
from headway.config import own_kinds
from headway.config.config import Config, read_config, to_toml
from headway.config.kind_settings import kind_settings
from headway.config.schema import config_class, from_dict, make_part
from headway.config.sources import Layer, compose, format_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.masks.masks import make_mask
from headway.nn.transformer import Transformer
from headway.serve.served_model import read_served_model
from headway.storage.model_dir import load_model, save_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

__all__ = ["installed_package", "new_process", "own_package"]
MARK = "import pathlib\npathlib.Path({!r}).write_text('imported')\nclass Evil:\n    pass\n"


def table(**decoder: Any) -> dict[str, Any]:
    side = {"layers": 2, "mixer": "attention(4)", "feedforward": "relu(24)", **decoder}
    model = {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}, "decoder": side}
    return {"model": model, "train": {"objective": "causal"}, "tokenizer": "characters"}


# ---- how they are written


@pytest.mark.parametrize(
    ("slot", "written", "kind", "fields"),
    [
        ("mixer", "my_package.kinds:RunningMean", "my_package.kinds:RunningMean", {"zeros": 0}),
        ("mixer", "my_package.kinds:RunningMean(3)", "my_package.kinds:RunningMean", {"zeros": 3}),
        ("mixer", " my_package.kinds:RunningMean( zeros=3 ) ", "my_package.kinds:RunningMean", {"zeros": 3}),
        ("mixer", {"kind": "my_package.kinds:RunningMean", "zeros": 2}, "my_package.kinds:RunningMean", {"zeros": 2}),
        ("position", "my_package.kinds:Logarithmic(0.5)", "my_package.kinds:Logarithmic", {"rate": 0.5}),
        ("feedforward", "my_package.kinds:SquaredReLU", "my_package.kinds:SquaredReLU", {"hidden": None}),
        ("mask", "my_package.kinds:Sinks(2)", "my_package.kinds:Sinks", {"count": 2}),
    ],
)
def test_a_class_is_written_by_its_module(
    own_package: Path, slot: str, written: Any, kind: str, fields: dict[str, Any]
) -> None:
    part = make_part(slot, written)
    assert part.kind == kind
    assert {name: getattr(part, name) for name in fields} == fields
    assert make_part(slot, part.to_dict()) == part
    assert make_part(slot, part) == part


def test_masks_are_composed_with_those_of_the_catalogue(own_package: Path) -> None:
    mask = make_mask("causal & (local(2) | my_package.kinds:Sinks(1))")
    q, k = torch.arange(5)[:, None], torch.arange(5)
    expected = (k <= q) & (((q - k).abs() < 2) | (k < 1))
    assert torch.equal(mask(torch.tensor(0), torch.tensor(0), q, k).expand(5, 5), expected)


def test_strings_with_colons_stay_strings(own_package: Path) -> None:
    part = make_part("feedforward", "moe(2, expert='my_package.kinds:SquaredReLU(hidden=24)')")
    assert part.to_dict()["expert"]["kind"] == "my_package.kinds:SquaredReLU"
    with pytest.raises(ConfigError, match="is not a kind of mask"):
        make_mask("own_kind_0 & my_package.kinds:Sinks(1)")


def test_a_list_has_one_for_each_layer(own_package: Path) -> None:
    config = read_config(table(mixer=["my_package.kinds:RunningMean", "attention(4)"]))
    model = Transformer(config.model)
    names = [type(block.sublayers["self"]).__name__ for block in model.stacks["decoder"].blocks]  # type: ignore[union-attr, index]
    assert names == ["RunningMean", "Attention"]


def test_installed_packages_give_names(installed_package: Path) -> None:
    part = make_part("mixer", "running_mean(2)")
    assert (part.kind, part.zeros) == ("running_mean", 2)  # type: ignore[attr-defined]
    assert [setting.name for setting in kind_settings("mixer", "running_mean")] == ["zeros"]
    with pytest.raises(ConfigError, match=r"Of installed packages: logarithmic, running_mean, sinks, squared_relu\."):
        make_part("mixer", "walking_mean")


def test_a_config_object_is_named_after_its_class(own_package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from my_package.kinds import RunningMean, SquaredReLU  # type: ignore[import-not-found]

    config = from_dict(Config, table(mixer=RunningMean.Config(zeros=1), feedforward=[SquaredReLU.Config(hidden=8)]))
    assert config.to_dict()["model"]["decoder"]["mixer"] == [{"kind": "my_package.kinds:RunningMean", "zeros": 1}]
    monkeypatch.setattr(RunningMean, "__module__", "__main__")
    with pytest.raises(ConfigError, match="RunningMean is defined in __main__, where nothing else can find it"):
        make_part("mixer", RunningMean.Config())


def test_a_config_object_of_an_installed_package_has_its_short_name(installed_package: Path) -> None:
    from my_package.kinds import RunningMean

    assert make_part("mixer", RunningMean.Config(zeros=1)).kind == "running_mean"


def test_flags_and_print_config(own_package: Path) -> None:
    layers = [
        Layer("file", table()),
        Layer("flag --set", {"model": {"decoder": {"mixer": "my_package.kinds:RunningMean"}}}),
    ]
    config, origins = compose([*layers, Layer("flag 2", {"model": {"decoder": {"mixer": {"zeros": 7}}}})])
    text = format_config(config, origins)
    assert '[{kind = "my_package.kinds:RunningMean", zeros = 7}]' in text
    import tomllib

    assert read_config(tomllib.loads(to_toml(config.to_dict()))) == config


# ---- what is refused


@pytest.mark.parametrize(
    ("slot", "written", "says"),
    [
        ("mixer", "os:system", r'"os:system" is in Python\'s standard library'),
        ("mixer", "antigravity:fly", "standard library"),
        ("mixer", "..relative:Mixer", "does not name a class"),
        ("mixer", ".relative:Mixer", "does not name a class"),
        ("mixer", "my_package:__class__", "none of which begins with"),
        ("mixer", "__main__:Mixer", "none of which begins with"),
        ("mixer", "my_package._private:Mixer", "none of which begins with"),
        ("mixer", "my_package.kinds:RunningMean.Config", "does not name a class"),
        ("mixer", "my-package:Mixer", "does not name a class"),
        ("mixer", "a::b", "does not name a class"),
        ("mixer", ":b", "does not name a class"),
        ("mixer", "my_pаckage:Mixer", "ASCII"),  # with a Cyrillic а
        ("mixer", f"{'a' * 5000}:B", "at most 200 characters"),
        ("mixer", f"{'a.' * 5000}b:B(1)", "at most 200 characters"),
        ("mixer", "headway.nn.mixers.attention:Attention", 'Write "attention"'),
        ("mixer", "headway.errors:HeadwayError", "See: headway variants"),
        (
            "mixer",
            "nowhere_at_all.kinds:Mixer",
            "there is no module nowhere_at_all here. Install the package: pip install",
        ),
        ("mixer", "my_package.nothing:Mixer", "there is no module my_package.nothing here"),
        ("mixer", "my_package.kinds:Missing", "the module my_package.kinds has no Missing"),
        ("mixer", "my_package.kinds:Tensor", "is not a kind: a kind is a class with a nested dataclass Config"),
        ("mixer", "my_package.kinds:number", "is not a kind: a kind is a class"),
        ("mixer", "my_package.kinds:Sinks", '"my_package.kinds:Sinks" is not a mixer. It is a mask.'),
        ("mask", "my_package.kinds:RunningMean", '"my_package.kinds:RunningMean" is not a mask. It is a mixer.'),
        ("mixer", "my_package.kinds:RunningMean(1, 2)", "gives 2 values"),
        ("mixer", "my_package.kinds:RunningMean(-1)", "out of range"),
        ("mixer", {"kind": "my_package.kinds:RunningMean", "many": 1}, 'there is no setting "many" here'),
        ("tokenizer", "my_package.kinds:Bpe", "tokenizer takes no class of another package. Choose one of: bpe"),
        ("objective", "my_package.kinds:Goal", "objective takes no class"),
        ("mixer", "attention(4):x", "cannot be read"),
    ],
)
def test_what_is_no_kind_is_refused(own_package: Path, slot: str, written: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        make_part(slot, written)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
        ("import module_that_is_not_there", "No module named 'module_that_is_not_there'. Install what it needs"),
        ("class Kind:\n    class Config:\n        pass", "is not a kind"),
        (
            "from dataclasses import dataclass\nclass Kind:\n    @dataclass\n    class Config:\n"
            "        kind: str = ''\n        def mask(self): ...",
            "its Config must derive from headway.config.schema.Part",
        ),
        (
            "from dataclasses import dataclass\nclass Kind:\n    @dataclass\n    class Config:\n        kind: str = ''",
            '"evil_package.kinds:Kind" is not a mask. The Config of a mask has: mask.',
        ),
    ],
)
def test_a_broken_module_is_told(
    tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    write_package(tmp_path / "path", "evil_package", source)
    monkeypatch.syspath_prepend(tmp_path / "path")
    with pytest.raises(ConfigError, match=says):
        make_part("mask", "evil_package.kinds:Kind")


def test_a_config_may_say_its_slot(tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from headway.nn.layers.feedforward import GatedFeedForward\nclass Mine(GatedFeedForward):\n    pass\n"
    write_package(tmp_path / "path", "evil_package", source)
    monkeypatch.syspath_prepend(tmp_path / "path")
    assert make_part("feedforward", "evil_package.kinds:Mine(8)").hidden == 8  # type: ignore[attr-defined]
    monkeypatch.setattr(config_class("feedforward", "swiglu"), "slot", "mixer", raising=False)
    with pytest.raises(ConfigError, match="It is a mixer"):
        make_part("feedforward", "evil_package.kinds:Mine(8)")


def test_two_packages_with_one_name_are_refused(
    installed_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_package(tmp_path / "more", "evil_package", "", {"running_mean": "Other"})
    monkeypatch.syspath_prepend(tmp_path / "more")
    with pytest.raises(ConfigError, match='several packages have a kind "running_mean": evil-package 1.0, my-package'):
        make_part("mixer", "running_mean")
    assert make_part("mixer", "my_package.kinds:RunningMean").kind == "my_package.kinds:RunningMean"
    assert make_part("mask", "sinks").kind == "sinks", "others are as they were"
    assert main(["variants", "mask"]) == 0
    listed = capsys.readouterr()
    assert "sinks" in listed.out and 'several packages have a kind "running_mean"' in listed.err


def test_a_package_cannot_replace_a_kind(
    tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"retention": "RunningMean", "odd": "Tensor", "shapeless": "Shapeless"}
    source = f"{example_source()}\n\nclass Shapeless:\n    @dataclass\n    class Config: ...\n"
    write_package(tmp_path / "more", "my_package", source, names)
    monkeypatch.syspath_prepend(tmp_path / "more")
    assert type(make_part("mixer", "retention(4)")).__module__ == "headway.nn.mixers.retention"
    assert main(["variants", "mixer"]) == 0
    told = capsys.readouterr().err
    assert '"retention" is a mixer of Headway already. Write "my_package.kinds:RunningMean".' in told
    assert '"my_package.kinds:Tensor" is not a kind' in told
    assert '"my_package.kinds:Shapeless" fits no slot' in told


# ---- listed


def test_variants_lists_installed_kinds(installed_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variants"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["mask", "sinks", "The first positions of the text, which every query may see", "", "my-package 1.0"] in rows
    assert {row[1] for row in rows} > set(NAMES)
    assert main(["variants", "running_mean"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("mixer running_mean: The mean of everything so far") and "zeros = 0  # integer" in text
    assert main(["variants", "--search", "logarithm of distance"]) == 0
    assert "logarithmic" in capsys.readouterr().out


def test_variants_shows_a_class(own_package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variants", "my_package.kinds:Sinks"]) == 0
    assert capsys.readouterr().out.startswith("mask my_package.kinds:Sinks: The first positions")
    write_package(
        own_package, "evil_package", "import dataclasses\nclass Odd:\n    @dataclasses.dataclass\n    class Config: ..."
    )
    assert main(["variants", "evil_package.kinds:Odd"]) == 2
    assert "fits no slot" in capsys.readouterr().err


# ---- model directories


def save(folder: Path, decoder: dict[str, Any]) -> Config:
    tokenizer = Tokenizer.train(["abcdefghijklmnopqrstuvwxy"], "characters")
    given = table(**decoder)
    given["model"]["vocabulary"] = tokenizer.size
    config = read_config(given)
    torch.manual_seed(1)
    save_model(folder, config, Transformer(config.model).state_dict(), Tokenizers(tokenizer, tokenizer), "a card")
    return config


OWN = {"mixer": ["attention(4)", "attention(2)"], "mask": "causal & (local(2) | my_package.kinds:Sinks(1))"}
OWN |= {"position": "my_package.kinds:Logarithmic(0.5)", "feedforward": "my_package.kinds:SquaredReLU(24)"}


def test_a_model_is_saved_by_name_and_loaded_only_with_consent(
    own_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = save(tmp_path / "model", OWN)
    stored = json.loads((tmp_path / "model" / "config.json").read_text())
    assert stored["model"]["decoder"]["position"][0]["kind"] == "my_package.kinds:Logarithmic"
    assert load_model(tmp_path / "model").config == config, "named in this process"
    forget()
    with pytest.raises(ConfigError, match="only you can allow it to run: --allow-code my_package, HEADWAY_ALLOW_CODE"):
        load_model(tmp_path / "model")
    assert "my_package.kinds" not in sys.modules
    monkeypatch.setenv("HEADWAY_ALLOW_CODE", "other, my_pack")
    with pytest.raises(ConfigError, match="only you can allow"):
        load_model(tmp_path / "model")
    monkeypatch.setenv("HEADWAY_ALLOW_CODE", "other, my_package.kinds")
    ids = torch.randint(29, (1, 7))
    with torch.no_grad():
        expected = load_model(tmp_path / "model").model.decode(ids)
    monkeypatch.delenv("HEADWAY_ALLOW_CODE")
    forget()
    own_kinds.allow_code("my_package")
    with torch.no_grad():
        assert torch.equal(load_model(tmp_path / "model").model.decode(ids), expected)
    for bad in ("../x", "", "a b", "_x", "é", "a" * 300):
        with pytest.raises(HeadwayError, match="is not the name of a package"):
            own_kinds.allow_code([bad])


def test_installed_kinds_need_no_consent_and_are_named_where_missing(
    installed_package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = save(tmp_path / "model", {"mixer": "running_mean(1)", "position": "sinusoidal"})
    stored = json.loads((tmp_path / "model" / "config.json").read_text())
    assert stored["packages"] == {"running_mean": "my-package 1.0"}
    forget()
    assert load_model(tmp_path / "model").config.to_dict() == config.to_dict()
    declared = json.dumps(stored).replace('"running_mean"', '"my_package.kinds:RunningMean"')
    (tmp_path / "model" / "config.json").write_text(declared)
    forget()
    load_model(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(json.dumps(stored))
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(installed_package)])
    forget()
    with pytest.raises(ConfigError, match=r"of the package my-package 1\.0, .* pip install my-package$"):
        load_model(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(declared)
    own_kinds.allow_code(["my_package"])
    with pytest.raises(ConfigError, match=r"pip install my-package \(the model was saved with my-package 1\.0\)"):
        load_model(tmp_path / "model")
    hostile = stored | {"packages": {"running_mean": "x\n\x1b[31m; rm -rf / #", "b": 3, "c": "a" * 500}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(hostile))
    with pytest.raises(ConfigError, match='"running_mean" is not a kind of mixer'):
        load_model(tmp_path / "model")


@pytest.fixture
def hostile(tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A model directory that brings its own package and metadata, and is the current directory; and the file that the
    package writes if it is imported."""
    folder, mark = tmp_path / "model", tmp_path / "mark"
    save(folder, {})
    write_package(folder, "evil_package", MARK.format(str(mark)), {"evil": "Evil"})
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(folder))
    return folder, mark


@pytest.mark.parametrize(
    ("slot", "kind"),
    [
        ("mixer", "evil_package.kinds:Evil"),
        ("mixer", "evil"),
        ("mask", "evil_package.kinds:Evil"),
        ("position", "evil_package.kinds:Evil"),
        ("feedforward", "evil_package.kinds:Evil"),
        ("residual", "evil_package.kinds:Evil"),
        ("mixer", "os:system"),
        ("mixer", "evil_package.kinds:Evil(1)"),
        ("mixer", "this:Zen"),
    ],
)
def test_a_model_directory_imports_nothing(hostile: tuple[Path, Path], slot: str, kind: str) -> None:
    folder, mark = hostile
    stored = json.loads((folder / "config.json").read_text())
    written: Any = {"kind": kind}
    stored["model"]["decoder"][slot] = written if slot == "residual" else [written]
    for value in (stored, json.loads(json.dumps(stored).replace(json.dumps(written), json.dumps(kind)))):
        (folder / "config.json").write_text(json.dumps(value))
        with pytest.raises(ConfigError):
            load_model(folder)
    assert not mark.exists()
    assert "evil_package" not in sys.modules


@pytest.mark.parametrize("place", ["tokenizer", "optimiser", "head", "norm", "linear", "expert", "parts", "embedding"])
def test_nor_from_elsewhere_in_it(hostile: tuple[Path, Path], place: str) -> None:
    folder, mark = hostile
    stored = json.loads((folder / "config.json").read_text())
    evil = {"kind": "evil_package.kinds:Evil"}
    if place == "tokenizer":
        stored["tokenizer"] = evil
    elif place == "optimiser":
        stored["train"]["optimiser"] = evil
    elif place == "expert":
        stored["model"]["decoder"]["feedforward"] = [{"kind": "moe", "expert": evil}]
    elif place == "parts":
        stored["model"]["decoder"]["mask"] = [{"kind": "all", "parts": ["causal", evil]}]
    else:
        stored["model"][place] = evil
    (folder / "config.json").write_text(json.dumps(stored))
    with pytest.raises(ConfigError):
        load_model(folder)
    assert not mark.exists()


@pytest.mark.parametrize("verb", ["translate", "evaluate", "inspect", "serve", "pack", "generate", "average", "models"])
def test_no_verb_imports_it(
    hostile: tuple[Path, Path], verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, mark = hostile
    stored = json.loads((folder / "config.json").read_text())
    stored["model"]["decoder"]["mixer"] = [{"kind": "evil_package.kinds:Evil"}]
    (folder / "config.json").write_text(json.dumps(stored))
    (tmp_path / "text").write_text("abc\n")
    monkeypatch.setenv("HEADWAY_MODELS", str(tmp_path / "models"))
    model, text, out = str(folder), str(tmp_path / "text"), str(tmp_path / "out")
    words = {
        "translate": ["--model", model, "abc"],
        "evaluate": ["--model", model, "--text", text],
        "inspect": ["--model", model, "--out", out, "abc"],
        "serve": ["--model", model, "--port", "0", "--check"],
        "pack": ["--model", model, "--out", out],
        "generate": ["--model", model, "abc"],
        "average": ["--model", model, "--out", out],
        "models": ["list"],
    }[verb]
    main([verb, *words])
    assert not mark.exists()


def test_a_console_script_does_not_look_in_the_current_directory(hostile: tuple[Path, Path]) -> None:
    """`python -m headway` does, as Python does; without consent nothing is imported either."""
    folder, mark = hostile
    stored = json.loads((folder / "config.json").read_text())
    stored["model"]["decoder"]["mixer"] = [{"kind": "evil"}]
    (folder / "config.json").write_text(json.dumps(stored))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "headway", "generate", "--model", ".", "abc"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and '"evil" is not a kind of mixer' in done.stderr, done.stderr
    assert not mark.exists()


# ---- from training to translating


def test_a_translator_with_them_is_trained_saved_and_used(
    own_package: Path, train_toy: Callable[..., Path], toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import headway

    flags = ["model.decoder.layers=2", "train.steps=60", "train.validate_every=30", "model.encoder.mask=full"]
    flags += ["model.decoder.mixer=['attention(4)', 'my_package.kinds:RunningMean(1)']", "model.decoder.mask=causal"]
    flags += [f"model.{side}.feedforward=my_package.kinds:SquaredReLU(64)" for side in ("encoder", "decoder")]
    flags += ["model.encoder.position=my_package.kinds:Logarithmic"]
    folder = train_toy(*(word for flag in flags for word in ("--set", flag)))
    lines = (toy / "test.en").read_text().splitlines()[:4]
    expected = headway.load_translator(folder, engine="torch")(lines, beam_size=2)
    forget()
    capsys.readouterr()
    asked = ["translate", "--model", str(folder), "--beam-size", "2", *("--input", str(toy / "test.en"))]
    assert main(asked) == 2
    assert "--allow-code my_package" in capsys.readouterr().err
    assert "my_package" not in sys.modules
    assert main([*asked, "--engine", "native"]) == 1
    assert "it has kinds of other packages, which only torch can run" in capsys.readouterr().err
    assert read_served_model(folder, []).summary.source_languages == ("en",), "a server lists it without its code"
    assert "my_package" not in sys.modules
    assert main([*asked, "--allow-code", "my_package"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:4] == expected and len(out) == 20
    forget()
    translator = headway.load(folder, allow_code=["my_package"])
    pickled = pickle.dumps(translator)
    forget()
    assert pickle.loads(pickled)(lines, beam_size=2) == expected, "what was allowed travels with it"
    forget()
    translator = headway.load(folder, allow_code=["my_package"])
    assert translator(lines, beam_size=2) == expected
    scored = translator.score([(line, text) for line, text in zip(lines, expected)])
    assert all(pair.logp < 0 for pair in scored)
