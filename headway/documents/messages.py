"""Messages of programs: text with placeholders and tags, as .po and .json files have it.

Placeholders are verbatim pieces, so each is in the translation once. If one is lost or doubled all the same, or if
positional placeholders change their order, the message stays untranslated: programs could crash over it."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from headway.documents.html import INLINE_ELEMENTS, STANDALONE_ELEMENTS, token_piece, tokenize_html
from headway.documents.markup import MarkupSegment, Piece, collect_segments, write_translated
from headway.documents.segments import SegmentQueue
from headway.documents.txt import COLLAPSED_TEXT_FORMAT

PLACEHOLDER = re.compile(
    r"%(?:\([^()\s]+\)|\d+\$)?[-+#0]*+(?:\d++|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|j|z|t|L|q)?[diouxXeEfFgGaAcsprn@%]"
    r"|%<\w+>[a-zA-Z]?|\{\{[^{}]{0,200}\}\}|\$?\{[^{}\s]*\}|\$\([^()\s]+\)|%\w+%"
)
POSITIONAL_PLACEHOLDER = re.compile(r"%(?![(<]|\d+\$)[^%]+|\{(?:[:!].*)?\}")  # one without a name or a number
BLOCK_ELEMENTS = frozenset((
    "p", "br", "li", "ul", "ol", "div", "h1", "h2", "h3", "h4", "h5", "h6", "table", "tr", "td", "th", "hr", "pre",
    "blockquote",
))  # fmt: skip


@dataclass
class QueuedMessage:
    source: str
    parts: list[Piece | MarkupSegment]
    segments: range  # of the queue


def queue_message(source: str, queue: SegmentQueue) -> QueuedMessage:
    first = len(queue.requests)
    parts = collect_segments(parse_message(source), queue, COLLAPSED_TEXT_FORMAT)
    return QueuedMessage(source, parts, range(first, len(queue.requests)))


def parse_message(text: str) -> list[Piece]:
    """The lines of a message, with tags and placeholders. A tag that HTML does not have counts as a word."""
    pieces: list[Piece] = []
    for token in tokenize_html(text):
        if token.kind in ("start", "end") and token.name in BLOCK_ELEMENTS | INLINE_ELEMENTS | STANDALONE_ELEMENTS:
            pieces.append(token_piece(token))
        elif token.kind in ("start", "end"):
            pieces.append(Piece("verbatim", token.raw, token.raw))
        else:
            for line in re.findall(r"[\n\t]+|[^\n\t]+", token.raw):
                pieces += [Piece("break", line)] if line[0] in "\n\t" else split_placeholders(line)
    return pieces


def split_placeholders(line: str) -> Iterator[Piece]:
    position = 0
    for match in PLACEHOLDER.finditer(line):
        if match.start() > position:
            yield Piece("text", line[position : match.start()], line[position : match.start()])
        yield Piece("verbatim", match[0], match[0])
        position = match.end()
    if position < len(line):
        yield Piece("text", line[position:], line[position:])


def translate_message(message: QueuedMessage, queue: SegmentQueue) -> str:
    """The translation of a message; "" if there is none that can be used."""
    translation, _ = write_translated(message.parts, queue, COLLAPSED_TEXT_FORMAT)
    found, expected = (PLACEHOLDER.findall(text) for text in (translation, message.source))
    fault = "differ" if Counter(found) != Counter(expected) else ""
    if not fault and positional_placeholders(found) != positional_placeholders(expected):
        fault = "are in another order"
    if fault:
        for number in message.segments:
            queue.reject(number, f"the placeholders of its translation {fault}")
        return ""
    complete = message.segments and all(queue.results[number].text.strip() for number in message.segments)
    return translation if complete else ""


def positional_placeholders(found: list[str]) -> list[str]:
    return [placeholder for placeholder in found if POSITIONAL_PLACEHOLDER.fullmatch(placeholder)]
