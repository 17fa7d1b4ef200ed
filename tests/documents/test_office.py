"""Word's and OpenDocument's files: formatting goes with its words, all else stays, and nothing harmful is opened."""

import io
import tracemalloc
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.parsers import expat

import pytest

from documents.libreoffice import needs_libreoffice, opened
from documents.office_files import HEAD, ODT, STRICT, docx, odt, packed, run, unpacked
from documents.speakers import backwards, ending, fixed, louder, same
from headway.documents import (
    DocumentCounts,
    SegmentRequest,
    SegmentResult,
    TranslateSegments,
    translate_file,
)
from headway.documents.docx import translate_bytes as translate_docx
from headway.documents.limits import DocumentLimits, apply_limits
from headway.documents.odt import translate_bytes as translate_odt
from headway.errors import HeadwayError

BOLD = "<w:b/>"


def paragraphs(body: str, translate: TranslateSegments) -> str:
    """What becomes of the body of a document. The other parts must stay."""
    given = docx(body)
    new, _ = translate_docx(given, "a.docx", translate)
    before, after = unpacked(given), unpacked(new)
    main = "word/document.xml"
    assert {k: v for k, v in before.items() if k != main} == {k: v for k, v in after.items() if k != main}
    expat.ParserCreate().Parse(after[main], True)
    start, end = (before[main].decode().split(body)[place] for place in (0, 1))
    text = after[main].decode()
    assert text.startswith(start) and text.endswith(end)
    return text[len(start) : len(text) - len(end)]


def field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def code(text: str) -> str:
    return f"<w:r><w:instrText>{text}</w:instrText></w:r>"


