"""Markdown: what is text changes; what markdown-it reads in the file besides stays the same."""

import html
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from documents.speakers import backwards, fixed, louder, same
from headway.documents import DocumentCounts, TranslateSegments, translate_file
from headway.documents.markdown import MarkdownBlock, MarkdownDocument, translate_bytes
from headway.documents.markdown_inline import parse_inline

GUIDE = """---
title: A short guide
tags: [a, b]
description: "How to: begin"
---
# Getting started with *Headway* #

This is the **first paragraph**, which is wrapped
over two lines with `some code` and a [link to](https://x.y/a_b "Title") the page.

Hard break here  
second line\\
third [ref][one] and [collapsed][] and [short].

- item one
  continues here
- [ ] task with <kbd>Ctrl</kbd>+<kbd>C</kbd>
  1. nested **bold *and* more**

> A quote with ~~old~~ text
> over lines.

> [!NOTE]
> An alert.

| Name | Value |
|------|:-----:|
| a dog \\| cat | none |
| **bold** cell | 12 |

```python
print("not translated")
```

    indented code

<details>
<summary>More text</summary>
</details>

Setext heading
==============

![image alt](a.png) and an inline ![b](c.png) picture. See[^1] and <https://a.b>.

[^1]: The footnote text here.

:::note Title
Inside a container
:::

[one]: http://one
[collapsed]: http://two
[short]: http://three 'x'

Math $x_1 = y^2$ and snake_case_name and 2 * 3 * 4 &amp; &copy; done \\*not emphasis\\*.
"""


def translated(text: str, translate: TranslateSegments = louder) -> tuple[str, DocumentCounts]:
    data, counts = translate_bytes(text.encode(), "a.md", translate)
    return data.decode(), counts


def rendered(text: str) -> str:
    """What a reader sees, by a parser that nobody here wrote; line breaks inside paragraphs are spaces."""
    page = (
        MarkdownIt("commonmark")
        .enable("table")
        .enable("strikethrough")
        .render(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S))
    )
    return re.sub(r"\s+", " ", page)


def test_a_guide_keeps_its_structure(tmp_path: Path) -> None:
    new, counts = translated(GUIDE)
    assert counts == DocumentCounts(23, 23, [])
    assert translated(GUIDE, same)[0] == GUIDE
    loud = re.sub(
        r"<[^<>]*>|&\w+;|[^<&]+", lambda found: found[0] if found[0][0] in "<&" else found[0].upper(), rendered(GUIDE)
    )
    for kept in ("PRINT(&quot;NOT TRANSLATED&quot;)", "SOME CODE", "INDENTED CODE", "HTTPS://A.B", "X_1 = Y^2"):
        loud = loud.replace(kept, kept.lower())
    for kept in (":::NOTE TITLE", "[!NOTE]"):
        loud = loud.replace(kept, kept.replace("NOTE TITLE", "note Title"))
    loud = loud.replace("<kbd>CTRL</kbd>", "<kbd>Ctrl</kbd>")
    assert rendered(new) == loud
    assert 'title: A SHORT GUIDE\ntags: [a, b]\ndescription: "HOW TO: BEGIN"\n' in new
    assert "[COLLAPSED][collapsed] AND\n[SHORT][short].\n" in new
    assert "> A QUOTE WITH ~~OLD~~ TEXT\n> OVER LINES.\n" in new
    assert "HARD BREAK HERE  \nSECOND LINE\\\n" in new


