"""Inline Markdown as pieces: emphasis, links, code, images and HTML inside a paragraph.

Code spans bind tighter than brackets, and brackets tighter than emphasis, as CommonMark has it."""

import html
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from headway.documents.html import COMMENT, TAG, VERBATIM_ELEMENTS, HtmlToken, token_piece
from headway.documents.markup import OBJECT, Piece

PUNCTUATION = re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
SPECIAL = re.compile(
    rf"""(?P<hard_break>\ {{2,}}\n[ \t]*|\\\n[ \t]*)
    | (?P<escape>\\[{PUNCTUATION}])
    | (?P<ticks>`+)
    | (?P<autolink><[a-zA-Z][a-zA-Z0-9+.-]{{1,31}}:[^\s<>]*>|<[^\s<>@]+@[^\s<>@]+>)
    | (?P<html><[a-zA-Z/!?])
    | (?P<entity>&(?:\#[xX][0-9a-fA-F]{{1,6}}|\#[0-9]{{1,7}}|[a-zA-Z][a-zA-Z0-9]{{1,31}});)
    | (?P<template>\{{\{{[^{{}}]*\}}\}}|\{{%[^{{}}]*%\}}|\{{[\#.:][^{{}}\n]*\}}|:[a-z0-9_+-]*[a-z][a-z0-9_+-]*:)
    | (?P<math>\$(?=[^\s$])[^$\n]*[\\_^={{][^$\n]*(?<=[^\s$])\$(?!\d))
    | (?P<footnote>\[\^[^\]\s]+\])
    | (?P<opening>!?\[)
    | (?P<closing>\])
    | (?P<delimiter>\*+|_+|~+)""",
    re.VERBOSE,
)
DESTINATION = re.compile(
    r"""\(\s*(?:<[^<>\n]*>|(?:[^\s()<>\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)
    (?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\)""",
    re.VERBOSE | re.DOTALL,
)
REFERENCE = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]")
MAX_DELIMITER_RUNS = 500  # in a paragraph: matching them takes time proportional to the square


