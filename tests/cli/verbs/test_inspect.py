"""headway inspect: a page, pictures and a trace of one sentence; and the same page in a notebook."""

import json
import re
from pathlib import Path

import click
import pytest

from headway.cli.app import main
from headway.cli.verbs.inspect import split_words
from headway.inspect.trace import load_trace
from headway.translate.translator import load

TEXT = "The dog sees a red house."


def recorded(page: str) -> dict[str, dict[str, object]]:
    found = re.search(r'id="recording">(.*?)</script>', page, re.S)
    assert found
    table: dict[str, dict[str, object]] = json.loads(found[1])
    return table


def test_a_translation(capsys: pytest.CaptureFixture[str], translator_dir: Path, tmp_path: Path) -> None:
    assert main(["inspect", "--model", str(translator_dir), TEXT, "--out", str(tmp_path), "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    trace = load_trace(tmp_path)
    assert trace.output == out.strip()
    names = {path.name for path in tmp_path.iterdir()}
    assert {
        "page.html",
        "trace.json",
        "attention-cross-1.png",
        "attention-encoder-1.svg",
        "position-decoder.png",
        "probabilities.png",
        "beam.svg",
        "way-encoder.png",
    } <= names
    assert "18 pictures" in err
    answers = recorded((tmp_path / "page.html").read_text())["answers"]
    assert {"model", "0 costs", "0 vectors", "0 places 1", "0 inside decoder.0.cross"} <= answers.keys()
    assert {f"0 column decoder.0.cross {matrix} 0 0" for matrix in "qkvo"} <= answers.keys()


def test_language_models(capsys: pytest.CaptureFixture[str], lm_dir: Path, masked_dir: Path, tmp_path: Path) -> None:
    for model in (lm_dir, masked_dir):
        assert main(["inspect", str(model), TEXT, "--out", str(tmp_path / model.name), "--device", "cpu"]) == 0
    assert main(["inspect", "--model", str(lm_dir), TEXT, "--to", "de", "--out", str(tmp_path)]) == 2
    assert "is a language model: leave out --to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "model", "read"),
    [
        (("A dog.",), "m", ("m", "A dog.")),
        (("A dog.",), None, (None, "A dog.")),
        (("m", "A dog."), None, ("m", "A dog.")),  # as before --model
    ],
)
def test_the_model_is_an_option_or_the_first_word(
    words: tuple[str, ...], model: str | None, read: tuple[str | None, str]
) -> None:
    with click.Context(click.Command("inspect")):
        assert split_words(words, model) == read


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "m"], 'TEXT is missing: give what to translate, as in headway inspect --model DIR "…"'),
        (["{model}"], "TEXT is missing"),
        (["--model", "m", "A", "dog."], '2 texts were given: put one between quotes, as in "A dog runs."'),
        (["m", "A", "dog."], "3 texts were given"),
    ],
)
def test_wrong_words(capsys: pytest.CaptureFixture[str], lm_dir: Path, words: list[str], message: str) -> None:
    given = [word.format(model=lm_dir) for word in words]
    assert main(["inspect", *given, "--out", "never"]) == 2
    assert message in capsys.readouterr().err


def test_a_notebook_shows_the_page(translator_dir: Path, lm_dir: Path) -> None:
    for trace in (load(translator_dir, "cpu").trace(TEXT + " <b>&"), load(lm_dir, "cpu").trace(TEXT, length=0)):
        shown = trace._repr_html_()
        assert shown.startswith("<iframe srcdoc=")
        assert "<b>" not in shown
