"""The guided tour: what it says is true, what it names is outlined, and everybody can take it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import running

from browser.conftest import Look
from headway.inspect.trace import Trace
from headway.translate.translator import load

STOPS = ("tokens", "vectors", "head", "heads", "masked", "cross", "residual", "feedforward", "output", "beam")
NAMED = "[data-toured=named]"
BROKEN = ("undefined", "NaN", "Infinity", "“”", "\u0001", "\u0002")
IN_SIGHT = """() => {
  const box = document.querySelector('[data-toured=named]').getBoundingClientRect();
  const card = document.querySelector('#tour').getBoundingClientRect();
  return box.width > 0 && box.top < card.top - 20 && box.bottom > 40 && box.right > 0 && box.left < innerWidth;
}"""


def at_stop(seen: Look, name: str) -> Look:
    seen.page.wait_for_selector(f"#tour [data-stop={name}]")
    seen.page.wait_for_selector("#loading-part", state="detached")
    seen.page.wait_for_selector(NAMED, state="attached")
    return seen


def stop_of(seen: Look) -> str:
    return str(seen.page.get_attribute("#tour [data-stop]", "data-stop"))


@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_it_follows_two_words_through_the_model(
    look: Callable[..., Look], sentences: list[str], trace: Trace, tongue: str
) -> None:
    seen = look(locale=tongue).open().translate(sentences[0])
    seen.page.click("#tour-start")
    told = {}
    for number, name in enumerate(STOPS, 1):
        at_stop(seen, name)
        told[name] = seen.page.inner_text("#tour-text")
        assert seen.page.evaluate("document.activeElement.matches('#tour h2')")  # it has the focus
        seen.page.wait_for_function(IN_SIGHT)
        assert f"tour={number}" in seen.page.url
        if name == "tokens":
            shown = [one.split() for one in seen.page.locator("#tour-ids li").all_inner_texts()]
            assert [int(one[-1]) for one in shown] == trace.source.ids
            followed = [shown[n] for n in range(len(shown)) if shown[n] in told_ids(seen)]
        if name != STOPS[-1]:
            seen.page.keyboard.press("ArrowRight")
    assert seen.page.is_disabled("#tour-next")
    assert len(set(told.values())) == len(STOPS)
    assert not [text for text in told.values() if any(word in text for word in BROKEN)]
    for piece, number in followed:
        assert piece in told["tokens"] and number in told["tokens"] and piece in told["head"]
    terms = {"en": ("dot product", "residual connection", "probability distribution", "PCA"),
             "zh": ("点积", "残差连接", "概率分布", "PCA")}  # fmt: skip
    for term, name in zip(terms[tongue], ("head", "residual", "output", "vectors")):
        assert term in told[name]
    assert seen.faults == []


def told_ids(seen: Look) -> list[list[str]]:
    return [one.split() for one in seen.page.locator("#tour-ids .followed").all_inner_texts()]


def test_a_link_leads_to_a_stop_and_its_numbers_are_the_models(
    look: Callable[..., Look], sentences: list[str], trace: Trace
) -> None:
    seen = at_stop(look().open(tour=6, text=sentences[0]).ended(), "cross")
    seen.page.wait_for_selector(".cursor.locked")
    row, column = (int(part) - 1 for part in seen.page.url.partition("cell=")[2].partition("&")[0].split("."))
    layer, head = (int(seen.page.url.partition(f"&{name}=")[2].partition("&")[0]) - 1 for name in ("layer", "head"))
    weights = trace.tensors[f"decoder.{layer}.cross.weights"]
    assert weights[:, row, column].max() == weights[head, row, column]
    assert f"{100 * float(weights[head, row, column]):.1f} %" in seen.page.inner_text("#tour-text")
    words = seen.page.locator("[data-toured=word]").all_inner_texts()
    shown = [pieces.pieces[n].replace(" ", "·") for pieces, n in ((trace.written, row), (trace.source, column))]
    assert sorted(words) == sorted(shown)
    seen.page.reload()
    at_stop(seen, "cross")


def test_a_question_is_answered_by_the_models_numbers(
    look: Callable[..., Look], sentences: list[str], trace: Trace
) -> None:
    seen = at_stop(look().open(tour=9, text=sentences[0]).ended(), "output")
    logps = trace.tensors["output.logps"]
    unsurest = int((-logps.exp() * logps).sum(-1).argmax())
    right = f"{unsurest + 1}: {trace.written.pieces[unsurest].strip()}"
    options = seen.page.locator(".quiz button")
    options.first.wait_for()
    texts = options.all_inner_texts()
    assert right in texts and len(texts) == 3
    wrong = next(n for n, text in enumerate(texts) if text != right)
    options.nth(wrong).click()
    assert seen.page.get_attribute("#quiz-told", "data-right") == "false"
    assert f"it is “{right}”" in seen.page.inner_text("#quiz-told")
    options.nth(texts.index(right)).click()
    assert seen.page.get_attribute("#quiz-told", "data-right") == "true"
    assert seen.page.inner_text("#quiz-told").startswith("Right. There the entropy is")
    assert seen.page.is_enabled("#tour-next")  # answered or not


def test_without_a_sentence_it_takes_an_example(look: Callable[..., Look]) -> None:
    seen = look().open()
    seen.page.click("#tour-start")
    at_stop(seen.ended(), "tokens")
    assert seen.page.input_value("#text") == "A dog runs on the beach."


def test_it_is_taken_by_keyboard(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    keyboard = seen.page.keyboard
    seen.page.focus("#tour-start")
    keyboard.press("Enter")
    at_stop(seen, "tokens")
    for name in STOPS[1:4]:
        keyboard.press("ArrowRight")
        at_stop(seen, name)
    keyboard.press("ArrowLeft")
    at_stop(seen, "head")
    keyboard.press("ArrowRight")
    at_stop(seen, "heads")
    keyboard.press("F6")
    seen.page.wait_for_function("() => document.activeElement.closest('.atlas') !== null")
    keyboard.press("ArrowRight")  # to the next head, not to the next stop
    assert stop_of(seen) == "heads"
    keyboard.press("F6")
    seen.page.wait_for_function("() => document.activeElement.matches('#tour h2')")
    keyboard.press("Tab")
    keyboard.press("Enter")
    seen.page.wait_for_selector("#quiz-told[data-right]")
    keyboard.press("Escape")
    seen.page.wait_for_selector("#tour", state="detached")
    assert seen.page.evaluate("document.activeElement.id") == "tour-start"
    seen.page.wait_for_function("() => !document.querySelector('[data-toured]')")


def test_escape_ends_the_tour(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    keyboard = seen.page.keyboard
    for place in ("#tour-next", "#heatmap", "#text"):  # wherever the focus is
        seen.page.click("#tour-start")
        at_stop(seen, "tokens")
        seen.page.focus(place)
        keyboard.press("Escape")
        seen.page.wait_for_selector("#tour", state="detached")
    seen.page.click("#tour-start")
    at_stop(seen, "tokens")
    seen.page.click("header button[aria-label=Help]")
    keyboard.press("Escape")  # closes what lies above it
    seen.page.wait_for_selector("dialog[open]", state="detached")
    assert seen.page.locator("#tour").count() == 1


@pytest.mark.parametrize(("width", "height"), [(375, 700), (640, 400)], ids=["phone", "200 %"])
def test_it_fits_small_screens(look: Callable[..., Look], sentences: list[str], width: int, height: int) -> None:
    seen = look(width=width, height=height).open().translate(sentences[0])
    seen.page.click("#tour-start")
    for name in STOPS:
        at_stop(seen, name)
        seen.page.wait_for_function(IN_SIGHT)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        button = seen.page.locator("#tour-next").bounding_box()
        assert button and button["y"] + button["height"] <= height and button["height"] >= 24
        if name != STOPS[-1]:
            seen.page.click("#tour-next")


def test_its_outline_is_seen_in_forced_colours(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = at_stop(look(forced_colors="active").open(tour=4, text=sentences[0]).ended(), "heads")
    style = seen.page.eval_on_selector(NAMED, "one => [getComputedStyle(one).outlineStyle, one.className]")
    assert style == ["solid", "atlas"]


@pytest.mark.parametrize(("kind", "stops"), [("lm", 8), ("masked", 6)])
def test_it_tells_only_of_what_there_is(
    look: Callable[..., Look], lm_dir: Path, masked_dir: Path, kind: str, stops: int
) -> None:
    text = "The dog sees a red house."
    with running({"lm": lm_dir, "masked": masked_dir}[kind]) as server:
        seen = look(url=server.url).open().translate(text)
        seen.page.click("#tour-start")
        at_stop(seen, "tokens")
        told = [seen.page.inner_text("#tour")]
        while seen.page.is_enabled("#tour-next"):
            seen.page.click("#tour-next")
            told.append(seen.page.inner_text("#tour"))
        assert len(told) == stops
        assert f"Stop {stops} of {stops}" in told[-1]
        assert not [one for one in told if any(word in one for word in BROKEN)]
        assert not any("Cross-attention:" in one for one in told)
        assert any("hatched" in one for one in told) == (kind == "lm")
        if kind == "lm":
            model: Any = load(lm_dir, "cpu")
            assert f"is cut into tokens, {len(model.encode(text))} here" in told[0]
