"""A document as a sequence of pieces: text, inline tags, and breaks between segments.

The raw text of all pieces, joined, is the document, to the byte. A segment is what lies between two breaks; within it,
every tag has its partner, because a tag without one counts as a break."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from headway.documents.inline_tags import InlineTag
from headway.documents.segments import SegmentQueue
from headway.documents.tag_placement import place_tags
from headway.text.spans.protect import PLACEHOLDER, format_placeholder

PieceKind = Literal["text", "open", "close", "standalone", "verbatim", "break"]
WHITESPACE = " \t\r\n\f"
WHITESPACE_RUN = re.compile(f"[{WHITESPACE}]+")
MAX_NESTED_PAIRS = 50  # in one segment
MAX_SEGMENT_PIECES = 2000  # placing tags takes time proportional to their square
SOFT_HYPHEN = "\u00ad"
OBJECT = "\ufffc"  # the text of a verbatim piece without words: an image, a formula


class Piece(NamedTuple):
    """A stretch of a document.

    text: translated. open, close: a pair of tags. standalone: a tag without a partner, such as an image. verbatim: text
    inside a sentence that is not translated, such as code, with its tags. break: anything between segments."""

    kind: PieceKind
    raw: str  # as in the document
    text: str = ""  # of text and verbatim pieces: decoded
    name: str = ""  # of a tag with a partner
    nested: "Sequence[Piece | MarkupSegment] | None" = None  # segments inside this piece; raw is used if none changes


OutputItems = Sequence["Piece | str"]  # unchanged pieces, and new text between them


class MarkupFormat(NamedTuple):
    """How a format writes a segment, and how it simplifies pieces before they become one."""

    write: Callable[[OutputItems], str]
    simplify: Callable[[list[Piece]], list[Piece]] = lambda pieces: pieces
    collapses_whitespace: bool = True


@dataclass(frozen=True)
class MarkupSegment:
    """Pieces that are translated together, and those around them."""

    before: list[Piece]
    body: list[Piece]
    after: list[Piece]
    plain: str = ""
    tags: Sequence[InlineTag] = ()
    number: int = -1  # in the queue; -1: nothing to translate


Parts = Sequence[Piece | MarkupSegment]


def collect_segments(
    pieces: Sequence[Piece], queue: SegmentQueue, markup_format: MarkupFormat
) -> list[Piece | MarkupSegment]:
    """Group pieces into segments, queue those with text, and keep what lies between them."""
    parts: list[Piece | MarkupSegment] = []
    current: list[Piece] = []
    unpaired = find_unpaired(pieces)
    for index, piece in enumerate(pieces):
        if piece.nested is not None:
            nested = [part for part in piece.nested if isinstance(part, Piece)]
            piece = piece._replace(nested=collect_segments(nested, queue, markup_format))
        if piece.kind == "break" or index in unpaired:
            parts += [make_segment(current, queue, markup_format)] if current else []
            parts.append(piece._replace(kind="break"))
            current = []
        else:
            current.append(piece)
    return [*parts, make_segment(current, queue, markup_format)] if current else parts


def write_translated(parts: Parts, queue: SegmentQueue, markup_format: MarkupFormat) -> tuple[str, bool]:
    """The document with its translations, and whether anything has changed."""
    output = []
    any_changed = False
    for part in parts:
        if isinstance(part, Piece):
            piece, changed = resolve_nested(part, queue, markup_format)
            text = piece.raw
        else:
            text, changed = write_segment(part, queue, markup_format)
        output.append(text)
        any_changed |= changed
    return "".join(output), any_changed


def write_segment(segment: MarkupSegment, queue: SegmentQueue, markup_format: MarkupFormat) -> tuple[str, bool]:
    result = queue.results[segment.number] if segment.number >= 0 else None
    items: list[Piece | str] = [*segment.before, *segment.body, *segment.after]
    any_changed = False
    if result is not None and not result.text.strip():
        queue.reject(segment.number, "the translation is empty")
    elif result is not None and result.text != segment.plain:
        translated = place_tags(segment.plain, segment.tags, result.text, result.links)
        items = [*segment.before, *translated, *segment.after]
        any_changed = True
    resolved: list[Piece | str] = []
    for item in items:
        if isinstance(item, Piece):
            item, changed = resolve_nested(item, queue, markup_format)
            any_changed |= changed
        resolved.append(item)
    return markup_format.write(resolved), any_changed


def resolve_nested(piece: Piece, queue: SegmentQueue, markup_format: MarkupFormat) -> tuple[Piece, bool]:
    """The piece with the translations of its nested segments written into it, and whether it has changed."""
    if piece.nested is None:
        return piece, False
    raw, changed = write_translated(piece.nested, queue, markup_format)
    return (piece._replace(raw=raw, nested=None), True) if changed else (piece, False)


def find_unpaired(pieces: Sequence[Piece]) -> set[int]:
    """Tags without a partner in their segment, as indices. None of them lies between two partners."""
    unpaired: set[int] = set()
    opened: list[int] = []
    segment_start = 0
    for index, piece in enumerate(pieces):
        if piece.kind == "open":
            over_limit = len(opened) == MAX_NESTED_PAIRS
        else:
            over_limit = index - segment_start > MAX_SEGMENT_PIECES and piece.kind != "text"
        if piece.kind == "close" and opened and pieces[opened[-1]].name == piece.name and not over_limit:
            opened.pop()
        elif piece.kind in ("close", "break") or over_limit:
            unpaired.update(opened, [index])
            opened = []
            segment_start = index
        elif piece.kind == "open":
            opened.append(index)
    return unpaired.union(opened)


def make_segment(pieces: list[Piece], queue: SegmentQueue, markup_format: MarkupFormat) -> MarkupSegment:
    before, body, after = trim_segment(markup_format.simplify(pieces))
    normalise = collapse_whitespace if markup_format.collapses_whitespace else drop_soft_hyphens
    plain, tags, verbatim = extract_text(body, normalise)
    translatable = "".join(piece.text for piece in body if piece.kind == "text")
    if not any(character.isalpha() for character in translatable):
        return MarkupSegment(before, body, after)
    align = any(tag.kind != "verbatim" for tag in tags)  # placeholders say themselves where they belong
    return MarkupSegment(before, body, after, plain, tags, queue.add(plain, align, verbatim))


def trim_segment(pieces: list[Piece]) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """Split off what is at the edges: whitespace, tags around everything, tags around nothing."""
    partners = find_partners(pieces)
    text_counts = [0]  # how many pieces have text, up to each index
    for piece in pieces:
        has_text = piece.kind in ("text", "verbatim") and bool(piece.text.strip(WHITESPACE + OBJECT))
        text_counts.append(text_counts[-1] + has_text)

    def is_empty(start: int, end: int) -> bool:
        return text_counts[end] == text_counts[start]

    first = 0
    last = len(pieces)
    while first < last:
        left, right = partners.get(first, first), partners.get(last - 1, last - 1)
        if left >= first and is_empty(first, left + 1):
            first = left + 1
        elif right < last and is_empty(right, last):
            last = right
        elif left == last - 1 and left > first:
            first, last = first + 1, last - 1
        else:
            break
    before, body, after = pieces[:first], pieces[first:last], pieces[last:]
    if body and body[0].kind == "text":
        space, body[0] = split_leading_space(body[0])
        before += [space] if space.raw else []
    if body and body[-1].kind == "text":
        stripped = body[-1].raw.rstrip(WHITESPACE)
        space_length = len(body[-1].raw) - len(stripped)
        if space_length:
            after = [Piece("text", body[-1].raw[-space_length:], body[-1].text[-space_length:]), *after]
            body[-1] = Piece("text", stripped, body[-1].text[:-space_length])
    return before, body, after


def split_leading_space(piece: Piece) -> tuple[Piece, Piece]:
    """The whitespace at the start of a piece, which is never written as an entity, and the rest."""
    size = len(piece.raw) - len(piece.raw.lstrip(WHITESPACE))
    return Piece("text", piece.raw[:size], piece.text[:size]), Piece("text", piece.raw[size:], piece.text[size:])


def find_partners(pieces: Sequence[Piece]) -> dict[int, int]:
    """The index of each tag's partner; all tags have one."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.kind == "open":
            opened.append(index)
        elif piece.kind == "close":
            partners[index] = opened.pop()
            partners[partners[index]] = index
    return partners


