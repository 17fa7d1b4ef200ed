"""Plain text (.txt): each line is a segment, and so is a paragraph that was wrapped at a fixed width."""

import re

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.limits import current_meter
from headway.documents.markup import MarkupFormat, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.text.segment.wrapped_lines import unwrap_text

LINE_OR_BREAK = re.compile(r"[\r\n\f\ufeff]+|[^\r\n\f\ufeff]+")


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    source = decode_text(data, name)
    current_meter().count_elements(source.text.count("\n") + source.text.count("\r"), name)
    layout = unwrap_text(source.text)
    queue = SegmentQueue()
    parts = collect_segments(parse_txt(layout.text if layout else source.text), queue, TEXT_FORMAT)
    queue.translate_all(translate)
    text = write_translated(parts, queue, TEXT_FORMAT)[0]
    return DecodedText(layout.restore(text) if layout else text, source.encoding).encode(), queue.counts()


def parse_txt(text: str) -> list[Piece]:
    """Lines, and the line ends between them."""
    chunks = (match[0] for match in LINE_OR_BREAK.finditer(text))
    return [Piece("break", chunk) if chunk[0] in "\r\n\f\ufeff" else Piece("text", chunk, chunk) for chunk in chunks]


def write_txt(items: OutputItems) -> str:
    return "".join(item if isinstance(item, str) else item.raw for item in items)


COLLAPSED_TEXT_FORMAT = MarkupFormat(write_txt)
TEXT_FORMAT = MarkupFormat(write_txt, collapses_whitespace=False)  # like lines of standard input
