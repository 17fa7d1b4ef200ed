"""The languages of a sentence."""

from pathlib import Path

import headway
from headway.translate.languages import find_languages
from headway.translate.translator import load_translator


def test_the_tag_says_which() -> None:
    bundled = headway.load("en-de")
    assert find_languages(bundled, bundled.tag_ids("de")) == ("en", "de")
    assert find_languages(bundled, bundled.tag_ids("en")) == ("de", "en")
    assert find_languages(bundled, []) == ("", "")  # both are possible


def test_without_a_tag_there_must_be_one_of_each(translator_dir: Path) -> None:
    toy = load_translator(translator_dir)
    summary = toy.summary
    one_each = len(summary.source_languages) == len(summary.target_languages) == 1
    wanted = (summary.source_languages[0], summary.target_languages[0]) if one_each else ("", "")
    assert find_languages(toy, []) == wanted
