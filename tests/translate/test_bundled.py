"""The translator that comes with the package: it is there, it is small, it answers, and it says what it is."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from installing_models import OFFLINE

import headway
from headway.cli import main
from headway.storage.card import read_card
from headway.storage.registry import BUNDLED_MODELS
from headway.text.numbers import find_lost_numbers
from headway.text.shortlist import Shortlist
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator

MODEL = BUNDLED_MODELS / "en-de"
MOST = 30_000_000  # bytes, for both directions
SENTENCES = [
    ("de", "My brother lives in Berlin.", "Mein Bruder lebt in Berlin."),
    ("de", "Where is the station?", "Wo ist der Bahnhof?"),
    ("en", "Das Wetter ist heute schön.", "The weather is fine today."),
    ("en", "Ich habe zwei Brüder.", "I have two brothers."),
]
MARKED = [
    "Click <b>here</b> to open %s.",
    "Hello {name}, your order $(ARG1) is ready.",
    "Write to anna@example.org or see https://example.org/a?b=1.",
    "Run `make test` before you commit.",
    "That is great 👍🏽 and I am happy 😀!",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    found = headway.load("en-de")
    assert isinstance(found, Translator)
    return found


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_number_that_it_loses_is_found_by_another_search(engine: str) -> None:
    found = headway.load("en-de", engine=engine)
    assert isinstance(found, Translator)
    lines = [
        "Our town has 40000 inhabitants and 17 schools.",
        "A $96,000 payment was made to the 2008 candidate.",
        "In 2023 the company sold 1,250,000 bicycles.",
        "Of the 12,345,678 people there, 2,750,999 have 3 cars.",
        "Hello {name}, you owe me 1,250,000 dollars.",
        "<b>Of the <i>12,345,678</i> people <u>there</u>, <a href='x'>2750999</a> have <b>3</b> cars.</b>",
    ]
    for line, one in zip(lines, found.translate(lines, TranslateOptions(target="de"))):
        assert not find_lost_numbers(line, one.text), one.text


def test_its_card_shows_what_it_says(translator: Translator) -> None:
    """Most of it: what it is unsure of may come out otherwise on another processor."""
    card = (MODEL / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"`([^`]+)` → \*([^*]+)\*", card)
    assert len(shown) > 8
    said = [said for text, said in shown if said in (translator(text, target="de"), translator(text, target="en"))]
    assert len(said) > 0.6 * len(shown)


def test_it_is_small_and_complete() -> None:
    assert sum(path.stat().st_size for path in MODEL.iterdir()) <= MOST
    assert {path.name for path in MODEL.iterdir()} == {
        "README.md", "calibration.de.json", "calibration.en.json", "config.json", "model.safetensors",
        "shortlist.safetensors", "tokenizer.json",
    }  # fmt: skip
    card = read_card(MODEL)
    assert card.licence == "apache-2.0"
    assert {"newstest2015 en-de", "newstest2015 de-en"} <= card.scores.keys()
    text = (MODEL / "README.md").read_text(encoding="utf-8")
    assert all(name in text for name in ("Europarl", "Tatoeba", "CC-BY", "What it is bad at", "numbers lost"))
    assert Shortlist.load(MODEL).target_size == 8000


@pytest.mark.parametrize(("to", "text", "wanted"), SENTENCES)
def test_both_directions(translator: Translator, to: str, text: str, wanted: str) -> None:
    for engine in (translator, headway.load("en-de", engine="torch")):
        assert engine.translate([text], TranslateOptions(target=to))[0].text == wanted


@pytest.mark.parametrize(
    "words", [[], ["--from", "en", "--to", "de"], ["--from", "auto"], ["--model", "en-de", "--to", "de"]]
)
def test_offline_and_from_anywhere(tmp_path: Path, words: list[str]) -> None:
    command = [sys.executable, "-c", OFFLINE, "translate", *words, SENTENCES[0][1]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, SENTENCES[0][2] + "\n"), done.stderr


@pytest.mark.parametrize("text", MARKED)
def test_what_must_stay_stays(translator: Translator, text: str) -> None:
    from headway.text.spans.protect import make_protector

    (made,) = translator.translate([text], TranslateOptions(target="de"))
    assert make_protector().find_missing([found[0] for found in make_protector().find_spans(text)], made.text) == []
    assert not made.warnings


KEPT = [
    ("Press <kbd>Enter</kbd> to continue.", "Presse|Drück|Press"),
    ("<code>print</code> function", "Funktion"),
    ("The <code>print</code> function writes text to the screen.", "Funktion"),
    ("The key <kbd>Escape</kbd> closes the window.", "Fenster"),
    ("The class <code>House</code> has two methods.", "Klasse"),
    ('The product <span translate="no">Blue House</span> is new.', "Produkt"),
    ("Click <img src='ok.png'> to save the document.", "Dokument"),
    ("The field `date` must not be empty.", "nicht"),
    ("See [the manual](docs/manual.md).", "Handbuch"),
]


@pytest.mark.parametrize(("text", "word"), KEPT)
def test_what_is_kept_is_not_said_twice(translator: Translator, text: str, word: str) -> None:
    from headway.documents import segment_translator, translate_html

    options = TranslateOptions(target="de")
    [kept] = re.findall(r"<(?:kbd|code|span|img).*(?:</\w+>|'>)|`.*`|\]\(.*\)", text)
    outputs = [translator.translate([text], options)[0].text]
    if "<" in text:
        outputs.append(translate_html(text, segment_translator(translator, options)))
    for output in outputs:
        assert output.count(kept) == 1 and re.search(word, output), output
        rest = output.replace(kept, "").lower()
        assert not re.search("druckf|print|eingabe|enter|flucht|haus\\b|house|blau|datum", rest), output


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_a_negation_that_it_loses_is_found_by_another_search(engine: str) -> None:
    found = headway.load("en-de", engine=engine)
    assert isinstance(found, Translator)
    lines = ["Cannot connect to the server.", "Cannot open file %s.", "Cannot create directory {name}."]
    for made in found.translate(lines, TranslateOptions(target="de")):
        lost = not re.search("nicht|kein", made.text)
        assert not lost or any("lacked the negation" in warning for warning in made.warnings), made
    [made] = found.translate(["Viel wird nicht über sie geschrieben."], TranslateOptions(target="en"))
    assert re.search("not|n’t|n't|little", made.text.lower()) or made.warnings, made


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The Hebrew word שלום means peace.", ["שלום", "Frieden"]),
        ("Mr. Иванов lives in Москва.", ["Иванов", "Москва"]),
        ("Nguyễn Văn Thiệu was president.", ["Nguyễn", "Thiệu", "Präsident"]),
        ("The ﬁrst ﬂower is ef\u00adfective.", ["erste Blume", "wirksam"]),
        ("Anna\tteacher\t12.50", ["Anna\t", "\t12.50"]),
        ("Berlin is large.[1] It is old.¹ Then he left.", [".[1] ", ".¹ ", "."]),
        ("Total ......... 12.50", [" ......... "]),
    ],
)
def test_what_it_cannot_say_is_left_as_it_is(translator: Translator, text: str, parts: list[str]) -> None:
    [made] = translator.translate([text], TranslateOptions(target="de"))
    assert all(part in made.text for part in parts), made.text
    assert "\ufffd" not in made.text and not made.warnings


@pytest.mark.parametrize(
    "text", ["|------|-----|", "==========", "???", "€ 12.50", "| 34  |", "שלום עולם", "これは本です。"]
)
def test_what_has_no_words_stays(translator: Translator, text: str) -> None:
    assert translator.translate([text], TranslateOptions(target="de"))[0].text == text


def test_it_says_how_sure_it_is(translator: Translator, tmp_path: Path) -> None:
    sure, doubtful = translator.translate(
        ["The house is big.", "Zxq blorf gnarl wimble snark."], TranslateOptions(target="de")
    )
    assert sure.confidence is not None and doubtful.confidence is not None
    assert 0 < doubtful.confidence < sure.confidence < 1
    (left,) = translator.translate(["Zxq blorf gnarl wimble snark."], TranslateOptions(target="de", min_confidence=0.9))
    assert left.text == "Zxq blorf gnarl wimble snark." and "left untranslated" in left.warnings[0]
    for to, ranked in (("de", 0.69), ("en", 0.75)):
        held = json.loads((MODEL / f"calibration.{to}.json").read_text())["about"]["held_out"]
        assert held["lines"] == 1000 and held["error"] < 0.05 and held["ranked"] > ranked


def test_the_readme_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    shown = block.strip().split("\n")
    for command, output in zip(shown[::2], shown[1::2], strict=True):
        assert main(shlex.split(command.removeprefix("$ headway "))) == 0
        assert capsys.readouterr().out == output + "\n"


def test_it_can_be_adapted(tmp_path: Path) -> None:
    """Eight bits are learned from, too: a few steps, and it still translates."""
    for side, lines in (("en", ["A red house.", "The dog sleeps."]), ("de", ["Ein rotes Haus.", "Der Hund schläft."])):
        (tmp_path / f"a.{side}").write_text("".join(f"{line}\n" for line in lines * 20), encoding="utf-8")
    files = ["--source", tmp_path / "a.en", "--target", tmp_path / "a.de"]
    command = [
        sys.executable,
        "-m",
        "headway",
        "train",
        "--from-model",
        "en-de",
        *files,
        "--to",
        "de",
        "--steps",
        2,
        "--set",
        "train.batch_tokens=512",
    ]
    done = subprocess.run(
        [*map(str, command), "--out", str(tmp_path / "own")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = headway.load(tmp_path / "own", device="cpu").translate(["The dog sleeps."], TranslateOptions(target="de"))
    assert "Hund" in made.text
