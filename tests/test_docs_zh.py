"""README and the main pages in Chinese say what the English ones say, as far as it can be compared."""

from pathlib import Path

import pytest
from twin_pages import LANGUAGES, Twins, check_typography

ROOT = Path(__file__).parent.parent
NAMES = ("training", "translating", "serving", "models", "looking-inside")
TWINS = Twins(ROOT, {"README.md": "README.zh.md"} | {f"docs/{name}.md": f"docs/zh/{name}.md" for name in NAMES})


def test_every_chinese_page_is_compared() -> None:
    found = {str(page.relative_to(ROOT)) for page in (ROOT / "docs/zh").rglob("*.md")}
    assert found | {"README.zh.md"} == set(TWINS.originals)


@pytest.mark.parametrize("page", TWINS.twins)
def test_pages_are_in_step(page: str) -> None:
    wrong = TWINS.compare_pages(page)
    assert not wrong, "\n".join(["out of step with its translation:", *wrong])


@pytest.mark.parametrize("page", [*TWINS.twins, *TWINS.originals])
def test_links_lead_somewhere(page: str) -> None:
    wrong = TWINS.check_targets(page) + TWINS.check_languages(page)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", TWINS.originals)
def test_chinese_is_set_as_chinese(page: str) -> None:
    wrong = check_typography(ROOT / page, page)
    assert not wrong, "\n".join(wrong)