def test_tags_follow_their_words() -> None:
    new, _ = translated("# The *red* house\n\nA [big **dog**](x) barks `now`.\n", backwards)
    assert new == "# HOUSE *RED* THE\n\n`now`. BARKS [**DOG** BIG](x) A\n"


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("1. Mai", "1\\. Mai"),
        ("- und", "\\- und"),
        ("# nein", "\\# nein"),
        ("> so", "\\> so"),
        ("5 * 3 *x*", "5 * 3 \\*x\\*"),
        ("a_b _c_", "a_b \\_c\\_"),
        ("<b> & &lt; [x](y)", "\\<b> & \\&lt; [x\\](y)"),
        ("`x` ~~y~~", "\\`x\\` \\~\\~y\\~\\~"),
        ("---", "\\---"),
        ("a\\*b \\d", "a\\\\\\*b \\d"),
    ],
)
def test_text_that_looks_like_markup_is_escaped(said: str, written: str) -> None:
    new, counts = translated("Hello there.\n", fixed(said))
    assert (new, counts.warnings) == (f"{written}\n", [])
    assert html.unescape(re.sub(r"<[^<>]*>", "", rendered(new))).strip() == said


def test_a_translation_that_would_be_read_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    document = MarkdownDocument("**Hello:** world")
    (block,) = document.blocks
    assert isinstance(block, MarkdownBlock)
    assert document.find_change(block, ["**Hallo:** Welt"]) == ""
    assert document.find_change(block, ["**Hallo:**Welt"]) == "its formatting could not be kept"
    assert document.find_change(block, ["- **Hallo:** Welt"]) == "its translation would not be a paragraph"
    monkeypatch.setattr("headway.documents.markdown.escape_line_start", lambda line: line)
    new, counts = translated("One.\n\nTwo.\n", fixed("- x"))
    assert (new, counts.translated) == ("One.\n\nTwo.\n", 0)
    assert counts.warnings[-1] == '"One.": its translation would not be a paragraph: left untranslated'


def test_line_ends_and_encodings_are_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "a.md", tmp_path / "b.md"
    path.write_bytes("\ufeffOne\r\ntwo\r\n\r\n* x\n".encode())
    translate_file(path, out, louder)
    assert out.read_bytes() == "\ufeffONE\r\nTWO\r\n\r\n* X\n".encode()
    assert translated("")[0] == ""
    assert translated("\n\n")[0] == "\n\n"
    assert translated("a | b\n--|--\n`x` | c")[0] == "A | B\n--|--\n`x` | C"


def test_front_matter_is_quoted_where_it_must_be() -> None:
    assert translated("---\ntitle: One\n---\n", fixed("a: b"))[0] == '---\ntitle: "a: b"\n---\n'
    assert translated('+++\ntitle = "One"\nslug = "one"\n+++\nx\n')[0] == '+++\ntitle = "ONE"\nslug = "one"\n+++\nX\n'
    assert translated('---\ntitle: "a\\q"\ndescription: 12\n---\n')[0] == '---\ntitle: "a\\q"\ndescription: 12\n---\n'


markdown_text = st.lists(
    st.sampled_from(
        [
            *"ab *_`[]()<>!#->+|~\\&:1.\n\t ",
            "**",
            "\n\n",
            "  \n",
            "](x)",
            "[a]: b\n",
            "<b>",
            "</b>",
            "```\n",
            "> ",
            "- ",
            "| a | b |\n|--|--|\n",
            "word ",
        ]
    ),
    max_size=40,
).map("".join)


@given(markdown_text)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_made_up_files_keep_their_links_and_code(text: str) -> None:
    new = translated(text)[0]
    parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    kinds = [[t.type for t in parser.parse(given)] for given in (text, new)]
    assert kinds[0] == kinds[1], new
    assert translated(text, same)[0] == text
    assert "".join(piece.raw for piece in parse_inline(text, set())) == text


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "*a " * 20_000, "`" * 5000 + "a", "> " * 3000 + "a", "![" * 9000 + "](x)" * 9000,
     "a" + "<b" * 20_000, "_a*b " * 9000,
     "| a " * 5000 + "\n" + "|--" * 5000 + "\n" + "| b " * 5000, "- " * 2000 + "x",
     "\\" * 50_000],
    ids=range(10),
)  # fmt: skip
def test_monstrous_files_take_no_time(text: str) -> None:
    started = time.thread_time()
    translated(text)
    assert time.thread_time() - started < 10
