"""Characters that a model cannot say: none is lost, and no U+FFFD is made of one."""

import random
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.decode.types import Hypothesis
from headway.text.spans.protect import MaskedText
from headway.translate.garbled import drop_garbled, mask_rare_words, mend_garbled
from headway.translate.options import TranslateOptions
from headway.translate.search_calls import Plan, run_plan
from headway.translate.source import Sentence
from headway.translate.translator import Translator

WORDS = ["the", "red", "house", "is", "big", "and", "a", "dog", "runs", "under", "one", "old", "tree", "two", "friends"]
BLOCKS = [
    (0x21, 0x7E), (0xA1, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x370, 0x5FF), (0x600, 0xDFF), (0xE00, 0x16FF),
    (0x1700, 0x1FFF), (0x2000, 0x2BFF), (0x2C00, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xD7FF), (0xE000, 0xF8FF),
    (0xF900, 0xFFFF), (0x10000, 0x1CFFF), (0x1D000, 0x1D7FF), (0x1F000, 0x1FAFF), (0xE0000, 0xE01EF),
    (0xF0000, 0x10FFFF),
]  # fmt: skip


def random_line(chance: random.Random) -> str:
    """Words, and characters of any kind between, beside and inside them."""
    parts = []
    for _ in range(chance.randint(2, 9)):
        word = chance.choice(WORDS) if chance.random() < 0.6 else ""
        strange = "".join(chr(chance.randint(*chance.choice(BLOCKS))) for _ in range(chance.randint(0, 3)))
        place = chance.choice([0, len(word), len(word) // 2])
        parts.append(word[:place] + strange + word[place:])
    return " ".join(parts)


def private_use(text: str) -> list[str]:
    return sorted(c for c in text if "\ue000" <= c <= "\uf8ff" or c >= "\U000f0000")


@pytest.fixture(scope="module")
def bundled() -> Translator:
    found = headway.load("en-de")
    assert isinstance(found, Translator)
    return found


def check_lines(translator: Translator, lines: list[str], **options: Any) -> None:
    for line, one in zip(lines, translator.translate(lines, TranslateOptions(**options))):
        for guess in one.guesses:
            assert guess.text.count("\ufffd") <= line.count("\ufffd"), (line, guess.text)
            assert private_use(guess.text) == private_use(line), (line, guess.text)


def test_random_characters(bundled: Translator) -> None:
    chance = random.Random(21)
    check_lines(bundled, [random_line(chance) for _ in range(300)], target="de")


@pytest.mark.slow
def test_a_hundred_thousand_lines_of_random_characters(bundled: Translator) -> None:
    chance = random.Random(24)
    for _ in range(100):
        check_lines(bundled, [random_line(chance) for _ in range(1000)], target="de")


def test_random_characters_with_n_best(bundled: Translator) -> None:
    chance = random.Random(22)
    search = bundled.search(n_best=4)
    check_lines(bundled, [random_line(chance) for _ in range(40)], target="de", search=search)


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_random_characters_without_placeholders(engine: str, translator_dir: Path) -> None:
    found = headway.load(translator_dir, device="cpu", engine=engine)
    assert isinstance(found, Translator) and not found.summary.placeholders
    chance = random.Random(23)
    check_lines(found, [random_line(chance) for _ in range(40)])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Press \uf8ff and then click \ue711.", ["\uf8ff", "\ue711", "klick"]),
        ("The mean x̄ is small.", ["x̄", "klein"]),
        ("The runes ᚠᚢᚦ are old.", ["ᚠᚢᚦ", "alt"]),
        ("The house is 𝐯𝐞𝐫𝐲 𝐛𝐢𝐠.", ["sehr groß"]),
        ("Ｔｈｅ ｈｏｕｓｅ ｉｓ ｂｉｇ.", ["Das Haus ist groß."]),
        ("Let 𝑥 be the number.", ["𝑥", "Zahl|Anzahl|Nummer"]),
    ],
)
def test_what_it_cannot_say_is_kept_and_what_has_a_plain_form_is_read(
    bundled: Translator, text: str, parts: list[str]
) -> None:
    [made] = bundled.translate([text], TranslateOptions(target="de"))
    assert all(any(form in made.text for form in part.split("|")) for part in parts), made.text
    assert not made.warnings


