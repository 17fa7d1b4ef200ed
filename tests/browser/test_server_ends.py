"""A server as a program of its own, which is stopped, or killed, while somebody has the page open."""

import signal
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cli.verbs.test_serve import program

from browser.conftest import Look


def test_w29_a_server_that_is_killed_and_comes_back(
    look: Callable[..., Look], translator_dir: Path, tmp_path: Path, sentences: list[str]
) -> None:
    model = ("--model", str(translator_dir))
    with program(*model, log=tmp_path / "first") as (process, url):
        seen = look(url=url).open()
        seen.page.fill("#text", " ".join(sentences))  # a hundred: it is in the middle of them
        seen.page.press("#text", "Control+Enter")
        seen.page.wait_for_selector("#result .tokens >> nth=1")
        process.kill()
        process.wait()
        seen.page.wait_for_selector("html[data-state=error]")
    assert "cannot be reached" in seen.page.inner_text("[role=alert]")
    assert seen.tokens()  # what was there stays
    seen.page.fill("#text", sentences[0])
    seen.page.click("#again")
    seen.page.wait_for_selector("html[data-state=error]")
    with program(*model, "--port", str(urlsplit(url).port), log=tmp_path / "second"):
        seen.page.click("#again")
        seen.page.wait_for_selector("html[data-state=done]")
        assert seen.page.inner_text("#result .output").strip() == seen.result


def test_w35_the_address_is_said_and_the_end_comes_with_the_page_open(
    look: Callable[..., Look], translator_dir: Path, tmp_path: Path, sentences: list[str]
) -> None:
    log = tmp_path / "log"
    with program("--model", str(translator_dir), log=log) as (process, url):
        assert log.read_text().splitlines()[0].endswith(f" serving {url} (Ctrl-C ends)")
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):  # nobody is let in by another address of this machine
            socket.create_connection(("127.0.0.2", port), timeout=10)
        seen = look(url=url).open().translate(sentences[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0, log.read_text()  # the connection that the browser keeps does not hold it
    seen.page.press("#text", "Control+Enter")
    seen.page.wait_for_selector("html[data-state=error]")
    assert seen.page.input_value("#text") == sentences[0]
