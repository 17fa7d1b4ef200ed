"""The numbers of notes, such as [1], * or 2,3: they stand at a word, or behind a stop, and are no part of it."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from headway.documents.markup import Piece

Look = Literal["", "raised", "link"]
MOST = 16  # pieces that one may have, and that are looked at behind it
BEFORE = 8  # characters that are looked at before it
STOPS = ".,;:!?…\"'“”‘’»›)]}。、，！？；："
SIGN = re.compile(r"[^\s.,;:!?…\"'–—-]")  # what shows that it is more than a stop
POWER = re.compile(r"(?:^|[\W\d_])[^\W\d_][a-z]?\Z")  # m, km, x: a single digit above one is no note


def as_points(
    pieces: Sequence[Piece], look: Callable[[Piece], Look], write: Callable[[Sequence[Piece]], str]
) -> list[Piece]:
    """Each note as one piece. look: of a piece that opens."""
    result: list[Piece] = []
    before, place = "", 0
    while place < len(pieces):
        piece = pieces[place]
        kind = look(piece) if piece.kind == "open" else ""
        end = end_of(pieces, place, look) if kind else place
        said = "".join(one.text for one in pieces[place:end] if one.kind == "text").strip()
        if kind and is_note(kind, said, before, text_after(pieces, end)):
            result.append(Piece("point", write(pieces[place:end])))
            place = end
            continue
        if piece.kind == "break":
            before = ""
        elif piece.kind in ("text", "kept"):
            before = (before + piece.text)[-BEFORE:]
        result.append(piece)
        place += 1
    return result


def end_of(pieces: Sequence[Piece], place: int, look: Callable[[Piece], Look]) -> int:
    """Behind what opens here, and others of its look that follow at once; nowhere if there are letters in it."""
    kind, end, depth = look(pieces[place]), place, 0
    for at, piece in enumerate(pieces[place : place + MOST], place):
        if depth == 0 and (piece.kind != "open" or look(piece) != kind):
            break
        if piece.kind in ("break", "kept") or piece.inside is not None:
            break
        if piece.kind == "text" and any(map(str.isalpha, piece.text)):
            break
        depth += (piece.kind == "open") - (piece.kind == "close")
        if depth == 0:
            end = at + 1
    return end


def text_after(pieces: Sequence[Piece], place: int) -> str:
    for piece in pieces[place : place + MOST]:
        if piece.kind in ("text", "kept", "break"):
            return piece.text
    return ""


def is_note(kind: Look, said: str, before: str, after: str) -> bool:
    if not SIGN.search(said) or after[:1].isalnum():  # without it two words would be one
        return False
    if kind == "raised":
        return not (len(said) == 1 and said.isdigit() and POWER.search(before))
    last = before[-1:]
    if not last or not (last.isalnum() or last in STOPS):
        return False
    return not (said.isdigit() and before.rstrip(".,")[-1:].isdigit())  # 1.<a>2</a> is one number
