"""Models that do not translate, mixers without attention weights, and pages that Python has written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import running

from browser.conftest import Look
from headway.cli.app import main
from headway.inspect.trace import Trace
from headway.translate.translator import Translator

PANELS = ("inside", "layer", "probabilities", "beam", "vectors", "architecture", "attention")
TEXT = "The dog sees a red house."


def walked(seen: Look) -> Look:
    """Through all panels, none of which may fail."""
    for panel in PANELS:
        seen.tab(panel).page.wait_for_timeout(200)
        assert seen.page.inner_text("#panel").strip(), panel
        assert not any(word in seen.page.inner_text("#panel") for word in ("undefined", "NaN")), panel
    assert seen.faults == []
    return seen


def test_a_language_model(look: Callable[..., Look], lm_dir: Path) -> None:
    with running(lm_dir) as server:
        seen = walked(look(url=server.url).open().translate(TEXT))
        assert seen.state == "done"
        assert seen.page.locator("input[name=kind]").count() == 1
        assert seen.result.startswith(TEXT)


def test_a_model_that_guesses_words(look: Callable[..., Look], masked_dir: Path) -> None:
    with running(masked_dir) as server:
        seen = walked(look(url=server.url).open().translate(TEXT))
        assert seen.state == "done"
        assert "writes nothing" in seen.page.inner_text("#result")
        assert "no decoder" in seen.tab("beam").page.inner_text("#panel")


def opened(chromium: Any, path: Path) -> Look:
    alone = Look(chromium.new_context(offline=True, locale="en").new_page(), "")
    alone.page.goto(path.as_uri())
    return alone.ended()


def test_the_page_of_headway_inspect(
    chromium: Any, translator_dir: Path, trace: Trace, tmp_path: Path, without_pictures: None
) -> None:
    assert main(["inspect", str(translator_dir), trace.text, "--out", str(tmp_path), "--device", "cpu"]) == 0
    seen = walked(opened(chromium, tmp_path / "page.html"))
    assert seen.page.is_disabled("#go")
    assert seen.tokens()
    seen.tab("inside").page.wait_for_selector("#made[data-name=q][data-channel='0']")  # whose weights are recorded
    assert seen.page.locator("#made tbody tr").count() == trace.model["d_model"]
    seen.page.focus("#grid-q")
    for key in ("End", "Enter"):
        seen.page.keyboard.press(key)
    assert "headway serve" in seen.page.inner_text(".made .note")
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []
    seen.page.context.close()


def test_a_notebook(chromium: Any, trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8>{trace._repr_html_()}")
    page = chromium.new_context(offline=True).new_page()
    page.goto((tmp_path / "cell.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-state=done]").wait_for()
    assert frame.locator("#result .token").count() == len(trace.target.ids) - 1
    page.context.close()


@pytest.mark.parametrize("text", ["</script><script>alert(1)</script>", "<!-- x"])
def test_a_text_cannot_break_out_of_a_saved_page(
    chromium: Any, translator_dir: Path, tmp_path: Path, text: str, without_pictures: None
) -> None:
    assert main(["inspect", str(translator_dir), text, "--out", str(tmp_path), "--device", "cpu"]) == 0
    seen = opened(chromium, tmp_path / "page.html")
    assert seen.page.input_value("#text") == text
    assert seen.faults == []
    seen.page.context.close()


def test_cells_of_a_notebook(chromium: Any, translator: Translator, trace: Trace, tmp_path: Path) -> None:
    """As an exported notebook has them: offline, in one file, with no request for anything."""
    from headway.inspect.attention import read_attention
    from headway.nn.masks.masks import make_mask

    cells = [
        translator._repr_html_(),
        translator.translate([trace.text])._repr_html_(),
        read_attention(trace)._repr_html_(),
        make_mask("causal & local(4)")._repr_html_(),
        translator.widget(trace.text)._repr_html_(),
    ]
    (tmp_path / "notebook.html").write_text(f"<!doctype html><meta charset=utf-8>{'<hr>'.join(cells)}")
    page = chromium.new_context(offline=True).new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-state=done]").wait_for()
    frame.locator("[role=tab]", has_text="Embeddings").click()
    frame.locator("[data-panel=vectors]").wait_for()
    assert page.locator("table").first.inner_text().startswith("Headway translator")
    assert page.locator("svg").first.bounding_box()["height"] > 50
    assert all(url.startswith(("file:", "data:")) for url in requests), requests
    page.context.close()
