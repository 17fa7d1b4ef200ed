"""The other panels, each against the same numbers in Python."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from browser.conftest import Look
from headway.inspect.trace import Trace
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator


def percents(seen: Look) -> list[float]:
    return [float(text.rstrip(" %")) / 100 for text in seen.page.locator("#bars .number").all_inner_texts()]


def test_w19_probabilities(look: Callable[..., Look], trace: Trace, sentences: list[str]) -> None:
    seen = look().open(panel="probabilities", beam=1).translate(sentences[0])
    seen.page.fill("#step", "1")
    seen.page.wait_for_selector("#bars [disabled] .tag:has-text('taken')")
    found = percents(seen)
    assert found == sorted(found, reverse=True)
    assert sum(found) <= 1.001
    assert "taken" in seen.page.locator("#bars button").first.inner_text()
    expected = trace.tensors["output.logps"][0].exp().topk(10).values.tolist()
    np.testing.assert_allclose(found, expected, atol=1e-3)
    seen.page.fill("#temperature", "2")
    seen.page.wait_for_timeout(500)
    warm = percents(seen)[0]
    seen.page.fill("#temperature", "0.1")
    seen.page.wait_for_timeout(500)
    assert percents(seen)[0] >= found[0] >= warm


def test_w20_another_word_is_forced(look: Callable[..., Look], translator: Translator, sentences: list[str]) -> None:
    seen = look().open(panel="probabilities").translate(sentences[0])
    before, first = seen.tokens(), seen.result
    seen.page.locator("#result .token").nth(2).click()
    seen.page.wait_for_selector("#bars .tag:has-text('taken')")
    other = seen.page.locator("#bars button:not([disabled])").first
    piece = other.locator(".piece").inner_text()
    other.click()
    seen.page.wait_for_selector("html[data-state=done]")
    seen.page.wait_for_selector("#first")
    seen.ended()
    after = seen.tokens()
    assert after[:2] == before[:2]
    assert after[2] == piece.lstrip("·")
    assert seen.page.inner_text("#result .output").strip() == seen.result
    assert seen.page.inner_text("#first") == first
    winner = seen.tab("beam").page.locator("#hypotheses tr[data-wins] th")
    assert winner.inner_text() == seen.result  # with what was forced
    # The timeline stands at the forced token: the beam shows it, and those before.
    assert seen.page.locator(".lattice g[data-fate=forced]").count() == 3
    logp = seen.page.locator("#hypotheses tr[data-wins] td").first.inner_text()
    scored = translator.score([(sentences[0], seen.result)])[0]
    assert float(logp.replace("−", "-")) == pytest.approx(scored.logp, abs=1e-3)


def test_a_word_is_forced_in_one_of_several_sentences(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(panel="probabilities").translate(f"{sentences[0]} {sentences[1]} {sentences[2]}")
    before = seen.page.locator("#result .tokens").all_inner_texts()
    assert len(before) == 3
    seen.page.locator("#result .tokens").nth(1).locator(".token").nth(1).click()
    seen.page.wait_for_selector("#bars .tag:has-text('taken')")
    seen.page.locator("#bars button:not([disabled])").first.click()
    seen.page.wait_for_selector("#first")
    seen.page.wait_for_selector("#result .tokens >> nth=2")
    seen.ended()
    after = seen.page.locator("#result .tokens").all_inner_texts()
    assert [after[0], after[2]] == [before[0], before[2]]
    assert after[1] != before[1]


def test_several_words_are_forced_kept_in_the_address_and_undone(
    look: Callable[..., Look], sentences: list[str]
) -> None:
    seen = look().open(panel="probabilities").translate(sentences[0])
    texts = [seen.result]
    for place in (1, 3):
        seen.page.locator("#result .token").nth(place).click()
        seen.page.wait_for_selector("#bars .tag:has-text('taken')")
        seen.page.locator("#bars button:not([disabled])").first.click()
        seen.page.wait_for_selector(f"html[data-state=done] #forced li:nth-child({len(texts)}) button:not([disabled])")
        texts.append(seen.result)
    assert len(set(texts)) == 3
    told = seen.page.locator("#forced li").all_inner_texts()
    again = look()
    again.page.goto(seen.page.url)
    again.page.wait_for_selector("html[data-state=done] #forced li:nth-child(2) button:not([disabled])")
    assert again.result == texts[2]
    assert again.page.locator("#forced li").all_inner_texts() == told
    assert again.page.inner_text("#first") == texts[0]
    again.page.click("#forced li:nth-child(2) button")
    again.page.wait_for_function("() => document.querySelectorAll('#forced li').length === 1")
    assert again.ended().result == texts[1]
    again.page.click("#forced li:nth-child(1) button")
    again.page.wait_for_selector("#forced", state="detached")
    assert again.ended().result == texts[0]
    assert "forced=" not in again.page.url


@pytest.mark.parametrize("beam", [1, 4])
def test_w21_beam(look: Callable[..., Look], translator: Translator, sentences: list[str], beam: int) -> None:
    seen = look().open(panel="beam", beam=beam).translate(sentences[0])
    nodes = seen.page.locator(".lattice g[data-fate]")
    count: dict[str, int] = {}
    for node in nodes.all():
        if node.get_attribute("data-fate") == "runs":
            step = node.get_attribute("data-step")
            count[step] = count.get(step, 0) + 1
    assert max(count.values()) <= beam
    made = translator.translate([sentences[0]], TranslateOptions(search=translator.search(beam_size=beam)))[0]
    winners = seen.page.locator("#hypotheses tr[data-wins]")
    assert winners.count() == 1
    text, logp, score, _ = winners.locator("th, td").all_inner_texts()
    assert text == made.text == seen.result
    number = float(score.replace("−", "-"))
    assert math.isclose(number, made.score, abs_tol=1e-3)
    assert math.isclose(float(logp.replace("−", "-")), made.guesses[0].logp, abs_tol=1e-3)


def test_w24_positions(look: Callable[..., Look], translator: Translator, sentences: list[str]) -> None:
    import torch

    from headway.nn.positions.positions import sinusoids

    seen = look().open(panel="vectors").translate(sentences[0])
    canvas = seen.page.locator("[data-table=sinusoidal]").first
    box = canvas.bounding_box()
    assert box is not None
    config = translator.config.model
    expected = sinusoids(torch.arange(32)[None], config.d_model)[0]
    for row, column in ((0, 1), (3, 4), (20, 31)):
        canvas.hover(
            position={"x": (column + 0.5) * box["width"] / config.d_model, "y": (row + 0.5) * box["height"] / 32}
        )
        told = seen.page.locator("#position-reads").first.inner_text()
        assert told.startswith(f"{row} → {column}: ")
        assert math.isclose(float(told.split(": ")[1].replace("−", "-")), float(expected[row, column]), abs_tol=1e-3)


def test_w25_the_timeline_drives_all_panels(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open(table=1).translate(sentences[0])
    last = len(seen.tokens()) + 1
    for step in (1, 3, last):
        seen.tab("attention").page.fill("#step", str(step))
        assert len(seen.table("#weights")) == step
        seen.tab("probabilities")
        assert seen.page.locator(".strip button").count() == step
        seen.tab("beam")
        steps = {node.get_attribute("data-step") for node in seen.page.locator(".lattice g[data-fate]").all()}
        assert len(steps) == step if step < last else len(steps) >= step
    seen.page.fill("#step", "1")
    seen.page.click("button[aria-label=Play]")
    seen.page.wait_for_timeout(900)
    seen.page.click("button[aria-label=Pause]")
    held = seen.page.input_value("#step")
    assert int(held) >= 2
    seen.page.wait_for_timeout(900)
    assert seen.page.input_value("#step") == held


def test_the_architecture_counts_all_parameters(look: Callable[..., Look], translator: Translator) -> None:
    seen = look().open(panel="architecture")
    config = translator.config.model
    rows = seen.table("#costs")
    assert sum(int(row[2].replace(",", "")) for row in rows[:-1]) == config.parameter_count()
    assert sum(int(row[3].replace(",", "")) for row in rows[:-1]) == config.forward_flops(32, 32)


def test_escape_stops_a_translation_first(look: Callable[..., Look], sentences: list[str], slow: None) -> None:
    seen = look().open()
    seen.page.fill("#text", " ".join(sentences[:3]))
    seen.page.press("#text", "Control+Enter")
    seen.page.wait_for_selector("html[data-state=streaming]")
    seen.page.click("#tour-start")
    seen.page.keyboard.press("Escape")
    assert seen.ended().state == "stopped"
    assert seen.page.locator("#tour").count() == 1
    seen.page.keyboard.press("Escape")
    seen.page.wait_for_selector("#tour", state="detached")
