"""E-books (.epub): XHTML chapters and the navigation by way of .html, titles of the table of contents and of the book.

The language that the book and its chapters declare becomes the target language. Other parts are kept."""

import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.html import (
    TAG,
    VOID_ELEMENTS,
    HtmlToken,
    declared_encoding,
    parse_html,
    tokenize_html,
    unescape_html,
)
from headway.documents.limits import current_meter
from headway.documents.markup import MarkupFormat, MarkupSegment, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.documents.target_language import current_target_language
from headway.documents.xml import escape_xml
from headway.documents.zip_archive import ZipDocument
from headway.errors import HeadwayError

CONTAINER = "META-INF/container.xml"
ENCRYPTION = "META-INF/encryption.xml"
ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
XHTML_TYPES = ("application/xhtml+xml", "text/html")
NCX_TYPE = "application/x-dtbncx+xml"
NCX_TITLES = ("navlabel", "doctitle")  # elements around a <text>
BOOK_TITLES = ("title", "description")
LANGUAGE_ATTRIBUTE = re.compile(r"""(\s(?:xml:)?lang\s*=\s*["'])([\w-]+)(?=["'])""", re.IGNORECASE)
LANGUAGE_ELEMENT = re.compile(r"(<(?:\w+:)?language\b[^<>]*>\s*)([\w-]+)(?=\s*</)")
ParsePart = Callable[[str], Sequence[Piece]]


class EpubPart(NamedTuple):
    source: DecodedText
    parts: list[Piece | MarkupSegment]
    relabel: Callable[[str, str], str]  # names the target language in the text of the part


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    archive = ZipDocument(data, name)
    archive.members.sort(key=lambda member: member.filename != "mimetype")  # readers look for it at the start
    members = {member.filename: member for member in archive.members}
    kinds = find_translated_parts(archive, members)
    queue = SegmentQueue()
    parsed: dict[str, EpubPart] = {}
    for path, (parse, relabel) in kinds.items():
        source = decode_part(archive, members[path])
        parsed[path] = EpubPart(source, collect_segments(parse(source.text), queue, XHTML_FORMAT), relabel)
    queue.translate_all(translate)

    def translated_part(member: zipfile.ZipInfo) -> bytes | None:
        if member.filename not in parsed:
            return None
        source, parts, relabel = parsed[member.filename]
        text, changed = write_translated(parts, queue, XHTML_FORMAT)
        text = text if changed else source.text
        if language := current_target_language():
            text = relabel(text, language)
        return DecodedText(text, source.encoding).encode("xmlcharrefreplace") if text != source.text else None

    return archive.rewrite(translated_part), queue.counts()


def find_translated_parts(
    archive: ZipDocument, members: dict[str, zipfile.ZipInfo]
) -> dict[str, tuple[ParsePart, Callable[[str, str], str]]]:
    """How each part of the book is parsed and relabelled, by its path, as the package document lists them."""
    if CONTAINER not in members:
        raise HeadwayError(f"{archive.name} is not a valid .epub document: it has no {CONTAINER}.")
    container = decode_part(archive, members[CONTAINER]).text
    package = next((one.get("full-path", "") for one in find_elements(container, "rootfile")), "")
    if package not in members:
        raise HeadwayError(f"{archive.name} is not a valid .epub document: its package document is missing.")
    encrypted: set[str] = set()
    if ENCRYPTION in members:
        text = decode_part(archive, members[ENCRYPTION]).text
        encrypted = {unquote(one.get("uri", "")) for one in find_elements(text, "cipherreference")}
    found: dict[str, tuple[ParsePart, Callable[[str, str], str]]] = {package: (parse_package, relabel_package)}
    for item in find_elements(decode_part(archive, members[package]).text, "item"):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(package), unquote(item.get("href", ""))))
        kind = item.get("media-type", "").lower()
        if path in members and kind in (*XHTML_TYPES, NCX_TYPE):
            if path in encrypted:
                raise HeadwayError(f"{archive.name} is protected against copying (DRM), so its text cannot be read.")
            found[path] = (parse_ncx if kind == NCX_TYPE else parse_xhtml), relabel_xhtml
    return found


def decode_part(archive: ZipDocument, member: zipfile.ZipInfo) -> DecodedText:
    data = archive.read_xml(member)
    name = f"{archive.name}: {member.filename}"
    source = decode_text(data, name, declared_encoding(data))
    current_meter().count_elements(source.text.count("<"), name)
    return source


def find_elements(text: str, name: str) -> Iterator[dict[str, str]]:
    """The attributes of every element of this name, which is in lower case, as all names here are."""
    for token in tokenize_html(expand_empty_elements(text)):
        if token.kind == "start" and local_name(token) == name:
            yield {key.lower(): unescape_html(one or two) for key, one, two in ATTRIBUTE.findall(token.attributes)}


def local_name(token: HtmlToken) -> str:
    """Without the prefix of its namespace."""
    return token.name.rpartition(":")[2]


def parse_xhtml(text: str) -> Sequence[Piece]:
    return parse_html(expand_empty_elements(text))


def parse_ncx(text: str) -> Sequence[Piece]:
    return pick_text(text, lambda path: path[-1:] == ["text"] and path[-2:-1] and path[-2] in NCX_TITLES)


def parse_package(text: str) -> Sequence[Piece]:
    return pick_text(text, lambda path: path[-2:-1] == ["metadata"] and path[-1] in BOOK_TITLES)


def pick_text(text: str, is_title: Callable[[list[str]], object]) -> list[Piece]:
    """Pieces of XML of which some elements are translated. is_title: of the names of an element and those around it."""
    pieces: list[Piece] = []
    path: list[str] = []
    for token in tokenize_html(expand_empty_elements(text)):
        if token.kind == "start":
            path.append(local_name(token))
        elif token.kind == "end" and path:
            path.pop()
        is_text = token.kind == "text" and is_title(path)
        pieces.append(Piece("text", token.raw, unescape_html(token.raw)) if is_text else Piece("break", token.raw))
    return pieces


def expand_empty_elements(text: str) -> str:
    """<a id="x"/> as <a id="x"></a>: the same in XML, and the only form that is empty in HTML, too."""

    def expand(match: re.Match[str]) -> str:
        is_empty = match["attributes"].endswith("/") and not match["end"]
        if not is_empty or match["name"].lower() in VOID_ELEMENTS:
            return match[0]
        return f"{match[0][:-2].rstrip()}></{match['name']}>"

    return TAG.sub(expand, text)


def relabel_xhtml(text: str, language: str) -> str:
    """Name the language in the root element, and wherever else the old one is named."""
    first = LANGUAGE_ATTRIBUTE.search(text)
    if not first:
        return text
    old = first[2].lower()
    return LANGUAGE_ATTRIBUTE.sub(lambda match: match[1] + (language if match[2].lower() == old else match[2]), text)


def relabel_package(text: str, language: str) -> str:
    return relabel_xhtml(LANGUAGE_ELEMENT.sub(lambda match: match[1] + language, text, count=1), language)


def write_xhtml(items: OutputItems) -> str:
    return "".join(escape_xml(item) if isinstance(item, str) else item.raw for item in items)


XHTML_FORMAT = MarkupFormat(write_xhtml)
