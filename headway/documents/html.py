"""HTML, tokenized but not parsed into a tree, so that everything outside of text keeps its exact bytes."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.footnotes import NoteStyle, collapse_notes
from headway.documents.limits import current_meter
from headway.documents.markup import OBJECT, MarkupFormat, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments

# Elements inside a sentence. All others end a segment.
INLINE_ELEMENTS = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "label",
    "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "u",
))  # fmt: skip
STANDALONE_ELEMENTS = frozenset(["img", "wbr", "input"])
VOID_ELEMENTS = STANDALONE_ELEMENTS | frozenset(
    ["area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track"]
)
VERBATIM_ELEMENTS = frozenset(["code", "kbd", "pre", "samp", "tt", "var", "svg", "math"])
GRAPHIC_ELEMENTS = frozenset(["svg", "math"])  # verbatim, and not made of words
OBJECT_ELEMENTS = frozenset(["img", "input"])  # they stand in a sentence like a word
DELETED_ELEMENTS = frozenset(["del", "s", "strike"])  # struck out, and so a segment of their own
IMPLICITLY_CLOSED_ELEMENTS = frozenset(["p", "dt", "dd", "option"])  # ended by the next one
# Their content is not markup:
RAW_TEXT_ELEMENTS = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes", "plaintext"])

TAG = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*+)
    (?P<attributes>
        (?: [\s/]++ | =?[^\s/>=]++ (?: \s*+ = \s*+ (?: "[^"]*+" | '[^']*+' | [^\s>"'][^\s>]*+ | (?=>) ) )?+ )*+)
    >""",
    re.VERBOSE,
)
# Comments, declarations, processing instructions:
COMMENT = re.compile(r"<!--(?:>|->|.*?(?:--!?>|\Z))|<(?:[!?]|/(?![a-zA-Z]))[^>]*+(?:>|\Z)", re.DOTALL)
MARKUP_START = re.compile(r"<(?=[a-zA-Z/!?])")
NO_TRANSLATE = re.compile(
    r"""(?:^|[\s/]) (?: translate\s*=\s*["']?no\b
    | class\s*=\s*(?:"[^"]*\bnotranslate\b | '[^']*\bnotranslate\b | notranslate\b) )""",
    re.IGNORECASE | re.VERBOSE,
)
DECLARED_ENCODING = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})
    | <\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.-]{1,40})""",
    re.IGNORECASE | re.VERBOSE,
)
MAX_COMBINATION_CHARS = 300
COMBINING_SIGN = re.compile(r"\s?[+/-]\s?|,\s?")  # between keys that are pressed together, and in a list
NOTE_STYLES: dict[str, NoteStyle] = {"sup": "superscript", "a": "link"}  # elements around footnote marks


class HtmlToken(NamedTuple):
    kind: str  # text, start, end, other
    raw: str
    name: str = ""
    attributes: str = ""


def translate_html(text: str, translate: TranslateSegments) -> str:
    """Translate the text of an HTML page or fragment; everything else stays unchanged."""
    return translate_text(text, SegmentQueue(), translate)


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    source = decode_text(data, name, declared_encoding(data))
    current_meter().count_elements(source.text.count("<"), name)
    queue = SegmentQueue()
    text = translate_text(source.text, queue, translate)
    return DecodedText(text, source.encoding).encode("xmlcharrefreplace"), queue.counts()


def declared_encoding(data: bytes) -> str:
    """The encoding that a page declares, interpreted as browsers do."""
    match = DECLARED_ENCODING.search(data[:2048])
    encoding = (match[1] or match[2]).decode().lower() if match else ""
    if encoding.startswith("utf-16"):  # cannot be true: the declaration was read as ASCII
        return ""
    return "windows-1252" if encoding in ("iso-8859-1", "latin1", "ascii", "us-ascii") else encoding


def translate_text(text: str, queue: SegmentQueue, translate: TranslateSegments) -> str:
    parts = collect_segments(parse_html(text), queue, HTML_FORMAT)
    queue.translate_all(translate)
    return write_translated(parts, queue, HTML_FORMAT)[0]


def write_html(items: OutputItems) -> str:
    return "".join(escape_html(item) if isinstance(item, str) else item.raw for item in items)


def escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\u00a0", "&nbsp;")


def unescape_html(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character reference with thousands of digits
        return text


HTML_FORMAT = MarkupFormat(write_html)


def parse_html(text: str) -> list[Piece]:
    """A page as pieces. An element that must not be translated is one piece, from its start tag to its end tag."""
    pieces: list[Piece] = []
    held: list[HtmlToken] = []  # tokens so far of an element that is not translated
    depth = 0
    for token in tokenize_html(text):
        if held and token.kind == "start" and token.name == held[0].name and token.name in IMPLICITLY_CLOSED_ELEMENTS:
            pieces.append(verbatim_piece(held))
            held = []
        if held:
            held.append(token)
            same_element = token.name == held[0].name
            depth += same_element * ((token.kind == "start") - (token.kind == "end"))
            if depth == 0:
                pieces.append(verbatim_piece(held))
                held = []
        elif (
            token.kind == "start"
            and token.name not in VOID_ELEMENTS
            and (token.name in VERBATIM_ELEMENTS or NO_TRANSLATE.search(token.attributes))
        ):
            held = [token]
            depth = 1
        else:
            pieces.append(token_piece(token))
    pieces = merge_verbatim([*pieces, verbatim_piece(held)] if held else pieces)
    return collapse_notes(collapse_deletions(pieces), note_style, write_html)


def merge_verbatim(pieces: list[Piece]) -> list[Piece]:
    """Make one verbatim piece of several that only a sign separates: <kbd>Ctrl</kbd>+<kbd>C</kbd>."""
    merged: list[Piece] = []
    for piece in pieces:
        is_joined = len(merged) > 1 and merged[-2].kind == piece.kind == "verbatim"
        is_short = len(merged) > 1 and len(merged[-2].text) < MAX_COMBINATION_CHARS
        if is_joined and is_short and merged[-1].kind == "text" and COMBINING_SIGN.fullmatch(merged[-1].text):
            parts = [merged[-2], merged[-1], piece]
            merged[-2:] = [Piece("verbatim", write_html(parts), "".join(part.text for part in parts))]
        else:
            merged.append(piece)
    return merged


def collapse_deletions(pieces: list[Piece]) -> list[Piece]:
    """Make each struck-out element a standalone piece with its own segment, which stays beside what replaces it.

    One that contains a block or another such element is a pair of tags like any other."""
    result: list[Piece] = []
    start = -1  # of the element that is open
    for piece in pieces:
        result.append(piece)
        if piece.kind == "open" and piece.name in DELETED_ELEMENTS:
            start = len(result) - 1
        elif piece.kind == "break" or piece.nested is not None:
            start = -1
        elif piece.kind == "close" and piece.name in DELETED_ELEMENTS:
            if start >= 0 and result[start].name == piece.name:
                parts = [
                    part._replace(kind="break") if part is piece or part is result[start] else part
                    for part in result[start:]
                ]
                result[start:] = [Piece("standalone", write_html(parts), nested=parts)]
            start = -1
    return result


def verbatim_piece(held: list[HtmlToken]) -> Piece:
    raw = "".join(token.raw for token in held)
    name = held[0].name
    if name in GRAPHIC_ELEMENTS:
        return Piece("verbatim", raw, OBJECT)
    if name in INLINE_ELEMENTS or (name in VERBATIM_ELEMENTS and name != "pre"):
        return Piece("verbatim", raw, unescape_html("".join(token.raw for token in held if token.kind == "text")))
    return Piece("break", raw)


def token_piece(token: HtmlToken) -> Piece:
    if token.kind == "text":
        return Piece("text", token.raw, unescape_html(token.raw))
    if token.name in STANDALONE_ELEMENTS or token.raw.startswith("<!--"):
        is_object = token.kind == "start" and token.name in OBJECT_ELEMENTS
        return Piece("verbatim", token.raw, OBJECT) if is_object else Piece("standalone", token.raw)
    if token.name in INLINE_ELEMENTS:
        return Piece("open" if token.kind == "start" else "close", token.raw, name=token.name)
    return Piece("break", token.raw)


def note_style(piece: Piece) -> NoteStyle:
    return NOTE_STYLES.get(piece.name, "")


def tokenize_html(text: str) -> Iterator[HtmlToken]:
    """Tags, text and the rest, tokenized as browsers do. Their raw text, joined, is the page."""
    position = 0
    size = len(text)
    while position < size:
        markup = MARKUP_START.search(text, position)
        start = markup.start() if markup else size
        if start > position:
            yield HtmlToken("text", text[position:start])
        if not markup:
            return
        tag = TAG.match(text, start) or COMMENT.match(text, start)
        if tag is None:  # an unterminated tag, up to the end of the page
            yield HtmlToken("other", text[start:])
            return
        position = tag.end()
        if tag.re is COMMENT:
            yield HtmlToken("other", tag[0])
            continue
        name = tag["name"].lower()
        yield HtmlToken("end" if tag["end"] else "start", tag[0], name, tag["attributes"])
        if name in RAW_TEXT_ELEMENTS and not tag["end"]:
            end = re.compile(rf"</{name}(?=[\s/>])", re.I).search(text, position)
            if (stop := end.start() if end else size) > position:
                yield HtmlToken("other", text[position:stop])
            position = stop
