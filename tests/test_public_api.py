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
    "Config", "ConfigError", "Glossary", "Guess", "HeadwayError", "LanguageModel", "Search", "Tokenizer",
    "TranslateOptions", "Translation", "Translator", "__version__", "load", "load_translator", "presets",
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
        "from headway import Config, ConfigError, Glossary, HeadwayError, Search, Tokenizer, TranslateOptions, presets",
        "from headway import Guess, Translation, Translator, load, load_translator",
    ],
)
def test_no_torch_is_imported(code: str) -> None:
    program = f"{code}\nimport sys\nsys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'headway' has no attribute 'nothing'"):
        headway.nothing  # noqa: B018
    assert set(NAMES) <= set(dir(headway))
