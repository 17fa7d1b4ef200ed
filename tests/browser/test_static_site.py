"""The site that `headway page --static` writes: from a disk, from a folder of a web server, inside another page."""

import functools
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser.conftest import Look
from headway.cli.app import main
from headway.inspect.trace import Trace


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *about: Any) -> None:
        """Nothing: the tests say what went wrong."""


@pytest.fixture(scope="module")
def site(
    translator_dir: Path, lm_dir: Path, masked_dir: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("web") / "course" / "site"
    models = [word for folder in (translator_dir, lm_dir, masked_dir) for word in ("--model", str(folder))]
    texts = [word for text in sentences[:2] for word in ("--text", text)]
    assert main(["page", *models, *texts, "--static", str(out), "--device", "cpu"]) == 0
    return out


@pytest.fixture(scope="module")
def web_space(site: Path) -> Iterator[str]:
    """A web server of files alone; the site lies in one of its folders."""
    handler = functools.partial(QuietHandler, directory=str(site.parents[1]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_site_is_whole_without_a_server(
    look: Callable[..., Look], site: Path, sentences: list[str], trace: Trace
) -> None:
    seen = look(offline=True, url=site.as_uri())
    seen.page.goto((site / "index.html").as_uri() + "#table=1&head=1")
    seen.ended()
    shown = np.array([[float(cell) for cell in row[1:]] for row in seen.table("#weights")])
    np.testing.assert_allclose(shown, trace.tensors["decoder.0.cross.weights"][0].numpy(), atol=1e-3)
    models = seen.page.locator(".about option").all_inner_texts()
    assert len(models) == 3
    for number, model in enumerate(models):
        if number:
            seen.page.select_option(".about select", model)
            seen.page.wait_for_function("told => location.hash.includes(told)", arg=f"model={model}")
            seen.ended()
        for panel in (
            "inside",
            "layer",
            "probabilities",
            "beam",
            "attribution",
            "vectors",
            "architecture",
            "variants",
            "attention",
        ):
            seen.tab(panel).page.wait_for_function("() => !document.querySelector('#panel > p.faint:only-child')")
            assert len(seen.page.inner_text("#panel").strip()) > 20
            assert seen.page.locator("[data-unrecorded]").count() == 0
    seen.page.select_option(".about select", models[0])
    seen.page.wait_for_function("told => location.hash.includes(told)", arg=f"model={models[0]}")
    seen.ended().tab("compare").page.select_option("#other-text", sentences[1])  # another text of the site
    seen.page.wait_for_selector("#token-probabilities")
    assert "log p" in seen.page.inner_text("#that-facts")
    seen.page.check("input[name=versus][value=part]")
    seen.page.select_option("#part-side", "decoder")
    assert "headway serve" in seen.page.inner_text("[data-unrecorded]")
    seen.page.select_option("#recorded", label=sentences[1])
    seen.page.wait_for_function("text => document.querySelector('#text').value === text", arg=sentences[1])
    seen.page.click("#tour-start")
    assert seen.page.locator("#tour").count() == 1
    assert not [url for url in seen.requests if not url.startswith(("file:", "data:"))]
    assert seen.faults == []


def test_a_view_of_a_site_stands_in_another_page(
    look: Callable[..., Look], web_space: str, sentences: list[str]
) -> None:
    seen = look(url=f"{web_space}/course/site").open(panel="probabilities", step=3, text=sentences[1])
    assert seen.ended().page.locator("#bars button:enabled").count() == 0
    assert "headway serve" in seen.page.inner_text("#panel")
    seen.page.click("#embed")
    seen.page.set_content(seen.page.input_value("#snippet"))
    frame = seen.page.frame_locator("iframe")
    frame.locator(".embedded #panel[data-panel=probabilities] #entropy").wait_for()
    assert frame.locator("#step").input_value() == "3"
    assert sentences[1] in frame.locator("main").inner_text()
    assert frame.locator("header, #text, .hand-out").count() == 0
    assert all(url.startswith((web_space, "data:")) for url in seen.requests)
