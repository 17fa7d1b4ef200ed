"""Through a layer: what is printed follows from what is printed beside it, and is what Python computes."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from random_models import language_model_table, translator_table, write_random_model
from serve.conftest import Running, running

from browser.conftest import Look
from headway.inspect.layers import read_embedding, read_layer
from headway.inspect.neurons import read_neuron, read_neurons
from headway.inspect.operations import list_operations
from headway.inspect.output_scores import read_loss
from headway.inspect.trace import Trace
from headway.translate.translator import Translator

STEP = 3  # of the decoder: its token has this number, counted from 1
FLOW, TOKENS, STREAM, LAYER, OUTPUT, LENS = range(6)


def wait_for_text(seen: Look, selector: str, told: str) -> None:
    seen.page.wait_for_function(
        "([selector, told]) => document.querySelector(selector)?.textContent.includes(told)", arg=[selector, told]
    )


@pytest.fixture
def shown(look: Callable[..., Look], sentences: list[str]) -> Callable[..., Look]:
    """A view of the panel, for the third token of the decoder."""

    def open_view(view: int, wait: str, **state: Any) -> Look:
        asked = {"panel": "layer", "at-view": view, "step": STEP, "kind": "cross", **state}
        seen = look().open(**asked).translate(sentences[0])
        seen.page.fill("#step", str(STEP))
        seen.page.wait_for_selector(wait)
        return seen

    return open_view


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("%", "").strip())


def columns_of(seen: Look, table: str) -> list[np.ndarray]:
    """Of a table with a row for each channel."""
    seen.page.click(f"#{table}-open")
    seen.page.wait_for_selector(f"#{table} tbody tr")
    rows = [[number(cell) for cell in row[1:]] for row in seen.table(f"#{table}")]
    return list(np.array(rows).T)


@pytest.mark.parametrize(("sublayer", "name"), [(0, "self"), (1, "cross"), (2, "feedforward")])
def test_a_norm_follows_from_its_factors(
    shown: Callable[..., Look], translator: Translator, trace: Trace, sublayer: int, name: str
) -> None:
    seen = shown(LAYER, "#norm-numbers-open", **{"at-sublayer": sublayer})
    x, mean, variance, eps, gain, bias, y = columns_of(seen, "norm-numbers")
    np.testing.assert_allclose((x - mean) / np.sqrt(variance + eps) * gain + bias, y, atol=1e-5)
    wanted = read_layer(translator.steppers[0].model, trace.tensors, "decoder", 0, STEP - 1)[name]
    assert wanted.norm is not None
    np.testing.assert_allclose(y, wanted.norm.y, atol=1e-4)
    before, given, output, stream = columns_of(seen, "sublayer-numbers")
    np.testing.assert_allclose(given, y, atol=1e-5)
    np.testing.assert_allclose(before + output, stream, atol=1e-5)
    np.testing.assert_allclose(stream, wanted.stream, atol=1e-4)
    seen.page.fill("[data-norm] input", "5")
    seen.page.press("[data-norm] input", "Enter")
    seen.page.wait_for_timeout(100)
    assert number(seen.page.locator("[data-norm] math mn").last.text_content()) == pytest.approx(y[4], abs=1e-6)
    assert seen.faults == []


def test_an_embedding_is_row_and_position(shown: Callable[..., Look], translator: Translator, trace: Trace) -> None:
    seen = shown(TOKENS, "#embedding-sum")
    found = read_embedding(translator.steppers[0].model, trace.tensors, "decoder", trace.target.ids, STEP - 1)
    seen.page.wait_for_function("() => document.querySelector('#token-ids tr:last-child td').textContent")
    ids = [int(text) for text in seen.page.locator("#token-ids tr").nth(2).locator("td").all_inner_texts()]
    assert ids == trace.target.ids
    row, scaled, position, embedded = columns_of(seen, "embedding-numbers")
    np.testing.assert_allclose(row * found.scale, scaled, atol=1e-4)
    np.testing.assert_allclose(scaled + position, embedded, atol=1e-5)
    np.testing.assert_allclose(embedded, found.embedded, atol=1e-4)
    seen.page.locator("#token-ids button").nth(1).click()  # to another token
    seen.page.wait_for_function("() => document.querySelector('#step').value === '2'")


def test_scores_are_products_and_softmax_at_a_temperature(
    shown: Callable[..., Look], translator: Translator, trace: Trace
) -> None:
    seen = shown(OUTPUT, "#scores")
    x, row, products = columns_of(seen, "product-numbers")
    np.testing.assert_allclose(x * row, products, atol=1e-5)
    rows = seen.table("#scores")
    logits = np.array([number(cells[1]) for cells in rows])
    bias = translator.steppers[0].model.config.head.bias
    assert not bias
    assert products.sum() == pytest.approx(logits[0], abs=1e-4)
    logps = trace.tensors["output.logps"][STEP - 1]
    for temperature in (1.0, 2.0, 0.5):
        seen.page.fill("#tau", str(round(10 * temperature)))
        wait_for_text(seen, "output[for=tau]", f"{temperature:.1f}")
        shares = np.array([float(cells[2]) for cells in seen.table("#scores")])
        normaliser = float(seen.page.get_attribute("#softmax-formula", "data-normaliser") or "nan")
        np.testing.assert_allclose(np.exp(logits / temperature - normaliser), shares, atol=1e-5)
        wanted = (logps / temperature).softmax(-1)
        np.testing.assert_allclose(shares[:5], wanted.topk(5).values, atol=1e-4)
        bits = float(-(wanted * wanted.log2()).sum())
        assert f"{bits:.2f} bits" in seen.page.inner_text("#tau-entropy")


def test_label_smoothing_is_a_target_and_a_loss(
    shown: Callable[..., Look], translator: Translator, trace: Trace
) -> None:
    seen = shown(OUTPUT, "#loss")
    model = translator.steppers[0].model
    for epsilon in (0.1, 0.3):
        seen.page.fill("#epsilon", str(round(100 * epsilon)))
        wait_for_text(seen, "output[for=epsilon]", f"{epsilon:.2f}")
        wanted = read_loss(model, trace.tensors, STEP - 1, trace.written.ids[STEP - 1], epsilon)
        right, others = (number(cells[1]) for cells in seen.table("#smoothed"))
        assert (right, others) == (pytest.approx(wanted.right, abs=1e-6), pytest.approx(wanted.others, abs=1e-6))
        assert right + (model.config.vocabulary - 1) * others == pytest.approx(1, abs=1e-5)
        numbers = [float(found) for found in re.findall(r"\d+\.?\d*", seen.page.inner_text("#loss"))]
        one, of_right, surprise, of_all, mean, loss = numbers
        assert (one - of_right) * surprise + of_all * mean == pytest.approx(loss, abs=1e-5)
        assert loss == pytest.approx(wanted.loss, abs=1e-4)


def test_the_lens_ends_with_what_the_model_says(shown: Callable[..., Look], trace: Trace) -> None:
    seen = shown(LENS, "#lens-detail")
    last = seen.page.locator("#lens-detail tr").last.locator("td").all_inner_texts()
    cells = seen.page.locator("#lens tbody tr").last.locator("td").all_inner_texts()
    assert len(cells) == len(trace.target.ids)
    seen.page.select_option("#lens-shows", "1")
    follows = [number(text) / 100 for text in seen.page.locator("#lens tbody tr").last.locator("td").all_inner_texts()]
    wanted = trace.tensors["output.logps"].exp()[range(len(cells)), trace.written.ids]
    np.testing.assert_allclose(follows, wanted, atol=1e-3)
    seen.tab("probabilities").page.wait_for_selector("#bars [data-id]")
    bars = seen.page.locator("#bars button").all()[:5]
    told = [f"{bar.locator('.piece').inner_text()} {bar.locator('.number').inner_text()}" for bar in bars]
    assert last == told
    seen.tab("layer").page.locator("#lens tbody td").first.click()  # to this token, and into the layer
    seen.page.wait_for_selector("#embedding-sum")
    assert seen.page.input_value("#step") == "1"


def test_the_stream_and_its_neurons(shown: Callable[..., Look], translator: Translator, trace: Trace) -> None:
    seen = shown(STREAM, "#stream")
    lengths = seen.page.eval_on_selector_all("#stream tbody td", "cells => cells.map(cell => Number(cell.title))")
    names = ["embedded", "0.self.stream", "0.cross.stream", "0.feedforward.stream"]
    wanted = torch.stack([trace.tensors[f"decoder.{name}"].norm(dim=-1) for name in names])
    np.testing.assert_allclose(np.array(lengths).reshape(wanted.shape), wanted, atol=1e-3)
    seen.page.locator("#stream tbody th button").nth(3).click()  # by its heading, as with the keyboard
    seen.page.click("#sublayer-feedforward")
    seen.page.wait_for_selector("#neurons")
    path, model = "decoder.0.feedforward", translator.steppers[0].model
    fired = read_neurons(model, trace.tensors, path, STEP - 1)
    assert fired is not None
    values = [number(text) for text in seen.page.locator("#neurons .count").all_inner_texts()]
    np.testing.assert_allclose(values, fired.values, atol=1e-3)
    assert f"{fired.active} of {fired.width}" in seen.page.inner_text("#firing")
    other = next(n for n in range(fired.width) if n not in fired.ids)
    for neuron in (fired.ids[1], other):
        if neuron == other:
            seen.page.fill("#neuron", str(other + 1))
            seen.page.press("#neuron", "Enter")
        else:
            seen.page.click(f"[data-neuron='{neuron}']")
        wait_for_text(seen, "#excited-title", f"Neuron {neuron + 1}:")
        told = [number(text) for text in seen.page.locator("#excited .small").all_inner_texts()]
        np.testing.assert_allclose(
            told, [value or 0 for value in read_neuron(model, trace.tensors, path, neuron)], atol=1e-3
        )


def test_the_flow_is_played_paused_and_stepped_through(
    shown: Callable[..., Look], translator: Translator, trace: Trace
) -> None:
    seen = shown(FLOW, "svg.flow")
    page, model = seen.page, translator.steppers[0].model
    operations = {
        side: list_operations(model, trace.tensors, side, ids)
        for side, ids in (("encoder", trace.source.ids), ("decoder", trace.target.ids))
    }
    count = 1 + len(operations["encoder"]) + 1 + 1 + len(operations["decoder"]) + 3
    assert page.inner_text("output[for=flow-at]") == f"1 / {count}"
    assert page.locator("svg.flow .op").count() == count - 1  # the two sides; what goes over has no box
    for position, side in ((0, "encoder"), (STEP - 1, "decoder")):
        page.select_option(f"#token-{side}", str(position))
        first = 1 if side == "encoder" else 3 + len(operations["encoder"])
        for n, operation in enumerate(operations[side]):
            page.fill("#flow-at", str(first + n))
            wait_for_text(seen, "output[for=flow-at]", f"{first + n + 1} /")
            vector = operation.result[position]
            assert float(page.inner_text("#flow-length")) == pytest.approx(float(vector.norm()), abs=0.01)
            cells = page.locator("#flow-numbers tr").last.locator("td").all_inner_texts()
            np.testing.assert_allclose([number(cell) for cell in cells], vector[: len(cells)], atol=0.06)
            lit = page.locator("svg .op.lit").get_attribute("data-place")
            assert lit == re.sub(r"\.\d+\.", ".", operation.name)
    page.click("#flow-start")
    page.select_option("#flow-speed", "4")
    page.click("#flow-play")
    page.wait_for_function("() => parseInt(document.querySelector('output[for=flow-at]').textContent) > 2")
    page.click("#flow-play")
    held = int(page.input_value("#flow-at"))
    page.wait_for_timeout(500)
    assert int(page.input_value("#flow-at")) == held
    page.click("#flow-forward")
    page.click("#flow-forward")
    page.click("#flow-back")
    assert int(page.input_value("#flow-at")) == held + 1
    page.focus("#flow")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert int(page.input_value("#flow-at")) == held
    assert page.input_value("#step") == str(STEP)  # the keys are the picture's, not the timeline's
    page.keyboard.press(" ")
    page.wait_for_selector("#flow-play[aria-label=Pause]")
    page.keyboard.press(" ")
    page.locator("svg.flow [data-place='decoder.cross']").click()
    assert page.inner_text("#flow-name") == "Cross-attention"
    page.click("#flow-to-head")
    assert page.get_attribute("#panel", "data-panel") == "inside"
    seen.tab("layer").page.click("#flow-list")
    page.wait_for_selector(".operations button")
    assert page.locator(".operations button").count() == count
    page.locator(".operations button").last.click()
    assert trace.written.pieces[STEP - 1].strip() in page.inner_text("#flow-explained")
    assert f"at-flow={count - 1}" in page.url
    assert seen.faults == []


def test_a_vector_moves_unless_motion_is_unwanted(look: Callable[..., Look], sentences: list[str]) -> None:
    moved = {}
    for motion in ("no-preference", "reduce"):
        seen = look(reduced_motion=motion).open(panel="layer", **{"at-flow-speed": 0}).translate(sentences[0])
        seen.page.wait_for_selector("#flow-mark")
        seen.page.click("#flow-forward")
        moved[motion] = set()
        for _ in range(4):
            moved[motion].add(seen.page.get_attribute("#flow-mark", "transform"))
            seen.page.wait_for_timeout(60)
    assert len(moved["reduce"]) == 1
    assert len(moved["no-preference"]) > 1


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Models that are not the paper's, with random weights."""
    folder = tmp_path_factory.mktemp("others")
    tables = {
        "experts": translator_table(feedforward="moe(4, 2, expert='swiglu(12)')", residual="deepnorm"),
        "crate": translator_table(residual="crate", feedforward="ista"),
        "bare": translator_table(residual="post", feedforward="none"),
        "shared": translator_table(distinct_layers=1, residual="residual_dual", position="rope"),
        "bitnet": {**translator_table(), "linear": "bitnet", "norm": "rmsnorm"},
    }
    for name, table in tables.items():
        write_random_model(
            folder / name, table, source_languages=["en"], target_languages=["de"], search={"max_length": 6}
        )
    write_random_model(folder / "lm", language_model_table(), "causal")
    with running(*(folder / name for name in (*tables, "lm"))) as server:
        yield server


