"""Two translators in a row: what the second says of what the first has said, and nothing lost on the way."""

import json
from pathlib import Path
from typing import Any

import pytest
from installing_models import Shelf

import headway
from headway.cli.app import main
from headway.errors import ConfigError, HeadwayError
from headway.storage.calibration import FEATURES, Calibration
from headway.storage.pivots import PivotChoice
from headway.text.glossary import Glossary
from headway.text.translation_memory import TranslationMemory
from headway.translate.options import TranslateOptions
from headway.translate.pivot import PivotTranslator, compose_links
from headway.translate.routing import Router, find_routes
from headway.translate.translator import Translator, load_choice

LINES = ["A dog sees a house.", "", "12:30", f"Two cats run. The old man sleeps {'x' * 500} here."]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def legs(shelf: Shelf, translator_dir: Path) -> Shelf:
    """qaa → en and en → qab: a toy translator under two names. The second reads words that it has never seen."""
    shelf.add_copy(translator_dir, "qaa-en", "qaa", "en")
    shelf.add_copy(translator_dir, "en-qab", "en", "qab")
    return shelf


@pytest.fixture
def pivot(legs: Shelf) -> PivotTranslator:
    loaded = headway.load("qaa-qab", device="cpu")
    assert isinstance(loaded, PivotTranslator)
    return loaded


def calibrate(folder: Path, bias: float) -> None:
    zeros = [0.0] * len(FEATURES)
    weights = [1.0, *zeros[1:]]
    Calibration(zeros, [1.0] * len(FEATURES), weights, bias, 0.0, {}).save(folder)


def test_the_second_leg_translates_what_the_first_has_written(pivot: PivotTranslator) -> None:
    assert repr(pivot).startswith("<PivotTranslator qaa → en → qab: <Translator ")
    first, second = pivot.legs
    middle = first.translate(LINES, TranslateOptions(source="qaa", target="en"))
    expected = second.translate([one.text for one in middle], TranslateOptions(source="en", target="qab"))
    made = pivot.translate(LINES)
    assert [one.text for one in made] == [one.text for one in expected]
    assert made[0].text != middle[0].text != LINES[0]
    assert [one.source for one in made] == LINES
    assert [one.pivot and one.pivot.text for one in made] == [middle[0].text, None, "12:30", middle[3].text]
    assert {one.pivot.language for one in made if one.pivot} == {"en"}
    for result, one, other in zip(made, middle, expected):
        assert result.score == pytest.approx(one.score + other.score, rel=1e-6)
        assert result.guesses[0].logp == pytest.approx(one.guesses[0].logp + other.guesses[0].logp, rel=1e-6)
        assert result.guesses[0].token_logps == other.guesses[0].token_logps
        assert result.confidence is None
        assert result.warnings == [
            *dict.fromkeys(f"qaa → en: {warning}" for warning in one.warnings),
            *dict.fromkeys(f"en → qab: {warning}" for warning in other.warnings),
        ]
    left = "a word of 500 characters was left as it is"
    assert {f"qaa → en: {left}", f"en → qab: {left}"} <= set(made[3].warnings)
    assert pivot(LINES) == [one.text for one in made]
    text, score = pivot(LINES[0], target="qab", return_scores=True)
    assert text == made[0].text and score == pytest.approx(made[0].score, rel=1e-5)


def test_other_settings_are_of_the_second_leg(pivot: PivotTranslator) -> None:
    """The first gives its best translation, whatever is asked of the output."""
    first, second = pivot.legs
    plain = pivot.translate(LINES[:1])[0]
    assert plain.pivot is not None
    for settings in ({"n_best": 3}, {"max_length": 3}, {"sample": True, "n_best": 2, "seed": 1}):
        options = TranslateOptions(search=pivot.search(**settings))
        made = pivot.translate(LINES[:1], options)[0]
        assert made.pivot == plain.pivot, settings
        expected = second.translate([plain.pivot.text], options)[0]
        assert [one.text for one in made.guesses] == [one.text for one in expected.guesses]
    wide = pivot.translate(LINES[:1], TranslateOptions(search=pivot.search(beam_size=5, alpha=1.0)))[0]
    expected = first.translate(LINES[:1], TranslateOptions(search=first.search(beam_size=5, alpha=1.0)))[0]
    assert wide.pivot is not None and wide.pivot.text == expected.text