RAISED, LOWERED = '<w:vertAlign w:val="superscript"/>', '<w:vertAlign w:val="subscript"/>'
LINK = "<w:hyperlink w:anchor='n1'>{}</w:hyperlink>"
START, END = '<w:bookmarkStart w:id="{}"/>', '<w:bookmarkEnd w:id="{}"/>'
COMMENT = '<w:commentRangeStart w:id="0"/>{}<w:commentRangeEnd w:id="0"/><w:r><w:commentReference w:id="0"/></w:r>'
NOTE = '<w:r><w:footnoteReference w:id="1"/></w:r>'
REF = field("begin") + code(" REF x ") + field("separate") + run("Figure 1") + field("end")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (run("The red house"), run("HOUSE RED THE")),
        (run("The ") + run("red", BOLD) + run(" house"), run("HOUSE ") + run("RED", BOLD) + run(" THE")),
        (run("whole", BOLD), run("WHOLE", BOLD)),
        # a word that an editor has cut into runs, with marks of its own between them
        (run("The ho") + "<w:proofErr w:type='x'/>" + run("use", "<w:lang w:val='en-US'/>"), run("HOUSE THE")),
        (run("The ") + run("re", BOLD) + run("d", BOLD) + run(" house"),
         run("HOUSE ") + run("RED", BOLD) + run(" THE")),
        ("<w:r><w:t>One</w:t><w:tab/><w:t>two three</w:t></w:r>",
         run("ONE") + "<w:r><w:tab/></w:r>" + run("THREE TWO")),
        (run("A dog") + NOTE + run(" runs"), run("RUNS DOG") + NOTE + run(" A")),
        # powers and the like are parts of their words
        (run("9 m") + run("2", RAISED) + run(" of H") + run("2", LOWERED) + run("O"),
         run("H") + run("2", LOWERED) + run("O OF M") + run("2", RAISED) + run(" 9")),
        (run("the 2") + run("nd", RAISED) + run(" one"), run("ONE 2") + run("ND", RAISED) + run(" THE")),
        # the two ends of a range go around the same words
        (run("One ") + COMMENT.format(run("two three")) + run(" four."),
         run("FOUR. ") + COMMENT.format(run("THREE TWO")) + run(" ONE")),
        # one that is cut does not: here by a break, there by another
        (run("one ") + START.format(1) + run("two") + "<w:r><w:tab/></w:r>" + run("three") + END.format(1)
         + run(" four"),
         START.format(1) + run("TWO ONE") + "<w:r><w:tab/></w:r>" + run("FOUR THREE") + END.format(1)),
        (START.format(1) + run("one ") + START.format(2) + run("two ") + END.format(1) + run("three") + END.format(2),
         run("THREE ") + START.format(1) + START.format(2) + run("TWO ONE") + END.format(1) + END.format(2)),
        (run("See ") + "<w:hyperlink r:id='r9'>" + run("this") + "</w:hyperlink>" + run(" page."),
         run("PAGE. ") + "<w:hyperlink r:id='r9'>" + run("THIS") + "</w:hyperlink>" + run(" SEE")),
        (run("See ") + REF + run(" now"), run("NOW ") + REF + run(" SEE")),
        (run("See ") + field("begin") + code("HYPERLINK x") + field("separate") + run("this") + field("end")
         + run(" now"),
         run("NOW ") + field("begin") + code("HYPERLINK x") + field("separate") + run("THIS") + field("end")
         + run(" SEE")),
        # a field that ends in another paragraph: nothing moves across it
        (run("one two ") + field("begin") + code("TOC") + field("separate") + run("three four"),
         run("TWO ONE ") + field("begin") + code("TOC") + field("separate") + run("FOUR THREE")),
        # an entry of a table of contents: a tab and a field in a link
        ("<w:hyperlink>" + run("one two") + "<w:r><w:tab/></w:r>" + REF + "</w:hyperlink>" + field("end"),
         "<w:hyperlink>" + run("TWO ONE") + "<w:r><w:tab/></w:r>" + REF + "</w:hyperlink>" + field("end")),
        (run("see ") + "<w:fldSimple w:instr='PAGE'>" + run("7") + "</w:fldSimple>" + run(" here"),
         run("HERE ") + "<w:fldSimple w:instr='PAGE'>" + run("7") + "</w:fldSimple>" + run(" SEE")),
        ("<w:sdt><w:sdtPr/><w:sdtContent>" + run("one") + "</w:sdtContent></w:sdt>" + run(" two"),
         run("TWO ") + "<w:sdt><w:sdtPr/><w:sdtContent>" + run("ONE") + "</w:sdtContent></w:sdt>"),
        (run("new ") + "<w:del w:id='1'><w:r><w:delText>old</w:delText></w:r></w:del>" + run("text"),
         "<w:del w:id='1'><w:r><w:delText>old</w:delText></w:r></w:del>" + run("TEXT NEW")),
        ("<w:bookmarkStart w:id='1'/>" + run("a b") + "<w:bookmarkEnd w:id='1'/>",
         "<w:bookmarkStart w:id='1'/>" + run("B A") + "<w:bookmarkEnd w:id='1'/>"),
        (run("AT&amp;T &lt;x"), run("&lt;X AT&amp;T")),
        ("<w:r><w:t>twenty</w:t><w:noBreakHyphen/><w:t>one men</w:t></w:r>", run("MEN TWENTY\u2011ONE")),
    ],
)  # fmt: skip
def test_runs_go_with_their_words(given: str, wanted: str) -> None:
    style = "<w:pPr><w:pStyle w:val='x'/></w:pPr>"
    assert paragraphs(f"<w:p w:rsidR='1'>{style}{given}</w:p>", backwards) == f"<w:p w:rsidR='1'>{style}{wanted}</w:p>"
    assert paragraphs(f"<w:p>{given}</w:p>", same) == f"<w:p>{given}</w:p>"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (run("An article") + run("1", RAISED) + run(" here."),
         run("Anen articleen") + run("1", RAISED) + run(" hereen.")),
        (run("A study.") + run("2", RAISED) + run(",3", RAISED) + run(" More"),
         run("Aen studyen.") + run("2,3", RAISED) + run(" Moreen")),
        (run("A price") + LINK.format(run("*")) + run(" here"),
         run("Aen priceen") + LINK.format(run("*")) + run(" hereen")),
    ],
)  # fmt: skip
def test_the_number_of_a_note_is_no_part_of_a_word(given: str, wanted: str) -> None:
    assert paragraphs(f"<w:p>{given}</w:p>", ending) == f"<w:p>{wanted}</w:p>"


def test_the_number_of_a_note_in_open_document() -> None:
    given, wanted = "An article{} here", "Anen articleen{} hereen"
    high = HIGH.format("1")
    assert content(f"<text:p>{given.format(high)}</text:p>", ending) == f"<text:p>{wanted.format(high)}</text:p>"
    inner, outer = FOOT.format(given.format(high)), FOOT.format(wanted.format(high))
    assert content(f"<text:p>One{inner} two</text:p>", ending) == f"<text:p>Oneen{outer} twoen</text:p>"


def test_boxes_with_text_of_their_own() -> None:
    box = "<w:r><w:pict><w:txbxContent><w:p>{}</w:p></w:txbxContent></w:pict></w:r>"
    given = f"<w:p>{run('one ')}{box.format(run('a b'))}{run('two')}</w:p>"
    assert paragraphs(given, backwards) == f"<w:p>{box.format(run('B A'))}{run('TWO ONE')}</w:p>"
    only = f"<w:p>{box.format(run('a b'))}{run('12')}</w:p>"  # the outer paragraph has nothing to say
    assert paragraphs(only, backwards) == f"<w:p>{box.format(run('B A'))}{run('12')}</w:p>"


