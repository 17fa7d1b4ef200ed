"""For everybody: keyboards, small screens, dark rooms, readers of screens, other languages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from browser.conftest import Look

PANELS = (
    "attention",
    "inside",
    "layer",
    "probabilities",
    "beam",
    "compare",
    "attribution",
    "vectors",
    "architecture",
    "variants",
)
CHOICES = {
    "at-versus": "part",
    "at-part": "decoder.0.cross.head 1",
}  # inside panels, so that they have something to show
RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
COLOUR_RULES = {"type": "rule", "values": ["color-contrast"]}  # all that depends on the colour scheme


@pytest.fixture(scope="session")
def axe() -> str:
    path: Path = ROOT / "web/node_modules/axe-core/axe.min.js"
    if not path.is_file():
        pytest.skip("axe-core is missing: cd web && npm ci")
    return path.read_text()


def violations(seen: Look, axe: str, rules: dict[str, Any] = RULES) -> list[tuple[str, Any]]:
    seen.page.evaluate(axe)
    found = seen.page.evaluate("rules => axe.run({runOnly: rules})", rules)["violations"]
    return [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]


@pytest.mark.parametrize(
    ("scheme", "tongue", "rules"),
    [("light", "en", RULES), ("light", "zh", RULES), ("dark", "en", COLOUR_RULES)],
    ids=["light", "zh", "dark"],
)
def test_w10_axe_finds_nothing(
    look: Callable[..., Look], axe: str, sentences: list[str], scheme: str, tongue: str, rules: dict[str, Any]
) -> None:
    seen = look(color_scheme=scheme, locale=tongue, bypass_csp=True).open(table=1, **CHOICES).translate(sentences[0])
    seen.page.click(".settings summary")
    found = {}
    for panel in PANELS:
        seen.tab(panel).page.wait_for_timeout(200)
        found[panel] = violations(seen, axe, rules)
    seen.page.click("#tour-start")
    seen.page.wait_for_selector("#tour h2")
    found["tour"] = violations(seen, axe, rules)
    assert found == {panel: [] for panel in found}


@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_every_view_of_a_layer_is_for_everybody(
    look: Callable[..., Look], axe: str, sentences: list[str], tongue: str
) -> None:
    seen = look(width=320, locale=tongue, bypass_csp=True).open(panel="layer").translate(sentences[0])
    for view in range(6):
        seen.page.click(f"#view-{view}")
        for summary in seen.page.locator("#panel summary").all():
            summary.click()
        seen.page.wait_for_timeout(150)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 320, view
        assert violations(seen, axe) == [], view


def test_w11_dark_changes_page_and_canvas_and_stays(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open().translate(sentences[0])
    ground = "getComputedStyle(document.body).backgroundColor"
    pixel = "c => [...c.getContext('2d').getImageData(1, 1, 1, 1).data]"
    before = seen.page.evaluate(ground), seen.page.eval_on_selector("#heatmap canvas", pixel)
    seen.page.select_option("#theme", "dark")
    seen.page.wait_for_timeout(100)
    after = seen.page.evaluate(ground), seen.page.eval_on_selector("#heatmap canvas", pixel)
    assert before[0] != after[0]
    assert before[1] != after[1]
    seen.page.reload()
    seen.ended()
    assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("width", [320, 375, 640, 768])
@pytest.mark.parametrize("tongue", ["en", "zh"])
def test_w12_and_w34_small_screens(look: Callable[..., Look], sentences: list[str], width: int, tongue: str) -> None:
    seen = look(width=width, locale=tongue).open(table=1, **CHOICES).translate(sentences[0])
    seen.page.click(".settings summary")
    for panel in PANELS:
        seen.tab(panel).page.wait_for_timeout(100)
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, panel
        small = seen.page.evaluate("""() => [...document.querySelectorAll('button, select, summary, input')]
          .map(one => [one.outerHTML.slice(0, 80), (one.closest('label') ?? one).getBoundingClientRect()])
          .filter(([_, box]) => box.width > 0 && (box.width < 24 || box.height < 24)).map(([html]) => html)""")
        assert small == [], panel


def test_w15_reduced_motion(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look(reduced_motion="reduce").open().translate(sentences[0])
    seen.page.click("button[aria-label=Play]")
    assert seen.page.evaluate("document.getAnimations().length") == 0


def test_w33_with_the_keyboard_alone(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look().open()
    keyboard = seen.page.keyboard

    def tab_to(selector: str) -> None:
        for _ in range(60):
            if seen.page.evaluate("s => document.activeElement.matches(s)", selector):
                return
            keyboard.press("Tab")
        raise AssertionError(f"no way to {selector}")

    tab_to("#text")
    keyboard.type(sentences[0])
    keyboard.press("Control+Enter")
    seen.ended()
    tab_to(".atlas button")
    keyboard.press("ArrowRight")
    assert seen.page.input_value("#head") == "1"
    keyboard.press("t")
    assert seen.page.locator("#weights").count() == 1
    keyboard.press("1")
    assert seen.page.is_checked("input[name=kind][value=encoder]")
    tab_to("#save-json")
    with seen.page.expect_download():
        keyboard.press("Enter")
    seen.page.locator("#heatmap").focus()
    keyboard.press("?")
    seen.page.wait_for_selector("dialog[open]")
    keyboard.press("Escape")
    seen.page.reload()
    seen.ended()
    tab_to("[role=tab]")
    keyboard.press("ArrowRight")
    assert seen.page.get_attribute("#panel", "data-panel") == "inside"


def test_chinese_is_whole(look: Callable[..., Look], sentences: list[str]) -> None:
    seen = look(locale="zh-CN").open().translate(sentences[0])
    assert seen.page.get_attribute("html", "lang") == "zh-Hans"
    assert seen.page.inner_text("#tab-attention") == "注意力"
    seen.page.select_option("#tongue", "en")
    seen.page.reload()
    seen.ended()
    assert seen.page.inner_text("#tab-attention") == "Attention"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_probabilities_stand_on_one_line(look: Callable[..., Look], sentences: list[str], width: int) -> None:
    seen = look(width=width, height=844).open(panel="probabilities", step=2).translate(sentences[0])
    seen.page.fill("#step", "2")
    seen.page.wait_for_selector("#bars .number")
    seen.page.evaluate("document.querySelectorAll('#bars .number').forEach(one => one.textContent = '0.0001 %')")
    told = seen.page.evaluate("""() => [...document.querySelectorAll('#bars .number')]
      .map(one => [one.scrollWidth <= one.clientWidth,
                   one.clientHeight < 1.6 * parseFloat(getComputedStyle(one).lineHeight)])""")
    assert told and all(fits and line for fits, line in told)
