"""Models in which not every layer shares out attention: each verb that looks at weights says so, or finds some."""

from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.cli.app import main
from headway.errors import HeadwayError
from headway.inspect.attention import read_attention

Capture = pytest.CaptureFixture[str]
TEXT = "The dog sees a red house."
FEW = ["--set", "train.steps=4", "--set", "train.validate_every=4"]


@pytest.fixture(scope="module")
def lm(train_text: Callable[..., Path]) -> Path:
    mixers = ["model.decoder.layers=2", "model.decoder.mixer=retention(2)"]
    return train_text("decoder", *(word for one in mixers for word in ("--set", one)), *FEW)


@pytest.fixture(scope="module")
def translator(train_toy: Callable[..., Path]) -> Path:
    return train_toy("--set", "model.decoder.mixer=retention(4)", *FEW)


def run(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main([*arguments]) == code
    return capsys.readouterr()


def test_a_language_model_without_attention(capsys: Capture, lm: Path, tmp_path: Path) -> None:
    _, err = run(capsys, "attend", "--model", str(lm), TEXT, code=1)
    assert "layer 2 of the decoder has no attention weights" in err and "headway trace" in err
    out, _ = run(capsys, "generate", "--model", str(lm), "The dog", "--max-length", "6")
    assert out.startswith("The dog")
    run(capsys, "trace", "--model", str(lm), "The dog", "--max-length", "6", "--out", str(tmp_path / "traced"))
    _, err = run(capsys, "attend", "--trace", str(tmp_path / "traced"), "--layer", "1", code=1)
    assert "layer 1 of the decoder has no attention weights" in err


def test_a_trace_knows_which_layers_have_weights(lm: Path) -> None:
    trace = headway.load(lm).trace("The dog", length=0)
    trace.tensors["decoder.0.self.weights"] = trace.tensors["decoder.0.self.scores"]
    assert read_attention(trace).weights.shape[0] == len(trace.tensors["decoder.0.self.scores"]), (
        "the last that has some"
    )
    with pytest.raises(HeadwayError, match="layer 2 of the decoder has no.*Layers that have some: 1"):
        read_attention(trace, layer=2)


def test_a_translator_whose_decoder_only_retains(capsys: Capture, translator: Path) -> None:
    out, _ = run(capsys, "attend", "--model", str(translator), TEXT)
    assert "keys: 0:" in out, "it still looks at the source"
    _, err = run(capsys, "attend", "--model", str(translator), TEXT, "--kind", "decoder", code=1)
    assert "layer 1 of the decoder has no attention weights" in err
    out, _ = run(capsys, "align", "--model", str(translator), TEXT, "Kavu.")
    assert out.strip()


def test_training_says_what_mixes(capsys: Capture, train_toy: Callable[..., Path]) -> None:
    train_toy("--set", "model.decoder.mixer=retention(4)", "--set", "train.steps=1", "--set", "train.validate_every=1")
    assert "4 heads of retention" in capsys.readouterr().err