def test_tables_headers_and_notes_are_translated() -> None:
    cell = "<w:tbl><w:tr><w:tc><w:p>{}</w:p></w:tc></w:tr></w:tbl><w:p/><w:sectPr/>"
    given = docx(
        cell.format(run("a b")),
        header1=f"<w:p>{run('c d')}</w:p>",
        footnotes=f"<w:footnote w:id='1'><w:p>{run('e f')}</w:p></w:footnote>",
    )
    new, counts = translate_docx(given, "a.docx", backwards)
    parts = unpacked(new)
    assert counts == DocumentCounts(3, 3, [])
    for part, text in {"document": "B A", "header1": "D C", "footnotes": "F E"}.items():
        assert run(text).encode() in parts[f"word/{part}.xml"]


@pytest.mark.parametrize("prefix", ["ns0:", ""])
def test_other_prefixes_and_the_strict_form(prefix: str) -> None:
    text = f"<w:p>{run('a b')}</w:p>"
    given = {name: content.decode() for name, content in unpacked(docx(text, space=STRICT)).items()}
    main = given["word/document.xml"].replace("xmlns:w=", "xmlns:ns0=" if prefix else "xmlns=")
    given["word/document.xml"] = main.replace("w:", prefix)
    new, _ = translate_docx(packed(given), "a.docx", backwards)
    assert run("B A").replace("w:", prefix).encode() in unpacked(new)["word/document.xml"]


def content(body: str, translate: TranslateSegments) -> str:
    given = odt(body)
    new, _ = translate_odt(given, "a.odt", translate)
    before, after = unpacked(given), unpacked(new)
    assert {k: v for k, v in before.items() if k != "content.xml"} == {
        k: v for k, v in after.items() if k != "content.xml"
    }
    expat.ParserCreate().Parse(after["content.xml"], True)
    start, end = before["content.xml"].decode().split(body)
    return after["content.xml"].decode().removeprefix(start).removesuffix(end)


HIGH = '<text:span text:style-name="High">{}</text:span>'
ANNOTATED = (
    '<office:annotation office:name="a"><text:p>x</text:p></office:annotation>{}'
    '<office:annotation-end office:name="a"/>'
)
SPAN = '<text:span text:style-name="T1">{}</text:span>'
FOOT = (
    "<text:note><text:note-citation>1</text:note-citation>"
    "<text:note-body><text:p>{}</text:p></text:note-body></text:note>"
)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("The red house", "HOUSE RED THE"),
        (f"The {SPAN.format('red')} house", f"HOUSE {SPAN.format('RED')} THE"),
        (f"A dog{FOOT.format('see here')} runs", f"RUNS DOG{FOOT.format('HERE SEE')} A"),
        ("one<text:tab/>two three<text:line-break/>four", "ONE<text:tab/>THREE TWO<text:line-break/>FOUR"),
        ('<text:a xlink:href="x">one</text:a><text:s/>two', 'TWO <text:a xlink:href="x">ONE</text:a>'),
        ("One. <text:s/>Two", "<text:s/>TWO ONE."),
        ('one <text:s text:c="2"/>two three', 'THREE <text:s text:c="2"/>TWO ONE'),
        ('one two <text:s text:c="3"/>three four', 'TWO ONE <text:s text:c="3"/>FOUR THREE'),
        ('<text:s text:c="2"/>one two', '<text:s text:c="2"/>TWO ONE'),
        ("page <text:page-number>7</text:page-number> here", "HERE <text:page-number>7</text:page-number> PAGE"),
        ("one <office:annotation><text:p>a b</text:p></office:annotation>two",
         "<office:annotation><text:p>a b</text:p></office:annotation>TWO ONE"),
        (f"one {ANNOTATED.format('two three')} four", f"FOUR {ANNOTATED.format('THREE TWO')} ONE"),
        ("one <!-- a comment -->two", "<!-- a comment -->TWO ONE"),
        ("<![CDATA[a < b]]> c", "C B &lt; A"),
        ("<draw:frame><draw:text-box><text:p>a b</text:p></draw:text-box></draw:frame>c d",
         "<draw:frame><draw:text-box><text:p>B A</text:p></draw:text-box></draw:frame>D C"),
    ],
)  # fmt: skip
def test_open_document(given: str, wanted: str) -> None:
    for body in ("<text:p>{}</text:p>", "<text:list><text:list-item><text:h>{}</text:h></text:list-item></text:list>"):
        assert content(body.format(given), backwards) == body.format(wanted)
        assert content(body.format(given), same) == body.format(given)


