"""The translate bar: streaming, stopping, failing, what is said to whom. Numbers of checks are those of the design."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running, running, until

from browser.conftest import Look
from headway.cli.app import main
from headway.storage.registry import BUNDLED_MODELS
from headway.translate.translator import Translator

WATCH = """
window.seen = {tokens: [], said: []};
new MutationObserver(() => {
  const tokens = document.querySelectorAll('#result .token').length;
  if (window.seen.tokens.at(-1) !== tokens) window.seen.tokens.push(tokens);
  const said = document.getElementById('status')?.textContent ?? '';
  if (said && window.seen.said.at(-1) !== said) window.seen.said.push(said);
}).observe(document, {subtree: true, childList: true, characterData: true});
"""


def test_w01_nothing_comes_from_elsewhere(look: Callable[..., Look], server: Running, sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    for panel in ("inside", "layer", "probabilities", "beam", "vectors", "architecture"):
        seen.tab(panel).page.wait_for_timeout(150)
    assert all(url.startswith((server.url, "data:", "blob:")) for url in seen.requests)
    assert seen.faults == []


def test_w02_it_is_small_and_asks_for_little(look: Callable[..., Look], server: Running) -> None:
    import gzip

    from headway.serve.app import STATIC_DIR

    early = re.findall(r'modulepreload" href="static/([^"]+)"', (STATIC_DIR / "index.html").read_text())
    scripts = [*early, "page.js"]
    assert sum(len(gzip.compress((STATIC_DIR / name).read_bytes(), 9)) for name in scripts) <= 60_000
    assert len(gzip.compress((STATIC_DIR / "page.css").read_bytes(), 9)) <= 8_000
    assert len(gzip.compress((STATIC_DIR / "example.json").read_bytes(), 9)) <= 20_000
    look().open()  # now the model is loaded
    seen = look().open()
    (model,) = server.state.pool.models
    files = ["", "static/page.css", *(f"static/{name}" for name in early), "static/page.js"]
    asked = [*files, "frontend/settings", "api/models", "api/studies", f"api/models/{model.name}"]
    requests = [url.partition("#")[0].removeprefix(f"{server.url}/") for url in seen.requests]
    assert sorted(requests[: len(files)]) == sorted(files) and requests[len(files) :] == asked[len(files) :]


def test_w03_and_w04_it_grows_while_it_is_written_and_is_said_once(
    look: Callable[..., Look], sentences: list[str], slow: None
) -> None:
    seen = look()
    seen.page.add_init_script(WATCH)
    seen.open().translate(sentences[0])
    told = seen.page.evaluate("window.seen")
    assert len(set(told["tokens"])) >= 5
    assert len(told["said"]) <= 2
    assert told["said"][-1] == seen.result
    assert seen.page.locator("#result .output[aria-live]").count() == 0


def test_w05_stop_stops(
    look: Callable[..., Look], server: Running, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page and server both: of a search that would have many steps, one more at most."""
    from headway.serve.event_stream import EventPipe
    from headway.serve.step_events import StepRecorder

    steps: list[int] = []
    plain = StepRecorder.describe
    waits = threading.Event()  # each step waits for it; nobody sets it before the page has stopped

    def slowly(self: StepRecorder, ids: Any) -> dict[str, Any]:
        steps.append(len(ids))
        if len(steps) > 3:
            waits.wait(30)
        return plain(self, ids)

    monkeypatch.setattr(StepRecorder, "describe", slowly)
    seen = look().open()
    seen.page.fill("#text", " ".join(sentences[:5]))
    seen.page.press("#text", "Control+Enter")
    until(lambda: len(steps) == 4)
    seen.page.wait_for_function("() => document.querySelectorAll('#result .token').length > 1")
    noticed = threading.Event()
    close = EventPipe.close
    monkeypatch.setattr(EventPipe, "close", lambda self: (close(self), noticed.set())[0])
    seen.page.click("#stop")
    assert seen.state == "stopped"
    count = len(seen.tokens())
    assert count > 0
    assert noticed.wait(30), "the server does not see that the page has left"
    waits.set()
    until(lambda: server.state.open_streams == 0)
    assert len(steps) <= 5
    assert len(seen.tokens()) == count


