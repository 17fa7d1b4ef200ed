"""Word's documents. Runs of one formatting are the inline tags of a paragraph.

A paragraph whose text changes is written anew from its runs: those of like formatting become one, and marks of the
spell-checker go. All else, and every paragraph that does not change, stays as it was."""

import re
from collections import Counter
from collections.abc import Iterator

from headway.documents.footnotes import Look, as_points
from headway.documents.markup import Dialect, Items, Piece
from headway.documents.office import translate_archive
from headway.documents.range_markers import END, START, as_pairs
from headway.documents.segments import Counts, Translate
from headway.documents.xml import Node, escaped, prefix_in, tree

MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
SPACES = {MAIN: "w", STRICT: "w"}
PARTS = re.compile(r"word/(document|header\d*|footer\d*|footnotes|endnotes)\.xml")

WRAPPERS = ("w:hyperlink", "w:ins", "w:smartTag", "w:moveTo", "w:dir", "w:bdo", "w:customXml")
NOTHING = ("w:proofErr", "w:lastRenderedPageBreak", "w:softHyphen")  # dropped from what is written anew
BREAKS = ("w:tab", "w:br", "w:cr", "w:ptab")
RUN = "run"  # the name of a pair of pieces that stand for a formatting, which is their text
STRAY = re.compile(r"<(?:\w+:)?(?:lang|noProof)\b[^<>]*/>|^<[^<>]*>(?=</)</[^<>]*>$|^<[^<>]*/>$")  # no formatting
SUPERSCRIPT = re.compile(r"<(?:\w+:)?vertAlign\b[^<>]*[\"']superscript[\"']")
RANGE, ID = re.compile(r"w:(\w+?)(Start|End)"), re.compile(r"\bid\s*=\s*[\"']([^\"']*)")
PARTS_OF_FIELD = ("begin", "separate", "end", "code")


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    return translate_archive(data, name, translate, PARTS, "word/document.xml", read)


def read(text: str, name: str) -> tuple[list[Piece], Dialect]:
    part = Part(text, prefix_in(text, MAIN if MAIN in text else STRICT))
    return list(part.between(tree(text, name, SPACES))), Dialect(part.write, tidy)


def tidy(pieces: list[Piece]) -> list[Piece]:
    """The formatting that most of the text has goes around everything; runs of it, and those that follow upon one of
    their own kind, are no tags any more. So a word that was cut into runs is a word again."""
    weight: Counter[str] = Counter()
    now: list[str] = []
    for piece in pieces:
        if piece.name == RUN:
            now = [*now, piece.text] if piece.kind == "open" else now[:-1]
        elif piece.kind == "text" and now:
            weight[now[-1]] += len(piece.text)
    if not weight:
        return pieces
    base = max(weight, key=lambda format: weight[format])
    result: list[Piece] = []
    for piece in pieces:
        if piece.name == RUN and piece.text == base:
            continue
        if piece.name == RUN and piece.kind == "open" and result and result[-1] == piece._replace(kind="close"):
            result.pop()
        else:
            result.append(piece)
    return [Piece("open", "", base, RUN), *result, Piece("close", "", base, RUN)]


