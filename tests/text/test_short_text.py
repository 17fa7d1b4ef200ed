"""Languages of a few words: by a table of words and n-grams, in doubt not the language that would stay as it is."""

import importlib.util
import lzma
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headway.text.line_language import LineLanguageDetector
from headway.text.short_text import (
    iter_ngrams,
    known_share,
    load_table,
    score_short_text,
    to_probabilities,
)

ROOT = Path(__file__).parents[2]
SHORT = [
    ("de", "Ja"), ("de", "Nein."), ("de", "Danke!"), ("de", "Rauchst du viel?"), ("de", "Guten Morgen"),
    ("de", "Warum?"), ("de", "Das Haus brennt"), ("de", "Zwei Katzen."), ("de", "MIR IST KALT"),
    ("de", "Schönes Wetter"), ("en", "Two cats."), ("en", "Yes"), ("en", "Thank you"), ("en", "Why?"), ("en", "I see."),
    ("en", "The house burns"), ("en", "Nice weather"), ("en", "WHO ARE YOU?"), ("en", "Do you smoke?"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "text"), SHORT)
def test_a_few_words_are_guessed_among_the_own_languages(language: str, text: str) -> None:
    assert LineLanguageDetector(["en", "de"]).detect(text) == language
    for target in ("en", "de"):
        assert LineLanguageDetector(["en", "de"], target).detect(text) == language


@pytest.mark.parametrize("text", ["Tom", "Hand", "Hallo", "Taxi", "OK", "Wind", "Tom sang."])
def test_what_may_be_either_is_translated(text: str) -> None:
    """A text that is taken for one in the target language would stay as it is."""
    assert LineLanguageDetector(["en", "de"], "de").detect(text) == "en"
    assert LineLanguageDetector(["en", "de"], "en").detect(text) == "de"


def test_languages_that_the_table_lacks() -> None:
    assert "nl" not in load_table().languages
    assert score_short_text(["huis"], ["en", "nl"]) == {}
    detector = LineLanguageDetector(["en", "nl"])
    assert detector.detect("Het huis") == "nl"
    assert detector.detect("The house") == "en"
    assert detector.short_probabilities("Het huis") == {}


def test_scripts_tell_before_words_do() -> None:
    detector = LineLanguageDetector(["en", "de", "ru"], "de")
    assert detector.detect("Да") == "ru"
    assert detector.detect("Ja") == "de"
    assert detector.detect("你好") == "zh"  # none of the own languages is written so
    assert LineLanguageDetector(["zh", "en"]).detect("你好") == "zh"


def test_a_text_in_another_language_stays_one() -> None:
    detector = LineLanguageDetector(["en", "de"], "de")
    assert detector.detect("Bonjour tout le monde, comment allez-vous?") == "fr"
    assert detector.detect("Où est la gare, s'il vous plaît?") == "fr"
    assert detector.detect("Merci beaucoup") == "fr"  # the table has these words
    assert LineLanguageDetector(["en", "de", "fr"], "de").detect("Merci beaucoup") == "fr"


def test_probabilities_are_those_of_guesses() -> None:
    detector = LineLanguageDetector(["en", "de"])
    sure = detector.short_probabilities("Two cats.")
    assert sure["en"] > 0.9
    assert sum(sure.values()) <= 1.0 + 1e-9
    either = detector.short_probabilities("Hand")
    assert 0.3 < either["de"] < 0.7
    assert sum(detector.short_probabilities("Merci beaucoup").values()) < 0.5  # known words, of another language
    assert 0.1 < sum(detector.short_probabilities("Grumbleweed").values()) < 0.9
    assert detector.short_probabilities("This is a sentence of more than three words.") == {}
    assert detector.short_probabilities("123") == {}
    assert to_probabilities({"en": -1e9, "de": 0.0}) == {"en": 0.0, "de": 1.0}


def test_ngrams_of_a_word() -> None:
    assert list(iter_ngrams("ja")) == ["j", "a", " j", "ja", "a ", " ja", "ja ", " ja "]
    assert known_share(["ja", "qqqq"], ["de"]) == pytest.approx(1 / 3)
    assert known_share([], ["de"]) == 0.0


def load_recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("short_text_table", ROOT / "recipes" / "short_text_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_recipe_makes_such_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe()
    lines: dict[str, list[tuple[str, ...]]] = {
        "en-de/tatoeba.tsv.xz": [("the cat sees the dog", "die Katze sieht den Hund"), ("the house", "das Haus")],
        "fr-en/tatoeba.tsv.xz": [("the cat", "le chat"), ("a dog", "un chien")],
        "en-de/msdocs.tsv.xz": [("open the file", "Datei öffnen")],
        "fr-en/msdocs.tsv.xz": [("open the file", "ouvrir le fichier")],
        "mono/commonvoice.en.xz": [("yes",)],
        "mono/commonvoice.de.xz": [("ja",)],
    }
    for name, rows in lines.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = "".join("\t".join(row) + "\n" for row in rows)
        (tmp_path / name).write_bytes(lzma.compress(text.encode()))
    monkeypatch.setattr(recipe, "is_held_out", lambda line: False)
    monkeypatch.setattr(sys, "argv", ["recipe", str(tmp_path), str(tmp_path / "table.tsv")])
    assert recipe.main() == 0
    made = (tmp_path / "table.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert made[0] == "kind\tentry\ten\tde\tfr"
    assert {len(row.split("\t")) for row in made} == {5}
    table = {tuple(row.split("\t")[:2]): [int(value) for value in row.split("\t")[2:]] for row in made[1:]}
    english, german, french = table[("word", "the")]
    assert english > max(german, french)
    assert ("ngram", " ch") in table
