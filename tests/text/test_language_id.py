"""Scripts by the table of ranges, languages by the identifier: what a checker and a server ask of a text."""

import unicodedata

import numpy as np
import pytest

from headway.errors import HeadwayError
from headway.text.language_id import find_other_language, guess_languages, known_languages, primary_language
from headway.text.scripts import SCRIPT_NAMES, SCRIPT_RANGES, count_scripts, script_table, scripts_of

TEXTS = {
    "en": "The ships that left the harbour this morning will be back before dark.",
    "de": "Die Schiffe, die heute früh den Hafen verließen, sind vor der Dunkelheit zurück.",
    "fr": "Les bateaux qui ont quitté le port ce matin seront de retour avant la nuit.",
    "nl": "De schepen die vanochtend de haven verlieten, zijn voor het donker terug.",
    "es": "Los barcos que salieron del puerto esta mañana volverán antes de que anochezca.",
    "it": "Le navi che hanno lasciato il porto stamattina torneranno prima di notte.",
    "pl": "Statki, które dziś rano opuściły port, wrócą przed zmrokiem.",
    "fi": "Aamulla satamasta lähteneet laivat palaavat ennen pimeää.",
    "tr": "Bu sabah limandan ayrılan gemiler hava kararmadan dönecek.",
    "ru": "Корабли, вышедшие утром из гавани, вернутся до темноты.",
    "el": "Τα πλοία που έφυγαν σήμερα το πρωί θα γυρίσουν πριν νυχτώσει.",
    "he": "הספינות שיצאו הבוקר מהנמל יחזרו לפני רדת החשיכה.",
    "ar": "السفن التي غادرت الميناء هذا الصباح ستعود قبل حلول الظلام.",
    "hi": "आज सुबह बंदरगाह से निकले जहाज़ अंधेरा होने से पहले लौट आएँगे।",
    "ja": "今朝港を出た船は暗くなる前に戻ってきます。",
    "ko": "오늘 아침 항구를 떠난 배들은 어두워지기 전에 돌아올 것이다.",
    "zh": "今天早上离开港口的船将在天黑之前回来。",
    "th": "เรือที่ออกจากท่าเมื่อเช้านี้จะกลับมาก่อนมืด",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_is_enough(language: str) -> None:
    guesses = guess_languages(TEXTS[language])
    assert guesses[0].language == language
    assert guesses[0].confidence > 0.5
    assert sum(guess.confidence for guess in guesses) == pytest.approx(1, abs=1e-3)
    assert [g.confidence for g in guesses] == sorted((g.confidence for g in guesses), reverse=True)
    assert find_other_language(TEXTS[language], language) == ""
    other = "de" if language != "de" else "en"
    assert find_other_language(TEXTS[language], other) == language


def test_among_some_languages() -> None:
    guesses = guess_languages(TEXTS["nl"], ["de", "en"])
    assert {guess.language for guess in guesses} == {"de", "en"}
    assert sum(guess.confidence for guess in guesses) == pytest.approx(1)
    assert guess_languages(TEXTS["nl"], {"nl"})[0] == ("nl", 1.0)
    with pytest.raises(HeadwayError) as caught:
        guess_languages("Hello.", ["en", "dee"])
    assert str(caught.value) == 'the language "dee" cannot be detected. Did you mean "de"?'


@pytest.mark.parametrize("text", ["", "  ", "1234", "+++ 50 % +++", "…"])
def test_no_letters_no_language(text: str) -> None:
    assert guess_languages(text) == []


def test_one_word_is_not_called_foreign() -> None:
    for word in ("Taxi", "Berlin", "Radio", "OK"):
        assert find_other_language(word, "de") == ""


def test_names_of_languages() -> None:
    assert [primary_language(name) for name in ("de", "DE", "pt-BR", "zh_Hans", "nb", "iw", "qtx", "")] == [
        "de", "de", "pt", "zh", "no", "he", "qtx", "",
    ]  # fmt: skip
    assert {"en", "de", "zh", "ja", "ar", "no"} <= known_languages()
    assert "zxx" not in known_languages()


def test_every_letter_has_the_script_of_its_name() -> None:
    """Unicode's own names are the authority, for all letters of the scripts' main blocks."""
    written = {"Odia": "ORIYA", "N'Ko": "NKO", "Han": "CJK", "Canadian Aboriginal": "CANADIAN SYLLABICS"}
    starts = {written.get(name, name.upper()) + " ": name for name in SCRIPT_RANGES}
    table = script_table()
    wrong = []
    for code in (*range(0xD800), *range(0xF900, 0x10000), *range(0x20000, 0x20100)):
        name = unicodedata.name(chr(code), "") if chr(code).isalpha() else ""
        script = next((script for start, script in starts.items() if name.startswith(start)), "")
        if script and SCRIPT_NAMES[table[code]] != script:
            wrong.append(name)
    assert wrong == ["GREEK NUMERAL SIGN", "ARMENIAN MODIFIER LETTER LEFT HALF RING", "ARABIC TATWEEL"]


def test_digits_and_punctuation_have_no_script() -> None:
    codes = [ord(c) for c in "0123456789 .,;:!?-–—'\"()[]{}<>@#%&*+=/\\|~^_`$€£§°µ×÷\t\n\u00a0\u3000\u3002\u0964😀"]
    assert not np.any(script_table()[codes])
    assert count_scripts("12:30 – 50 %") == {}


def test_scripts_are_counted_the_commonest_first() -> None:
    assert count_scripts("Привет, world! 日本") == {"Cyrillic": 6, "Latin": 5, "Han": 2}
    assert list(count_scripts("a Жж")) == ["Cyrillic", "Latin"]
    assert count_scripts("\ud800") == {}


@pytest.mark.parametrize("language", TEXTS)
def test_a_language_is_written_in_its_scripts(language: str) -> None:
    counts = count_scripts(TEXTS[language])
    assert set(counts) <= scripts_of(language)
    assert counts


def test_scripts_of_languages() -> None:
    assert scripts_of("sr") == {"Cyrillic", "Latin"}
    assert scripts_of("qtx") == {"Latin"}