@dataclass
class DelimiterRun:
    """Signs of emphasis in a row. Matched ones become tags, the rest is text."""

    character: str
    size: int
    can_open: bool
    can_close: bool
    left: int = 0  # signs that are not matched
    closes: list[Piece] = field(default_factory=list)
    opens: list[Piece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self.size

    def pieces(self) -> list[Piece]:
        rest = self.character * self.left
        return [*self.closes, *([Piece("text", rest, rest)] if rest else []), *reversed(self.opens)]


@dataclass(frozen=True)
class Bracket:
    kind: str  # opening, closing
    raw: str
    end: int  # in the text


Element = Piece | DelimiterRun | Bracket


def parse_inline(text: str, references: Collection[str]) -> list[Piece]:
    """The pieces of a paragraph's content. references: the labels of link definitions, normalised."""
    elements = list(scan_inline(text))
    return resolve_links(elements, text, references)


def normalise_label(label: str) -> str:
    return " ".join(label.split()).casefold()


def scan_inline(text: str) -> Iterator[Element]:
    """Everything that can be told from left to right; brackets and signs of emphasis are left open."""
    ticks: dict[int, list[int]] = {}  # where runs of backticks start, by their length
    for run in re.finditer("`+", text):
        ticks.setdefault(len(run[0]), []).append(run.start())
    position = 0
    while position < len(text):
        found = SPECIAL.search(text, position)
        start = found.start() if found else len(text)
        if start > position:
            yield Piece("text", text[position:start], text[position:start])
        if found is None:
            return
        raw, kind = found[0], found.lastgroup
        piece: Element = Piece("text", raw, raw)
        if kind == "hard_break":
            piece = Piece("break", raw)
        elif kind == "escape":
            piece = Piece("text", raw, raw[1])
        elif kind == "entity":
            piece = Piece("text", raw, html.unescape(raw))
        elif kind in ("autolink", "template", "math"):
            piece = Piece("verbatim", raw, raw.strip("<>"))
        elif kind == "footnote":
            piece = Piece("standalone", raw)
        elif kind == "ticks":
            starts = ticks[len(raw)]
            following = bisect_right(starts, start)
            if following < len(starts):
                raw = text[start : starts[following] + len(raw)]
                piece = Piece("verbatim", raw, raw.strip("`").strip() or raw)
        elif kind == "html":
            piece = read_html(text, start) or Piece("text", "<", "<")
            raw = piece.raw
        elif kind in ("opening", "closing"):
            piece = Bracket(kind, raw, found.end())
        elif kind == "delimiter":
            piece = make_delimiter_run(text, start, raw)
        position = start + len(raw)
        yield piece


def read_html(text: str, start: int) -> Piece | None:
    """A tag, a comment, or an element that is not translated, from its start tag to its end tag."""
    comment = COMMENT.match(text, start)
    if comment is not None:
        return Piece("standalone", comment[0])
    tag = TAG.match(text, start)
    if tag is None:
        return None
    name = tag["name"].lower()
    end = re.compile(rf"</{re.escape(name)}\s*>", re.I).search(text, tag.end()) if name in VERBATIM_ELEMENTS else None
    if not tag["end"] and end is not None:
        return Piece("verbatim", text[start : end.end()], html.unescape(text[tag.end() : end.start()]) or OBJECT)
    return token_piece(HtmlToken("end" if tag["end"] else "start", tag[0], name, tag["attributes"]))


def make_delimiter_run(text: str, start: int, raw: str) -> DelimiterRun:
    before = text[start - 1] if start else " "
    after = text[start + len(raw)] if start + len(raw) < len(text) else " "
    left = not after.isspace() and (is_word(after) or before.isspace() or not is_word(before))
    right = not before.isspace() and (is_word(before) or after.isspace() or not is_word(after))
    if raw[0] == "_":  # not inside a word
        left, right = left and not (right and is_word(before)), right and not (left and is_word(after))
    return DelimiterRun(raw[0], len(raw), left, right)


def is_word(character: str) -> bool:
    return character.isalnum()


def resolve_links(elements: Sequence[Element], text: str, references: Collection[str]) -> list[Piece]:
    """Brackets with a destination become tags around the pieces between them; images become one piece."""
    output: list[Element] = []
    opened: list[int] = []  # indices in output
    skip_to = 0  # in the text: what a destination has taken
    position = 0
    for element in elements:
        size = element.size if isinstance(element, DelimiterRun) else len(element.raw)
        start, position = position, position + size
        if start < skip_to:
            if position > skip_to and isinstance(element, Piece):  # cut by the end of a destination
                rest = text[skip_to:position]
                output.append(Piece("text", rest, rest))
            continue
        output.append(element)
        if not isinstance(element, Bracket):
            continue
        if element.kind == "opening":
            opened.append(len(output) - 1)
            continue
        if not opened:
            output[-1] = Piece("text", "]", "]")
            continue
        first = opened.pop()
        opening = output[first]
        assert isinstance(opening, Bracket)
        label = text[opening.end : start]
        closing_raw, skip_to = find_destination(text, position, label, references)
        inner = output[first + 1 : -1]
        if not closing_raw:
            output[first] = Piece("text", opening.raw, opening.raw)
            output[-1] = Piece("text", "]", "]")
        elif opening.raw == "![":
            output[first:] = [Piece("verbatim", f"![{label}{closing_raw}", OBJECT)]
        else:
            link = [Piece("open", "[", name="link"), *resolve_emphasis(inner), Piece("close", closing_raw, name="link")]
            output[first:] = link
    resolved = [Piece("text", item.raw, item.raw) if isinstance(item, Bracket) else item for item in output]
    return resolve_emphasis(resolved)


def find_destination(text: str, position: int, label: str, references: Collection[str]) -> tuple[str, int]:
    """What closes a link, from its bracket on, and where it ends in the text; "" if it is none.

    A label that is the text of the link, too, is written out, since that text is translated."""
    if destination := DESTINATION.match(text, position):
        return f"]{destination[0]}", destination.end()
    reference = REFERENCE.match(text, position)
    if reference and reference[1].strip() and normalise_label(reference[1]) in references:
        return f"]{reference[0]}", reference.end()
    if normalise_label(label) in references:
        return f"][{label}]", reference.end() if reference and not reference[1] else position
    return "", position


def resolve_emphasis(elements: Sequence[Element]) -> list[Piece]:
    """Match signs of emphasis, each closing one with the nearest that can open."""
    runs = [element for element in elements if isinstance(element, DelimiterRun)]
    if len(runs) <= MAX_DELIMITER_RUNS:
        for index, closer in enumerate(runs):
            while closer.can_close and closer.left:
                opener = next((n for n in range(index - 1, -1, -1) if can_match(runs[n], closer)), None)
                if opener is None:
                    break
                for between in runs[opener + 1 : index]:
                    between.can_open = False
                match_runs(runs[opener], closer)
    pieces: list[Piece] = []
    for element in elements:
        assert not isinstance(element, Bracket)
        pieces += element.pieces() if isinstance(element, DelimiterRun) else [element]
    return pieces


def can_match(opener: DelimiterRun, closer: DelimiterRun) -> bool:
    if opener.character != closer.character or not opener.can_open or not opener.left:
        return False
    if opener.character == "~":
        return opener.size == closer.size <= 2
    if opener.can_close or closer.can_open:  # CommonMark's rule of three
        return (opener.size + closer.size) % 3 != 0 or (opener.size % 3 == 0 and closer.size % 3 == 0)
    return True


def match_runs(opener: DelimiterRun, closer: DelimiterRun) -> None:
    size = opener.left if opener.character == "~" else 2 if opener.left >= 2 and closer.left >= 2 else 1
    raw = opener.character * size
    opener.opens.append(Piece("open", raw, name=raw))
    closer.closes.append(Piece("close", raw, name=raw))
    opener.left -= size
    closer.left -= size
