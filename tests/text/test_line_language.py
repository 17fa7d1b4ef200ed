"""The language of a line, among some. How often it is right is measured by benchmarks/language_id.py."""

import time

import pytest

from headway.text.line_language import LineLanguageDetector, keep_prose

LINES = [
    ("en", "The weather is nice today, so we went for a walk."),
    ("en", "Debug tool for the filesystem driver"),
    ("en", "Does Tom like folk music?"),
    ("en", "PLEASE DO NOT LEAN OUT OF THE WINDOW"),
    ("de", "Das Wetter ist heute schön."),
    ("de", "das wetter ist heute schön und wir gehen spazieren"),
    ("de", "Bibliothek für die Datei /usr/share/doc/README.txt (siehe https://example.org/index.html)"),
    ("fi", "Aamulla satamasta lähteneet laivat palaavat ennen pimeää."),
    ("nl", "De schepen die vanochtend de haven verlieten, zijn voor het donker terug."),
    ("da", "Skibene, der forlod havnen i morges, er tilbage inden mørkets frembrud."),
    ("fr", "Les bateaux qui ont quitté le port ce matin seront de retour."),
    ("pl", "Statki, które dziś rano opuściły port, wrócą przed zmrokiem."),
    ("ru", "Корабли вышли утром: see the file README for details"),
    ("ja", "今朝港を出た船は暗くなる前に戻ってきます。 max log size"),
]


@pytest.mark.parametrize(("language", "line"), LINES)
def test_a_line_of_five_words(language: str, line: str) -> None:
    assert LineLanguageDetector(["en", "de"]).detect(line) == language


def test_installed_languages_are_named_as_the_model_names_them() -> None:
    line = "Os navios que saíram do porto esta manhã voltarão antes de anoitecer."
    assert LineLanguageDetector(["pt-BR", "en"]).detect(line) == "pt-BR"
    assert LineLanguageDetector(["de"]).detect(line) == "pt"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "1,234.5",
        "😀 → …",
        "+++ 50 % +++",
        "https://www.example.org/the/garden?of=the&house",
        "<anna.maria@example.org>, www.example.org/garten",
    ],
)
def test_nothing_to_judge_by(line: str) -> None:
    assert LineLanguageDetector(["en", "de"]).detect(line) == ""


@pytest.mark.parametrize("line", ["Siehe https://a.org/x", "https://a.org/看看这个花园吧"])
def test_an_address_with_words_is_text(line: str) -> None:
    assert LineLanguageDetector(["de", "zh"]).detect(line)


def test_languages_that_nobody_can_tell() -> None:
    assert LineLanguageDetector(["qtx", "en"]).languages == {"en"}


def test_what_is_no_text_is_left_out() -> None:
    assert keep_prose("See https://a.org/x and mail me@b.org about the FILE --sort=name") == "See and mail about the"
    assert keep_prose("--sort=name") == "--sort=name"


def test_a_line_of_any_length_is_told_at_once() -> None:
    began = time.perf_counter()
    assert LineLanguageDetector(["en", "de"]).detect("Das Wetter ist heute schön. " * 100_000) == "de"
    LineLanguageDetector(["en", "de"]).detect("x" * 1_000_000)
    assert time.perf_counter() - began < 5
