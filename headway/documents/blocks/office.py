"""Word and OpenDocument text as blocks: paragraphs, and which of them are headings."""

import re
from collections.abc import Iterator

from headway.documents import docx, odt
from headway.documents.blocks.block import TextBlock, join_words
from headway.documents.xml import XmlNode, decode_xml, parse_tree
from headway.documents.zip_archive import ZipDocument
from headway.errors import HeadwayError

STYLE_LEVEL = re.compile(r"\bval\s*=\s*[\"'](?:title|\S*?(?:heading|berschrift|titre|titolo|encabezado|rubrik)\s*(\d)?)[\"']", re.I)  # fmt: skip  # noqa: E501
OUTLINE_LEVEL = re.compile(r"\bval\s*=\s*[\"']([0-8])[\"']")
ODT_LEVEL = re.compile(r"\boutline-level\s*=\s*[\"'](\d)")
HIDDEN_ODT = (*odt.HIDDEN_ELEMENTS, "text:note")


def read_docx_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    root = read_part(data, name, "word/document.xml", docx.PREFIXES)
    for number, node in enumerate(find_outermost(root, ("w:p",)), start=1):
        words = join_words("".join(docx_text(node)))
        if words:
            yield TextBlock(words, number, docx_level(node))


def read_odt_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    root = read_part(data, name, "content.xml", odt.PREFIXES)
    for number, node in enumerate(find_outermost(root, odt.PARAGRAPHS, HIDDEN_ODT), start=1):
        words = join_words("".join(odt_text(node)))
        if words:
            level = ODT_LEVEL.search(node.attributes)
            yield TextBlock(words, number, 0 if node.name == "text:p" else int(level[1]) if level else 1)


def read_part(data: bytes, name: str, part: str, prefixes: dict[str, str]) -> XmlNode:
    archive = ZipDocument(data, name)
    member = next((member for member in archive.members if member.filename == part), None)
    if member is None:
        raise HeadwayError(f"{name} is not a valid .{name.rpartition('.')[2]} document: it has no {part}.")
    part_name = f"{name}: {part}"
    return parse_tree(decode_xml(archive.read_xml(member), part_name).text, part_name, prefixes)


def find_outermost(node: XmlNode, names: tuple[str, ...], hidden: tuple[str, ...] = ()) -> Iterator[XmlNode]:
    """Elements with these names, in order, but none inside another one, nor inside hidden ones."""
    for child in node.children:
        if child.name in names:
            yield child
        elif child.name not in hidden:
            yield from find_outermost(child, names, hidden)


def docx_text(node: XmlNode) -> Iterator[str]:
    for child in node.children:
        if child.name == "w:t":
            yield from (part.text for part in child.children)
        elif child.name in docx.BREAK_ELEMENTS:
            yield " "
        elif child.name == "w:noBreakHyphen":
            yield "-"
        elif child.name not in ("w:del", "w:moveFrom", "w:instrText"):
            yield from docx_text(child)


def docx_level(paragraph: XmlNode) -> int:
    """Of a heading: by its outline level, or by the name of its style; 0 for text."""
    properties = paragraph.find("w:pPr")
    outline, style = (properties and properties.find(name) for name in ("w:outlineLvl", "w:pStyle"))
    if outline and (found := OUTLINE_LEVEL.search(outline.attributes)):
        return int(found[1]) + 1
    found = STYLE_LEVEL.search(style.attributes) if style else None
    return int(found[1] or 1) if found else 0


def odt_text(node: XmlNode) -> Iterator[str]:
    for child in node.children:
        if not child.name:
            yield child.text
        elif child.name in ("text:s", *odt.BREAK_ELEMENTS):
            yield " "
        elif child.name not in HIDDEN_ODT:
            yield from odt_text(child)