def sentence_with(translator: Translator, text: str, *outputs: list[int], **more: Any) -> Sentence:
    reader = translator.tokenizers.source
    found = [Hypothesis(ids, -1.0, -1.0, [], True) for ids in outputs]
    return Sentence("", text, [*reader.encode(text), reader.end], 7, hypotheses=found, **more)


def test_garbled_hypotheses_are_dropped(bundled: Translator) -> None:
    writer = bundled.tokenizers.target
    whole, part = writer.encode("Das Haus Łódź"), writer.encode("Ł")[:-1]
    assert writer.fragment_ids & {*part} and not writer.fragment_ids & {*writer.encode("Das Haus")}
    assert "\ufffd" in writer.decode(part) and "\ufffd" not in writer.decode(whole)
    sentence = sentence_with(bundled, "x", part, whole)
    assert drop_garbled(sentence, writer) and [h.ids for h in sentence.hypotheses] == [whole]
    sentence = sentence_with(bundled, "x", part, part)
    assert not drop_garbled(sentence, writer) and len(sentence.hypotheses) == 2
    sentence = sentence_with(bundled, "x \ufffd", part)
    assert drop_garbled(sentence, writer)  # the source has one itself
    sentence = sentence_with(bundled, "x", part, whole, outputs=["a \ufffd", "b"])
    assert drop_garbled(sentence, writer) and sentence.outputs == ["b"]


@pytest.mark.parametrize(
    ("text", "spans", "masked"),
    [
        ("He lives in Łódź now", [], "He lives in ⟦0⟧ now"),
        ("⟦0⟧ lives in Łódź", ["{x}"], "⟦0⟧ lives in ⟦1⟧"),
        ("Łódź and ⟦0⟧ and x", ["{x}"], "⟦0⟧ and ⟦1⟧ and x"),
        ("Plain words", [], None),
        ("Łódź 12", [], None),  # nothing else is left to translate
    ],
)
def test_rare_words_are_masked(text: str, spans: list[str], masked: str | None) -> None:
    sentence = Sentence("", text, [], 0, spans=MaskedText(text, spans) if spans else None)
    assert mask_rare_words(sentence, frozenset("ó")) is (masked is not None)
    if masked:
        assert sentence.spans and sentence.spans.text == masked
        assert sentence.spans.original == MaskedText(text, spans).original


def test_draws_stay_what_they_are_otherwise(bundled: Translator) -> None:
    part = bundled.tokenizers.target.encode("Ł")[:-1]
    sentence = sentence_with(bundled, "He", [*bundled.tokenizers.target.encode("Er"), *part], part)
    run_plan(bundled, mend_garbled(bundled, [sentence], StubKeeper("no"), sample=True))  # type: ignore[arg-type]
    assert sentence.outputs == ["Er ", ""] and not sentence.warnings
    plain = sentence_with(bundled, "He", bundled.tokenizers.target.encode("Er"))
    run_plan(bundled, mend_garbled(bundled, [plain], StubKeeper("no"), sample=True))  # type: ignore[arg-type]
    assert not plain.outputs


class StubKeeper:
    """Inserts spans into one answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def insert_spans(self, sentences: list[Sentence]) -> Plan[None]:
        for sentence in sentences:
            sentence.outputs = [self.answer]
        yield from ()


@pytest.mark.parametrize(("answer", "wanted"), [("in Łódź", "in Łódź"), ("\ufffd", "He is in Łódź")])
def test_a_garbled_output_is_searched_for_again_or_the_source_stays(
    bundled: Translator, answer: str, wanted: str
) -> None:
    part = bundled.tokenizers.target.encode("Ł")[:-1]
    sentence = sentence_with(bundled, "He is in Łódź", part)
    run_plan(bundled, mend_garbled(bundled, [sentence], StubKeeper(answer)))  # type: ignore[arg-type]
    assert sentence.outputs == [wanted]
    assert bool(sentence.warnings) is (wanted != answer)
    assert all("left untranslated" in warning for warning in sentence.warnings)
