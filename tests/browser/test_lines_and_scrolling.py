"""Attention as lines between tokens, and labels that stay in sight while a large map or table is scrolled."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.conftest import Running, running

from browser.conftest import Look
from headway.inspect.trace import Trace

LINES = """() => [...document.querySelectorAll('#token-lines line')].map((one) =>
  [one.y1.baseVal.value, one.y2.baseVal.value, Number(one.getAttribute('stroke-opacity'))])"""
ROW = 26  # pixels


def drawn(seen: Look) -> np.ndarray:
    """(lines, 3): row, column, weight."""
    found = np.array(seen.page.evaluate(LINES))
    return np.stack([found[:, 0] // ROW, found[:, 1] // ROW, found[:, 2]], 1)


@pytest.fixture(scope="module")
def long_server(long_dir: Path) -> Iterator[Running]:
    with running(long_dir) as server:
        yield server


def test_lines_have_the_weights_of_the_trace(look: Callable[..., Look], trace: Trace, sentences: list[str]) -> None:
    seen = look().open(kind="cross").translate(sentences[0])
    seen.page.check("#shown-as input >> nth=1")
    weights = trace.tensors["decoder.0.cross.weights"][0].numpy()
    seen.page.wait_for_selector("#token-lines")
    lines = drawn(seen)
    assert len(lines) == (weights >= 0.02).sum()
    for row, column, weight in lines:
        assert weights[int(row), int(column)] == pytest.approx(weight, abs=1e-3)
    seen.page.hover("[data-side=row][data-at='1']")
    seen.page.wait_for_function(
        "n => document.querySelectorAll('#token-lines line').length === n", arg=weights.shape[1]
    )
    assert set(drawn(seen)[:, 0]) == {1}
    told = [float(text) for text in seen.page.locator(".tokens-right small").all_inner_texts()]
    np.testing.assert_allclose(told, weights[1], atol=1e-4)
    assert f"{weights[1].max():.4f}" in seen.page.inner_text("#lines-read")
    seen.page.mouse.move(5, 5)
    seen.page.wait_for_function("n => document.querySelectorAll('#token-lines line').length === n", arg=len(lines))


def test_lines_by_keyboard_and_kept_by_a_click(look: Callable[..., Look], trace: Trace, sentences: list[str]) -> None:
    seen = look().open(kind="decoder", **{"at-lines": 1}).translate(sentences[0])
    weights = trace.tensors["decoder.0.self.weights"][0].numpy()
    seen.page.focus("[data-side=row][data-at='0']")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        seen.page.keyboard.press(key)
    assert seen.page.evaluate("[document.activeElement.dataset.side, document.activeElement.dataset.at]") == [
        "column",
        "1",
    ]
    lines = drawn(seen)
    assert set(lines[:, 1]) == {1} and 0 not in lines[:, 0]  # which comes before it
    np.testing.assert_allclose(lines[:, 2], weights[1:, 1], atol=1e-3)
    assert seen.page.locator(".tokens-left small").first.inner_text() == "masked"
    seen.page.keyboard.press("Enter")
    seen.page.keyboard.press("Tab")
    assert seen.page.locator("[data-side=column][data-at='1']").get_attribute("aria-pressed") == "true"
    assert len(drawn(seen)) == len(lines)
    seen.page.keyboard.press("Escape")
    seen.page.wait_for_selector("#token-lines [aria-pressed=true]", state="detached")
    assert seen.faults == []


def test_long_texts_have_only_their_strongest_lines(
    look: Callable[..., Look], long_server: Running, sentences: list[str]
) -> None:
    seen = look(url=long_server.url).open(kind="encoder", own=1, **{"at-lines": 1})
    seen.translate(" ".join(word for line in sentences[:12] for word in line.rstrip(".?").split()))
    seen.page.wait_for_selector("#some-lines")
    assert len(drawn(seen)) == 1500
    tokens = seen.page.locator(".tokens-left button").count()
    assert tokens >= 60
    seen.page.hover("[data-side=row][data-at='3']")
    seen.page.wait_for_selector("#some-lines", state="detached")
    assert len(drawn(seen)) == tokens


SCROLLED = """([box, label, along]) => {
  const outer = document.querySelector(box);
  outer.scrollTop = along; outer.scrollLeft = along;
  const [o, l] = [outer, document.querySelector(label)].map((one) => one.getBoundingClientRect());
  return [outer.scrollTop, outer.scrollLeft, l.top - o.top, l.left - o.left];
}"""


def test_labels_stay_in_sight(look: Callable[..., Look], long_server: Running, sentences: list[str]) -> None:
    seen = look(width=700, height=700, url=long_server.url).open(kind="encoder", table=1)
    seen.translate(" ".join(word for line in sentences[:12] for word in line.rstrip(".?").split()))

    def scrolled(box: str, label: str) -> Any:
        return seen.page.evaluate(SCROLLED, [box, label, 150])

    for box, columns, rows in (
        (".heatmap .scroll", ".column-labels", ".row-labels"),
        (".scroll:has(> #weights)", "#weights thead th:nth-child(4)", "#weights tbody tr:nth-child(9) th"),
    ):
        down, _, top, _ = scrolled(box, columns)
        assert down == 150 and -4 <= top <= 4
        _, right, _, left = scrolled(box, rows)
        assert right == 150 and -4 <= left <= 4
    seen.page.focus("#heatmap")
    seen.page.keyboard.press("Control+End")
    seen.page.wait_for_function("() => document.querySelector('.heatmap .scroll').scrollTop > 150")
    seen.page.keyboard.press("Control+Home")
    seen.page.wait_for_function("() => document.querySelector('.heatmap .scroll').scrollTop === 0")
