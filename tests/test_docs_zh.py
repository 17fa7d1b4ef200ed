"""README and the main pages in Chinese keep in step with the English ones, as far as it can be compared."""

from pathlib import Path

import pytest
from twin_pages import Twins, check_typography

ROOT = Path(__file__).parent.parent
NAMES = ("training", "translating", "serving", "models", "looking-inside")
TWINS = Twins(ROOT, {"README.md": "README.zh.md"} | {f"docs/{name}.md": f"docs/zh/{name}.md" for name in NAMES})


def test_every_chinese_page_is_compared() -> None:
    found = {str(page.relative_to(ROOT)) for page in (ROOT / "docs/zh").rglob("*.md")}
    assert found | {"README.zh.md"} == set(TWINS.originals)


@pytest.mark.parametrize("page", TWINS.twins)
def test_pages_are_in_step(page: str) -> None:
    wrong = TWINS.compare_pages(page)
    assert not wrong, "\n".join([f"{TWINS.twins[page]} is out of step with {page}:", *wrong])


@pytest.mark.parametrize("page", [*TWINS.twins, *TWINS.originals])
def test_links_lead_somewhere(page: str) -> None:
    wrong = TWINS.check_targets(page) + TWINS.check_languages(page)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", TWINS.originals)
def test_chinese_is_set_as_chinese(page: str) -> None:
    wrong = check_typography(ROOT, page)
    assert not wrong, "\n".join(wrong)


ENGLISH = """\
# A page

English | [简体中文](zh/page.md)

See [below](#numbers), [another page](other.md#its-end) and [the log](log.txt).

```sh
headway toy --out x  # a corpus
```

## Flags
`--out` is a folder. **Trap:** `--out` twice.

- one
- two, with `--pairs 5`

## Numbers
![a picture](picture.png)

| words | size |
|---|---|
| below 3 million | 1,000 |
"""
CHINESE = """\
# 一个页面

[English](../page.md) | 简体中文

见[下文](#数字)、[另一页](other.md#它的结尾)和[日志](../log.txt)。

```sh
headway toy --out x  # 一份语料
```

## 参数
`--out` 是一个文件夹。**陷阱**：不要给两次 `--out`。

- 一
- 二，使用 `--pairs 5`

## 数字
![一张图](../picture.png)

| 词数 | 大小 |
|---|---|
| 少于 300 万 | 1,000 |
"""
OTHER = {"other.md": "# Other\n\n## Its end\n", "zh/other.md": "# 其他\n\n## 它的结尾\n"}


@pytest.fixture
def made_up(tmp_path: Path) -> Twins:
    pages = {"page.md": ENGLISH, "zh/page.md": CHINESE, "log.txt": "", "picture.png": "", **OTHER}
    (tmp_path / "zh").mkdir()
    for name, text in pages.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return Twins(tmp_path, {"page.md": "zh/page.md", "other.md": "zh/other.md"})


def change(twins: Twins, page: str, before: str, after: str) -> None:
    text = (twins.root / page).read_text(encoding="utf-8")
    assert before in text
    (twins.root / page).write_text(text.replace(before, after, 1), encoding="utf-8")


def test_a_translation_is_in_step(made_up: Twins) -> None:
    assert made_up.compare_pages("page.md") == []
    for page in ("page.md", "zh/page.md"):
        assert made_up.check_targets(page) + made_up.check_languages(page) == []
    assert check_typography(made_up.root, "zh/page.md") == []


FLAGS = 'zh/page.md, line 12 (page.md, line 12, in the section "Flags")'


