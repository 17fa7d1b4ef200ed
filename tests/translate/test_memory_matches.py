"""A translation memory while translating: what it has is taken, the rest is searched for."""

from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.documents import segment_translator, translate_file
from headway.errors import ConfigError
from headway.text.translation_memory import TranslationMemory
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator

MEMORY = TranslationMemory(
    [
        {"en": "The dog sleeps on page 3.", "qtx": "Zzz <3> page."},
        {"en": "One. Two. Three.", "qtx": "Un du tri."},
        {"en": "See http://x.y/z now!", "qtx": "Voo http://x.y/z nun!"},
    ]
)


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return headway.load_translator(str(translator_dir), device="cpu")


def test_known_sentences_and_lines_are_taken(translator: Translator, sentences: list[str]) -> None:
    options = TranslateOptions(memory=MEMORY)
    plain = translator.translate([sentences[0]])[0].text
    lines = [
        "  The dog sleeps on page 12. ",
        "One. Two. Three.",
        f"The dog sleeps on page 3. {sentences[0]}",
        sentences[0],
    ]
    results = translator.translate(lines, options)
    assert [result.text for result in results] == ["  Zzz <12> page. ", "Un du tri.", f"Zzz <3> page. {plain}", plain]
    assert [result.warnings for result in results] == [[]] * 4
    assert translator.translate(["See http://x.y/z now!"], options)[0].text == "Voo http://x.y/z nun!"


def test_similar_sentences_are_taken_if_wanted(translator: Translator) -> None:
    line = "The old dog sleeps on page 3."
    assert translator.translate([line], TranslateOptions(memory=MEMORY))[0].text != "Zzz <3> page."
    similar = translator.translate([line], TranslateOptions(memory=MEMORY, min_similarity=0.8))[0]
    assert similar.text == "Zzz <3> page."
    assert similar.warnings == ['taken from the memory, where the source is 88% the same: "The dog sleeps on page 3."']
    with pytest.raises(ConfigError, match="min_similarity: 2 is not allowed: give a number from 0 to 1"):
        TranslateOptions(min_similarity=2)


def test_links_and_documents(translator: Translator, tmp_path: Path) -> None:
    aligned = translator.translate(["The dog sleeps on page 3."], TranslateOptions(memory=MEMORY, align=True))[0]
    assert aligned.guesses[0].alignment
    (tmp_path / "a.html").write_text("<p>The <b>dog</b> sleeps on page 3.</p>")
    options = TranslateOptions(memory=MEMORY)
    translate_file(tmp_path / "a.html", tmp_path / "b.html", segment_translator(translator, options))
    written = (tmp_path / "b.html").read_text()
    assert written.replace("<b>", "").replace("</b>", "") == "<p>Zzz &lt;3&gt; page.</p>"
    assert written.count("<b>") == 1


def test_on_the_command_line(translator_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.tsv").write_text("A dog.\tWuff.\n")
    arguments = ["translate", "--model", str(translator_dir), "--memory", str(tmp_path / "a.tsv")]
    assert main([*arguments, "A dog."]) == 0
    assert capsys.readouterr().out == "Wuff.\n"
    assert main([*arguments, "--min-similarity", "0.4", "A cat."]) == 0
    found = capsys.readouterr()
    assert found.out == "Wuff.\n"
    assert "taken from the memory, where the source is 67% the same" in found.err
