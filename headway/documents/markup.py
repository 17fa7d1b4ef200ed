"""A document as pieces: text, tags within it, and whatever stands between segments.

Written one after the other, the pieces are the document again, to the byte. Segments are what stands between two
breaks; in them every tag has its partner, because a tag without one counts as a break."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from headway.documents.inline_tags import Mark
from headway.documents.segments import Work
from headway.documents.tag_placement import placed

Kind = Literal["text", "open", "close", "point", "kept", "break"]
SPACE = " \t\r\n\f"
SPACES = re.compile(f"[{SPACE}]+")
DEEPEST = 50  # pairs inside pairs in one segment
LONGEST = 2000  # pieces of one segment: placing takes the square of their number
SOFT_HYPHEN = "\u00ad"


class Piece(NamedTuple):
    kind: Kind
    raw: str  # as the document has it
    text: str = ""  # what a piece of text, or one that is kept, says
    name: str = ""  # of a tag that has a partner
    inside: "Sequence[Piece | Segment] | None" = None  # a piece that holds segments of its own; raw, unless they change


Items = Sequence["Piece | str"]  # pieces as they were, and new text between them


class Dialect(NamedTuple):
    """How a format writes a segment, and what it does to pieces before they become one."""

    write: Callable[[Items], str]
    tidy: Callable[[list[Piece]], list[Piece]] = lambda pieces: pieces
    squeezes: bool = True  # whether many spaces are shown as one


@dataclass(frozen=True)
class Segment:
    """What is translated as a whole, and what stands around it."""

    before: list[Piece]
    body: list[Piece]
    after: list[Piece]
    plain: str = ""
    marks: Sequence[Mark] = ()
    number: int = -1  # of the work; -1: there is nothing in it to translate


Parts = Sequence[Piece | Segment]


def gather(pieces: Sequence[Piece], work: Work, dialect: Dialect) -> list[Piece | Segment]:
    """The segments of a document, asked for, with what stands between them."""
    parts: list[Piece | Segment] = []
    run: list[Piece] = []
    loose = unmatched(pieces)
    for place, piece in enumerate(pieces):
        if piece.inside is not None:
            piece = piece._replace(inside=gather([p for p in piece.inside if isinstance(p, Piece)], work, dialect))
        if piece.kind == "break" or place in loose:
            parts += [segment(run, work, dialect)] if run else []
            parts.append(piece._replace(kind="break"))
            run = []
        else:
            run.append(piece)
    return [*parts, segment(run, work, dialect)] if run else parts


def written(parts: Parts, work: Work, dialect: Dialect) -> tuple[str, bool]:
    """The document with its translations, and whether anything has changed."""
    out, changed = [], False
    for part in parts:
        if isinstance(part, Piece):
            piece, new = settled(part, work, dialect)
            text = piece.raw
        else:
            text, new = written_segment(part, work, dialect)
        out.append(text)
        changed |= new
    return "".join(out), changed


def written_segment(part: Segment, work: Work, dialect: Dialect) -> tuple[str, bool]:
    said = work.said[part.number] if part.number >= 0 else None
    items: list[Piece | str] = [*part.before, *part.body, *part.after]
    changed = False
    if said is not None and not said.text.strip():
        work.refuse(part.number, "the translation is empty")
    elif said is not None and said.text != part.plain:
        items = [*part.before, *placed(part.plain, part.marks, said.text, said.links), *part.after]
        changed = True
    done: list[Piece | str] = []
    for item in items:
        if isinstance(item, Piece):
            item, new = settled(item, work, dialect)
            changed |= new
        done.append(item)
    return dialect.write(done), changed


def settled(piece: Piece, work: Work, dialect: Dialect) -> tuple[Piece, bool]:
    """With what its own segments have become."""
    if piece.inside is None:
        return piece, False
    raw, changed = written(piece.inside, work, dialect)
    return (piece._replace(raw=raw, inside=None), True) if changed else (piece, False)


def unmatched(pieces: Sequence[Piece]) -> set[int]:
    """Tags that have no partner in their segment. Between two that are partners there is never one of them."""
    loose: set[int] = set()
    waiting: list[int] = []
    start = 0
    for place, piece in enumerate(pieces):
        too_much = len(waiting) == DEEPEST if piece.kind == "open" else place - start > LONGEST and piece.kind != "text"
        if piece.kind == "close" and waiting and pieces[waiting[-1]].name == piece.name and not too_much:
            waiting.pop()
        elif piece.kind in ("close", "break") or too_much:
            loose.update(waiting, [place])
            waiting, start = [], place
        elif piece.kind == "open":
            waiting.append(place)
    return loose.union(waiting)


def segment(pieces: list[Piece], work: Work, dialect: Dialect) -> Segment:
    before, body, after = trimmed(dialect.tidy(pieces))
    plain, marks = read(body, squeezed if dialect.squeezes else unhyphenated)
    own = "".join(piece.text for piece in body if piece.kind == "text")
    if not any(character.isalpha() for character in own):
        return Segment(before, body, after)
    return Segment(before, body, after, plain, marks, work.ask(plain, bool(marks)))


def trimmed(pieces: list[Piece]) -> tuple[list[Piece], list[Piece], list[Piece]]:
    """What stands at the edges goes: space, tags around everything, tags around nothing."""
    partner = partners(pieces)
    tells = [0]  # how many pieces say something, up to each place
    for piece in pieces:
        tells.append(tells[-1] + (piece.kind in ("text", "kept") and bool(piece.text.strip(SPACE))))

    def silent(start: int, end: int) -> bool:
        return tells[end] == tells[start]

    first, last = 0, len(pieces)
    while first < last:
        left, right = partner.get(first, first), partner.get(last - 1, last - 1)
        if left >= first and silent(first, left + 1):
            first = left + 1
        elif right < last and silent(right, last):
            last = right
        elif left == last - 1 and left > first:
            first, last = first + 1, last - 1
        else:
            break
    before, body, after = pieces[:first], pieces[first:last], pieces[last:]
    if body and body[0].kind == "text":
        space, body[0] = cut_space(body[0])
        before += [space] if space.raw else []
    if body and body[-1].kind == "text":
        rest = body[-1].raw.rstrip(SPACE)
        gone = len(body[-1].raw) - len(rest)
        if gone:
            after = [Piece("text", body[-1].raw[-gone:], body[-1].text[-gone:]), *after]
            body[-1] = Piece("text", rest, body[-1].text[:-gone])
    return before, body, after


def cut_space(piece: Piece) -> tuple[Piece, Piece]:
    """The space at the beginning of a piece, which is never written as an entity, and the rest."""
    size = len(piece.raw) - len(piece.raw.lstrip(SPACE))
    return Piece("text", piece.raw[:size], piece.text[:size]), Piece("text", piece.raw[size:], piece.text[size:])


def partners(pieces: Sequence[Piece]) -> dict[int, int]:
    found: dict[int, int] = {}
    waiting: list[int] = []
    for place, piece in enumerate(pieces):
        if piece.kind == "open":
            waiting.append(place)
        elif piece.kind == "close":
            found[place] = waiting.pop()
            found[found[place]] = place
    return found


def read(body: Sequence[Piece], shown: Callable[[str], str]) -> tuple[str, list[Mark]]:
    """The text of a segment on one line, and its tags with their places in it. shown: the text of a piece as it is read."""
    plain = ""
    levels: list[list[Mark]] = [[]]
    starts: list[tuple[int, Piece]] = []
    for piece in body:
        if piece.kind == "open":
            starts.append((len(plain), piece))
            levels.append([])
            continue
        start = len(plain)
        if piece.kind in ("text", "kept"):
            text = shown(piece.text)
            if text[:1] == " " and plain[-1:] in (" ", ""):
                text = text[1:]
                if levels[-1] and levels[-1][-1].kind == "point" and levels[-1][-1].end == start:
                    levels[-1][-1] = replace(levels[-1][-1], spaced=True)
            plain += text
        if piece.kind == "close":
            inner = levels.pop()
            start, opening = starts.pop()
            levels[-1].append(Mark("pair", opening, start, len(plain), piece, inner).or_point(plain))
        elif piece.kind != "text":
            levels[-1].append(Mark("kept" if plain[start:].strip() else "point", piece, start, len(plain)))
    return plain, levels[0]


def squeezed(text: str) -> str:
    """One space for many, as a browser shows it."""
    return SPACES.sub(" ", unhyphenated(text))


def unhyphenated(text: str) -> str:
    """Soft hyphens would cut words that a model knows."""
    return text.replace(SOFT_HYPHEN, "")
