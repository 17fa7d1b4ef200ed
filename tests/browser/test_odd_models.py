"""What is shown of models that are not the paper's: other masks, mixers and positions, and outputs that were cut."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running, running

from browser.conftest import Look
from headway.cli.app import main
from headway.inspect.trace import Trace
from headway.translate.translator import Translator, load

TEXT = "The dog sees a red house."


@pytest.fixture(scope="module")
def odd_dir(train_toy: Callable[..., Path]) -> Path:
    """Layers with different heads, ALiBi, post-norm and a mask that hides what is far; a mixer without weights, and
    outputs that are cut."""
    settings = [
        "model.encoder.layers=2",
        'model.encoder.mixer=["attention(2)", "attention(6)"]',
        "model.encoder.mask=local(3)",
        "model.encoder.position=alibi",
        "model.encoder.residual=post",
        "model.decoder.mixer=retention(4)",
        "search.max_length=3",
        "train.steps=20",
        "train.validate_every=20",
    ]
    return train_toy(*(word for one in settings for word in ("--set", one)))


@pytest.fixture(scope="module")
def odd(odd_dir: Path) -> Iterator[Running]:
    with running(odd_dir) as server:
        yield server


@pytest.fixture(scope="module")
def odd_trace(odd_dir: Path) -> Trace:
    model = load(odd_dir, "cpu")
    assert isinstance(model, Translator)
    return model.trace(TEXT)


def test_every_mask_is_drawn_as_a_mask(look: Callable[..., Look], odd: Running, odd_trace: Trace) -> None:
    seen = look(url=odd.url).open(kind="encoder", table=1).translate(TEXT)
    weights = odd_trace.tensors["encoder.0.self.weights"][0]
    hidden = [[abs(q - k) >= 3 for k in range(len(weights))] for q in range(len(weights))]
    shown = [row[1:] for row in seen.table("#weights")]
    assert [[cell == "masked" for cell in row] for row in shown] == hidden
    for row, wanted in zip(shown, weights.tolist()):
        assert all(abs(float(cell) - w) < 1e-3 for cell, w in zip(row, wanted) if cell != "masked")
    pixels = "document.querySelector('.cells canvas').getContext('2d').getImageData({}, 0, 1, 1).data[3]"
    assert seen.page.evaluate(pixels.format(2)) == 255
    assert seen.page.evaluate(pixels.format(3)) == 0  # behind it the hatching


def test_layers_with_different_heads_are_not_one_in_the_architecture(look: Callable[..., Look], odd: Running) -> None:
    seen = look(url=odd.url).open(panel="architecture")
    told = seen.page.locator(".tower").first.inner_text()
    assert "2 × 24, local, alibi on the scores" in told
    assert "6 × 8, local, alibi on the scores" in told
    assert "Layers 1 to 2" not in told
    assert "Positions" not in told  # they act in attention
    assert "Last norm" not in told  # post-norm has none
    assert "Last norm" in seen.page.locator(".tower").nth(1).inner_text()


def test_no_decoder_step_is_marked_in_the_encoder(look: Callable[..., Look], odd: Running) -> None:
    seen = look(url=odd.url).open(kind="decoder").translate(TEXT)
    seen.page.click("nav.map .side:nth-child(2) button >> nth=1")
    seen.page.fill("#step", "2")
    seen.page.wait_for_selector(".row-labels .here")
    seen.page.click("nav.map .side:nth-child(1) button >> nth=0")
    seen.page.wait_for_selector("nav.map .side:nth-child(1) [aria-pressed=true]")
    assert seen.page.locator(".row-labels .here").count() == 0


def test_what_retention_computes_is_said_as_it_is(look: Callable[..., Look], odd: Running, odd_trace: Trace) -> None:
    seen = look(url=odd.url).open(panel="inside", kind="decoder").translate(TEXT)
    seen.page.click("button[aria-label='To the last step']")
    seen.page.click(".step-tabs button >> nth=1")
    assert seen.page.locator("math msqrt").count() == 0
    assert "γ" in seen.page.text_content("math")
    shown = [float(cell.replace("−", "-")) for cell in seen.page.locator(".strip-row .count").all_inner_texts()]
    tensors = {name: odd_trace.tensors[f"decoder.0.self.{name}"][0] for name in ("q", "k", "decay")}
    last = len(tensors["q"]) - 1
    assert len(shown) == last + 1
    for place, score in enumerate(shown):
        faded = tensors["q"][last] @ tensors["k"][place] * tensors["decay"][place + 1 :].prod()
        assert score == pytest.approx(float(faded), abs=1e-3)


@pytest.mark.parametrize("panel", ["live", "saved"])
def test_an_output_that_was_cut_has_no_end(
    look: Callable[..., Look],
    chromium: Any,
    odd: Running,
    odd_dir: Path,
    odd_trace: Trace,
    tmp_path: Path,
    panel: str,
    without_pictures: None,
) -> None:
    assert len(odd_trace.written.ids) == 3  # and no end
    if panel == "live":
        seen = look(url=odd.url).open(panel="probabilities").translate(TEXT)
    else:
        assert main(["inspect", str(odd_dir), TEXT, "--out", str(tmp_path), "--device", "cpu"]) == 0
        seen = Look(chromium.new_context(offline=True, locale="en").new_page(), "")
        seen.page.goto((tmp_path / "page.html").as_uri())
        seen.ended().tab("probabilities")
    seen.page.click("button[aria-label='To the last step']")
    seen.page.wait_for_selector("#entropy")
    strip = seen.page.locator(".strip button").all_inner_texts()
    assert len(strip) == 4
    assert strip[-1] == "…"
    assert "Rank" not in seen.page.inner_text("#panel .facts")
    seen.page.fill("#step", "3")
    seen.page.wait_for_function("() => document.querySelector('#panel .facts').textContent.includes('Rank')")
    seen.tab("inside").page.wait_for_selector(".number-grid")
    seen.page.context.close()


def test_shaws_positions_are_heard_beside_the_values(look: Callable[..., Look], train_toy: Callable[..., Path]) -> None:
    short = ["model.encoder.position=shaw", "train.steps=10", "train.validate_every=10"]
    with running(train_toy(*(word for one in short for word in ("--set", one)))) as server:
        seen = look(url=server.url).open(panel="inside", kind="encoder").translate(TEXT)
        seen.page.click(".step-tabs button >> nth=4")
        assert seen.page.locator("#hears").count() == 1
        seen.page.click(".step-tabs button >> nth=3")
        assert seen.page.locator("#hears").count() == 0


def test_what_positions_do_behind_a_mask_is_not_drawn_as_zero(
    look: Callable[..., Look], train_toy: Callable[..., Path]
) -> None:
    short = ["model.decoder.position=alibi", "train.steps=10", "train.validate_every=10"]
    with running(train_toy(*(word for one in short for word in ("--set", one)))) as server:
        seen = look(url=server.url).open(panel="vectors").translate(TEXT)
        seen.page.check("input[name=side] >> nth=1")
        shown = "document.querySelector('[data-table^=alibi]').getContext('2d').getImageData({}, {}, 1, 1).data[3]"
        seen.page.wait_for_selector("[data-table^=alibi]")
        assert seen.page.evaluate(shown.format(0, 1)) == 255  # what was before: bent
        assert seen.page.evaluate(shown.format(1, 0)) == 0  # what comes later: masked


def test_characters_are_counted_as_the_server_counts_them(look: Callable[..., Look]) -> None:
    seen = look().open()
    seen.page.fill("#text", "a👍")
    assert seen.page.inner_text(".bar .count").startswith("2 /")
