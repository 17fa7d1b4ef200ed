"""PowerPoint: runs, tables, notes, fields and charts; and OpenDocument presentations, which are as .odt."""

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from documents.office_files import HEAD, R, packed, unpacked
from documents.speakers import backwards, louder, same
from headway.documents import translate_file
from headway.documents.pptx import strip_non_formatting, translate_bytes
from headway.documents.segments import SegmentRequest, SegmentResult
from headway.errors import HeadwayError

A = "http://schemas.openxmlformats.org/drawingml/2006/main"
P = "http://schemas.openxmlformats.org/presentationml/2006/main"


def slide(body: str, prefix: str = "a", space: str = A) -> str:
    return (
        f'{HEAD}<p:sld xmlns:{prefix}="{space}" xmlns:p="{P}" xmlns:r="{R}"><p:cSld><p:spTree><p:sp><p:txBody>'
        f"<{prefix}:bodyPr/>{body}</p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )


def pptx(body: str, **more: str) -> bytes:
    parts = {"ppt/presentation.xml": f'{HEAD}<p:presentation xmlns:p="{P}"/>', "ppt/slides/slide1.xml": slide(body)}
    return packed({**parts, **{name.replace("__", "/") + ".xml": text for name, text in more.items()}})


def run(text: str, properties: str = "") -> str:
    return f"<a:r>{properties}<a:t>{text}</a:t></a:r>"


def inside(data: bytes, name: str = "ppt/slides/slide1.xml") -> str:
    return unpacked(data)[name].decode().partition("<a:bodyPr/>")[2].partition("</p:txBody>")[0]


BOLD = '<a:rPr lang="en-US" b="1" dirty="0"/>'
PLAIN_BOLD = '<a:rPr b="1"/>'


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (f"<a:p>{run('The red house')}</a:p>", f"<a:p>{run('HOUSE RED THE')}</a:p>"),
        # formatting goes with its words
        (
            f"<a:p>{run('The ')}{run('red', BOLD)}{run(' house')}</a:p>",
            f"<a:p>{run('HOUSE ')}{run('RED', PLAIN_BOLD)}{run(' THE')}</a:p>",
        ),
        # words that were cut into runs are whole again; marks of the spell checker are none
        (
            '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" err="1"/><a:t>hou</a:t></a:r>'
            '<a:r><a:rPr lang="en-GB" dirty="0"/><a:t>se &amp; yard</a:t></a:r><a:endParaRPr lang="en-US"/></a:p>',
            '<a:p><a:pPr lvl="1"/><a:r><a:t>YARD &amp; HOUSE</a:t></a:r><a:endParaRPr lang="en-US"/></a:p>',
        ),
        # a line break ends a segment
        (f"<a:p>{run('a b')}<a:br/>{run('c d')}</a:p>", f"<a:p>{run('B A')}<a:br/>{run('D C')}</a:p>"),
        # numbers of slides are kept
        (
            f'<a:p>{run("Page ")}<a:fld id="{{1}}" type="slidenum"><a:t>7</a:t></a:fld></a:p>',
            f'<a:p><a:fld id="{{1}}" type="slidenum"><a:t>7</a:t></a:fld>{run(" PAGE")}</a:p>',
        ),
        # what has no words is kept to the byte
        ("<a:p><a:r><a:t>12</a:t></a:r></a:p><a:p/>", "<a:p><a:r><a:t>12</a:t></a:r></a:p><a:p/>"),
    ],
)
def test_paragraphs(given: str, wanted: str) -> None:
    assert inside(translate_bytes(pptx(given), "a.pptx", backwards)[0]) == wanted


def test_links_are_part_of_the_formatting() -> None:
    link = '<a:rPr lang="en-US"><a:hlinkClick r:id="rId2"/></a:rPr>'
    made = inside(translate_bytes(pptx(f"<a:p>{run('see the ')}{run('page', link)}</a:p>"), "a.pptx", backwards)[0])
    assert made.startswith('<a:p><a:r><a:rPr><a:hlinkClick r:id="rId2"/></a:rPr><a:t>PAGE</a:t></a:r>')


def test_the_number_of_a_note_stays_at_its_word() -> None:
    high = '<a:rPr baseline="30000"/>'
    given = f"<a:p>{run('some words')}{run('1', high)}{run(' here')}</a:p>"
    made = inside(translate_bytes(pptx(given), "a.pptx", backwards)[0])
    assert "WORDS</a:t></a:r><a:r>" + high + "<a:t>1" in made


