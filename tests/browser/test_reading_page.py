"""Models that do not translate from left to right: words that are forced or hidden, labels, iterations, two streams.
And every kind of the catalogue, in a few models that have all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from every_kind import objective_of, tables_of_every_kind
from random_models import SIZES, language_model_table, translator_table, write_random_model
from serve.conftest import Running, running

from browser.conftest import Look
from browser.test_reach import RULES, axe, violations
from headway.nn.masks.masks import dense_mask, make_mask
from headway.translate.language_model import LanguageModel
from headway.translate.translator import load

__all__ = ["axe"]  # a fixture
TEXT = "The dog sees a red house."
LANGUAGES = {"source_languages": ["en"], "target_languages": ["de"]}
READER = {"encoder": {**SIZES, "residual": "pre"}, "decoder": {"layers": 0}, "d_model": 16}
STREAMS = {**SIZES, "residual": "post", "position": "transformer_xl(tied=false)", "streams": 2}
EVERY = {
    name: table
    for name, table in tables_of_every_kind().items()
    if name.startswith(("decoder", "encoder", "memory")) or name == "norm instancenorm"
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")

    def write(name: str, *given: Any, **config: Any) -> None:
        write_random_model(folder / name, *given, **config)

    write("lm", language_model_table(), "causal")
    write("two-streams", {"d_model": 16, "encoder": {"layers": 0}, "decoder": STREAMS}, "permutation")
    pairs = {"head": "masked(next_sentence=true)", "embedding": {"segments": 2}}
    write("masked", {**READER, **pairs}, "masked(next_sentence=true)")
    write("classify", {**READER, "head": "pooled(3)"}, "classify", labels=["red", "green", "blue"])
    write("tag", {**READER, "head": "tags(2)"}, "tag", labels=["O", "B-X"])
    write("score", {**READER, "head": "pooled(1)"}, "match")
    write("embed", {**READER, "head": "embedding"}, "embed")
    write("denoising", translator_table(), "denoising", search={"max_length": 6})
    write("at-once", {**translator_table(), "predicted_length": 20}, "masked_target", **LANGUAGES)
    for name, table in EVERY.items():
        train = {"objective": objective_of(table), "max_tokens": 32}
        write(name.replace(" ", "-"), table, noise=0.1, train=train)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="module")
def server(folders: dict[str, Path]) -> Iterator[Running]:
    with running(*folders.values()) as started:
        yield started


@pytest.fixture(scope="module")
def page(chromium: Any, server: Running) -> Iterator[Look]:
    """One page for all models."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en", bypass_csp=True)
    yield Look(context.new_page(), server.url)
    context.close()


def at(page: Look, model: str, text: str = TEXT, **state: Any) -> Look:
    page.page.goto("about:blank")
    page.open(model=model, text=text, **state)
    return page.ended()


def pieces(page: Look, strip: str = ".strip button") -> list[str]:
    return list(page.page.locator(strip).all_inner_texts())


def wait_for_result(page: Look, before: str) -> None:
    page.page.wait_for_function(
        "before => document.documentElement.dataset.state === 'done' && "
        "document.querySelector('#status').textContent !== before",
        arg=before,
    )


def test_a_language_model_is_forced_and_goes_on(page: Look, folders: dict[str, Path]) -> None:
    at(page, "lm", "A dog", panel="probabilities")
    prompt, first = len("A dog") + 1, page.result
    page.page.fill("#step", "2")  # in the prompt: nothing to choose
    page.page.wait_for_selector("h3:has-text('at place 2')")
    assert page.page.locator("#bars button:enabled").count() == 0
    page.page.fill("#step", str(prompt + 2))
    page.page.wait_for_selector("#bars button:enabled")
    page.page.locator("#bars button:enabled").first.click()
    wait_for_result(page, first)
    assert page.page.locator("#forced li").count() == 1 and page.page.inner_text("#first") == first
    forced, address = page.result, page.page.url
    page.page.click("#write-on")
    wait_for_result(page, forced)
    longer = page.result
    assert longer.startswith(forced) and "more=1" in page.page.url
    page.page.goto("about:blank")
    page.page.goto(address)
    page.page.wait_for_selector("html[data-state=done] #forced li")
    page.page.wait_for_function("wanted => document.querySelector('#status').textContent === wanted", arg=forced)
    page.page.click("#forced button")
    page.page.wait_for_selector("#forced", state="detached")
    assert page.ended().result == first
    model = load(folders["lm"], "cpu")
    assert isinstance(model, LanguageModel)
    assert first == model.trace("A dog", length=20, beam_size=1).output
    assert page.faults == []


