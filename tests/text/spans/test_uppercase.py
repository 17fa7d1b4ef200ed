"""TEXT IN CAPITALS, and what becomes of it."""

import pytest

import headway
from headway.text.spans.uppercase import is_all_caps, lowercased
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator


@pytest.mark.parametrize("text", ["PLEASE CLOSE THE DOOR.", "ACHTUNG: DIE TÜR!", "ÇA SUFFIT 2 FOIS", "ΜΗΝ ΚΑΠΝΙΖΕΤΕ"])
def test_what_is_shouted(text: str) -> None:
    assert is_all_caps(text)


@pytest.mark.parametrize(
    "text", ["NATO", "USA UK EU", "Please CLOSE it", "42 17", "你好 世界", "", "NO!", "EU-US 2024"]
)
def test_what_is_not(text: str) -> None:
    assert not is_all_caps(text)


def test_only_where_capitals_are_spelled_worse() -> None:
    small = Tokenizer.train(["please close the door", "Please", "the door is closed"] * 30, "bpe(330)")
    large = Tokenizer.train(["PLEASE CLOSE THE DOOR", "THE DOOR IS CLOSED"] * 30, "bpe(330)")
    assert lowercased("PLEASE CLOSE THE DOOR", small) == "Please close the door"
    assert lowercased("« PLEASE CLOSE THE DOOR", small) == "« Please close the door"
    assert lowercased("PLEASE CLOSE THE DOOR", large) == "PLEASE CLOSE THE DOOR"
    assert lowercased("PLEASE CLOSE the door", small) == "PLEASE CLOSE the door"


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_translated_and_put_in_capitals_again(engine: str) -> None:
    translator = headway.load("en-de", engine=engine)
    assert isinstance(translator, Translator)
    loud, calm, marked = translator.translate(
        ["THE HOUSE IS VERY OLD.", "The house is very old.", "OPEN www.example.org/a <b>TODAY</b>!"],
        TranslateOptions(target="de"),
    )
    assert loud.text == calm.text.upper() == "DAS HAUS IST SEHR ALT."
    assert loud.source == "THE HOUSE IS VERY OLD."
    assert "www.example.org/a" in marked.text and "<b>" in marked.text
    assert marked.text.replace("www.example.org/a", "").replace("b>", "").isupper()
    if engine == "torch":
        trace = translator.trace("THE HOUSE IS VERY OLD.", target="de")
        assert trace.output == loud.text
        assert "".join(trace.source.pieces[1:-1]).strip() == "The house is very old."