def test_what_is_protected_comes_through_both_legs(pivot: PivotTranslator) -> None:
    line = "A Müller sees <b>two</b> https://x.org/qaa house, ⟦3⟧ {name}."
    options = TranslateOptions(protect=(r"(?<=A )\w+",), glossary=Glossary({"house": "数据中心", "two": "kora lim"}))
    made = pivot.translate([line, "Müller sees"], options)
    for kept in ("Müller", "<b>", "</b>", "https://x.org/qaa", "⟦3⟧", "{name}", "数据中心", "kora lim"):
        assert made[0].text.count(kept) == 1, kept
    assert "⟦4⟧" not in made[0].text
    assert made[0].pivot is not None and "Müller" in made[0].pivot.text
    assert "Müller" not in made[1].text, "the pattern does not match here"
    assert not any("could not be placed" in warning for warning in made[0].warnings)


def test_a_glossary_needs_protected_spans(pivot: PivotTranslator) -> None:
    options = TranslateOptions(protect=None, glossary=Glossary({"sana": "kora"}))
    with pytest.raises(ConfigError, match="a glossary needs protected spans where a translation goes through another"):
        pivot.translate(LINES, options)
    assert pivot.translate(["x <b>y</b>"], TranslateOptions(protect=None))[0].text


def test_links_go_through_the_words_in_between(pivot: PivotTranslator) -> None:
    assert compose_links([(0, 0), (1, 2), (2, 2)], [(0, 1), (2, 0), (2, 3)]) == [
        (0, 1), (1, 0), (1, 3), (2, 0), (2, 3),
    ]  # fmt: skip
    assert compose_links(None, [(0, 0)]) is compose_links([(0, 0)], None) is None
    first, second = pivot.legs
    line = LINES[0]
    made = pivot.translate([line], TranslateOptions(align=True))[0]
    middle = first.translate([line], TranslateOptions(align=True))[0]
    expected = second.translate([middle.text], TranslateOptions(align=True))[0]
    assert made.guesses[0].alignment == compose_links(middle.guesses[0].alignment, expected.guesses[0].alignment)
    assert made.guesses[0].alignment


def test_the_confidence_is_the_product_of_both(legs: Shelf) -> None:
    calibrate(legs.own / "qaa-en", 3.0)
    with pytest.raises(HeadwayError, match="en-qab is not calibrated"):
        headway.load("qaa-qab", device="cpu")("x", min_confidence=0.5)
    calibrate(legs.own / "en-qab", 2.0)
    pivot = headway.load("qaa-qab", device="cpu")
    assert isinstance(pivot, PivotTranslator)
    first, second = pivot.legs
    middle = first.translate(LINES[:1])[0]
    expected = second.translate([middle.text])[0]
    made = pivot.translate(LINES[:1])[0]
    assert middle.confidence and expected.confidence and made.confidence == middle.confidence * expected.confidence
    between = (made.confidence + min(middle.confidence, expected.confidence)) / 2  # more than both together have
    kept = pivot.translate(LINES[:1], TranslateOptions(min_confidence=between))[0]
    assert kept.text == LINES[0] and kept.warnings[-1].startswith("left untranslated: its score is ")
    assert kept.pivot == made.pivot


def test_lines_that_a_memory_has(pivot: PivotTranslator) -> None:
    memory = TranslationMemory([{"qaa": "Vo mira 3.", "qab": "Kora 3 lim."}, {"qaa": "Tel sana ori.", "qab": "Sim."}])
    lines = ["  Vo mira 7.\n", "Vo tel.", "Tel sana oro."]
    made = pivot.translate(lines, TranslateOptions(memory=memory, min_similarity=0.7, align=True))
    assert made[0].text == "  Kora 7 lim.\n" and made[0].pivot is None and made[0].guesses[0].alignment == []
    assert made[1].pivot is not None
    assert made[2].text == "Sim." and "75% the same" in made[2].warnings[0]


