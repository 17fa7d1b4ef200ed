"""Plain text: a line is a segment, as `headway translate` reads it, and so is a paragraph that was broken at a width."""

import re

from headway.documents.encodings import Encoded, decoded
from headway.documents.markup import Dialect, Items, Piece, gather, written
from headway.documents.segments import Counts, Translate, Work
from headway.text.segment.wrapped_lines import layout_of

LINE = re.compile(r"[\r\n\f\ufeff]+|[^\r\n\f\ufeff]+")


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    source = decoded(data, name)
    layout, work = layout_of(source.text), Work()
    parts = gather(pieces(layout.text if layout else source.text), work, LINES)
    work.run(translate)
    text = written(parts, work, LINES)[0]
    return Encoded(layout.restored(text) if layout else text, source.encoding).bytes(), work.counts()


def pieces(text: str) -> list[Piece]:
    """Lines, and the ends of lines between them."""
    chunks = (match[0] for match in LINE.finditer(text))
    return [Piece("break", chunk) if chunk[0] in "\r\n\f\ufeff" else Piece("text", chunk, chunk) for chunk in chunks]


def write(items: Items) -> str:
    return "".join(item if isinstance(item, str) else item.raw for item in items)


PLAIN = Dialect(write)
LINES = Dialect(write, squeezes=False)  # as those of standard input
