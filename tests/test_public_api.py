"""The public API: `headway.__all__`, whole and documented, and imported without torch until it is used."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headway

ROOT = Path(__file__).parent.parent
NAMES = [
    "Config", "ConfigError", "Corpus", "Glossary", "Guess", "HeadwayError", "LanguageModel", "PivotTranslator",
    "Search", "Tokenizer", "TrainingResult", "TranslateOptions", "Translation", "Translator", "__version__", "load",
    "load_translator", "presets", "train",
]  # fmt: skip


def test_the_list_is_exact() -> None:
    """A name that is added or removed here is a decision: it is promised to users, and in docs/python.md."""
    assert headway.__all__ == NAMES == sorted(NAMES)


def test_nothing_else_is_shown() -> None:
    import headway.translate.translator  # modules become attributes of the package

    assert dir(headway) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_importable_and_documented(name: str) -> None:
    value = getattr(headway, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", value)
        return
    doc = inspect.getdoc(value)
    assert doc and len(doc) > 20 and not doc.startswith(f"{name}("), "its own docstring, not the dataclass's signature"


@pytest.mark.parametrize("name", [name for name in NAMES if name[0].isupper()])
def test_public_methods_are_documented(name: str) -> None:
    missing = [
        member
        for member, value in vars(getattr(headway, name)).items()
        if not member.startswith("_") and inspect.isfunction(value) and not value.__doc__
    ]
    assert not missing


def test_the_page_shows_all_of_it() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    missing = [name for name in NAMES if not re.search(rf"\b(headway\.)?{re.escape(name)}\b", page)]
    assert not missing
    assert "docs/python.md" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code",
    [
        "import headway",
        "from headway import Config, ConfigError, Corpus, Glossary, HeadwayError, Search, Tokenizer, TranslateOptions",
        "from headway import Guess, Translation, Translator, load, load_translator, presets, train",
    ],
)
def test_no_torch_is_imported(code: str) -> None:
    program = f"{code}\nimport sys\nsys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_values_show_what_they_are_in_a_line() -> None:
    translator = headway.load("en-de", device="cpu")
    assert isinstance(translator, headway.Translator)
    [result] = translator.translate(["A dog runs."])
    config = headway.presets.tiny(vocabulary=300)
    for value, shown in (
        (translator, "<Translator 'en-de': en ↔ de; engine "),
        (result, "Translation(source='A dog runs.'"),
        (result.guesses[0], "Guess(text="),
        (translator.tokenizers.target, "Tokenizer(bpe, 8000 entries"),
        (translator.trace("A dog runs."), "<Trace of a translation: 'A dog runs.' → "),
        (config, "Config("),
        (headway.Search(beam_size=2), "Search(beam_size=2"),
        (headway.TranslateOptions(target="de"), "TranslateOptions(source='', target='de'"),
        (headway.Glossary({f"word {n}": "Wort" for n in range(99)}), "Glossary({'word 0': 'Wort'"),
        (headway.Corpus([("a", "b")] * 999, languages=("en", "de")), "Corpus([('a', 'b'), ('a', 'b')"),
        (headway.Corpus(iter([]), weight=2.0), "Corpus(a list_iterator, languages=('', ''), weight=2.0)"),
    ):
        assert repr(value).startswith(shown) and len(repr(value)) < 1300, repr(value)
    assert "model.d_model=128, model.vocabulary=300" in repr(config)


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'headway' has no attribute 'nothing'"):
        headway.nothing  # noqa: B018
    assert set(NAMES) <= set(dir(headway))
