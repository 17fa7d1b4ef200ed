"""Ranges of a text whose two ends are marked, as those of comments and bookmarks."""

from collections.abc import Sequence

from headway.documents.markup import Piece

DEEPEST = 50  # of what has begun and not ended, the last so many are looked at
START, END = "start", "end"  # the texts of points that are ends; their name is the range's


def as_pairs(pieces: Sequence[Piece]) -> list[Piece]:
    """The two ends of a range as a pair, so that they go around the same words. A range that a break or another pair
    cuts would end its segment there: its ends stay points."""
    result = list(pieces)
    waiting: list[tuple[str, int]] = []  # what has begun: "" for a pair, else the name of a range, and where
    for place, piece in enumerate(pieces):
        name = piece.name if piece.kind == "point" and piece.text in (START, END) else ""
        if name:
            result[place] = piece._replace(name="", text="")
        if piece.kind == "break":
            waiting = []
        elif piece.kind == "open":
            waiting.append(("", place))
        elif piece.kind == "close":
            while waiting and waiting.pop()[0]:
                pass
        elif name and piece.text == START:
            waiting.append((name, place))
        elif name:
            waiting = waiting[-DEEPEST:]
            begun = [one for one, _ in waiting]
            at = len(begun) - 1 - begun[::-1].index(name) if name in begun else -1
            if at >= 0 and "" not in begun[at:]:
                start = waiting[at][1]
                result[start] = Piece("open", pieces[start].raw, name=name)
                result[place] = Piece("close", piece.raw, name=name)
                del waiting[at:]
    return result
