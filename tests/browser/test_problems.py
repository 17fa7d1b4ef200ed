"""What went wrong is told in the language of the page: errors, texts that no model reads, servers that died."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cli.verbs.test_serve import program
from conftest import ROOT
from serve.conftest import Running, running

from browser.conftest import Look
from headway.errors import HeadwayError
from headway.storage.registry import BUNDLED_MODELS


@pytest.fixture(scope="module")
def bundled() -> Iterator[Running]:
    with running(BUNDLED_MODELS / "en-de") as started:
        yield started


def test_every_reason_of_the_server_has_words() -> None:
    code = "".join(path.read_text() for path in (ROOT / "headway/serve").rglob("*.py"))
    reasons = set(re.findall(r'because\(\s*"(\w+)"', code)) | {"wrong_key", "no_key"}
    assert len(reasons) > 10
    for tongue in ("en", "zh"):
        words = (ROOT / f"web/src/words/{tongue}.ts").read_text()
        told = re.search(r"\n  problems: \{(.*?)\n  \}", words, re.DOTALL)
        assert told and set(re.findall(r"^    (\w+):", told[1], re.MULTILINE)) == reasons | {"page"}


@pytest.mark.parametrize(
    ("tongue", "told"),
    [
        ("en", "The text has 30 characters, and this server takes 20 at most. Shorten it."),
        ("zh", "文本有 30 个字符，而此服务器最多接受 20 个。请缩短文本。"),
    ],
)
def test_errors_are_in_the_language_of_the_page(
    look: Callable[..., Look], translator_dir: Path, tongue: str, told: str
) -> None:
    with running(translator_dir, limits={"characters": 20}) as server:
        seen = look(url=server.url, locale=tongue).open().translate("a" * 30)
        assert seen.state == "error"
        assert told in seen.page.inner_text("[role=alert]")


def test_what_the_server_does_not_name_is_shown_as_it_is(
    look: Callable[..., Look], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headway.serve.step_events import StepRecorder

    def refused(self: Any, ids: Any) -> Any:
        raise HeadwayError("an odd thing")

    monkeypatch.setattr(StepRecorder, "describe", refused)
    seen = look(locale="zh").open().translate(sentences[0])
    assert "服务器返回的消息：“an odd thing”" in seen.page.inner_text("[role=alert]")


@pytest.mark.parametrize("text", ["你好，世界。", "😀😀"])
def test_a_text_that_no_model_reads_is_said_to_be_so(look: Callable[..., Look], bundled: Running, text: str) -> None:
    seen = look(url=bundled.url).open(pair="en-de", text=text)
    seen.page.wait_for_selector("html[data-state=unread]")
    assert "has no words for this text" in seen.page.inner_text("#phase")
    seen.page.select_option("#tongue", "zh")
    seen.page.wait_for_selector("html[lang=zh-Hans]")
    assert "不认识这段文字" in seen.page.inner_text("#phase")
    assert seen.translate("The house is old.").state == "done"


def test_spaces_alone_are_no_text(look: Callable[..., Look]) -> None:
    seen = look().open(text="   ")
    assert seen.state == "empty"
    assert seen.page.is_disabled("#go")
    assert seen.page.inner_text("#why") == "Type a text first."


def test_a_server_that_dies_while_nothing_is_asked(
    look: Callable[..., Look], translator_dir: Path, tmp_path: Path, sentences: list[str]
) -> None:
    model = ("--model", str(translator_dir))
    asks = "dispatchEvent(new Event('focus'))"  # as every ten seconds
    with program(*model, log=tmp_path / "first") as (process, url):
        seen = look(url=url).open().translate(sentences[0])
        seen.page.evaluate(asks)
        with seen.page.expect_response(f"{url}/health"):
            seen.page.evaluate(asks)
        assert seen.page.locator("#gone").count() == 0
        process.kill()
        process.wait()
        seen.page.evaluate(asks)
        seen.page.wait_for_selector("#gone[role=alert]")
    assert seen.state == "done"  # what was there stays
    with program(*model, "--port", str(urlsplit(url).port), log=tmp_path / "second"):
        seen.page.wait_for_selector("#gone", state="detached")  # asked every two seconds now
        assert seen.result == "The server is back."
        assert "GET /health" not in (tmp_path / "second").read_text()
