"""Plain text as blocks: a block a line, or a block a paragraph where lines were wrapped at a fixed width."""

from collections.abc import Iterator

from headway.documents.blocks.block import TextBlock, join_words
from headway.documents.encodings import decode_text
from headway.documents.limits import current_meter
from headway.text.segment.wrapped_lines import LINE_BREAK, unwrap_text


def read_txt_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    text = decode_text(data, name).text.removeprefix("\ufeff")
    current_meter().count_elements(text.count("\n") + text.count("\r"), name)
    layout = unwrap_text(text)
    line = 1
    for paragraph in layout.paragraphs if layout else ():
        last = line + len(paragraph.lines) - 1
        if words := join_words(paragraph.line):
            yield TextBlock(words, line, last=last)
        line = last + 1
    for number, words in enumerate(map(join_words, () if layout else LINE_BREAK.split(text)), start=1):
        if words:
            yield TextBlock(words, number)
