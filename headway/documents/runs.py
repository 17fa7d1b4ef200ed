"""Runs of one formatting, as Word and PowerPoint write text: pairs of pieces around it, merged and written again."""

from collections import Counter
from collections.abc import Callable

from headway.documents.markup import OutputItems, Piece
from headway.documents.xml import escape_xml

RUN = "run"  # the name of a pair of pieces that stand for a formatting; their text is its XML


def merge_runs(pieces: list[Piece]) -> list[Piece]:
    """Put the most common formatting around the whole segment, and merge adjacent runs of equal formatting.

    So a word that was split into runs is one word again."""
    characters: Counter[str] = Counter()  # by formatting
    formats: list[str] = []
    for piece in pieces:
        if piece.name == RUN:
            formats = [*formats, piece.text] if piece.kind == "open" else formats[:-1]
        elif piece.kind == "text" and formats:
            characters[formats[-1]] += len(piece.text)
    if not characters:
        return pieces
    base = max(characters, key=lambda format: characters[format])
    result: list[Piece] = []
    for piece in pieces:
        if piece.name == RUN and piece.text == base:
            continue
        if piece.name == RUN and piece.kind == "open" and result and result[-1] == piece._replace(kind="close"):
            result.pop()
        else:
            result.append(piece)
    return [Piece("open", "", base, RUN), *result, Piece("close", "", base, RUN)]


def write_runs(items: OutputItems, write_run: Callable[[str, str], str]) -> str:
    """Write text as runs, with the formatting that applies at each position. write_run: (formatting, escaped text)"""
    output: list[str] = []
    formats = [""]
    pending_format = None
    pending: list[str] = []  # text that is not yet written

    def flush() -> None:
        text = "".join(pending)
        if text:
            output.append(write_run(pending_format or "", text))
        pending.clear()

    for item in items:
        if isinstance(item, Piece) and item.name == RUN:
            formats = [*formats, item.text] if item.kind == "open" else formats[:-1]
        elif isinstance(item, str) or item.kind == "text":
            if pending_format != formats[-1]:
                flush()
                pending_format = formats[-1]
            pending.append(escape_xml(item) if isinstance(item, str) else item.raw)
        else:
            flush()
            output.append(item.raw)
    flush()
    return "".join(output)
