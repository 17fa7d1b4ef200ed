"""Ranges of a text whose start and end are marked, such as comments and bookmarks: paired like tags."""

from collections.abc import Sequence

from headway.documents.markup import Piece

MAX_OPEN_RANGES = 50  # of the ranges that have started and not ended, the last ones are considered
START, END = "start", "end"  # the texts of standalone pieces that mark a range; their name is the range's


def pair_range_markers(pieces: Sequence[Piece]) -> list[Piece]:
    """Turn the two ends of a range into a pair of tags, so that they go around the same words.

    A range that a break or another pair cuts would end its segment there: its ends stay standalone."""
    result = list(pieces)
    opened: list[tuple[str, int]] = []  # open pairs ("") and ranges (by name), with their indices
    for index, piece in enumerate(pieces):
        name = piece.name if piece.kind == "standalone" and piece.text in (START, END) else ""
        if name:
            result[index] = piece._replace(name="", text="")
        if piece.kind == "break":
            opened = []
        elif piece.kind == "open":
            opened.append(("", index))
        elif piece.kind == "close":
            while opened and opened.pop()[0]:
                pass
        elif name and piece.text == START:
            opened.append((name, index))
        elif name:
            opened = opened[-MAX_OPEN_RANGES:]
            names = [open_name for open_name, _ in opened]
            depth = len(names) - 1 - names[::-1].index(name) if name in names else -1
            if depth >= 0 and "" not in names[depth:]:
                start = opened[depth][1]
                result[start] = Piece("open", pieces[start].raw, name=name)
                result[index] = Piece("close", piece.raw, name=name)
                del opened[depth:]
    return result
