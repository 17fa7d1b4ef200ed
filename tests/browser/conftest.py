"""The page in a real browser: Debian's Chromium, driven by Playwright. Skipped where one of them is missing."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serve.conftest import Running, running

from headway.inspect.trace import Trace
from headway.translate.translator import Translator, load

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ENDED = ", ".join(f"html[data-state={state}]" for state in ("done", "truncated", "unread", "error", "stopped"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(translator_dir: Path) -> Iterator[Running]:
    with running(translator_dir) as started:
        yield started


@pytest.fixture(scope="session")
def sentences(toy: Path) -> list[str]:
    return (toy / "train.en").read_text().splitlines()


@pytest.fixture(scope="session")
def translator(translator_dir: Path) -> Translator:
    found = load(translator_dir, "cpu")
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="session")
def long_dir(train_toy: Callable[..., Path]) -> Path:
    """A model that reads long sentences, and has hardly learned anything."""
    few = ["train.max_tokens=400", "train.steps=10", "train.validate_every=10", "search.max_length=20"]
    return train_toy(*(word for one in few for word in ("--set", one)))


@pytest.fixture(scope="session")
def trace(translator: Translator, sentences: list[str]) -> Trace:
    return translator.trace(sentences[0])


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a search takes a fifth of a second."""
    import time

    from headway.serve.step_events import StepRecorder

    plain = StepRecorder.describe
    monkeypatch.setattr(StepRecorder, "describe", lambda self, ids: (time.sleep(0.2), plain(self, ids))[1])


class Look:
    """A page that is open, and what a person can see and do there."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.requests: list[str] = []
        self.faults: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda told: self.faults.append(told.text) if told.type == "error" else None)

    def open(self, **state: Any) -> "Look":
        """On the first head, unless another is asked for: without, the page chooses one by its weights."""
        from urllib.parse import urlencode

        self.page.goto(f"{self.url}/#{urlencode({'head': 1, **state})}")
        self.page.wait_for_selector("html:not([data-state=starting])")
        return self

    def translate(self, text: str) -> "Look":
        self.page.fill("#text", text)
        self.page.press("#text", "Control+Enter")
        return self.ended()

    def ended(self) -> "Look":
        self.page.wait_for_selector(ENDED, timeout=30000)
        self.page.wait_for_selector("#loading-part", state="detached")
        return self

    @property
    def state(self) -> str:
        return str(self.page.evaluate("document.documentElement.dataset.state"))

    @property
    def result(self) -> str:
        """As it was told to those who listen."""
        return str(self.page.inner_text("#status"))

    def tokens(self) -> list[str]:
        return list(self.page.locator("#result .token").all_inner_texts())

    def options(self) -> "Look":
        """Opens the display options of the attention panel, if they are folded."""
        if not self.page.is_visible("#show-words"):
            self.page.click("#options")
        return self

    def tab(self, name: str) -> "Look":
        self.page.click(f"#tab-{name}")
        self.page.wait_for_selector("#loading-part", state="detached")
        return self

    def table(self, selector: str) -> list[list[str]]:
        rows = self.page.locator(f"{selector} tbody tr").all()
        return [row.locator("th, td").all_inner_texts() for row in rows]


@pytest.fixture
def look(chromium: Any, server: Running) -> Iterator[Callable[..., Look]]:
    """look(width=…, color_scheme=…): a new page of its own."""
    contexts = []

    def new(width: int = 1280, height: int = 900, url: str | None = None, **options: Any) -> Look:
        settings = {"viewport": {"width": width, "height": height}, "locale": "en", **options}
        contexts.append(chromium.new_context(**settings))
        return Look(contexts[-1].new_page(), url or server.url)

    yield new
    for context in contexts:
        context.close()


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """`headway inspect` writes its page alone: drawing takes seconds, and is tested in tests/cli/verbs."""
    monkeypatch.setattr("headway.cli.verbs.inspect._draw", lambda trace, network, out: 0)