@pytest.mark.parametrize("name", ["experts", "crate", "bare", "shared", "bitnet", "lm"])
def test_other_models_have_every_view(look: Callable[..., Look], others: Running, name: str) -> None:
    seen = look(url=others.url).open(panel="layer", model=name, **{"at-sublayer": 2}).translate("A dog.")
    seen.page.wait_for_selector("svg.flow")
    boxes = [
        one.rpartition(".")[2]
        for one in seen.page.eval_on_selector_all("svg .op", "all => all.map(one => one.dataset.place)")
    ]
    told = {"experts": "Experts", "shared": "second stream", "bitnet": "bitnet", "lm": "", "crate": "", "bare": ""}[
        name
    ]
    assert told in seen.page.text_content("#panel")
    assert boxes.count("cross") == (name != "lm")
    assert ("position" in boxes) == (name != "shared")  # RoPE acts on q and k: the wave is at self-attention
    assert seen.page.locator("svg .op.self .wave").count() == (2 if name == "shared" else 0)
    for view in range(6):
        seen.page.click(f"#view-{view}")
        seen.page.wait_for_selector(
            ("svg.flow", "#embedding-numbers-open", "#stream", "#sublayer-numbers-open", "#scores", "#lens")[view]
        )
        if view == LAYER and name == "experts":
            probabilities = [
                number(text.split("%")[0]) for text in seen.page.locator("#router .count").all_inner_texts()
            ]
            assert sum(probabilities) == pytest.approx(100, abs=0.3)
            shares = re.findall(r"share ([\d.]+)", seen.page.inner_text("#router"))
            assert sum(map(float, shares)) == pytest.approx(1, abs=1e-3)
            assert len(shares) == 2
        assert seen.page.locator("[data-no-neurons]").count() == (view == LAYER and name == "bare")
    if name != "lm":
        seen.page.check("input[name=layer-side][value=encoder]")
        seen.page.wait_for_selector("[data-no-lens]")
    assert seen.faults == []
