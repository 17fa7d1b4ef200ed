"""HTML, tokenized but not parsed into a tree, so that everything outside of text keeps its exact bytes."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.footnotes import NoteStyle, collapse_notes
from headway.documents.markup import MarkupFormat, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments

# Elements inside a sentence. All others end a segment.
INLINE_ELEMENTS = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "label",
    "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u",
))  # fmt: skip
STANDALONE_ELEMENTS = frozenset(["img", "wbr", "input"])
VOID_ELEMENTS = STANDALONE_ELEMENTS | frozenset(
    ["area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track"]
)
VERBATIM_ELEMENTS = frozenset(["code", "kbd", "pre", "samp", "var", "svg", "math"])
GRAPHIC_ELEMENTS = frozenset(["svg", "math"])  # verbatim, but not words of the sentence
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
    return collapse_notes([*pieces, verbatim_piece(held)] if held else pieces, note_style, write_html)


def verbatim_piece(held: list[HtmlToken]) -> Piece:
    raw = "".join(token.raw for token in held)
    name = held[0].name
    if name in GRAPHIC_ELEMENTS:
        return Piece("standalone", raw)
    if name in INLINE_ELEMENTS or (name in VERBATIM_ELEMENTS and name != "pre"):
        return Piece("verbatim", raw, unescape_html("".join(token.raw for token in held if token.kind == "text")))
    return Piece("break", raw)


def token_piece(token: HtmlToken) -> Piece:
    if token.kind == "text":
        return Piece("text", token.raw, unescape_html(token.raw))
    if token.name in STANDALONE_ELEMENTS or token.raw.startswith("<!--"):
        return Piece("standalone", token.raw)
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
