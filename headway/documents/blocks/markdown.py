"""Markdown as blocks: headings, paragraphs, rows of tables, code."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt

from headway.documents.blocks.block import TextBlock, join_words
from headway.documents.blocks.html import read_html_text
from headway.documents.encodings import decode_text
from headway.documents.limits import current_meter
from headway.documents.markdown import FRONT_MATTER, FRONT_MATTER_TEXT, LABEL, read_front_value

CELL_SEPARATOR = " | "
TITLE = re.compile(r"title\b")


def read_markdown_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    text = decode_text(data, name).text.removeprefix("\ufeff")
    current_meter().count_elements(sum(map(text.count, "\n<[|*_`")), name)
    front = FRONT_MATTER.match(text)
    skipped = 0
    if front:
        skipped = front[0].count("\n")
        yield from read_front_matter(front[0])
        text = text[front.end() :]
    tokens = MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(text)
    for index, token in enumerate(tokens):
        lines = token.map or (0, 1)
        first, last = skipped + lines[0] + 1, skipped + max(lines[1], lines[0] + 1)
        if token.type == "inline" and tokens[index - 1].type not in ("th_open", "td_open"):
            opening = tokens[index - 1]
            level = int(opening.tag[1]) if opening.type == "heading_open" else 0
            if words := plain_inline(token.children or ()):
                yield TextBlock(words, first, level, last)
        elif token.type == "tr_open":
            cells = (one for one in tokens[index : closing_index(tokens, index)] if one.type == "inline")
            if words := CELL_SEPARATOR.join(filter(None, (plain_inline(cell.children or ()) for cell in cells))):
                yield TextBlock(words, first, last=last)
        elif token.type in ("fence", "code_block") and token.content.strip():
            yield TextBlock(token.content.strip("\n").rstrip(), first, last=last, code=True)
        elif token.type == "html_block":
            for block in read_html_text(token.content):
                yield block._replace(place=first + block.place - 1, last=first + block.last - 1)


def read_front_matter(front: str) -> Iterator[TextBlock]:
    """The title of a document, and what it says of itself."""
    for found in FRONT_MATTER_TEXT.finditer(front):
        line = front.count("\n", 0, found.start()) + 1
        if words := join_words(read_front_value(found["value"])):
            yield TextBlock(words, line, level=1 if TITLE.match(found[0]) else 0)


def closing_index(tokens: Sequence[Any], opened: int) -> int:
    """Of the token that closes a row of a table; rows have no rows in them."""
    return next(n for n in range(opened, len(tokens)) if tokens[n].type == "tr_close")


def plain_inline(children: Sequence[Any]) -> str:
    """The text of a paragraph as it is read, without markup."""
    parts = []
    for token in children:
        if token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(plain_inline(token.children or ()))
    text = join_words("".join(parts))
    label = LABEL.match(text)
    return text[label.end() :] if label else text
