"""A direction that two models translate in a row: chosen on the page like others, and told."""

from collections.abc import Callable
from pathlib import Path

from installing_models import rename_languages
from serve.conftest import running

from browser.conftest import Look
from headway.translate.translator import load_translator


def test_through_another_language(
    look: Callable[..., Look], translator_dir: Path, sentences: list[str], tmp_path: Path
) -> None:
    """What is looked into is the second model; a word that is forced is one of its own output."""
    first = rename_languages(translator_dir, tmp_path / "first", ["qaa"], ["en"])
    second = rename_languages(translator_dir, tmp_path / "second", ["en"], ["qab"])
    middle = load_translator(first, device="cpu")(sentences[0])
    with running(first, second) as server:
        seen = look(url=server.url).open(model="second")
        options = seen.page.locator("#direction option").all_inner_texts()
        assert options == ["en → qab", "qaa → en → qab"]
        seen.page.select_option("#direction", "qaa qab")
        seen.translate(sentences[0])
        assert seen.page.inner_text("#pivot") == f"Translated through English, by another model: {middle}"
        assert seen.result == load_translator(second, device="cpu")(middle)
        seen.page.reload()
        seen.ended()
        assert seen.page.inner_text("#pivot").endswith(middle)
        asked: list[str] = []
        seen.page.on("request", lambda request: asked.append(request.post_data or ""))
        seen.tab("probabilities").page.locator("#result .token").nth(1).click()
        seen.page.wait_for_selector("#bars .tag:has-text('taken')")
        seen.page.locator("#bars button:not([disabled])").first.click()
        seen.page.wait_for_selector("html[data-state=done] #forced li")
        bodies = [body for body in asked if '"prefix":[' in body]
        assert len(bodies) == 1 and '"source":"en"' in bodies[0] and middle in bodies[0]
        assert seen.page.inner_text("#pivot").endswith(middle), "it is still told"
        seen.page.select_option("#direction", "en qab")
        seen.translate(sentences[1])
        assert seen.page.locator("#pivot").count() == 0
        assert seen.faults == []