def extract_text(body: Sequence[Piece], normalise: Callable[[str], str]) -> tuple[str, list[InlineTag], dict[str, str]]:
    """The plain text of a segment, on one line, and its tags with their positions in it.

    A placeholder ⟦0⟧, ⟦1⟧ … stands for each verbatim piece, so that nobody takes it for words: which piece is the third
    value. Numbers that the text itself has in such brackets are left out."""
    plain = ""
    verbatim: dict[str, str] = {}
    taken = [int(match[1]) for piece in body if piece.kind == "text" for match in PLACEHOLDER.finditer(piece.text)]
    first_number = max(taken, default=-1) + 1
    levels: list[list[InlineTag]] = [[]]
    opened: list[tuple[int, Piece]] = []
    for piece in body:
        if piece.kind == "open":
            opened.append((len(plain), piece))
            levels.append([])
            continue
        start = len(plain)
        if piece.kind == "verbatim" and piece.text.strip():
            placeholder = format_placeholder(first_number + len(verbatim))
            verbatim[placeholder] = normalise(piece.text).strip()
            plain += placeholder
        elif piece.kind == "text":
            text = normalise(piece.text)
            if text[:1] == " " and plain[-1:] in (" ", ""):
                text = text[1:]
                if levels[-1] and levels[-1][-1].kind == "standalone" and levels[-1][-1].end == start:
                    levels[-1][-1] = replace(levels[-1][-1], spaced=True)
            plain += text
        if piece.kind == "close":
            children = levels.pop()
            start, opening = opened.pop()
            tag = InlineTag("pair", opening, start, len(plain), piece, children)
            levels[-1].append(tag.standalone_if_empty(plain))
        elif piece.kind != "text":
            kind: Literal["verbatim", "standalone"] = "verbatim" if len(plain) > start else "standalone"
            levels[-1].append(InlineTag(kind, piece, start, len(plain)))
    return plain, levels[0], verbatim


def collapse_whitespace(text: str) -> str:
    """One space for many, as a browser shows it."""
    return WHITESPACE_RUN.sub(" ", drop_soft_hyphens(text))


def drop_soft_hyphens(text: str) -> str:
    """Soft hyphens would split words that a model knows."""
    return text.replace(SOFT_HYPHEN, "")