def test_what_was_deleted_stays_so() -> None:
    gone = "<text:tracked-changes><text:p>a b</text:p></text:tracked-changes>"
    assert content(f"{gone}<text:p>c d</text:p>", backwards) == f"{gone}<text:p>D C</text:p>"


def test_the_archive_keeps_its_order_and_packing(tmp_path: Path) -> None:
    (tmp_path / "in.odt").write_bytes(odt("<text:p>a b</text:p>"))
    assert translate_file(tmp_path / "in.odt", tmp_path / "out.odt", louder) == DocumentCounts(1, 1, [])
    with zipfile.ZipFile(tmp_path / "in.odt") as old, zipfile.ZipFile(tmp_path / "out.odt") as new:
        both = [
            [(one.filename, one.compress_type, one.date_time, one.external_attr) for one in archive.infolist()]
            for archive in (old, new)
        ]
    assert both[0] == both[1]
    assert (tmp_path / "out.odt").read_bytes()[30:38] == b"mimetype"  # where programs look for it
    assert (tmp_path / "out.odt").read_bytes()[38 : 38 + len(ODT)] == ODT.encode()


# ---- what is refused


def part(text: str) -> bytes:
    return packed({"mimetype": ODT, "content.xml": text})


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><x>&b;</x>'
FILE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (part(LAUGHS), "a.odt: content.xml is refused: it declares a document type or entities"),
        (part(FILE), "declares a document type or entities"),
        (part('<!DOCTYPE x SYSTEM "http://example.org/x.dtd"><x/>'), "declares a document type or entities"),
        (part("<x>"), "a.odt: content.xml is damaged: no element found"),
        (part("<x>&nbsp;</x>"), "is damaged: undefined entity"),
        (part(""), "is damaged"),
        (part('<?xml version="1.0" encoding="utf-7"?><x/>'), '"utf-7", which is not supported'),
        (part("<x>" * 200 + "</x>" * 200), "more than 150 deep"),
        (b"", "cannot be opened: File is not a zip file. Is it a valid .odt document?"),
        (b"PK\x03\x04 no", "cannot be opened"),
        (packed({"x": "y"}), "a.odt is not a valid .odt document: it has no content.xml"),
        (packed({"content.xml": "<x/>", "bomb": bytes(40 << 20)}), "a.odt is refused as a zip bomb"),
    ],
)  # fmt: skip
def test_harmful_and_broken_archives_are_refused(data: bytes, told: str) -> None:
    with pytest.raises(HeadwayError) as error:
        translate_odt(data, "a.odt", same)
    assert told in str(error.value)


def test_bytes_that_were_changed_are_noticed() -> None:
    data = bytearray(packed({"content.xml": "<x/>", "picture.png": bytes(range(256)) * 9}))
    at = data.index(b"picture.png") + 40
    data[at : at + 20] = b"\xff" * 20
    with pytest.raises(HeadwayError, match="a.odt is damaged: picture.png: "):
        translate_odt(bytes(data), "a.odt", same)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (DocumentLimits(parts=2), "a.odt has 3 parts: at most 2 are allowed"),
        (DocumentLimits(unpacked_bytes=100), "a.odt is refused as a zip bomb"),
        (DocumentLimits(part_bytes=10), "content.xml is larger than 10 bytes, the limit for a part"),
        (DocumentLimits(elements=4), "content.xml has more than 4 elements"),
        (DocumentLimits(depth=3), "content.xml has elements nested more than 3 deep"),
        (DocumentLimits(characters=4), "the file has more than 4 characters of text"),
    ],
)
def test_limits(limits: DocumentLimits, told: str) -> None:
    data = odt("<text:p>a dog</text:p>")
    with apply_limits(limits), pytest.raises(HeadwayError, match=told):
        translate_odt(data, "a.odt", same)
    assert translate_odt(data, "a.odt", same)


def test_limits_are_of_the_whole_document() -> None:
    data = docx("<w:p/>" * 20, footnotes="<w:p/>" * 20, header1="<w:p/>" * 20)
    with apply_limits(DocumentLimits(elements=40)), pytest.raises(HeadwayError, match="more than 40 elements"):
        translate_docx(data, "a.docx", same)


