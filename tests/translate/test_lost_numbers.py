"""Numbers that every search loses are put where their placeholders go."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.decode.types import Hypothesis
from headway.text.glossary import Term
from headway.text.spans.protect import MaskedText
from headway.translate.lost_numbers import mask_numbers, retry_with_placeholders
from headway.translate.options import TranslateOptions
from headway.translate.search_calls import Plan, run_plan
from headway.translate.source import Sentence
from headway.translate.translator import Translator, load_translator


@pytest.mark.parametrize(
    ("text", "lost", "hidden", "numbers"),
    [
        ("In 2023 they sold 1,250,000.", ["1,250,000"], "In 2023 they sold ⟦0⟧.", ["1,250,000"]),
        ("40 of 96, and 40", ["40"], "⟦0⟧ of 96, and ⟦1⟧", ["40", "40"]),
        ("40 of 96", ["40", "96"], "⟦0⟧ of ⟦1⟧", ["40", "96"]),
        ("the 20th of May", ["20"], "the 20th of May", []),
        ("size A40", ["40"], "size A40", []),
        ("(40th)", ["40"], "(40th)", []),
        ("cats\n40 dogs", ["40"], "cats\n⟦0⟧ dogs", ["40"]),
        ("⟦13⟧ of 13", ["13"], "⟦13⟧ of ⟦0⟧", ["13"]),
        ("nothing", [], "nothing", []),
    ],
)
def test_hiding(text: str, lost: list[str], hidden: str, numbers: list[str]) -> None:
    assert mask_numbers(text, lost) == (hidden, numbers)


def given(translator: Translator, text: str, said: str, **more: Any) -> Sentence:
    """A sentence whose search has lost a number."""
    reader = translator.tokenizers.source
    found = [Hypothesis(translator.tokenizers.target.encode(said), -1.0, -1.0, [], True)]
    return Sentence("", text, [*reader.encode(text), reader.end], 7, hypotheses=found, **more)


def finding(translator: Translator, *outputs: str) -> Callable[[list[Sentence]], Plan[None]]:
    """A search that finds these for every sentence."""

    def search(sentences: list[Sentence]) -> Plan[None]:
        for sentence in sentences:
            assert "⟦0⟧" in sentence.model_text and sentence.spans
            ids = [translator.tokenizers.target.encode(text) for text in outputs]
            sentence.hypotheses = [Hypothesis(each, -2.0, -2.0, [], True) for each in ids]
        yield from ()

    return search


def retried(translator: Translator, *given: Any) -> list[Sentence]:
    return run_plan(translator, retry_with_placeholders(translator, *given))


def anything(sentence: Sentence, found: Hypothesis) -> bool:
    """It is all sound."""
    return True


@pytest.fixture
def german(translator_dir: Path) -> Translator:
    """As if it wrote German."""
    made = load_translator(translator_dir)
    made.summary = replace(made.summary, source_languages=("en",), target_languages=("de",))
    return made


def test_what_was_found_with_a_placeholder_is_said_with_the_number(german: Translator) -> None:
    sentence = given(german, "a dog and 1,250,000 cats", "the dog")
    search = finding(german, "dog dog", "dog ⟦0⟧ cat", "⟦0⟧ dog ⟦0⟧", "cat ⟦0⟧")
    assert retried(german, [sentence], search, anything) == [sentence]
    assert [text.split() for text in sentence.outputs] == [["dog", "1.250.000", "cat"], ["cat", "1.250.000"]]
    assert len(sentence.hypotheses) == 2
    assert sentence.text == "a dog and 1,250,000 cats"


def test_what_is_not_sound_is_not_said(german: Translator) -> None:
    sentence = given(german, "a dog and 1,250 cats", "the dog")
    before = list(sentence.hypotheses)
    assert retried(german, [sentence], finding(german, "dog ⟦0⟧"), lambda _, hypothesis: False) == []
    assert retried(german, [sentence], finding(german, "dog"), anything) == []
    assert (sentence.hypotheses, sentence.outputs) == (before, [])


@pytest.mark.parametrize("more", [{"all_caps": True}, {"prefix": "the"}, {"terms": [Term("x", "y")]}])
def test_others_are_left_as_they_are(german: Translator, more: dict[str, Any]) -> None:
    sentence = given(german, "x 40", "the dog", **more)
    assert retried(german, [sentence], finding(german, "dog ⟦0⟧"), anything) == []


def test_spans_that_stand_there_are_kept_as_they_are(german: Translator) -> None:
    """Also one that looks like a number."""
    hidden = MaskedText("a ⟦0⟧ and 1,250 of ⟦1⟧", ["{x}", "2,500"])
    sentence = given(german, hidden.original, "the dog", spans=hidden)
    search = finding(german, "⟦1⟧ dog ⟦0⟧", "⟦2⟧ ⟦1⟧ dog ⟦0⟧")
    assert retried(german, [sentence], search, anything) == [sentence]
    assert [text.split() for text in sentence.outputs] == [["2,500", "1.250", "dog", "{x}"]]


def test_where_the_languages_are_not_known_a_number_stays_as_it_is(german: Translator) -> None:
    german.summary = replace(german.summary, source_languages=(), target_languages=())
    sentence = given(german, "a dog and 1,250 cats", "the dog")
    retried(german, [sentence], finding(german, "dog ⟦0⟧"), anything)
    assert sentence.outputs[0].split() == ["dog", "1,250"]


def test_a_translation_says_what_was_done(german: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model has not learned placeholders; what it would find with them is given."""
    from headway.translate.search import SentenceSearch

    german.summary = replace(german.summary, placeholders=True)
    search = SentenceSearch._search

    def with_placeholders(self: SentenceSearch, sentences: list[Sentence], *given: Any, **more: Any) -> Plan[None]:
        yield from search(self, [s for s in sentences if not s.spans], *given, **more)
        yield from finding(self.translator, "dog ⟦0⟧")([s for s in sentences if s.spans])

    monkeypatch.setattr(SentenceSearch, "_search", with_placeholders)
    line = "The dog sees 1,250,000 cats."
    [result] = german.translate([line], TranslateOptions(search=german.search(beam_size=1), align=True))
    assert result.text.split() == ["dog", "1.250.000"]
    assert result.warnings == ["the output lacked the number 1,250,000; inserted afterwards; check its position"]
    assert result.guesses[0].alignment is not None
    [plain] = german.translate([line], TranslateOptions(search=german.search(beam_size=1), protect=None))
    assert plain.warnings == ["the output lacked the number 1,250,000; nothing better was found"]


def test_a_number_stays_where_spans_are_put_back(german: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search without the spans must not carry: what it says would not be in its ids."""
    from headway.translate.search import SentenceSearch

    german.summary = replace(german.summary, placeholders=True)
    asked: list[bool] = []
    search = SentenceSearch._search

    def watched(self: SentenceSearch, sentences: list[Sentence], *given: Any, **more: Any) -> Plan[None]:
        asked.append(self.use_placeholders)
        yield from search(self, sentences, *given, **more)

    monkeypatch.setattr(SentenceSearch, "_search", watched)
    [result] = german.translate(
        ["The <b>dog</b> sees %s 1,250,000 cats."], TranslateOptions(search=german.search(beam_size=1))
    )
    assert "<b>" in result.text and "⟦" not in result.text
    assert asked[0] and not asked[-1]
    assert "afterwards" not in " ".join(result.warnings)
