"""The languages of a sentence."""

from pathlib import Path

import headway
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.translate.languages import find_languages
from headway.translate.translator import load_translator


def test_the_tag_says_which() -> None:
    bundled = headway.load("en-de")
    assert find_languages(bundled.summary, bundled.direction_tokens(target="de")) == ("en", "de")
    assert find_languages(bundled.summary, bundled.direction_tokens(target="en")) == ("de", "en")
    assert find_languages(bundled.summary, DirectionTokens()) == ("", "")  # both are possible


def test_without_a_tag_there_must_be_one_of_each(translator_dir: Path) -> None:
    toy = load_translator(translator_dir)
    summary = toy.summary
    one_each = len(summary.source_languages) == len(summary.target_languages) == 1
    wanted = (summary.source_languages[0], summary.target_languages[0]) if one_each else ("", "")
    assert find_languages(summary, DirectionTokens()) == wanted
