"""What somebody sees who opens the page: what it is, a map that fits, the head and the step that show most."""

from collections.abc import Callable
from typing import Any

import pytest

from browser.conftest import Look
from headway.inspect.telling_head import find_telling_head
from headway.inspect.trace import Trace

SHIFTS = """
window.shifts = [];
const told = (node) => (node?.outerHTML ?? String(node?.textContent)).slice(0, 60);
const tell = ({ node, previousRect, currentRect }) => [told(node), previousRect.y, currentRect.y];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push([one.value, one.sources.map(tell)]);
}).observe({ type: "layout-shift", buffered: true });
"""


def opened(seen: Look, **state: Any) -> Look:
    """As by a link that says nothing of heads and steps."""
    from urllib.parse import urlencode

    seen.page.goto(f"{seen.url}/#{urlencode(state)}")
    return seen.ended()


@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_jumps_while_the_page_opens(look: Callable[..., Look], sentences: list[str], width: int) -> None:
    seen = look(width=width, height=800)
    seen.page.add_init_script(SHIFTS)
    opened(seen, text=sentences[0])
    seen.page.wait_for_timeout(300)
    shifts = seen.page.evaluate("window.shifts")
    assert sum(value for value, _ in shifts) < 0.1, shifts


def test_it_says_what_it_is_and_shows_the_map(look: Callable[..., Look], sentences: list[str], trace: Trace) -> None:
    seen = opened(look(height=800), text=sentences[0])
    assert seen.page.inner_text("h1").startswith("Look inside a Transformer: ")
    found = find_telling_head(trace)
    assert found
    layer, head = found
    assert (seen.page.url.partition("&layer=")[2]).startswith(f"{layer + 1}&head={head + 1}")
    box = seen.page.locator("#heatmap").bounding_box()
    assert box and box["y"] < 560 and box["y"] + 8 * 28 < 800
    cell = box["width"] / len(trace.source.pieces)
    assert not seen.page.is_visible("#show-words")  # the options are folded
    seen.page.mouse.move(box["x"] + 3.5 * cell, box["y"] + 2.5 * cell)  # row 3, column 4
    value = float(trace.tensors[f"decoder.{layer}.cross.weights"][head, 2, 3])
    assert abs(float(seen.page.inner_text("#tip").rpartition(" ")[2]) - value) < 2e-4
    tip = seen.page.locator("#tip").bounding_box()
    assert tip and abs(tip["y"] - box["y"] - 2 * cell) < 40 and tip["x"] > box["x"]
    assert seen.page.inner_text("#reads") == seen.page.inner_text("#tip")
    seen.page.select_option("#head", index=2)  # who chooses a head keeps it
    seen.translate(sentences[1])
    assert seen.page.input_value("#head") == "1"


def test_the_least_certain_step_comes_first(look: Callable[..., Look], sentences: list[str], trace: Trace) -> None:
    logps = trace.tensors["output.logps"]
    unsurest = int((-logps.exp() * logps).sum(-1).argmax())
    seen = opened(look(), text=sentences[0])
    last = seen.page.input_value("#step")
    assert int(last) == len(trace.written.ids)
    seen.tab("probabilities").page.wait_for_selector("#bars .number")
    assert int(seen.page.input_value("#step")) == unsurest + 1
    assert seen.page.locator(".strip button").count() == len(trace.written.ids)
    seen.page.click("button[aria-label='To the last step']")  # who chooses a step keeps it
    assert seen.page.input_value("#step") == last
    seen.tab("attention")
    assert seen.tab("probabilities").page.input_value("#step") == last


def test_it_can_be_seen_in_forced_colours(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = opened(look(forced_colors="active"), text=sentences[0])
    style = "(one, name) => getComputedStyle(one)[name]"
    chosen, other = (f".atlas button[aria-pressed={yes}]" for yes in ("true", "false"))
    assert seen.page.eval_on_selector(chosen, style, "outlineStyle") != seen.page.eval_on_selector(
        other, style, "outlineStyle"
    )
    tab = "[role=tab][aria-selected={}]".format
    assert seen.page.eval_on_selector(tab("true"), style, "borderBottomColor") != seen.page.eval_on_selector(
        tab("false"), style, "borderBottomColor"
    )
    pixels = "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    assert seen.page.eval_on_selector("#heatmap canvas", pixels) > 10
    seen.page.hover("#heatmap")
    assert seen.page.eval_on_selector(".cursor", style, "outlineStyle") == "solid"