def test_tables_notes_diagrams_and_charts_but_no_masters() -> None:
    cell = f"<a:tbl><a:tr><a:tc><a:txBody><a:p>{run('cell')}</a:p></a:txBody></a:tc></a:tr></a:tbl>"
    chart = (
        f'{HEAD}<c:chart xmlns:c="urn:c" xmlns:a="{A}"><c:rich><a:bodyPr/><a:p>{run("chart")}</a:p></c:rich></c:chart>'
    )
    data = pptx(
        cell,
        ppt__notesSlides__notesSlide1=slide(f"<a:p>{run('note')}</a:p>"),
        ppt__diagrams__data1=slide(f"<a:p>{run('diagram')}</a:p>"),
        ppt__charts__chart1=chart,
        ppt__slideMasters__slideMaster1=slide(f"<a:p>{run('master')}</a:p>"),
    )
    made, counts = translate_bytes(data, "a.pptx", louder)
    texts = unpacked(made)
    assert counts.segments == 4
    for name, text in (
        ("slides/slide1", "CELL"), ("notesSlides/notesSlide1", "NOTE"), ("diagrams/data1", "DIAGRAM"),
        ("charts/chart1", "CHART"), ("slideMasters/slideMaster1", "master"),
    ):  # fmt: skip
        assert f"<a:t>{text}</a:t>" in texts[f"ppt/{name}.xml"].decode()
    assert list(texts) == list(unpacked(data))


@pytest.mark.parametrize("space", [A, "http://purl.oclc.org/ooxml/drawingml/main"])
def test_other_prefixes_and_the_strict_form(space: str) -> None:
    data = packed({
        "ppt/presentation.xml": "<p/>",
        "ppt/slides/slide1.xml": slide("<x:p><x:r><x:t>word</x:t></x:r></x:p>", "x", space),
    })  # fmt: skip
    made = unpacked(translate_bytes(data, "a.pptx", louder)[0])["ppt/slides/slide1.xml"].decode()
    assert "<x:p><x:r><x:t>WORD</x:t></x:r></x:p>" in made


def test_unchanged_parts_keep_their_bytes() -> None:
    data = pptx(f"<a:p>{run('one ', BOLD)}{run('two')}</a:p>")
    assert unpacked(translate_bytes(data, "a.pptx", same)[0]) == unpacked(data)


def test_a_zip_that_is_no_presentation() -> None:
    with pytest.raises(HeadwayError, match=r"a\.pptx is not a valid \.pptx document: it has no ppt/presentation\.xml"):
        translate_bytes(packed({"x.xml": "<x/>"}), "a.pptx", louder)


def test_properties_without_formatting_are_none() -> None:
    assert strip_non_formatting('<a:rPr lang="en-US" dirty="0"></a:rPr>') == ""
    assert strip_non_formatting("<a:rPr lang='en-US' sz='1800'/>") == "<a:rPr sz='1800'/>"
    kept = '<a:rPr><a:latin lang="x"/></a:rPr>'
    assert strip_non_formatting(kept) == kept


def test_an_open_document_presentation(tmp_path: Path) -> None:
    spaces = " ".join(
        f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for prefix, name in (
            ("office", "office"),
            ("text", "text"),
            ("draw", "drawing"),
            ("presentation", "presentation"),
        )
    )
    body = (
        '<draw:page draw:name="page1"><draw:frame><draw:text-box><text:p>A <text:span text:style-name="T1">red'
        "</text:span> title</text:p><text:list><text:list-item><text:p>a point</text:p></text:list-item></text:list>"
        "</draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>my notes</text:p>"
        "</draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    content = (
        f"{HEAD}<office:document-content {spaces}><office:body><office:presentation>{body}</office:presentation>"
        "</office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.presentation"
    (tmp_path / "a.odp").write_bytes(packed({"mimetype": kind, "content.xml": content}))

    def translate(asked: list[SegmentRequest]) -> list[SegmentResult]:
        assert [one.text for one in asked] == ["A red title", "a point", "my notes"]
        return backwards(asked)

    counts = translate_file(tmp_path / "a.odp", tmp_path / "b.odp", translate)  # type: ignore[arg-type]
    assert counts.translated == 3
    made = unpacked((tmp_path / "b.odp").read_bytes())
    text = made["content.xml"].decode()
    assert '<text:p>TITLE <text:span text:style-name="T1">RED</text:span> A</text:p>' in text
    assert "<text:p>POINT A</text:p>" in text
    assert "<text:p>NOTES MY</text:p>" in text
    with zipfile.ZipFile(BytesIO((tmp_path / "b.odp").read_bytes())) as archive:
        assert archive.infolist()[0].filename == "mimetype"
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED
