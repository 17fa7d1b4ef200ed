"""Take screenshots of the page in Chromium: python docs/screenshots.py my-model "A dog runs." """

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
SHOTS = [  # name, width, height, colour scheme, language, state of the page
    ("page-light", 1200, 1165, "light", "en", "panel=attention&kind=cross&layer=2&head=2"),
    ("page-dark", 1200, 925, "dark", "en", "panel=beam"),
    ("page-inside", 1200, 1150, "light", "en", "panel=inside&kind=cross&layer=2&head=2&step=6"),
    ("page-flow", 1200, 1120, "light", "en", "panel=layer&step=3&at-token=2&at-flow=78"),
    ("page-zh", 1200, 925, "dark", "zh-CN", "panel=probabilities&step=4"),
]


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("Usage: python docs/screenshots.py MODEL TEXT")
    model, text = sys.argv[1:]
    command = [sys.executable, "-m", "headway", "serve", "--model", model, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = find_address(server)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for shot in SHOTS:
                take_screenshot(browser, url, text, *shot)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def find_address(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    for line in server.stderr:
        if found := re.search(r"http://\S+", line):
            return found[0]
    sys.exit("the server did not start")


def take_screenshot(
    browser: Browser, url: str, text: str, name: str, width: int, height: int, scheme: str, language: str, state: str
) -> None:
    size = {"width": width, "height": height}
    context = browser.new_context(viewport=size, color_scheme=scheme, locale=language)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/#text={quote(text)}&{state}")
    page.wait_for_selector("html[data-state=done]", timeout=60000)
    page.wait_for_timeout(800)  # until the panel has its data
    page.screenshot(path=PICTURES / f"{name}.png")
    print(PICTURES / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
