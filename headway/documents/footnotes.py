"""Footnote marks, such as [1], * or 2,3: collapsed to one standalone piece that stays at its word."""

import re
from collections.abc import Callable, Sequence
from typing import Literal

from headway.documents.markup import Piece

NoteStyle = Literal["", "superscript", "link"]
MAX_NOTE_PIECES = 16  # of one mark; also how far ahead the text after it is looked for
CONTEXT_CHARS = 8  # of the text before a mark
PUNCTUATION = ".,;:!?…\"'“”‘’»›)]}。、，！？；："
NOTE_CHARACTER = re.compile(r"[^\s.,;:!?…\"'–—-]")  # a mark has one: punctuation alone is not a mark
UNIT_OR_VARIABLE = re.compile(r"(?:^|[\W\d_])[^\W\d_][a-z]?\Z")  # m, km, x: a single digit above one is an exponent


def collapse_notes(
    pieces: Sequence[Piece], note_style: Callable[[Piece], NoteStyle], write: Callable[[Sequence[Piece]], str]
) -> list[Piece]:
    """Replace the pieces of each footnote mark by one standalone piece. note_style: of an opening tag."""
    result: list[Piece] = []
    before = ""
    index = 0
    while index < len(pieces):
        piece = pieces[index]
        style = note_style(piece) if piece.kind == "open" else ""
        end = find_note_end(pieces, index, note_style) if style else index
        text = "".join(part.text for part in pieces[index:end] if part.kind == "text").strip()
        if style and is_note(style, text, before, text_after(pieces, end)):
            result.append(Piece("standalone", write(pieces[index:end])))
            index = end
            continue
        if piece.kind == "break":
            before = ""
        elif piece.kind in ("text", "verbatim"):
            before = (before + piece.text)[-CONTEXT_CHARS:]
        result.append(piece)
        index += 1
    return result


def find_note_end(pieces: Sequence[Piece], start: int, note_style: Callable[[Piece], NoteStyle]) -> int:
    """The index after the mark that opens at `start` and adjacent ones of its style; `start` if it has letters."""
    style = note_style(pieces[start])
    end = start
    depth = 0
    for index, piece in enumerate(pieces[start : start + MAX_NOTE_PIECES], start):
        if depth == 0 and (piece.kind != "open" or note_style(piece) != style):
            break
        if piece.kind in ("break", "verbatim") or piece.nested is not None:
            break
        if piece.kind == "text" and any(map(str.isalpha, piece.text)):
            break
        depth += (piece.kind == "open") - (piece.kind == "close")
        if depth == 0:
            end = index + 1
    return end


def text_after(pieces: Sequence[Piece], start: int) -> str:
    for piece in pieces[start : start + MAX_NOTE_PIECES]:
        if piece.kind in ("text", "verbatim", "break"):
            return piece.text
    return ""


def is_note(style: NoteStyle, text: str, before: str, after: str) -> bool:
    if not NOTE_CHARACTER.search(text) or after[:1].isalnum():  # between letters it is part of a word
        return False
    if style == "superscript":
        return not (len(text) == 1 and text.isdigit() and UNIT_OR_VARIABLE.search(before))
    last = before[-1:]
    if not last or not (last.isalnum() or last in PUNCTUATION):
        return False
    return not (text.isdigit() and before.rstrip(".,")[-1:].isdigit())  # 1.<a>2</a> is one number