def test_w06_an_error_is_said_and_can_be_tried_again(
    look: Callable[..., Look], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.serve.step_events import StepRecorder

    def broken(self: Any, ids: Any) -> Any:
        raise RuntimeError("a fault of this test")

    seen = look().open()
    with monkeypatch.context() as patch:
        patch.setattr(StepRecorder, "describe", broken)
        seen.translate(sentences[0])
    assert seen.state == "error"
    assert "Something went wrong in the server" in seen.page.inner_text("[role=alert]")
    assert seen.page.input_value("#text") == sentences[0]
    seen.page.click("#again")
    seen.page.wait_for_selector("html[data-state=done]")
    assert seen.tokens()


def test_w13_the_address_says_what_is_shown(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look()
    seen.page.goto("about:blank")
    seen.open().translate(sentences[0])
    seen.page.check("input[name=kind][value=decoder]")
    seen.page.click("[data-head='0.2']")
    seen.page.fill("#step", "2")
    seen.page.reload()
    seen.ended()
    assert seen.page.input_value("#step") == "2"
    assert seen.page.inner_text("#result .output").strip() == seen.result
    assert seen.page.input_value("#text") == sentences[0]
    assert seen.page.is_checked("input[name=kind][value=decoder]")
    assert seen.page.get_attribute("[data-head='0.2']", "aria-pressed") == "true"
    seen.page.go_back()
    assert seen.page.url == "about:blank"


def test_another_address_in_the_same_tab_is_followed(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    seen.page.evaluate("text => { location.hash = new URLSearchParams({text, panel: 'beam'}) }", sentences[1])
    seen.page.wait_for_function("text => document.querySelector('#text')?.value === text", arg=sentences[1])
    seen.ended()
    assert seen.page.get_attribute("#panel", "data-panel") == "beam"
    assert seen.page.locator(".lattice").count()


def test_w22_page_and_python_and_the_command_line_say_the_same(
    look: Callable[..., Look], translator: Translator, translator_dir: Path, sentences: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for text in sentences[:2]:
        assert main(["translate", "--model", str(translator_dir), "--device", "cpu", text]) == 0
        assert look().open().translate(text).result == translator(text) == capsys.readouterr().out.strip()


def test_w26_nothing_to_translate(look: Callable[..., Look]) -> None:
    seen = look().open()
    assert seen.page.is_disabled("#go")
    assert seen.page.inner_text("#why") == "Type a text first."


def test_w26_much_is_translated_whole_and_drawn_coarsely(
    look: Callable[..., Look], long_dir: Path, sentences: list[str]
) -> None:
    with running(long_dir) as server:
        text = " ".join(word for line in sentences[:12] for word in line.rstrip(".?").split())
        seen = look(url=server.url).open().translate(text)
        assert seen.state == "truncated"
        assert re.match(r"\d+ tokens: the overview draws 64 × 64 dots", seen.page.inner_text("#long"))
        assert seen.page.input_value("#text") == text


def test_the_states_of_the_page(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look()
    seen.page.route("**/api/models", lambda route: route.fulfill(json=[]))
    assert seen.open().state == "unsupported"
    seen.page.unroute("**/api/models")
    seen.page.reload()
    seen.page.wait_for_selector("html[data-state=empty]")
    seen.page.route("**/api/vectors", lambda route: route.fulfill(status=404, json={"error": "there is no model"}))
    seen.translate(sentences[0]).tab("vectors")
    seen.page.wait_for_selector("html[data-state=expired]")
    seen.page.unroute("**/api/vectors")
    seen.tab("beam").translate(sentences[0])
    seen.page.click("button[aria-label=Play]")
    seen.page.click("button[aria-label=Pause]")
    assert seen.state == "paused"
    seen.page.click("button[aria-label=Play]")
    assert seen.state == "done"


@pytest.mark.parametrize("text", ["你好，世界", "שלום עולם", "🐕 👩‍👧", "<script>alert(1)</script><b>x</b>"])
def test_w27_whatever_is_typed_is_shown_as_it_is(look: Callable[..., Look], text: str) -> None:
    seen = look().open().translate(text)
    assert seen.faults == []
    assert seen.page.input_value("#text") == text
    assert "\ufffd" not in seen.page.inner_text("body")
    assert seen.page.locator("#page script, #page b").count() == 0


def test_w29_a_server_whose_time_is_up_says_so(
    look: Callable[..., Look], translator_dir: Path, sentences: list[str], slow: None
) -> None:
    with running(translator_dir, limits={"request_seconds": 1.0}) as server:  # it cuts what takes longer
        seen = look(url=server.url).open().translate(sentences[0])
        assert seen.state == "error"
        assert "took longer than the 1 s" in seen.page.inner_text("[role=alert]")


def test_w29_try_again_reaches_a_server_that_is_back(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open()
    seen.page.route("**/api/translate", lambda route: route.abort())
    seen.translate(sentences[0])
    assert seen.state == "error"
    seen.page.unroute("**/api/translate")
    seen.page.click("#again")
    seen.page.wait_for_selector("html[data-state=done]")


def test_w30_two_tabs_do_not_mix(
    look: Callable[..., Look], translator: Translator, sentences: list[str], slow: None
) -> None:
    one, other = look().open(), look().open()
    for seen, text in ((one, sentences[0]), (other, sentences[1])):
        seen.page.fill("#text", text)
        seen.page.press("#text", "Control+Enter")
    assert [one.ended().result, other.ended().result] == [translator(sentences[0]), translator(sentences[1])]


def test_a_key_can_be_given(
    look: Callable[..., Look], translator_dir: Path, tmp_path: Path, sentences: list[str]
) -> None:
    (tmp_path / "keys").write_text("open sesame\n")
    with running(translator_dir, api_keys=str(tmp_path / "keys")) as server:
        seen = look(url=server.url).open(text=sentences[0])
        assert seen.state == "locked"  # it was not asked for anything that it would refuse
        assert [seen.faults, seen.page.locator("[role=alert]").count()] == [[], 0]
        assert not any("/api/" in url for url in seen.requests)
        assert seen.result == seen.page.inner_text("#phase") != ""
        assert seen.page.inner_text("#why") == "Type the API key first."
        assert seen.page.is_disabled("#go")
        seen.page.fill("#key", "close sesame")
        seen.page.press("#key", "Enter")
        seen.page.wait_for_selector("html[data-state=error]")
        assert "key" in seen.page.inner_text("[role=alert]")
        seen.page.fill("#key", "open sesame")
        seen.page.press("#key", "Enter")
        seen.page.wait_for_selector("html[data-state=done]")  # what the address says is translated
        seen.page.fill("#key", "")
        seen.page.press("#key", "Enter")
        seen.page.wait_for_selector("html[data-state=locked]")
        assert seen.page.is_disabled("#go")
        seen.page.fill("#key", "open sesame")
        seen.page.press("#key", "Enter")
        assert seen.ended().state == "done"


def test_the_bundled_translator_both_ways(look: Callable[..., Look], capsys: pytest.CaptureFixture[str]) -> None:
    text = "DAS HAUS IST ALT 👍"
    assert main(["translate", "--from", "de", "--to", "en", text]) == 0
    said = capsys.readouterr().out.strip()
    with running(BUNDLED_MODELS / "en-de") as server:
        seen = look(url=server.url).open()
        assert seen.translate("The house is old.").result == "Das Haus ist alt."
        seen.page.select_option("#direction", "de en")
        assert seen.page.inner_text("label[for=text]") == "Text (de)"
        assert seen.translate(text).result == said == "THE HOUSE IS OLD 👍"


def test_under_a_prefix(look: Callable[..., Look], translator_dir: Path, sentences: list[str]) -> None:
    """Every address in the page is relative, and the headers allow all that it does."""
    with running(translator_dir, url_prefix="/translate-service") as server:
        seen = look(url=f"{server.url}/translate-service").open()
        seen.translate(sentences[0])
        assert seen.state == "done"
        assert seen.faults == []
        asked = [url for url in seen.requests if url.startswith("http")]
        assert all(url.startswith(f"{server.url}/translate-service/") for url in asked), asked
