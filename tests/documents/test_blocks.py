"""Documents as blocks: what can be searched in them, under which headings, and where it stands."""

from pathlib import Path

import pytest

from documents.office_files import docx, packed, run
from headway.documents.blocks.block import TextBlock
from headway.documents.blocks.files import place_unit, read_text_blocks
from headway.documents.limits import DocumentLimits
from headway.errors import HeadwayError


def blocks_of(path: Path, data: str | bytes) -> list[TextBlock]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_text_blocks(path)


def test_lines_of_plain_text_and_wrapped_paragraphs(tmp_path: Path) -> None:
    found = blocks_of(tmp_path / "a.txt", "\ufeffFirst  line.\n\nSecond\u00adly, this.\n")
    assert found == [TextBlock("First line.", 1), TextBlock("Secondly, this.", 3)]
    wrapped = "A heading\n\nThis sentence was wrapped at a fixed width, and\ngoes on in the line below.\n"
    assert blocks_of(tmp_path / "b.txt", wrapped)[1:] == [
        TextBlock("This sentence was wrapped at a fixed width, and goes on in the line below.", 3, last=4)
    ]


MARKDOWN = """---
title: The manual
---
# Cache *size*

Set `--cache` to a [size](x.md);
![alternative](a.png) see below.

- one **item**
- [ ] a task

```sh
headway serve \\
    --cache 2G
```

| option | means |
|---|---|
| `-c` | the cache |

<div>html <b>too</b></div>
"""


def test_markdown_without_its_markup(tmp_path: Path) -> None:
    assert blocks_of(tmp_path / "a.md", MARKDOWN) == [
        TextBlock("The manual", 2, level=1),
        TextBlock("Cache size", 4, level=1, last=4),
        TextBlock("Set --cache to a size; alternative see below.", 6, last=7),
        TextBlock("one item", 9, last=9),
        TextBlock("a task", 10, last=10),
        TextBlock("headway serve \\\n    --cache 2G", 12, last=15, code=True),
        TextBlock("option | means", 17, last=17),
        TextBlock("-c | the cache", 19, last=19),
        TextBlock("html too", 21, last=21),
    ]


HTML = """<!DOCTYPE html><html><head><title>The page</title><style>p { color: red }</style></head><body>
<nav><a href="/">menu <b>of</b></a><nav>inner</nav> outer</nav>
<h2>Part &amp; whole</h2>
<p>The <i>red</i>
   house<br>is <code>here</code>.</p><ul><li>one<li>two</ul>
<pre>a = 1
b = 2</pre><svg><text>drawn</text></svg><script>x()</script>tail</body></html>"""


def test_html_as_a_reader_sees_it(tmp_path: Path) -> None:
    assert blocks_of(tmp_path / "a.html", HTML) == [
        TextBlock("The page", 1, level=1, last=1),
        TextBlock("Part & whole", 3, level=2, last=3),
        TextBlock("The red house is here.", 4, last=5),
        TextBlock("one", 5, last=5),
        TextBlock("two", 5, last=5),
        TextBlock("a = 1\nb = 2", 6, last=7, code=True),
        TextBlock("tail", 7, last=7),
    ]


def test_word_documents_have_headings_by_style_and_outline(tmp_path: Path) -> None:
    styled = '<w:p><w:pPr><w:pStyle w:val="{}"/></w:pPr>' + run("{}") + "</w:p>"
    outline = '<w:p><w:pPr><w:outlineLvl w:val="2"/></w:pPr>' + run("deep") + "</w:p>"
    body = (
        styled.format("Title", "book")
        + styled.format("berschrift2", "part")
        + outline
        + f"<w:p>{run('plain ')}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>{run('text')}"
        + "<w:r><w:tab/></w:r></w:p>"
        + f"<w:tbl><w:tr><w:tc><w:p>{run('cell')}</w:p></w:tc></w:tr></w:tbl><w:p/>"
    )
    found = blocks_of(tmp_path / "a.docx", docx(body))
    assert [(one.text, one.level, one.place) for one in found] == [
        ("book", 1, 1), ("part", 2, 2), ("deep", 3, 3), ("plain text", 0, 4), ("cell", 0, 5),
    ]  # fmt: skip


def test_open_documents_have_headings(tmp_path: Path) -> None:
    space = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    space += 'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
    body = '<text:h text:outline-level="2">part</text:h><text:p>some<text:s/><text:span>text</text:span>'
    body += "<office:annotation><text:p>a comment</text:p></office:annotation><text:line-break/>more</text:p>"
    content = f"<office:document-content {space}><office:body><office:text>{body}</office:text></office:body>"
    data = packed({"content.xml": f"{content}</office:document-content>"})
    assert blocks_of(tmp_path / "a.odt", data) == [TextBlock("part", 1, 2), TextBlock("some text more", 2)]
    with pytest.raises(HeadwayError, match=r"not a valid \.odt document: it has no content\.xml"):
        blocks_of(tmp_path / "b.odt", packed({"other.xml": "<a/>"}))


def test_books_have_chapters_and_pages(tmp_path: Path) -> None:
    from documents.test_epub import CHAPTER, CONTAINER, NCX, PACKAGE

    members = {"META-INF/container.xml": CONTAINER, "OEBPS/content.opf": PACKAGE, "OEBPS/toc.ncx": NCX}
    found = blocks_of(tmp_path / "a.epub", packed({**members, "OEBPS/text/ch 1.xhtml": CHAPTER}))
    assert [(one.text, one.level, one.place) for one in found] == [
        ("one", 1, 1), ("The red house is here.", 0, 1), ("mot", 0, 1)
    ]  # fmt: skip
    pytest.importorskip("pypdf")
    from documents.test_pdf import make_pdf

    pages = blocks_of(tmp_path / "a.pdf", make_pdf(["First page."], [], ["Third page."]))
    assert pages == [TextBlock("First page.", 1), TextBlock("Third page.", 3)]
    with pytest.raises(HeadwayError, match="has no text: are its pages pictures"):
        blocks_of(tmp_path / "b.pdf", make_pdf([]))


def test_other_formats_give_what_would_be_translated(tmp_path: Path) -> None:
    cues = "1\n00:00:01,000 --> 00:00:02,000\nHello there.\n\n2\n00:00:05,000 --> 00:00:06,000\nBye.\n"
    assert blocks_of(tmp_path / "a.srt", cues) == [TextBlock("Hello there.", 1), TextBlock("Bye.", 2)]
    assert [place_unit(name) for name in ("a.srt", "a.MD", "a.pdf", "a.epub")] == [
        "paragraph",
        "line",
        "page",
        "chapter",
    ]


def test_limits_and_damage_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="is not UTF-8"):
        blocks_of(tmp_path / "a.txt", b"caf\xe9")
    with pytest.raises(HeadwayError, match=r"not supported. Supported: \.txt"):
        blocks_of(tmp_path / "a.exe", b"MZ")
    (tmp_path / "b.md").write_text("x\n" * 50)
    with pytest.raises(HeadwayError, match="more than 40 elements"):
        read_text_blocks(tmp_path / "b.md", DocumentLimits(elements=40))
