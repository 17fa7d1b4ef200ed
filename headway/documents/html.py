"""HTML. It is cut into pieces and never parsed into a tree, so that what is not translated stays as it was written."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from headway.documents.encodings import Encoded, decoded
from headway.documents.footnotes import Look, as_points
from headway.documents.markup import Dialect, Items, Piece, gather, written
from headway.documents.segments import Counts, Translate, Work

# What can stand within a sentence. Everything else ends one.
INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "label", "mark",
    "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u",
))  # fmt: skip
POINTS = frozenset(["img", "wbr", "input"])
VOID = POINTS | frozenset(["area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track"])
KEPT = frozenset(["code", "kbd", "pre", "samp", "var", "svg", "math"])
SILENT = frozenset(["svg", "math"])  # kept, and no words of the sentence
NEVER_NESTED = frozenset(["p", "dt", "dd", "option"])  # one ends where the next begins
# No markup inside:
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes", "plaintext"])

TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?P<attributes>(?: [\s/]++ | =?[^\s/>=]++ (?: \s*+ = \s*+ (?: "[^"]*+" | '[^']*+' | [^\s>"'][^\s>]*+ | (?=>) ) )?+ )*+)
    >""",
    re.VERBOSE,
)
# Comments and the like:
OTHER = re.compile(r"<!--(?:>|->|.*?(?:--!?>|\Z))|<(?:[!?]|/(?![a-zA-Z]))[^>]*+(?:>|\Z)", re.DOTALL)
MARKUP = re.compile(r"<(?=[a-zA-Z/!?])")
NO = re.compile(
    r"""(?:^|[\s/]) (?: translate\s*=\s*["']?no\b
    | class\s*=\s*(?:"[^"]*\bnotranslate\b | '[^']*\bnotranslate\b | notranslate\b) )""",
    re.IGNORECASE | re.VERBOSE,
)
DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})
    | <\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.-]{1,40})""",
    re.IGNORECASE | re.VERBOSE,
)
NOTES: dict[str, Look] = {"sup": "raised", "a": "link"}  # what the number of a note stands in


class Token(NamedTuple):
    kind: str  # text, start, end, other
    raw: str
    name: str = ""
    attributes: str = ""


def translate_html(text: str, translate: Translate) -> str:
    """HTML, a page or a part of one, with its text translated and everything else as it was."""
    return translated(text, Work(), translate)


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    source = decoded(data, name, label(data))
    work = Work()
    new = translated(source.text, work, translate)
    return Encoded(new, source.encoding).bytes("xmlcharrefreplace"), work.counts()


def label(data: bytes) -> str:
    """The encoding that a page names, as browsers take it."""
    found = DECLARED.search(data[:2048])
    named = (found[1] or found[2]).decode().lower() if found else ""
    if named.startswith("utf-16"):  # then nobody could have read the name
        return ""
    return "windows-1252" if named in ("iso-8859-1", "latin1", "ascii", "us-ascii") else named


def translated(text: str, work: Work, translate: Translate) -> str:
    parts = gather(pieces(text), work, HTML)
    work.run(translate)
    return written(parts, work, HTML)[0]


def write(items: Items) -> str:
    return "".join(escaped(item) if isinstance(item, str) else item.raw for item in items)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\u00a0", "&nbsp;")


def unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # the number of a letter, with thousands of digits
        return text


HTML = Dialect(write)


def pieces(text: str) -> list[Piece]:
    """A page as pieces. What must not be translated is one piece, from its tag to the partner of that."""
    found: list[Piece] = []
    held: list[Token] = []  # of something that is kept, up to now
    depth = 0
    for token in tokens(text):
        if held and token.kind == "start" and token.name == held[0].name and token.name in NEVER_NESTED:
            found.append(kept_piece(held))
            held = []
        if held:
            held.append(token)
            same = token.name == held[0].name
            depth += same * ((token.kind == "start") - (token.kind == "end"))
            if depth == 0:
                found.append(kept_piece(held))
                held = []
        elif token.kind == "start" and token.name not in VOID and (token.name in KEPT or NO.search(token.attributes)):
            held, depth = [token], 1
        else:
            found.append(piece_of(token))
    return as_points([*found, kept_piece(held)] if held else found, look, write)


def kept_piece(held: list[Token]) -> Piece:
    raw, name = "".join(token.raw for token in held), held[0].name
    if name in SILENT:
        return Piece("point", raw)
    if name in INLINE or (name in KEPT and name != "pre"):
        return Piece("kept", raw, unescaped("".join(token.raw for token in held if token.kind == "text")))
    return Piece("break", raw)


def piece_of(token: Token) -> Piece:
    if token.kind == "text":
        return Piece("text", token.raw, unescaped(token.raw))
    if token.name in POINTS or token.raw.startswith("<!--"):
        return Piece("point", token.raw)
    if token.name in INLINE:
        return Piece("open" if token.kind == "start" else "close", token.raw, name=token.name)
    return Piece("break", token.raw)


def look(piece: Piece) -> Look:
    return NOTES.get(piece.name, "")


def tokens(text: str) -> Iterator[Token]:
    """Tags, text and the rest, as a browser tells them apart. Their raw text, joined, is the page."""
    at, size = 0, len(text)
    while at < size:
        markup = MARKUP.search(text, at)
        start = markup.start() if markup else size
        if start > at:
            yield Token("text", text[at:start])
        if not markup:
            return
        tag = TAG.match(text, start) or OTHER.match(text, start)
        if tag is None:  # a tag that never ends: the page ends in it
            yield Token("other", text[start:])
            return
        at = tag.end()
        if tag.re is OTHER:
            yield Token("other", tag[0])
            continue
        name = tag["name"].lower()
        yield Token("end" if tag["end"] else "start", tag[0], name, tag["attributes"])
        if name in RAW and not tag["end"]:
            end = re.compile(rf"</{name}(?=[\s/>])", re.I).search(text, at)
            if (stop := end.start() if end else size) > at:
                yield Token("other", text[at:stop])
            at = stop