def test_parts_that_lie_about_their_size_are_not_unpacked_whole() -> None:
    """The directory says 10 bytes, and the part has 40 MB: no more than a chunk of it is ever in memory."""
    for name in ("content.xml", "picture.png"):
        data = bytearray(packed({"mimetype": ODT, "content.xml": "<x/>", name: bytes(40 << 20)}))
        for sign, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
            start = [at for at in range(len(data)) if data.startswith(sign, at)][-1]
            data[start + place : start + place + 4] = (10).to_bytes(4, "little")
        tracemalloc.start()
        try:
            with pytest.raises(HeadwayError, match="a.odt is damaged"):
                translate_odt(bytes(data), "a.odt", same)
            assert tracemalloc.get_traced_memory()[1] < 2 << 20
        finally:
            tracemalloc.stop()


def test_a_part_that_is_read_twice_counts_once() -> None:
    data = odt("<text:p>a dog</text:p>")
    size = sum(map(len, unpacked(data).values()))
    with apply_limits(DocumentLimits(unpacked_bytes=size)) as meter:
        translate_odt(data, "a.odt", same)
    assert meter.unpacked_bytes == size


def test_packing_methods_without_a_bound_are_refused() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as made:
        made.writestr("content.xml", "<x/>")
    with pytest.raises(HeadwayError, match="content.xml is packed by a method that such documents do not use"):
        translate_odt(out.getvalue(), "a.odt", same)


def test_two_parts_of_one_name_and_passwords_are_refused() -> None:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as twice:
        warnings.simplefilter("ignore")
        twice.writestr("content.xml", "<x/>")
        twice.writestr("content.xml", "<y/>")
    with pytest.raises(HeadwayError, match="two of its parts have the same name"):
        translate_odt(out.getvalue(), "a.odt", same)
    locked = bytearray(odt("<text:p>a</text:p>"))
    for sign, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(sign) + place] |= 1
    with pytest.raises(HeadwayError, match="a.odt is encrypted. Save it without a password first"):
        translate_odt(bytes(locked), "a.odt", same)


def test_archives_in_archives_are_copied_unopened() -> None:
    bomb = packed({"big": bytes(1 << 20)})
    given = {**unpacked(odt("<text:p>a b</text:p>")), "Object 1/x.zip": bomb}
    new, _ = translate_odt(packed(given), "a.odt", louder)
    assert unpacked(new)["Object 1/x.zip"] == bomb


def test_letters_that_xml_cannot_have_are_left_out() -> None:
    assert content("<text:p>a</text:p>", fixed("b\x00\x1fc\ud800")) == "<text:p>bc</text:p>"


def test_letters_by_number_are_what_xml_says() -> None:
    given = f"a&#146;b &#x{'0' * 5000}e9; &amp;amp; &lt;&gt;&quot;&apos;&#x1F600;"
    said = "a\x92b é &amp;amp; &lt;&gt;\"'😀 c"

    def more(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
        return [SegmentResult(f"{one.text} c") for one in asked]

    assert content(f"<text:p>{given}</text:p>", more) == f"<text:p>{said}</text:p>"
    assert paragraphs(f"<w:p>{run(given)}</w:p>", more) == f"<w:p>{run(said)}</w:p>"


def test_utf_16_parts() -> None:
    text = (
        HEAD.replace("UTF-8", "UTF-16")
        + "<x xmlns:text='urn:oasis:names:tc:opendocument:xmlns:text:1.0'><text:p>a b</text:p></x>"
    )
    new, _ = translate_odt(packed({"content.xml": text.encode("utf-16")}), "a.odt", backwards)
    assert unpacked(new)["content.xml"].decode("utf-16") == text.replace("a b", "B A")


# ---- the real programs


@pytest.mark.slow
@needs_libreoffice
@pytest.mark.parametrize(("ending", "says"), [("docx", "TOO THIS AND HOUSE1 RED THE"), ("odt", "HOUSE RED THE")])
def test_libreoffice_opens_what_comes_back(ending: str, says: str, tmp_path: Path) -> None:
    footnote = f"<w:footnote w:id='1'><w:p>{run('a note')}</w:p></w:footnote>"
    link = f"<w:hyperlink r:id='r9'>{run('this', BOLD)}</w:hyperlink>"
    body = f"<w:p>{run('The ')}{run('red', BOLD)}{run(' house')}{NOTE}{run(' and ')}{link}{run(' too')}</w:p>"
    given = (
        docx(body, footnotes=footnote) if ending == "docx" else odt(f"<text:p>The {SPAN.format('red')} house</text:p>")
    )
    (tmp_path / f"in.{ending}").write_bytes(given)
    translate_file(tmp_path / f"in.{ending}", tmp_path / f"out.{ending}", backwards)
    assert opened(tmp_path / f"out.{ending}").strip() == says