def test_hidden_words_are_guessed(page: Look, axe: str) -> None:
    at(page, "masked", "A dog.", panel="probabilities")
    page.page.wait_for_selector(".strip button")
    before = pieces(page)
    page.page.locator(".strip button").nth(3).click()
    page.page.click("#hide")
    page.page.wait_for_selector(".strip [data-hidden]")
    after = pieces(page)
    assert [n for n, (a, b) in enumerate(zip(before, after)) if a != b] == [3]
    page.page.wait_for_selector(f"p:has-text('“{before[3]}” is hidden here')")
    rank = page.page.locator(".facts dd").nth(1).inner_text()
    assert int(rank) >= 1 and "hidden=4" in page.page.url
    assert violations(page, axe, RULES) == []
    page.tab("attention")
    assert "⟨mask⟩" in pieces(page, ".row-labels span")  # every panel shows the model on the hidden word
    page.page.reload()
    page.ended().tab("probabilities").page.wait_for_selector(".strip [data-hidden]")
    page.page.locator(".strip button").nth(3).click()
    page.page.click("#hide")
    page.page.wait_for_selector(".strip:not(:has([data-hidden]))")
    assert pieces(page) == before
    at(page, "masked", "The [MASK] sees.\nIt barks.", panel="probabilities")
    page.page.wait_for_selector("#labels")
    page.page.wait_for_selector("text=The text has a mask here")
    assert page.page.locator("#hide").count() == 0 and page.page.locator(".facts dd").count() == 1
    shares = [float(text.rstrip(" %")) for text in page.page.locator("#labels .number").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert f"{shares[0]} %" in page.page.inner_text("#result")
    page.page.wait_for_selector("#step", state="detached")  # an encoder takes no steps
    assert page.faults == []


def test_what_tasks_say_is_shown(page: Look, axe: str) -> None:
    texts = {"classify": TEXT, "tag": TEXT, "score": "A dog.\nA cat.", "embed": "A dog.\nA cat.\nA house."}
    shown = {"classify": "#labels .bar", "tag": "#tags tbody tr", "score": "#score", "embed": "#similarity td"}
    counts = {"classify": 3, "tag": len(TEXT.split()), "score": 1, "embed": 9}
    for model, text in texts.items():
        at(page, model, text, panel="probabilities").page.wait_for_selector(shown[model])
        assert page.page.locator(shown[model]).count() == counts[model]
        assert page.page.inner_text("#result .output").strip()
        assert violations(page, axe, RULES) == [], model
        for panel in ("inside", "layer", "vectors", "beam", "attribution", "compare"):
            page.tab(panel).page.wait_for_function("() => document.querySelector('#panel').innerText.length > 40")
    assert page.faults == []


def test_a_denoising_model_has_all_panels(page: Look) -> None:
    at(page, "denoising", "The old [MASK] sees.", panel="probabilities")
    assert page.page.locator("nav.map .side").count() == 2
    page.page.locator("#bars button:enabled").first.click()
    page.page.wait_for_selector("html[data-state=done] #forced li button:enabled")
    page.tab("attribution").page.wait_for_selector("#map-left_out")
    assert page.faults == []


def test_iterations_are_shown(page: Look, axe: str) -> None:
    at(page, "at-once", panel="beam").page.wait_for_selector("#iterations")
    rows = page.table("#iterations")
    tokens = [cell.removesuffix(" ↻") for cell in rows[-1][1:]]
    assert len(rows) == 10 and len(tokens) == len(page.tokens())
    assert all(cell.endswith("↻") for cell in rows[0][1:])
    assert [sum(cell.endswith("↻") for cell in row) for row in rows] == [
        len(tokens) * (10 - n) // 10 for n in range(10)
    ]
    assert violations(page, axe, RULES) == []
    page.page.click("#iterations tbody th button >> nth=0")
    page.page.wait_for_selector("text=The other panels show iteration 1.")
    page.tab("probabilities").page.wait_for_selector("#bars")
    assert page.page.locator("#bars button:enabled").count() == 0
    page.tab("attention").page.check("input[name=kind][value=decoder]")
    assert set(pieces(page, ".column-labels span")) == {"⟨mask⟩"}
    assert page.page.locator(".row-labels span").count() == len(tokens)
    at(page, "at-once", panel="probabilities", iteration=10, step=1)
    page.page.wait_for_selector("#seen, #bars")
    for panel in ("attribution", "compare", "layer", "inside", "vectors"):
        page.tab(panel).page.wait_for_function("() => document.querySelector('#panel').innerText.length > 40")
    assert page.faults == []


def test_both_streams_are_shown(page: Look) -> None:
    at(page, "two-streams", "A dog", kind="query", table=1)
    names = page.page.locator("input[name=kind] + span").all_inner_texts()
    assert names == ["Content stream", "Query stream"]
    weights = [row[1:] for row in page.table("#weights")]
    assert all(cell == "masked" for q, row in enumerate(weights) for cell in row[q + 1 :])
    assert all(abs(sum(float(cell) for cell in row if cell != "masked") - 1) < 1e-3 for row in weights)
    page.tab("inside").page.wait_for_selector("text=They are made of h, what the content stream reads")
    assert "Query stream" in page.page.inner_text("#panel h3")
    page.tab("layer").page.wait_for_selector("#two-streams")
    assert "query stream" in page.page.inner_text("#two-streams")
    assert page.faults == []


def layers_of(table: dict[str, Any]) -> tuple[str, int]:
    side = "decoder" if table["decoder"]["layers"] else "encoder"
    return side, table[side]["layers"]


QUICK = ("decoder mixer", "memory_tokens recurrent")  # tests/inspect/test_every_kind.py asks for the answers of all


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one not in QUICK)) for one in EVERY])
def test_every_kind_opens_without_an_empty_panel(page: Look, name: str) -> None:
    side, layers = layers_of(EVERY[name])
    at(page, name.replace(" ", "-"), "A dog.", kind=side)
    for layer in range(1, layers + 1):
        if layer > 1:
            page.page.focus("#panel")
            page.page.keyboard.press("]")
        page.page.wait_for_selector(f"#detail-title:has-text('Layer {layer}')")
        page.page.wait_for_selector("#heatmap, #influence")
        if page.page.locator("#influence").count():
            assert "no attention weights" in page.page.inner_text("[data-unsupported]")
    page.tab("inside")
    for layer in range(layers, 0, -1):
        page.page.wait_for_selector(f"#panel h3:has-text('Layer {layer}')")
        page.page.wait_for_selector(".strips section")
        page.page.focus("#panel")
        page.page.keyboard.press("[")
    page.tab("layer").page.click("#view-3")
    for layer in range(layers):
        page.page.select_option("#layer-of", str(layer))
        page.page.wait_for_selector("#sublayer-numbers-open")
    for panel in ("vectors", "architecture"):
        page.tab(panel).page.wait_for_selector(".plane, #costs")
        assert not any(word in page.page.inner_text("#panel") for word in ("undefined", "NaN"))
    assert page.faults == []


def test_what_a_layer_keeps_is_told(page: Look) -> None:
    at(page, "decoder-mask", "A dog.", kind="decoder", table=1, layer=2)
    assert "32 numbers" not in page.page.inner_text("#kept")  # a window keeps no more, however long the text is
    assert "however long the text is" in page.page.inner_text("#kept")
    shown = [[cell == "masked" for cell in row[1:]] for row in page.table("#weights")]
    mask = dense_mask(make_mask("causal & local(3)"), len(shown))
    assert shown == [[not seen for seen in row] for row in mask.tolist()]
    at(page, "decoder-mixer", "A dog.", kind="decoder", layer=1)
    assert page.page.inner_text("#kept") == "While writing, this layer keeps 32 numbers of each token read or written."
    assert page.faults == []
