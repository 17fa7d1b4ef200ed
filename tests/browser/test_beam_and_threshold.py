"""The beam by keyboard, and weights that are too small to be drawn."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from browser.conftest import Look
from headway.inspect.trace import Trace

SVG = "{http://www.w3.org/2000/svg}"


def test_arrow_keys_walk_through_the_beam(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(panel="beam", beam=4).translate(sentences[0])
    keyboard = seen.page.keyboard

    def here(key: str = "") -> tuple[int, str]:
        if key:
            keyboard.press(key)
        step, label = seen.page.evaluate("[document.activeElement.dataset.step, document.activeElement.ariaLabel]")
        told = seen.page.inner_text("#node")
        assert label.endswith(f", {told}")  # after the token
        return int(step), told

    assert seen.page.locator(".lattice [tabindex='0']").count() == 1
    seen.page.focus(".lattice [tabindex='0']")
    assert here("Home")[0] == 0
    below, first = here("ArrowDown"), here("ArrowUp")
    assert below[0] == first[0] == 0
    assert below[1] != first[1]
    child = here("ArrowRight")
    assert child[0] == 1
    begins = first[1].partition(":")[0].lstrip("·")  # a space alone
    assert child[1].startswith(begins)  # it goes on from it
    assert here("ArrowLeft") == first
    assert here("ArrowLeft") == first  # nobody is before the first
    last = here("End")
    assert last[1].partition(":")[0].removesuffix("⟨/s⟩").strip() == seen.result
    assert seen.page.locator(".lattice g.told").count() == last[0] + 1
    keyboard.press("Enter")
    seen.page.locator(".lattice g[data-number='0']").hover()
    assert seen.page.inner_text("#node") == last[1]  # it is kept
    keyboard.press("Escape")
    seen.page.locator(".lattice g[data-number='1']").hover()
    seen.page.wait_for_function("told => document.getElementById('node').textContent !== told", arg=last[1])
    step = seen.page.input_value("#step")
    keyboard.press("Tab")
    assert not seen.page.evaluate("document.activeElement.closest('.lattice')")
    assert seen.page.input_value("#step") == step  # the timeline stood still


def test_small_weights_can_be_hidden(
    look: Callable[..., Look], trace: Trace, sentences: list[str], tmp_path: Path
) -> None:
    seen = look().open(**{"from": 30, "table": 1}).translate(sentences[0])
    weights = trace.tensors["decoder.0.cross.weights"][0].numpy()
    with seen.page.expect_download() as waiting:
        seen.page.click("#save-svg")
    waiting.value.save_as(tmp_path / "saved.svg")
    parts = ElementTree.parse(tmp_path / "saved.svg").findall(f".//{SVG}rect")
    ground = parts[0].get("fill")
    drawn = np.array([rect.get("fill") != ground for rect in parts[1:]]).reshape(weights.shape)
    assert (drawn == (weights >= 0.3)).all()
    assert 0 < drawn.sum() < (weights > 0.02).sum()
    colour = "(c, [x, y]) => [...c.getContext('2d').getImageData(x, y, 1, 1).data]"
    for row, column in ((0, 0), tuple(np.argwhere(drawn)[0]), tuple(np.argwhere(~drawn)[0])):
        place = [int(column), int(row)]  # a pixel a cell
        shown = seen.page.eval_on_selector("#heatmap canvas", colour, place)
        zero = [int(n) for n in re.findall(r"\d+", ground)]
        assert (shown[:3] != zero) == drawn[row, column]
    assert "0.30" in seen.page.inner_text("#drawn-from")
    cell = float(seen.table("#weights")[0][1])
    assert abs(cell - weights[0, 0]) < 1e-3  # numbers stay what they are
