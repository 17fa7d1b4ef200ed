"""A stream that tells much keeps the page fluent. Nothing is timed here: what would make frames late is counted."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from serve.conftest import Running

from browser.conftest import Look

TIMES = 400
COUNT = """window.painted = 0; window.largest = 0;
  const plain = CanvasRenderingContext2D.prototype.putImageData;
  CanvasRenderingContext2D.prototype.putImageData = function (image, ...all) {
    window.painted++; window.largest = Math.max(window.largest, image.width * image.height);
    return plain.call(this, image, ...all); };"""


@pytest.fixture
def told(server: Running, sentences: list[str]) -> list[dict[str, Any]]:
    """What the server tells of two sentences."""
    body = {"q": " ".join(sentences[:2]), "source": "en", "target": "qtx"}
    return [json.loads(line) for line in server.post("/api/translate", body).text.splitlines()]


def test_many_events_are_few_drawings(look: Callable[..., Look], told: list[dict[str, Any]]) -> None:
    found = next(event for event in told if event["event"] == "found")
    steps = [event for event in told if event["event"] == "step"]
    much = [one for event in told for one in ([event] * TIMES if event is steps[-1] else [event])]
    seen = look()
    body = "\n".join(map(json.dumps, much))
    seen.page.route("**/api/translate", lambda route: route.fulfill(body=body, content_type="application/x-ndjson"))
    seen.page.add_init_script(COUNT)
    seen.open().translate("whatever is typed")
    seen.page.wait_for_timeout(300)
    assert 0 < seen.page.evaluate("window.painted") < TIMES / 10
    assert seen.page.evaluate("window.largest") <= (4 * 70) * 64  # the overview's pixels; the detail has one a cell
    count = sum(len(event["ids"]) for event in told if event["event"] == "found")
    assert len(seen.tokens()) == count > len(found["ids"])
    assert seen.page.get_attribute("#step", "max") == str(len(told[-2]["ids"]) + 1)
    assert seen.faults == []


def test_a_page_that_nobody_sees_is_complete_too(look: Callable[..., Look], sentences: list[str]) -> None:
    """A hidden page has no frames; what came last is shown all the same."""
    seen = look()
    seen.open()
    seen.page.evaluate("window.requestAnimationFrame = () => 1")
    seen.translate(sentences[0])
    assert seen.state == "done"
    seen.page.wait_for_function("() => document.querySelectorAll('#result .token').length > 3", polling=100)
    assert seen.page.evaluate("document.querySelector('#result .output').textContent") == seen.result


def test_the_timeline_goes_on_to_the_newest_sentence(
    look: Callable[..., Look], sentences: list[str], slow: None
) -> None:
    seen = look().open()
    seen.page.fill("#text", " ".join(sentences[:2]))
    seen.page.press("#text", "Control+Enter")
    seen.page.wait_for_selector("#sentence")
    seen.page.wait_for_function("() => document.getElementById('sentence').value === '1'")
    seen.page.select_option("#sentence", "0")  # and stays where somebody has put it
    seen.page.wait_for_timeout(700)
    assert seen.page.input_value("#sentence") == "0"
    seen.ended()
    assert seen.page.input_value("#sentence") == "0"