class Part:
    """One file of the archive: its text, and how it writes Word's namespace."""

    def __init__(self, text: str, prefix: str) -> None:
        self.text, self.w = text, prefix

    def raw(self, node: Node) -> str:
        return self.text[node.start : node.end]

    def between(self, node: Node) -> Iterator[Piece]:
        """An element that holds no text of its own: breaks, and the paragraphs in it."""
        at = node.start
        for child in node.children:
            if child.name and child.outer > child.inner:
                yield Piece("break", self.text[at : child.start])
                if child.name == "w:p":
                    yield Piece("break", self.raw(child), inside=list(self.paragraph(child)))
                else:
                    yield from self.between(child)
                at = child.end
        yield Piece("break", self.text[at : node.end])

    def paragraph(self, node: Node) -> Iterator[Piece]:
        yield Piece("break", self.text[node.start : node.inner])
        yield from as_points(as_pairs(self.fields(list(self.content(node)))), look, self.write)
        yield Piece("break", self.text[node.outer : node.end])

    def content(self, node: Node) -> Iterator[Piece]:
        """Runs, and what stands around some of them."""
        for child in node.children:
            if child.name == "w:r":
                yield from self.run(child)
            elif child.name in WRAPPERS and child.outer > child.inner:
                yield Piece("open", self.text[child.start : child.inner], name=child.name)
                yield from self.content(child)
                yield Piece("close", self.text[child.outer : child.end], name=child.name)
            elif child.name == "w:sdt" and (held := child.find("w:sdtContent")) and held.outer > held.inner:
                yield Piece("open", self.text[child.start : held.inner], name=child.name)
                yield from self.content(held)
                yield Piece("close", self.text[held.outer : child.end], name=child.name)
            elif child.name == "w:pPr":
                yield Piece("break", self.raw(child))
            elif child.name == "w:fldSimple":
                said = "".join(part.said for text in child.all("w:t") for part in text.children)
                yield Piece("kept" if said.strip() else "point", self.raw(child), said)
            elif child.name and child.name not in NOTHING:
                yield Piece("point", self.raw(child), *end_of_range(child))

    def run(self, node: Node) -> Iterator[Piece]:
        """The pieces of a run, each with the run's formatting, so that they can be written by themselves."""
        found = node.find("w:rPr")
        format = formatting(self.raw(found)) if found else ""
        for child in node.children:
            if child.name == "w:t":
                yield Piece("open", "", format, RUN)
                yield from (Piece("text", self.raw(text), text.said) for text in child.children)
                yield Piece("close", "", format, RUN)
            elif child.name == "w:noBreakHyphen":
                yield Piece("open", "", format, RUN)
                yield Piece("text", "\u2011", "\u2011")
                yield Piece("close", "", format, RUN)
            elif child.name in BREAKS:
                yield Piece("break", self.wrap(format, self.raw(child)))
            elif child.name and child.name not in ("w:rPr", *NOTHING):
                yield self.thing(child, format)

    def thing(self, node: Node, format: str) -> Piece:
        """Something else in a run: a picture, a note, a part of a field, or a box with paragraphs of its own."""
        raw = self.wrap(format, self.raw(node))
        field = kind_of(node) if node.name == "w:fldChar" else ""
        code = self.text[node.inner : node.outer] if node.name == "w:instrText" else ""
        if next(node.all("w:p"), None) is None:
            return Piece("point", raw, code, field or ("code" if code else ""))
        head, tail = self.wrap(format, "\0").split("\0")
        return Piece("point", raw, inside=[Piece("break", head), *self.between(node), Piece("break", tail)])

    def wrap(self, format: str, content: str) -> str:
        return f"<{self.w}r>{format}{content}</{self.w}r>"

    def fields(self, pieces: list[Piece]) -> list[Piece]:
        """A field whose parts lie in one paragraph is kept as it is; a link goes around its words.

        Parts of one that goes on elsewhere end segments: nothing may move across them."""
        result: list[Piece] = []
        opened: list[int] = []
        for piece in pieces:
            if piece.name == "begin":
                opened.append(len(result))
            result.append(piece)
            if piece.name == "end" and opened:
                start = opened.pop()
                result[start:] = self.field(result[start:])
        return [ended(piece) if piece.name in PARTS_OF_FIELD else piece for piece in result]

    def field(self, pieces: list[Piece]) -> list[Piece]:
        """From begin to end."""
        code = "".join(piece.text for piece in pieces if piece.name == "code")
        shown = next((place for place, piece in enumerate(pieces) if piece.name == "separate"), len(pieces) - 1)
        if any(piece.kind == "break" or piece.inside is not None for piece in pieces):
            return [ended(piece) if piece.kind == "point" else piece for piece in pieces]
        if "HYPERLINK" in code and shown < len(pieces) - 1:
            head, last = self.write(pieces[: shown + 1]), pieces[-1].raw
            return [Piece("open", head, name="field"), *pieces[shown + 1 : -1], Piece("close", last, name="field")]
        said = "".join(piece.text for piece in pieces[shown:] if piece.kind in ("text", "kept"))
        return [Piece("kept" if said.strip() else "point", self.write(pieces), said)]

    def write(self, items: Items) -> str:
        """Text as runs of the formatting that holds where it stands."""
        out: list[str] = []
        formats = [""]
        last = None  # the formatting of the text that is not yet written
        waiting: list[str] = []

        def flush() -> None:
            text = "".join(waiting)
            if text:
                out.append(self.wrap(last or "", f'<{self.w}t xml:space="preserve">{text}</{self.w}t>'))
            waiting.clear()

        for item in items:
            if isinstance(item, Piece) and item.name == RUN:
                formats = [*formats, item.text] if item.kind == "open" else formats[:-1]
            elif isinstance(item, str) or item.kind == "text":
                if last != formats[-1]:
                    flush()
                    last = formats[-1]
                waiting.append(escaped(item) if isinstance(item, str) else item.raw)
            else:
                flush()
                out.append(item.raw)
        flush()
        return "".join(out)


def formatting(raw: str) -> str:
    """Without what says nothing of how text looks, such as its language, which is another now."""
    before = ""
    while before != raw:
        before, raw = raw, STRAY.sub("", raw)
    return raw


def look(piece: Piece) -> Look:
    if piece.name == RUN:
        return "raised" if SUPERSCRIPT.search(piece.text) else ""
    return "link" if piece.name in ("w:hyperlink", "field") else ""


def end_of_range(node: Node) -> tuple[str, str]:
    """Which end, and of what, if it is one: of a comment, of a bookmark."""
    kind, number = RANGE.fullmatch(node.name), ID.search(node.attributes)
    if not kind or not number:
        return "", ""
    return (START if kind[2] == "Start" else END), f"{kind[1]} {number[1]}"


def ended(piece: Piece) -> Piece:
    return piece._replace(kind="break", name="")


def kind_of(node: Node) -> str:
    """begin, separate or end, of a field."""
    found = re.search(r"fldCharType\s*=\s*[\"'](\w+)", node.attributes)
    return found[1] if found else ""
