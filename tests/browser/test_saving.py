"""What is saved from the page: masks in pictures, answers that come late, and what cannot be saved."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from serve.conftest import running, until

from browser.conftest import Look

RECT = ".//{http://www.w3.org/2000/svg}rect"


def saved(seen: Look, ending: str, path: Path) -> Path:
    with seen.page.expect_download() as waiting:
        seen.page.click(f"#save-{ending}")
    waiting.value.save_as(path)
    return path


def test_a_picture_hatches_what_is_masked(look: Callable[..., Look], sentences: list[str], tmp_path: Path) -> None:
    seen = look().open(kind="decoder").translate(sentences[0])
    rows = len(seen.tokens()) + 1
    fills = [one.get("fill") for one in ElementTree.parse(saved(seen, "svg", tmp_path / "a.svg")).findall(RECT)[1:]]
    assert len(fills) == rows * rows
    hidden = [fill == "url(#hatch)" for fill in fills]
    assert hidden == [column > row for row in range(rows) for column in range(rows)]


def test_answers_that_take_long_are_saved_too(look: Callable[..., Look], sentences: list[str], tmp_path: Path) -> None:
    seen = look().open().translate(sentences[0])
    seen.page.route("**/api/vectors", lambda route: (time.sleep(5), route.continue_()))
    page = saved(seen, "html", tmp_path / "a.html").read_text()
    found = re.search(r'id="recording">(.*?)</script>', page, re.DOTALL)
    assert found
    answers: dict[str, Any] = json.loads(found[1])["answers"]
    assert answers["0 vectors"] is not None
    assert None not in answers.values()


def test_what_cannot_be_saved_is_told(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    seen.page.route("**/api/vectors", lambda route: route.abort())
    seen.page.click("#save-html")
    seen.page.wait_for_selector("#not-saved[role=alert]")


def test_stop_reaches_the_server_of_a_language_model(look: Callable[..., Look], lm_dir: Path) -> None:
    with running(lm_dir) as server:
        seen = look(url=server.url).open()
        gone: list[str] = []
        seen.page.on("requestfailed", lambda request: gone.append(request.url))
        seen.page.route("**/api/read", lambda route: None)  # an answer that does not come
        seen.page.fill("#text", "The dog")
        seen.page.press("#text", "Control+Enter")
        seen.page.wait_for_selector("html[data-state=loading]")
        seen.page.keyboard.press("Escape")
        seen.page.wait_for_selector("html[data-state=stopped]")
        until(lambda: (seen.page.wait_for_timeout(20), gone)[1], 5)
        assert gone == [f"{server.url}/api/read"]
