"""Models by name, and by what they translate."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from installing_models import Shelf, make_model

import headway
from headway.errors import ConfigError, HeadwayError
from headway.storage.registry import (
    ModelChoice,
    choose_models,
    list_installed,
    model_directory,
    set_default,
    user_models_folder,
)
from headway.text.language_codes import format_directions, languages_match
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator

TRAIN = (
    "Name a model directory with --model, or train one: headway train --source train.{0} --target train.{1} "
    "--out {0}-{1}; then: headway models add {0}-{1}"
)


def test_where_the_models_of_a_user_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_MODELS", "/mine")
    assert user_models_folder() == Path("/mine")
    monkeypatch.delenv("HEADWAY_MODELS")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert user_models_folder() == Path("/data/headway/models")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert user_models_folder() == Path("/home/me/.local/share/headway/models")


def test_what_is_installed(shelf: Shelf) -> None:
    assert list_installed() == {}
    both = shelf.add("en-de", "en de", "de en", bundled=True)
    shelf.add("en-fr", "en", "fr", bundled=True)
    mine = shelf.add("en-fr", "en", "fr")
    (shelf.own / "empty").mkdir()
    (shelf.own / "README.md").write_text("no model")
    (shelf.own / "broken").mkdir()
    (shelf.own / "broken" / "config.json").write_text("{")
    found = list_installed()
    assert {name: (one.folder, one.bundled) for name, one in found.items()} == {
        "en-fr": (mine, False),
        "en-de": (both, True),
    }
    assert found["en-de"].directions == [("en", "de"), ("de", "en")]


def test_by_name_and_by_direction(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = str(shelf.add("small", "en de", "de en", bundled=True))
    assert choose_models(["small"]) == choose_models([both]) == ModelChoice((both,), "en", "de")
    assert choose_models(["small"], target="de") == ModelChoice((both,), "en", "de")
    assert choose_models(["en-de"]) == ModelChoice((both,), "en", "de")
    assert choose_models(["de-en"]) == ModelChoice((both,), "de", "en")
    assert model_directory("de-en") == both
    assert choose_models([]) == ModelChoice((both,), "en", "de")
    assert choose_models([], "de", "en") == choose_models([], "de") == choose_models([], target="en")
    assert choose_models([], "de", "en") == ModelChoice((both,), "de", "en")
    assert choose_models([], "de_DE", "EN") == ModelChoice((both,), "de", "en")
    assert choose_models(["small"], "DE", "EN") == ModelChoice((both,), "de", "en")
    # A directory of the user that has this name comes first if it is a model, and only then.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert choose_models(["small"]) == ModelChoice((both,), "en", "de")
    make_model(tmp_path / "small", ["en"], ["fr"])
    assert choose_models(["small"]) == ModelChoice(("small",))
    assert choose_models(["small"], "en") == ModelChoice(("small",), "en", "fr")


def test_flags_that_contradict_a_name(shelf: Shelf) -> None:
    """The name's other side is not taken along: what is left of the model's languages is."""
    both = str(shelf.add("en-de", "en de", "de en", bundled=True))
    for name in ("en-de", both):
        assert choose_models([name], "de") == choose_models([name], target="en") == ModelChoice((both,), "de", "en")
        assert choose_models([name], "de-AT") == ModelChoice((both,), "de", "en")
        assert choose_models([name], "en") == choose_models([name], target="de") == ModelChoice((both,), "en", "de")
        with pytest.raises(ConfigError) as caught:
            choose_models([name], "de", "de")
        assert str(caught.value) == f"{name} does not translate from de to de: give another --from or --to."
    several = str(shelf.add("several", "en de fr", "en de fr"))
    assert choose_models([several], "fr") == ModelChoice((several,), "fr"), "the translator asks for --to"
    corrector = str(shelf.add("corrector", "en", "en"))
    assert choose_models([corrector], "en", "en") == ModelChoice((corrector,), "en", "en")


def test_which_of_several(shelf: Shelf) -> None:
    """The user's default, then the package's, then the one of that name, then the one with the fewest directions."""
    shelf.add("all", "en de fr", "de en fr", bundled=True)
    two = shelf.add("two", "en de", "de en", bundled=True)
    assert choose_models([], "en", "de").paths == (str(two),)
    named = shelf.add("en-de", "en de", "de en", bundled=True)
    assert choose_models([], "en", "de").paths == (str(named),)
    mine = shelf.add("mine", "en", "de")
    assert choose_models([], "en", "de").paths == (str(named),), "what is added takes nothing over"
    assert choose_models(["mine"]) == ModelChoice((str(mine),))
    set_default("mine")
    assert choose_models([], "en", "de").paths == (str(mine),)
    assert choose_models([], "de", "en").paths == (str(named),), "it does not translate so"
    (shelf.own / "defaults.json").write_text("[]")
    assert choose_models([], "en", "de").paths == (str(named),)
    assert choose_models(["en-de"]) == ModelChoice((str(named),), "en", "de")
    assert choose_models(["mine", "two"]).paths == (str(mine), str(two))


def test_a_default_that_cannot_be(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.add("mine", "en", "de")
    with pytest.raises(HeadwayError, match=r'there is no installed model "other"\. Installed: mine \(en → de\)\.'):
        set_default("other")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(headway.storage.registry, "write_text_atomically", refuse)
    with pytest.raises(HeadwayError, match="cannot be written: Permission denied"):
        set_default("mine")


def test_the_direction_of_a_model_that_is_given_without(shelf: Shelf) -> None:
    """As the bundled one: both ways means from the first language, wherever the model lies."""
    tuned = str(shelf.add("tuned", "en de", "de en"))
    assert choose_models([tuned]).direction == choose_models(["tuned"]).direction == ("en", "de")
    assert choose_models([tuned], "de").direction == choose_models([tuned], target="en").direction == ("de", "en")
    for name, sources, targets in (("many", "en de fr", "en de fr"), ("one", "en", "de"), ("from-two", "en fr", "de")):
        assert choose_models([str(shelf.add(name, sources, targets))]).direction == ("", "")


def test_countries(shelf: Shelf) -> None:
    brazil, portugal = (str(shelf.add(f"en-{name}", "en", name)) for name in ("pt-BR", "pt-PT"))
    assert choose_models([], "en", "pt-br") == ModelChoice((brazil,), "en", "pt-BR")
    assert choose_models(["en-pt-PT"]) == ModelChoice((portugal,), "en", "pt-PT")
    with pytest.raises(ConfigError, match=r"installed models translate en → pt-BR, en → pt-PT: choose one with --to\."):
        choose_models([], "en", "pt")
    shelf.add("en-pt", "en", "pt")
    assert choose_models([], "en", "pt").target == "pt"
    for name in ("pt-BR", "pt-PT"):
        shelf.add(f"{name}-en", name, "en")
    for source, target in (("pt", "en"), ("pt", "")):
        with pytest.raises(ConfigError, match=r"translate pt-BR → en, pt-PT → en: choose one with --from\."):
            choose_models([], source, target)


def test_a_name_is_not_half_a_direction(shelf: Shelf) -> None:
    """A language has two or three letters, and maybe a script and a region."""
    shelf.add("en-de", "en", "de", bundled=True)
    for name in ("en-de-large", "en-", "-de", "en-de-", "-"):
        with pytest.raises(
            HeadwayError, match=f'there is no model "{name}": neither a directory nor an installed model'
        ):
            choose_models([name])
    assert choose_models(["en-de-AT"]).target == "de"
    large = str(shelf.add("en-de-large", "en", "de"))
    assert choose_models(["en-de-large"]) == ModelChoice((large,))


def test_nothing_serves(shelf: Shelf) -> None:
    with pytest.raises(HeadwayError) as caught:
        choose_models([])
    told = TRAIN.format("en", "de")
    assert str(caught.value) == f"no installed model translates from en to de. No model is installed. {told}"
    shelf.add("en-de", "en de", "de en", bundled=True)
    shelf.add("mine", "en", "fr")
    with pytest.raises(HeadwayError) as caught:
        choose_models([], "fi", "de")
    assert str(caught.value) == (
        "no installed model translates from fi to de. Installed: mine (en → fr), en-de (en ↔ de). "
        + TRAIN.format("fi", "de")
    )
    with pytest.raises(HeadwayError, match="from any language to sv. Installed"):
        choose_models([], target="sv")
    with pytest.raises(
        HeadwayError, match=r'there is no model "en-fi": neither a directory nor an installed model\. Inst'
    ):
        choose_models(["en-fi"])
    with pytest.raises(HeadwayError, match=r'mine does not translate from "de"\. Its source languages: en\.'):
        choose_models(["mine"], "de")
    with pytest.raises(ConfigError, match=r"installed models translate en → de, en → fr: choose one with --to\."):
        choose_models([], "en")
    with pytest.raises(ConfigError, match=r"choose one with --from\."):
        shelf.add("fr-de", "fr", "de")
        choose_models([], target="de")


def test_load(shelf: Shelf) -> None:
    """The direction of the name is that of the translator, unless a call says otherwise."""
    shelf.add("en-de", "en de", "de en", bundled=True)
    there, back = headway.load("en-de"), headway.load("de-en")
    assert isinstance(there, Translator) and isinstance(back, Translator)

    def asked(translator: Any, **given: str) -> float:
        return float(translator.translate(["Guten Tag."], TranslateOptions(**given))[0].score)

    assert asked(there) == asked(headway.load()) == asked(back, target="de")
    assert asked(back) == asked(there, target="en", source="de")
    assert asked(there) != asked(back)
    assert (back.source, back.target) == ("de", "en")


def test_choosing_imports_neither_torch_nor_numpy(shelf: Shelf, tmp_path: Path) -> None:
    shelf.add("mine", "en", "fr")
    program = (
        "import sys; from headway.storage.registry import choose_models as pick; print(pick([], 'en', 'fr')[0][0]); "
        "print([name for name in ('torch', 'numpy', 'tokenizers', 'py3langid') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [str(shelf.own / "mine"), "[]"]


def test_languages_compared_and_shown() -> None:
    assert languages_match("de", "de-AT") and languages_match("nb", "no") and languages_match("zh_Hans", "zh-hans")
    assert not languages_match("de", "en") and not languages_match("pt-PT", "pt-BR")
    assert format_directions([("en", "de"), ("de", "en"), ("en", "fr")]) == "en ↔ de, en → fr"
