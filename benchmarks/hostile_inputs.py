"""Hostile inputs for benchmarks/hostile_load.py: files and texts that cost a careless server much time or memory."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
SENTENCES = (
    "A dog sleeps.",
    "The committee has decided that the new rules will come into force next year.",
    "Two men are standing in front of a red house.",
    "Could you please tell me where the station is?",
    "She has been working in the garden since this morning.",
    "The price of the tickets rose by 12.5 percent in 2019.",
    "I would like to thank the rapporteur for his excellent report.",
    "It is raining.",
)


def pack(members: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return output.getvalue()


def make_docx(body: str, prologue: str = "", more: dict[str, bytes] | None = None) -> bytes:
    document = f'{prologue}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    return pack({"word/document.xml": document, **(more or {})})


def make_odt(body: str) -> bytes:
    return pack({"content.xml": f'<x xmlns:text="{TEXT}"><text:p>{body}</text:p></x>'})


def forge_sizes(archive: bytes, size: int) -> bytes:
    """The same archive, all of whose parts claim this size."""
    forged = bytearray(archive)
    for sign, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = forged.find(sign)
        while at >= 0:
            forged[at + offset : at + offset + 4] = struct.pack("<I", size)
            at = forged.find(sign, at + 4)
    return bytes(forged)


def overlap_parts(part: bytes, count: int) -> bytes:
    """An archive whose directory has one part many times, under different names."""
    archive = pack({"word/document.xml": "<x/>", "a": part})
    end = archive.rfind(b"PK\x05\x06")
    directory = archive.find(b"PK\x01\x02")
    last = archive.rfind(b"PK\x01\x02")
    entry = archive[last:end]
    entries = archive[directory:end] + b"".join(entry[:-1] + bytes([97 + n % 26]) for n in range(1, count))
    counts = struct.pack("<HHII", count + 1, count + 1, len(entries), directory)
    return archive[:directory] + entries + archive[end : end + 8] + counts + b"\0\0"


def make_pdf(content: bytes) -> bytes:
    """A page with this content, compressed."""
    packed = zlib.compress(content, 9)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    output = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(output))
        output += b"%d 0 obj%s endobj\n" % (number, content)
    start = len(output)
    output += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    output += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return bytes(output) + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)


def make_bombs(suffixes: list[str]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file. suffixes: of the formats that the server reads."""
    cue = b"1\n00:00:01,000 --> 00:00:02,000\n"
    paragraph = "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>aaaa</w:t></w:r></w:p>"
    big = bytes(60 << 20)
    yield "elements.docx", make_docx("<w:p/>" * 2_000_000)
    yield "paragraphs.docx", make_docx(paragraph * 300_000)
    yield "just-allowed.docx", make_docx(paragraph * 12_000)
    yield "nested.docx", make_docx("<w:p>" * 500_000 + "</w:p>" * 500_000)
    yield "attribute.docx", make_docx(f"<w:p w:a='{'x' * (15 << 20)}'/>")
    yield "attributes.docx", make_docx("<w:p " + " ".join(f"a{n}=''" for n in range(500_000)) + "/>")
    yield "one-text.docx", make_docx("<w:p><w:r><w:t>" + "a" * (15 << 20) + "\U0001f600</w:t></w:r></w:p>")
    yield "entities.docx", make_docx("&l9;", f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]>')
    yield "external.docx", make_docx("&x;", '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///dev/zero">]>')
    yield "picture.docx", make_docx("<w:p/>", more={"word/a.png": big})
    yield "lying-part.docx", forge_sizes(make_docx("<w:p/>" * 10_000_000), 100)
    yield "lying-picture.docx", forge_sizes(make_docx("<w:p/>", more={"word/a.png": big}), 100)
    yield "overlapping.docx", overlap_parts(bytes(30 << 20), 20)
    yield "many-parts.docx", pack({"word/document.xml": "<x/>", **{f"a{n}": b"" for n in range(60_000)}})
    yield "zip-in-zip.docx", make_docx("<w:p/>", more={"a.zip": pack({"b.zip": pack({"c": big})})})
    yield "bzip2.docx", pack({"word/document.xml": big}, zipfile.ZIP_BZIP2)
    yield "spans.odt", make_odt("<text:span>a</text:span>" * 300_000)
    yield "spans-allowed.odt", make_odt("<text:span>a</text:span>" * 45_000)
    yield "spaces.odt", make_odt("<text:s/>" * 500_000)
    yield "tags.html", b"<b>a</b>" * 1_200_000
    yield "open-tag.html", b"<p " * 3_000_000
    yield "no-break.txt", b"a" * (9 << 20)
    yield "no-break-allowed.txt", b"a" * 49_000
    yield "marks-allowed.txt", ("a" + "\u0301" * 20_000).encode()
    yield "lines.txt", b"a\n" * 4_000_000
    yield "one-cue.srt", cue + b"a" * (1 << 20)
    yield "cues.srt", (cue + b"a dog\n\n") * 150_000
    yield "messages.po", b'msgid "a"\nmsgstr ""\n\n' * 400_000
    yield "one-message.po", b'msgid "' + b"a %s " * 1_000_000 + b'"\nmsgstr ""\n'
    yield "zeros.pdf", make_pdf(bytes(200 << 20))
    yield "operators.pdf", make_pdf(b"BT /F 9 Tf 1 0 0 1 9 9 Tm (a) Tj ET\n" * 1_000_000)
    yield "text.pdf", make_pdf(b"BT /F 9 Tf (" + b"a" * 4_000_000 + b") Tj ET")
    for suffix in suffixes:
        yield f"noise{suffix}", bytes(range(256)) * 100
        yield f"word{suffix}", make_docx(paragraph * 1000)
        yield f"half{suffix}", make_docx(paragraph * 1000)[:-200]


def make_texts() -> dict[str, dict[str, object]]:
    """Bodies of /translate without languages, by name."""
    plain = " ".join(SENTENCES)
    return {
        "no breaks": {"q": "a" * 49_000},
        "combining marks": {"q": "a" + "\u0301" * 48_000},
        "no spaces": {"q": "猫" * 20_000},
        "n-best": {"q": (plain * 30)[:20_000], "alternatives": 10, "beam_size": 16},
        "many texts": {"q": [SENTENCES[n % 8] for n in range(1000)]},
        "long texts": {"q": [plain[:900]] * 900},
        "tags": {"q": "<b>" * 16_000, "format": "html"},
        "pairs of tags": {"q": "<b>a</b>" * 6000, "format": "html"},
        "nested tags": {"q": "<i>" * 8000 + "a" + "</i>" * 8000, "format": "html"},
        "glossary": {"q": plain, "glossary": {f"word {n}": "Wort" for n in range(1000)}},
        "protected": {"q": plain * 50, "protect": [f"o{n}" for n in range(100)]},
        "aligned": {"q": (plain * 50)[:20_000], "alignments": True, "scores": True},
        "emoji": {"q": "\U0001f600" * 20_000},
        "numbers": {"q": "1" * 20_000},
    }
