"""PDF files: their text comes out as paragraphs; what cannot be read is refused, whatever is in it."""

import sys
from pathlib import Path

import pytest

from documents.speakers import louder
from headway.documents import available_suffixes, files, output_suffix, pdf, sample_text, translate_file
from headway.documents.limits import DocumentLimits, apply_limits
from headway.documents.pdf import join_lines, translate_bytes
from headway.errors import HeadwayError

pypdf = pytest.importorskip("pypdf")


def make_pdf(*pages: list[str]) -> bytes:
    """Lines of text in Helvetica."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for lines in pages:
        shown = " ".join(f"({line}) Tj T*".replace("\\", "") for line in lines)
        content = f"BT /F1 12 Tf 14 TL 50 700 Td {shown} ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content))
        resources = b"/Resources << /Font << /F1 3 0 R >> >>"
        box = b"/MediaBox [0 0 612 792]"
        objects.append(b"<< /Type /Page /Parent 2 0 R %s %s /Contents %d 0 R >>" % (box, resources, len(objects)))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), len(kids))
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n%s%s" % (size, table, trailer)


def test_the_text_of_a_file(tmp_path: Path) -> None:
    page = [
        "A title",
        "The dog that lives in the red house at the end of",
        "the street barks. It sleeps in the gar-",
        "den.",
    ]
    (tmp_path / "a.PDF").write_bytes(make_pdf(page, ["Second page"]))
    assert output_suffix("a.PDF") == ".txt"
    counts = translate_file(tmp_path / "a.PDF", tmp_path / "a.txt", louder)
    assert counts.translated == 3
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == (
        "A TITLE\nTHE DOG THAT LIVES IN THE RED HOUSE AT THE END OF THE STREET BARKS. IT SLEEPS IN THE GARDEN.\n\n"
        "SECOND PAGE\n"
    )
    assert sample_text(tmp_path / "a.PDF").startswith("A title The dog")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["Short lines", "stay apart"], "Short lines\nstay apart"),
        (["x" * 40 + " goes on", "here."], "x" * 40 + " goes on here."),
        (["x" * 40, "", "new"], "x" * 40 + "\nnew"),
        (["x" * 40, "- an item", "2. two"], "x" * 40 + "\n- an item\n2. two"),
        (["x" * 40 + " E-Mail-", "Adresse"], "x" * 40 + " E-Mail-Adresse"),
        (["x" * 40 + " Hunde-", "hütte"], "x" * 40 + " Hundehütte"),
        ([], ""),
    ],
)
def test_lines_become_paragraphs(lines: list[str], wanted: str) -> None:
    assert join_lines("\n".join(lines)) == wanted


def encrypted() -> bytes:
    from io import BytesIO

    writer = pypdf.PdfWriter(clone_from=BytesIO(make_pdf(["secret words"])))
    writer.encrypt("password", algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "damaged, or not a PDF"),
        (b"%PDF-1.4\n%%EOF", "damaged, or not a PDF"),
        (b"\x00" * 1000, "damaged, or not a PDF"),
        (make_pdf(["word"])[:300], "damaged, or not a PDF"),
        (make_pdf(["word"]).replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"), "damaged|has no text"),
        (make_pdf([]), r"a\.pdf has no text: are its pages pictures\? Recognise their text"),
        (encrypted(), r"a\.pdf is encrypted\. Save it without a password first"),
    ],
)
def test_files_that_are_refused(data: bytes, told: str) -> None:
    with pytest.raises(HeadwayError, match=told):
        translate_bytes(data, "a.pdf", louder)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    two = make_pdf(["some words"], ["more words"])
    with apply_limits(DocumentLimits(characters=15)), pytest.raises(HeadwayError, match="more than 15 characters"):
        translate_bytes(two, "a.pdf", louder)
    with apply_limits(DocumentLimits(unpacked_bytes=5)), pytest.raises(HeadwayError, match="zip bomb"):
        translate_bytes(two, "a.pdf", louder)
    monkeypatch.setattr(pdf, "MAX_PAGE_BYTES", 20)
    with pytest.raises(HeadwayError, match=r"a\.pdf: page 1 is larger than 20 bytes, the limit for a page"):
        translate_bytes(two, "a.pdf", louder)
    monkeypatch.undo()
    with (
        apply_limits(DocumentLimits(pages=1)),
        pytest.raises(HeadwayError, match="has 2 pages: at most 1"),
    ):
        translate_bytes(two, "a.pdf", louder)
    with apply_limits(DocumentLimits(seconds=-1)), pytest.raises(HeadwayError, match="takes longer than -1 s to read"):
        translate_bytes(two, "a.pdf", louder)


def test_memory_that_ends_is_not_called_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **more: object) -> None:
        raise MemoryError

    monkeypatch.setattr(pypdf, "PdfReader", full)
    with pytest.raises(MemoryError):
        translate_bytes(b"x", "a.pdf", louder)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ".pdf" in available_suffixes()
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with pytest.raises(
        HeadwayError, match=r"a\.pdf: \.pdf files need pypdf\. Install it: pip install 'headway\[pdf\]'"
    ):
        translate_bytes(b"x", "a.pdf", louder)
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert ".pdf" not in available_suffixes()
    assert ".docx" in available_suffixes()
