"""The gallery: all variants by slot, found as `headway variants --search` finds them, with their pictures."""

from collections.abc import Callable
from typing import Any

import pytest

from browser.conftest import Look
from headway.config.catalogue import CATALOGUE, search, slots
from headway.nn.masks.masks import dense_mask, make_mask

SEARCHES = [
    "rotary",
    "Sliding-Window",
    "vaswani 2017",
    "attention is all you need",
    "optimizers",
    "swish",
    "no such thing",
    "!",
]


def shown(seen: Look) -> list[str]:
    return seen.page.eval_on_selector_all(".gallery li", "cards => cards.map(card => card.dataset.variant)")  # type: ignore[no-any-return]


def find(seen: Look, text: str) -> list[str]:
    seen.page.fill("#find", text)
    seen.page.wait_for_timeout(50)
    return shown(seen)


def test_everything_is_there_by_slot(look: Callable[..., Look]) -> None:
    seen = look().open(panel="variants")
    seen.page.wait_for_selector(".gallery li")
    assert shown(seen) == [f"{entry.slot} {entry.kind}" for entry in CATALOGUE]
    assert seen.page.locator(".slot h3 code").all_inner_texts() == slots()
    assert seen.page.inner_text("#found") == f"{len(CATALOGUE)} variants"
    assert seen.faults == []


def test_the_search_is_that_of_the_command_line(look: Callable[..., Look]) -> None:
    seen = look().open(panel="variants")
    seen.page.wait_for_selector(".gallery li")
    for text in SEARCHES:
        found = search(text)
        order = dict.fromkeys(entry.slot for entry in found)
        expected = [f"{entry.slot} {entry.kind}" for slot in order for entry in found if entry.slot == slot]
        assert find(seen, text) == expected, text
    assert "find=%21" in seen.page.url, "the address keeps it"


def pixels(seen: Look, selector: str) -> Any:
    """The colour of each pixel, row by row."""
    read = """canvas => {
      const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      return [...new Uint32Array(image.data.buffer)];
    }"""
    return seen.page.eval_on_selector(selector, read)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_mask_is_drawn_by_its_rule(look: Callable[..., Look], scheme: str) -> None:
    seen = look(color_scheme=scheme).open(panel="variants", find="strided")
    seen.page.wait_for_selector(".gallery li")
    seen.page.focus('[data-variant="mask strided"] summary')
    seen.page.keyboard.press("Enter")  # no mouse is needed
    card = '[data-variant="mask strided"]'
    written = seen.page.inner_text(f"{card} figcaption code")
    allowed = dense_mask(make_mask(written), 32).flatten().tolist()
    colours = pixels(seen, f"{card} figure canvas")
    assert len(set(colours)) == 2
    assert [colour == colours[0] for colour in colours] == allowed, "its own position is the first that it sees"
    assert "Child 2019" in seen.page.inner_text(f"{card} dl")
    assert seen.table(card)[0] == ["stride", "16", "integer, at least 1"]


def test_in_chinese_on_a_phone(look: Callable[..., Look]) -> None:
    seen = look(width=375, locale="zh-CN").open(panel="variants", find="retention")
    seen.page.wait_for_selector(".gallery li")
    seen.page.click('[data-variant="mixer retention"] summary')
    assert seen.page.inner_text(".slot h3") == "混合层 mixer"
    assert "可取的值" in seen.page.inner_text('[data-variant="mixer retention"] table')
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 375


def test_keys_of_the_page_can_be_typed_into_the_search(look: Callable[..., Look]) -> None:
    seen = look().open(panel="variants")
    seen.page.wait_for_selector(".gallery li")
    seen.page.locator("#find").press_sequentially("rotary, t.1")
    assert seen.page.input_value("#find") == "rotary, t.1"