def test_wrapped_text_is_wrapped_as_it_was(pivot: PivotTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    """And joined before the first leg, not between them."""
    text = "This is a paragraph of text that was\nwrapped at a fixed width, as in mails,\nand it ends here."
    seen: list[list[str]] = []
    import headway.translate.pivot as module

    def echo(translator: Any, requests: Any, options: Any, retries: Any = None) -> Any:
        seen.append([request.text for request in requests])
        return Translator.translate(translator, seen[-1], options)

    monkeypatch.setattr(module, "translate_requests", echo)
    pivot.translate([text])
    assert seen[0] == [text.replace("\n", " ")]


def test_languages_that_it_does_not_know(pivot: PivotTranslator) -> None:
    with pytest.raises(HeadwayError, match=r'goes from qaa through en to qab, not to "de"\.'):
        pivot("x", target="de")
    with pytest.raises(HeadwayError, match=r'not from "de"\.'):
        pivot("x", source="de")


# ---- routes


def test_lines_of_several_languages(shelf: Shelf) -> None:
    """French has no model to German: it goes through English. Each model is loaded once."""
    shelf.add("en-de", "en", "de")
    shelf.add("fr-en", "fr", "en")
    shelf.add("it-fr", "it", "fr")  # it → fr → en → de would be three
    routes, target = find_routes([], "de")
    assert target == "de" and list(routes) == ["en", "fr"]
    assert isinstance(routes["fr"], PivotChoice)
    loaded: list[Any] = []

    def load(choice: Any) -> Translator:
        loaded.append(choice.direction)
        return load_choice(choice, "cpu")

    router = Router(routes, target, load)
    french = "Les bateaux qui ont quitté le port ce matin seront de retour."
    english = "The weather is nice today, so we went for a walk."

    def run(translator: Any, lines: Any, source: str) -> Any:
        return translator.translate(lines, TranslateOptions(source=source))

    one, other = router.translate([french, english], run)
    assert one.result.pivot is not None and one.source == "fr" and isinstance(one.translator, PivotTranslator)
    assert other.result.pivot is None and other.source == "en"
    assert sorted(loaded) == [("en", "de"), ("fr", "en")]
    assert len(router.loaded) == 2


# ---- the command line


def test_it_says_so_once(capsys: Capture, legs: Shelf, pivot: PivotTranslator) -> None:
    told = "translated through English: no model here translates from qaa to qab directly\n"
    direction = ["--from", "qaa", "--to", "qab", "--device", "cpu"]
    assert main(["translate", *direction, LINES[0], LINES[3]]) == 0
    out, err = capsys.readouterr()
    expected = pivot.translate([LINES[0], LINES[3]])
    assert out == "".join(f"{' '.join(one.text.splitlines())}\n" for one in expected)
    assert err.count("translated through English") == 1 and told in err
    assert main(["translate", "--model", "qaa-qab", "--json", "--n-best", "2", LINES[0], "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    table = json.loads(out)
    assert expected[0].pivot is not None
    assert table["pivot"] == {"language": "en", "text": expected[0].pivot.text}
    assert len(table["n_best"]) == 2 and table["text"] == table["n_best"][0]["text"] and told in err
    assert main(["translate", *direction, "--align", LINES[0]]) == 0
    assert " ||| " in capsys.readouterr().out


def test_a_document(capsys: Capture, legs: Shelf, tmp_path: Path) -> None:
    document = tmp_path / "page.html"
    document.write_text("<p>A <b>dog sees</b> a house.</p>")
    assert main(["translate", "--from", "qaa", "--to", "qab", "--document", str(document), "--device", "cpu"]) == 0
    err = capsys.readouterr().err
    assert err.count("translated through English") == 1
    made = (tmp_path / "page.qab.html").read_text()
    assert made.startswith("<p>") and made.count("<b>") == made.count("</b>") == 1 and "dog" not in made
