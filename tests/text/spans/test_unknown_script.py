"""Words that a model cannot say, and signs that only a printer needs."""

import time

import pytest

from headway.text.spans.protect import make_protector
from headway.text.spans.unknown_script import CharacterRepertoire, make_repertoire, normalise_typography
from headway.text.tokenizer.tokenizer import Tokenizer


def find_all(repertoire: CharacterRepertoire, text: str) -> list[str]:
    return [found[0] for found in repertoire.find_spans(text, 0, len(text))]


ENGLISH_AND_GERMAN = frozenset({"en", "de"})


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("The Hebrew word שלום means peace.", ["שלום"]),
        ("He said שלום עולם, and left.", ["שלום עולם"]),
        ("Mr. Иванов lives in Москва.", ["Иванов", "Москва"]),
        ("R = 5 kΩ, π and μ-waves", ["kΩ", "π", "μ"]),
        ("これは本です。 is Japanese.", ["これは本です。"]),
        ("Nguyễn Văn Thiệu", ["Nguyễn", "Thiệu"]),
        ("{имя} of `имя`", ["{имя}", "`имя`"]),
        ("Dvořák, Łódź, Erdoğan and Straße", []),
        ("Nothing — “at all” … 5 €, 20 °C, 3 × 2", []),
        ("Press \uf8ff and then click \ue711\U0010fffd.", ["\uf8ff", "\ue711\U0010fffd"]),
        ("The runes ᚠᚢᚦ, 𐎀𐎁 and 𒀀 are old.", ["ᚠᚢᚦ", "𐎀𐎁", "𒀀"]),
        ("The mean x̄ of h̷e̷l̷l̷o̷", ["x̄", "h̷e̷l̷l̷o̷"]),
        ("Unassigned \u0378 and \U0003fffe", ["\u0378", "\U0003fffe"]),
        ("Press ⌘C → 1️⃣ now, x ≥ 3", ["⌘", "→ 1️⃣", "≥"]),
        ("The 𝛼 of ٣ books", ["𝛼", "٣"]),
        ("Let 𝑥 be 𝐛𝐨𝐥𝐝 and ℝ real", ["𝑥", "ℝ"]),  # a variable is no word
        ("Mu\u0308ller ate cre\u0300me", []),  # composed, these are letters of every day
        ("Mark\u200e and \ufffd", ["\u200e", "\ufffd"]),
    ],
)
def test_what_is_strange(text: str, spans: list[str]) -> None:
    keeper = make_protector((), make_repertoire(ENGLISH_AND_GERMAN, frozenset("abcä…")))
    assert [found[0] for found in keeper.find_spans(text)] == spans


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("This is 𝐛𝐨𝐥𝐝, 𝓈𝒸𝓇𝒾𝓅𝓉 and 𝕕𝕠𝕦𝕓𝕝𝕖 𝟏𝟐.", "This is bold, script and double 12."),
        ("Ｆｕｌｌ ｗｉｄｔｈ！", "Full width!"),
        ("𝐈 𝐥𝐨𝐯𝐞 ⓨⓞⓤ, Part Ⅳ", "I love you, Part IV"),
        ("Mu\u0308ller", "Müller"),
        ("Windows™ 20 ℃ ½ № 5", "Windows™ 20 ℃ ½ № 5"),  # something would be lost
        ("plain ä", "plain ä"),
    ],
)
def test_what_has_a_plain_form_is_read_so(text: str, plain: str) -> None:
    repertoire = make_repertoire(ENGLISH_AND_GERMAN, frozenset("abcä…"))
    assert repertoire.fold(text) == plain


def test_a_vocabulary_of_bytes_knows_the_usual_signs() -> None:
    repertoire = make_repertoire(ENGLISH_AND_GERMAN, frozenset("abc"))
    assert find_all(repertoire, "a → b ≥ c † \ue000 ш ᚠ") == ["\ue000 ш ᚠ"]


def test_a_language_knows_its_letters() -> None:
    russian = make_repertoire(frozenset({"ru", "en"}), frozenset())
    assert find_all(russian, "Иванов, Ψυχή and ш") == ["Ψυχή"]
    serbian = make_repertoire(frozenset({"sr-Latn", "en"}), frozenset())
    assert not find_all(serbian, "Ниш")
    hindi = make_repertoire(frozenset({"hi", "en"}), frozenset("अ"))
    assert not find_all(hindi, "हिन्दी क्\u200dष")
    japanese = make_repertoire(frozenset({"ja", "en"}), frozenset("。Ａあ"))
    assert not find_all(japanese, "あ。Ａ") and japanese.fold("Ａ") == "Ａ"


def test_a_vocabulary_knows_its_letters() -> None:
    tokenizer = Tokenizer.train(["Ștefan și Ștefan și ștefan → →"] * 20, "bpe(400)")
    assert {"ș", "Ș", "→"} <= tokenizer.characters
    assert not {"ễ", "π"} & tokenizer.characters
    romanian = make_repertoire(frozenset({"ro", "en"}), tokenizer.characters)
    assert find_all(romanian, "Ștefan și Nguyễn → ←") == ["Nguyễn", "←"]


def test_nobody_knows_what_is_strange_to_a_nameless_language() -> None:
    repertoire = make_repertoire(frozenset(), frozenset())
    assert find_all(repertoire, "ш \ue000 → ᚠ") == ["\ue000"]
    assert repertoire.fold("ш \ue000 𝐛") == "ш \ue000 𝐛"


def test_printers_signs_are_taken_out() -> None:
    assert (
        normalise_typography("The ﬁrst ﬂower is eﬀec\u00adtive, faﬅ and e\u200bven ﬃ")
        == "The first flower is effective, fast and even ffi"
    )


@pytest.mark.parametrize("part", ["ш", "ш ", "aш, ", "a", "ш' ", "ä ", "x̄", "\ue000", "→ ", "𝐛", "𝐛 ", "ä→"])
def test_no_line_takes_long(part: str) -> None:
    keeper, started = (
        make_protector((), make_repertoire(ENGLISH_AND_GERMAN, frozenset())),
        time.process_time(),
    )
    keeper.mask(part * 30_000 + "ä")
    assert time.process_time() - started < 3


def test_signs_for_printers_and_terminals_are_no_letters() -> None:
    assert (
        normalise_typography("\ufeffef\u00adfective o\ufb03ce mor\0ning\x07 \x9bthere")
        == "effective office morning there"
    )
    assert (
        normalise_typography("a\tb\nc\x0bd\x0ce\x1b[1mf\x85g") == "a\tb\nc\x0bd\x0ce\x1b[1mf\x85g"
    )  # spaces, lines and colours
