"""headway shortlist: for a model that is there; --shortlist where it is used; copies that keep it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.cli.app import main
from headway.errors import HeadwayError
from headway.text.shortlist import SHORTLIST_FILE, Shortlist
from headway.translate.options import TranslateOptions

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(translator_dir: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(translator_dir, tmp_path / "model"))


@pytest.fixture
def text(toy: Path) -> list[str]:
    return ["--source", str(toy / "train.en"), "--target", str(toy / "train.qtx")]


def told(capsys: Capture, code: int, *words: object) -> str:
    capsys.readouterr()
    assert main([*map(str, words)]) == code
    return capsys.readouterr().err


def test_it_is_made_and_used(capsys: Capture, model: Path, text: list[str], toy: Path) -> None:
    err = told(capsys, 0, "shortlist", "--model", model, *text)
    found = Shortlist.load(model)
    assert err.startswith(f"{model / SHORTLIST_FILE}: {len(found.targets):,} tokens in its lists, from 100 pairs, in ")
    assert f"next: headway evaluate --model {model} --shortlist --source FILE --target FILE" in err
    lines = (toy / "test.en").read_text().splitlines()
    translator = headway.load(model, device="cpu")
    assert isinstance(translator, headway.Translator)
    results = translator.translate(lines, TranslateOptions(search=translator.search(shortlist=True), retry=False))
    for line, result in zip(lines, results):
        source = translator.tokenizers.source.encode(line)
        assert set(result.guesses[0].tokens) <= set(found.candidates(source)), "each line is one sentence"
    main(["translate", "--model", str(model), "--shortlist", "--json", "--n-best", "3", lines[0]])
    answer = json.loads(capsys.readouterr().out)
    assert answer["text"] == translator(lines[0], shortlist=True) and len(answer["n_best"]) == 3
    assert main(["evaluate", "--model", str(model), "--shortlist", *text]) == 0
    assert "BLEU" in capsys.readouterr().out


def test_few_words_tell_in_the_output(capsys: Capture, model: Path, text: list[str]) -> None:
    told(capsys, 0, "shortlist", "--model", model, *text, "--keep-outputs", 1)
    assert Shortlist.load(model).is_fixed
    translator = headway.load(model, device="cpu")
    line = Path(text[1]).read_text().splitlines()[0]
    assert translator(line, shortlist=True) != translator(line)
    told(capsys, 0, "shortlist", "--model", model, *text, "--best", 100, "--frequent", 1000)
    again = headway.load(model, device="cpu")
    assert again(line, shortlist=True) == again(line) == translator(line), "everything that it was trained on is there"


def test_the_model_may_want_it_always(capsys: Capture, model: Path, text: list[str]) -> None:
    told(capsys, 0, "shortlist", "--model", model, *text, "--keep-outputs", 1)
    config = json.loads((model / "config.json").read_text())
    config["search"]["shortlist"] = True
    (model / "config.json").write_text(json.dumps(config))
    outputs = []
    for flags in ([], ["--shortlist"], ["--no-shortlist"]):
        main(["translate", "--model", str(model), *flags, "The dog sees a red house."])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_copies_keep_it(
    capsys: Capture, model: Path, text: list[str], tmp_path: Path, train_toy: Callable[..., Path]
) -> None:
    told(capsys, 0, "shortlist", "--model", model, *text)
    told(capsys, 0, "average", "--model", model, "--last", 2, "--out", tmp_path / "averaged")
    assert (Shortlist.load(tmp_path / "averaged").targets == Shortlist.load(model).targets).all()
    quick = ("--set", "model.linear=bitnet", "--set", "train.steps=4", "--set", "train.validate_every=4")
    ternary = train_toy(*quick, "--set", "train.shortlist=frequent(20)")
    told(capsys, 0, "pack", ternary, "--out", tmp_path / "packed")
    assert (Shortlist.load(tmp_path / "packed").targets == Shortlist.load(ternary).targets).all()


def test_what_is_wrong_is_said(capsys: Capture, model: Path, lm_dir: Path, text: list[str], tmp_path: Path) -> None:
    assert "this model has no shortlist. Make one: headway shortlist --model DIR" in told(
        capsys, 1, "translate", "--model", model, "--shortlist", "A dog runs."
    )
    with pytest.raises(HeadwayError, match="this model has no shortlist"):
        headway.load(model, device="cpu")("A dog runs.", shortlist=True)
    assert "is not a model directory: it has no config.json." in told(capsys, 1, "shortlist", "-m", tmp_path, *text)
    assert "is a language model: shortlists are for translators." in told(capsys, 1, "shortlist", "-m", lm_dir, *text)
    assert "--keep-outputs uses the same tokens for every sentence: leave out --best." in told(
        capsys, 2, "shortlist", "-m", model, *text, "--keep-outputs", 9, "--best", 50
    )
    assert "give --source and --target, or --pairs" in told(capsys, 2, "shortlist", "-m", model)
    assert not (model / SHORTLIST_FILE).exists()
    (model / SHORTLIST_FILE).write_bytes(b"nothing")
    plain = ("translate", "--model", model, "--engine", "torch", "A dog runs.")
    assert f"{SHORTLIST_FILE} is damaged." in told(capsys, 1, *plain, "--shortlist")
    assert f"warning: the shortlist is not used: {model / SHORTLIST_FILE} is damaged. Copy it again" in told(
        capsys, 0, *plain
    )
