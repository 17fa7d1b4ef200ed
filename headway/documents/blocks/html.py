"""HTML as blocks, and the chapters of e-books, which are HTML."""

import re
from collections.abc import Iterator

from headway.documents.blocks.block import TextBlock, join_words
from headway.documents.encodings import decode_text
from headway.documents.epub import decode_part, expand_empty_elements, find_translated_parts, parse_ncx, parse_package
from headway.documents.html import (
    GRAPHIC_ELEMENTS,
    INLINE_ELEMENTS,
    STANDALONE_ELEMENTS,
    VERBATIM_ELEMENTS,
    declared_encoding,
    tokenize_html,
    unescape_html,
)
from headway.documents.limits import current_meter
from headway.documents.zip_archive import ZipDocument

HEADING = re.compile(r"h([1-6])|(title)")
WITHIN_BLOCK = (INLINE_ELEMENTS | STANDALONE_ELEMENTS | VERBATIM_ELEMENTS | {"br"}) - {"pre"}
SKIPPED_ELEMENTS = GRAPHIC_ELEMENTS | {"nav", "template"}  # menus, and what no reader sees


def read_html_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    text = decode_text(data, name, declared_encoding(data)).text.removeprefix("\ufeff")
    current_meter().count_elements(text.count("<"), name)
    yield from read_html_text(text)


def read_html_text(text: str) -> Iterator[TextBlock]:
    """Every block-level element ends a block."""
    line = first = 1
    level = 0
    parts: list[str] = []
    skipped: list[str] = []  # elements that are open, whose text is left out
    in_code = False

    def finish() -> Iterator[TextBlock]:
        words = "".join(parts)
        words = words.strip("\n").rstrip() if in_code else join_words(words)
        if words.strip():
            yield TextBlock(words, first, level, last=line, code=in_code)
        parts.clear()

    for token in tokenize_html(text):
        heading = HEADING.fullmatch(token.name)
        if token.name in SKIPPED_ELEMENTS:
            if token.kind == "start" and not token.raw.endswith("/>"):
                skipped.append(token.name)
            elif token.name in skipped:
                del skipped[len(skipped) - 1 - skipped[::-1].index(token.name) :]
        elif token.kind == "text" and not skipped:
            if not parts:
                space = token.raw[: len(token.raw) - len(token.raw.lstrip())]
                first = line + space.count("\n")
            parts.append(unescape_html(token.raw))
        elif token.kind in ("start", "end") and not skipped and token.name not in WITHIN_BLOCK:
            yield from finish()
            in_code = token.name == "pre" and token.kind == "start"
            level = int(heading[1] or 1) if heading and token.kind == "start" else 0
        elif token.name == "br" and not skipped:
            parts.append("\n" if in_code else " ")
        line += token.raw.count("\n")
    yield from finish()


def read_epub_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    """The chapters in the order of the package document. Navigation is left out: it repeats their titles."""
    archive = ZipDocument(data, name)
    members = {member.filename: member for member in archive.members}
    chapter = 0
    for path, (parse, _) in find_translated_parts(archive, members).items():
        if parse in (parse_ncx, parse_package):
            continue
        chapter += 1
        for block in read_html_text(expand_empty_elements(decode_part(archive, members[path]).text)):
            yield block._replace(place=chapter, last=chapter)
