"""Small documents as Word and LibreOffice write them, complete enough to be opened."""

import io
import zipfile
from collections.abc import Mapping

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def packed(members: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            kind = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(zipfile.ZipInfo(name, (2020, 2, 3, 4, 5, 6)), content, kind)
    return out.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def docx(body: str, space: str = W, **more: str) -> bytes:
    parts = {"document": "document.main", "footnotes": "footnotes", "header1": "header"}
    overrides = "".join(
        f'<Override PartName="/word/{part}.xml" ContentType="{TYPE}.{parts[part]}+xml"/>'
        for part in ("document", *more)
    )
    relations = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    types = f'{HEAD}<Types xmlns="{PACKAGE}/content-types">{relations}{overrides}</Types>'
    relation = f'<Relationship Id="r1" Type="{R}/officeDocument" Target="word/document.xml"/>'
    links = (
        f'<Relationship Id="r9" Type="{R}/hyperlink" Target="http://example.org/" TargetMode="External"/>'
        + "".join(f'<Relationship Id="{part}" Type="{R}/{parts[part]}" Target="{part}.xml"/>' for part in more)
    )
    roots = {"footnotes": "footnotes", "header1": "hdr"}
    members = {
        "[Content_Types].xml": types,
        "_rels/.rels": f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{relation}</Relationships>',
        "word/document.xml": f'{HEAD}<w:document xmlns:w="{space}" xmlns:r="{R}"><w:body>{body}</w:body></w:document>',
        "word/_rels/document.xml.rels": f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>',
    }
    for part, content in more.items():
        members[f"word/{part}.xml"] = f'{HEAD}<w:{roots[part]} xmlns:w="{space}">{content}</w:{roots[part]}>'
    return packed(members)


def run(text: str, format: str = "") -> str:
    style = f"<w:rPr>{format}</w:rPr>" if format else ""
    return f'<w:r>{style}<w:t xml:space="preserve">{text}</w:t></w:r>'


NAMES = {"office": "office", "text": "text", "draw": "drawing", "style": "style", "table": "table", "xlink": "xlink"}
OPEN = "urn:oasis:names:tc:opendocument"
SPACES = " ".join(
    f'xmlns:{prefix}="' + ("http://www.w3.org/1999/xlink" if prefix == "xlink" else f"{OPEN}:xmlns:{name}:1.0") + '"'
    for prefix, name in NAMES.items()
)
ODT = "application/vnd.oasis.opendocument.text"


def odt(body: str) -> bytes:
    style = '<style:style style:name="T1" style:family="text"><style:text-properties/></style:style>'
    high = '<style:text-properties style:text-position="super 58%"/>'
    style += f'<style:style style:name="High" style:family="text">{high}</style:style>'
    content = (
        f'{HEAD}<office:document-content {SPACES} office:version="1.2"><office:automatic-styles>{style}'
        f"</office:automatic-styles><office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    entries = "".join(
        f'<manifest:file-entry manifest:full-path="{path}" manifest:media-type="{kind}"/>'
        for path, kind in {"/": ODT, "content.xml": "text/xml"}.items()
    )
    attributes = f'xmlns:manifest="{OPEN}:xmlns:manifest:1.0" manifest:version="1.2"'
    manifest = f"{HEAD}<manifest:manifest {attributes}>{entries}</manifest:manifest>"
    return packed({"mimetype": ODT, "content.xml": content, "META-INF/manifest.xml": manifest})
