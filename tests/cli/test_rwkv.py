"""A whole RWKV model by the command line: trained, resumed, asked to write on, and as the decoder of a translator in
8 bits."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

import headway
from headway.cli.app import main

Capture = pytest.CaptureFixture[str]
MIXERS = {"rwkv4": ("rwkv4", "rwkv_channel_mix(48)"), "rwkv7": ("rwkv7(2)", "rwkv_channel_mix(48, gated=false)")}
each_version = pytest.mark.parametrize("version", MIXERS)


def flags(version: str, steps: int) -> list[str]:
    mixer, feedforward = MIXERS[version]
    settings = {
        "model.decoder.layers": 2,
        "model.decoder.mixer": mixer,
        "model.decoder.feedforward": feedforward,
        "model.decoder.position": "none",
        "model.decoder.residual": "pre",
        "model.embedding.norm": "true",
        "model.embedding.scale": "false",
        "train.steps": steps,
        "train.validate_every": 2,
    }
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@each_version
def test_a_language_model_is_resumed_and_writes_on(
    capsys: Capture, train_text: Callable[..., Path], version: str
) -> None:
    """Four steps, or two and then two more: the same weights."""
    whole, parts = train_text("decoder", *flags(version, 4)), train_text("decoder", *flags(version, 2))
    train_text("decoder", *flags(version, 4), "--out", str(parts), "--allow-changes")
    one, other = (safe_open(folder / "model.safetensors", "pt") for folder in (whole, parts))
    assert set(one.keys()) == set(other.keys())
    assert all(one.get_tensor(name).equal(other.get_tensor(name)) for name in one.keys())  # noqa: SIM118
    capsys.readouterr()
    assert main(["generate", "--model", str(parts), "The dog", "--max-length", "8", "--beam-size", "2"]) == 0
    assert capsys.readouterr().out.startswith("The dog")


@each_version
def test_a_translator_in_eight_bits(capsys: Capture, train_toy: Callable[..., Path], version: str) -> None:
    folder = train_toy(*flags(version, 4))
    arguments = ["translate", "--model", str(folder), "--compute", "int8"]
    capsys.readouterr()
    assert main([*arguments, "The dog sees a red house."]) == 0
    assert capsys.readouterr().out.strip()
    for engine in ("native", "ctranslate2"):
        assert main([*arguments, "--engine", engine, "The dog."]) != 0
        assert version in capsys.readouterr().err
    assert headway.load_translator(folder).translate(["The dog."])