@pytest.mark.parametrize(
    ("page", "before", "after", "message"),
    [
        ("page.md", "## Numbers", "## New\nWords.\n\n## Numbers",
         'the headings of page.md: heading 2 "New" (line 17); zh/page.md, after line 11: nothing'),
        ("zh/page.md", "## 数字", "### 数字",
         'the headings of page.md: heading 2 "Numbers" (line 17); '
         'zh/page.md, after line 11: heading 3 "数字" (line 17)'),
        ("zh/page.md", "## 参数", "## 参数 `--out`",
         'zh/page.md, line 11 (page.md, line 11, in the section "Flags"): superfluous code --out'),
        ("page.md", "- one\n", "- one\n- more\n",
         'the section "Flags" of page.md: list item "more" (line 15); zh/page.md, after line 14: nothing'),
        ("zh/page.md", "- 一\n", "第一段。\n\n第二段。\n\n- 一\n",
         'the section "Flags" of page.md: nothing; zh/page.md, after line 12: '
         'paragraph "第一段。" (line 14), paragraph "第二段。" (line 16)'),
        ("page.md", "## Flags\n", "## Flags\n- new\n\n",
         'the section "Flags" of page.md: list item "new" (line 12); zh/page.md, at its beginning: nothing'),
        ("page.md", "`--out` twice", "`--force` twice", f"{FLAGS}: code --out in place of --force"),
        ("zh/page.md", "**陷阱**：不要", "**陷阱：**不要", f"{FLAGS}: missing bold text **"),
        ("zh/page.md", "toy --out x", "toy --out y",
         'zh/page.md, line 7 (page.md, line 7, in the section "A page"): '
         "line 1 of the code is 'headway toy --out y #' in place of 'headway toy --out x #'"),
        ("zh/page.md", "  # 一份语料", "",
         'zh/page.md, line 7 (page.md, line 7, in the section "A page"): '
         "line 1 of the code is 'headway toy --out x' in place of 'headway toy --out x #'"),
        ("zh/page.md", "| 1,000 |", "| 1,001 |",
         'zh/page.md, line 22 (page.md, line 22, in the section "Numbers"): cell 2: number 1001 in place of 1000'),
        ("zh/page.md", "300 万", "30 万",
         'zh/page.md, line 22 (page.md, line 22, in the section "Numbers"): cell 1: number 300000 in place of 3000000'),
        ("zh/page.md", "#数字", "#参数",
         'zh/page.md, line 5 (page.md, line 5, in the section "A page"): '
         'link to page.md, "Flags" in place of page.md, "Numbers"'),
        ("zh/page.md", "和[日志](../log.txt)", "和日志",
         'zh/page.md, line 5 (page.md, line 5, in the section "A page"): missing link to log.txt'),
        ("zh/page.md", "../picture.png", "../log.txt",
         'zh/page.md, line 18 (page.md, line 18, in the section "Numbers"): '
         "picture log.txt in place of picture.png"),
    ],
)  # fmt: skip
def test_a_difference_is_named(made_up: Twins, page: str, before: str, after: str, message: str) -> None:
    change(made_up, page, before, after)
    assert made_up.compare_pages("page.md") == [message]


@pytest.mark.parametrize(
    ("page", "before", "after", "message"),
    [
        ("zh/page.md", "#数字", "#数目", 'zh/page.md, line 5: zh/page.md has no heading "#数目"'),
        ("page.md", "#its-end", "#its-ends", 'page.md, line 5: other.md has no heading "#its-ends"'),
        ("page.md", "log.txt", "logs.txt", 'page.md, line 5: "logs.txt" does not exist'),
        ("page.md", "picture.png", "pictures.png", 'page.md, line 18: "pictures.png" does not exist'),
        ("zh/page.md", "(other.md#它的结尾)", "(../other.md#its-end)",
         'zh/page.md, line 5: "../other.md#its-end" should be zh/other.md'),
        ("page.md", "(zh/page.md)", "(zh/other.md)",
         'page.md: the paragraph below the title has to be "English | 简体中文", with a link to zh/page.md'),
        ("zh/page.md", "[English](../page.md) | 简体中文\n", "",
         'zh/page.md: the paragraph below the title has to be "English | 简体中文", with a link to page.md'),
    ],
)  # fmt: skip
def test_a_wrong_link_is_named(made_up: Twins, page: str, before: str, after: str, message: str) -> None:
    change(made_up, page, before, after)
    assert made_up.check_targets(page) + made_up.check_languages(page) == [message]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("二，使用", "二,使用", 'zh/page.md, line 15: half-width punctuation in "二,使用 `"'),
        ("使用 `--pairs", "使用`--pairs", 'zh/page.md, line 15: a space is missing in "二，使用`"'),
        ("少于 300", "少于300", 'zh/page.md, line 22: a space is missing in "少于300 万"'),
    ],
)
def test_wrong_typography_is_named(made_up: Twins, before: str, after: str, message: str) -> None:
    change(made_up, "zh/page.md", before, after)
    assert check_typography(made_up.root, "zh/page.md") == [message]
