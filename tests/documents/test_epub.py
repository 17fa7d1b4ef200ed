"""E-books: chapters, navigation, titles and languages; everything else is kept, and what comes out is XML."""

import zipfile
from io import BytesIO
from pathlib import Path
from xml.parsers import expat

import pytest

from documents.office_files import packed, unpacked
from documents.speakers import backwards, fixed, louder, same
from headway.documents import translate_file
from headway.documents.epub import expand_empty_elements, translate_bytes
from headway.documents.target_language import use_target_language
from headway.errors import HeadwayError

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title id="t">the book</dc:title>
<dc:creator>Ann Author</dc:creator><dc:language>en-GB</dc:language><dc:identifier>x1</dc:identifier>
<dc:description>of &lt;b&gt;things&lt;/b&gt;</dc:description></metadata>
<manifest><item id="a" href="text/ch%201.xhtml" media-type="application/xhtml+xml"/>
<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="c" href="style.css" media-type="text/css"/>
<item id="g" href="gone.xhtml" media-type="application/xhtml+xml"/></manifest></package>"""
CHAPTER = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en" xml:lang="en"><head><title>one</title>
<script src="x.js"/><link rel="stylesheet" href="style.css"/></head>
<body><p><a id="p1"/>The <i>red</i> house<br/>is&#160;here.</p><p lang="fr">mot</p><p><span/></p></body></html>"""
NCX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>the book</text></docTitle>
<docAuthor><text>Ann Author</text></docAuthor><navMap><navPoint id="n1"><navLabel><text>chapter one</text></navLabel>
<content src="text/ch%201.xhtml"/></navPoint></navMap></ncx>"""


def epub(**changes: str | bytes | None) -> bytes:
    parts: dict[str, str | bytes | None] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/content.opf": PACKAGE,
        "OEBPS/text/ch 1.xhtml": CHAPTER,
        "OEBPS/toc.ncx": NCX,
        "OEBPS/style.css": "p { color: red }",
    }
    parts |= {name.replace("__", "/").replace("_dot_", "."): content for name, content in changes.items()}
    return packed({name: content for name, content in parts.items() if content is not None})


def check_xml(data: bytes) -> None:
    parser = expat.ParserCreate()
    parser.UseForeignDTD(True)
    parser.Parse(data, True)


def test_a_book() -> None:
    with use_target_language("de"):
        made, counts = translate_bytes(epub(), "a.epub", louder)
    parts = unpacked(made)
    assert (counts.segments, counts.translated) == (8, 8)
    chapter = parts["OEBPS/text/ch 1.xhtml"].decode()
    assert "<title>ONE</title>" in chapter
    assert '<p><a id="p1"></a>THE <i>RED</i> HOUSE<br/>IS\u00a0HERE.</p><p lang="fr">MOT</p>' in chapter
    assert '<html xmlns="http://www.w3.org/1999/xhtml" lang="de" xml:lang="de">' in chapter
    ncx = parts["OEBPS/toc.ncx"].decode()
    assert "<docTitle><text>THE BOOK</text>" in ncx
    assert "<navLabel><text>CHAPTER ONE</text>" in ncx
    assert "Ann Author" in ncx
    package = parts["OEBPS/content.opf"].decode()
    assert '<dc:title id="t">THE BOOK</dc:title>' in package
    assert "<dc:creator>Ann Author</dc:creator><dc:language>de</dc:language><dc:identifier>x1<" in package
    assert 'xml:lang="de"' in package
    for name in ("OEBPS/text/ch 1.xhtml", "OEBPS/toc.ncx", "OEBPS/content.opf"):
        check_xml(parts[name])
    given = unpacked(epub())
    assert {name for name in given if parts[name] == given[name]} == {
        "mimetype", "META-INF/container.xml", "OEBPS/style.css",
    }  # fmt: skip


def test_tags_move_with_their_words() -> None:
    made = unpacked(translate_bytes(epub(), "a.epub", backwards)[0])["OEBPS/text/ch 1.xhtml"].decode()
    assert "HOUSE <i>RED</i> THE<br/>" in made
    check_xml(made.encode())


def test_letters_that_xml_has_no_names_for() -> None:
    """&nbsp; is known to browsers, and to no XML parser."""
    made = unpacked(translate_bytes(epub(), "a.epub", fixed("a\u00a0<b> & \x01c"))[0])["OEBPS/text/ch 1.xhtml"]
    assert "a\u00a0&lt;b&gt; &amp; c" in made.decode()
    check_xml(made)


def test_a_book_that_does_not_change_keeps_its_bytes() -> None:
    assert unpacked(translate_bytes(epub(), "a.epub", same)[0]) == unpacked(epub())


def test_the_type_stands_first_and_unpacked(tmp_path: Path) -> None:
    parts = unpacked(epub())
    late = packed({**{name: data for name, data in parts.items() if name != "mimetype"}, "mimetype": parts["mimetype"]})
    (tmp_path / "a.epub").write_bytes(late)
    translate_file(tmp_path / "a.epub", tmp_path / "b.epub", louder, language="de")
    with zipfile.ZipFile(BytesIO((tmp_path / "b.epub").read_bytes())) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type, first.extra) == ("mimetype", zipfile.ZIP_STORED, b"")
        assert b"<dc:language>de<" in archive.read("OEBPS/content.opf")
    raw = (tmp_path / "b.epub").read_bytes()
    assert raw[30:58] == b"mimetypeapplication/epub+zip"  # where readers look for it


ENCRYPTED = (
    '<encryption><EncryptedData><CipherData><CipherReference URI="OEBPS/text/ch%201.xhtml"/></CipherData>'
    "</EncryptedData></encryption>"
)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"META-INF__container_dot_xml": None},
            r"a\.epub is not a valid \.epub document: it has no META-INF/container",
        ),
        ({"META-INF__container_dot_xml": "<container/>"}, "its package document is missing"),
        ({"OEBPS__content_dot_opf": None}, "its package document is missing"),
        ({"META-INF__encryption_dot_xml": ENCRYPTED}, "protected against copying"),
    ],
)
def test_books_that_are_refused(changes: dict[str, str | None], told: str) -> None:
    with pytest.raises(HeadwayError, match=told):
        translate_bytes(epub(**changes), "a.epub", louder)


def test_fonts_may_be_encrypted() -> None:
    fonts = ENCRYPTED.replace("text/ch%201.xhtml", "font.otf")
    assert translate_bytes(epub(**{"META-INF__encryption_dot_xml": fonts}), "a.epub", louder)[1].translated == 8


def test_names_that_lead_out_of_the_book_lead_nowhere() -> None:
    package = PACKAGE.replace("gone.xhtml", "../../../../etc/passwd")
    assert translate_bytes(epub(**{"OEBPS__content_dot_opf": package}), "a.epub", louder)[1].translated == 8


def test_empty_elements() -> None:
    assert expand_empty_elements('<a id="x" /><br/><img src="a/"/><p/></p>') == (
        '<a id="x"></a><br/><img src="a/"/><p></p></p>'
    )


def test_a_hundred_thousand_empty_elements_are_read_at_once() -> None:
    made = translate_bytes(
        epub(**{"OEBPS__text__ch 1_dot_xhtml": "<p>word" + "<a/>" * 100_000 + "</p>"}), "a.epub", louder
    )
    assert made[1].segments >= 4
