"""What stands in the pane of the translation is the translation, whatever the model itself can say."""

from collections.abc import Callable, Iterator

import pytest
from serve.conftest import Running, running

from browser.conftest import Look
from headway.storage.registry import BUNDLED_MODELS
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load

PANE = "document.querySelector('#result .output').textContent"


@pytest.fixture(scope="module")
def bundled() -> Iterator[Running]:
    with running(BUNDLED_MODELS / "en-de") as started:
        yield started


@pytest.fixture(scope="module")
def said() -> Callable[[str], str]:
    """By the same translator, without a page."""
    found = load(BUNDLED_MODELS / "en-de", "cpu")
    assert isinstance(found, Translator)
    return lambda text: found.translate([text], TranslateOptions(target="de", source="en"))[0].text


@pytest.mark.parametrize(
    "text",
    [
        "Hello {name}! See <b>the dog</b> at https://example.org.",
        "BIG WARNING: DO NOT OPEN THE DOOR.",
        "{name}",
        "The house is old.",
    ],
)
def test_the_pane_shows_the_translation(
    look: Callable[..., Look], bundled: Running, said: Callable[[str], str], text: str
) -> None:
    seen = look(url=bundled.url).open().translate(text)
    assert seen.state == ("unread" if text == "{name}" else "done")
    assert seen.page.evaluate(PANE) == seen.result == said(text)
    assert seen.faults == []


def test_what_the_model_said_itself_stands_beneath(look: Callable[..., Look], bundled: Running) -> None:
    seen = look(url=bundled.url).open().translate("See {name} and <b>the dog</b>.")
    assert "{name}" in seen.page.inner_text("#result .output")
    assert seen.page.locator(".output .token").count() == 0
    assert seen.page.inner_text("#raw p") == "As the model says it"
    assert "⟦" in seen.page.inner_text("#raw div")
    seen.page.locator("#raw .token").nth(1).click()
    assert seen.page.input_value("#step") == "2"
    assert "here" in (seen.page.locator("#raw .token").nth(1).get_attribute("class") or "")
    seen.page.select_option("#tongue", "zh")
    seen.page.wait_for_selector("html[lang=zh-Hans]")
    assert seen.page.inner_text("#raw p") == "模型自己的写法"
    seen.translate("The house is old.")  # and where they say the same, once
    assert seen.page.locator("#raw").count() == 0
    assert seen.page.locator(".output .token").count() > 3


LINES = "The house is old.\nThe dog is small.\n\nThe door is open."


def test_lines_stay_lines(look: Callable[..., Look], bundled: Running) -> None:
    seen = look(url=bundled.url).open().translate(LINES)
    shown = seen.page.inner_text("#result .output")
    assert [bool(line.strip()) for line in shown.splitlines()] == [True, True, False, True]
    assert seen.page.locator(".output .token").count() > 9  # the tokens are the text
    marked = "getSelection().selectAllChildren(document.querySelector('#result .output')), getSelection().toString()"
    assert seen.page.evaluate(marked) == shown == seen.page.evaluate(PANE)


def test_lines_stay_lines_when_a_word_is_changed(look: Callable[..., Look], bundled: Running) -> None:
    seen = look(url=bundled.url).open(panel="probabilities").translate(LINES)
    before = seen.page.evaluate(PANE).splitlines()
    seen.page.select_option("#sentence", "1")
    seen.page.fill("#step", "1")
    seen.page.locator("#bars button:not([disabled])").first.click()
    seen.page.wait_for_selector("#first")
    seen.ended()
    seen.page.wait_for_function("() => document.querySelectorAll('#sentence option').length === 3")
    after = seen.page.evaluate(PANE).splitlines()
    assert [after[0], after[2:]] == [before[0], before[2:]]
    assert after[1] != before[1]
    assert seen.page.inner_text("#first").splitlines() == before


def test_what_the_model_was_unsure_of_is_underlined_in_every_sentence(
    look: Callable[..., Look], bundled: Running
) -> None:
    seen = look(url=bundled.url).open().translate("See {name} and <b>the dog</b>.\nThe house is old.")
    seen.page.wait_for_selector("#result :text('Underlined')")
    assert seen.page.input_value("#sentence") == "1"  # of which it was sure
    assert seen.page.locator(".tokens").nth(0).locator(".unsure").count() > 0
    assert seen.page.locator(".tokens").nth(1).locator(".unsure").count() == 0
