"""Files of translators, .xliff and .tmx: a target is added to every source that has none; nothing else changes.

A target is its source, markup included, with the text translated."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.documents.encodings import DecodedText
from headway.documents.markup import OBJECT, MarkupFormat, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.documents.target_language import current_target_language
from headway.documents.xml import XmlNode, decode_xml, escape_xml, parse_tree
from headway.errors import HeadwayError


@dataclass(frozen=True)
class MissingTarget:
    """A source to translate, and where its target goes."""

    source: XmlNode
    start: int  # of what the target replaces
    end: int
    before: str  # the target's own XML, around its content
    after: str


@dataclass(frozen=True)
class BilingualFile:
    """What a format finds in a file."""

    missing: list[MissingTarget]
    edits: list[tuple[int, int, str]]  # other changes: attributes that name the target language
    warnings: list[str]


# Codes that begin or end a stretch of text, with the attributes that say which belong together.
OPENING_CODES = {"bpt": ("i", "id"), "bx": ("rid", "id"), "sc": ("id",)}
CLOSING_CODES = {"ept": ("i", "id"), "ex": ("rid", "id"), "ec": ("startRef",)}
OBJECT_CODES = frozenset(["x", "ph"])  # they stand in a sentence like a word: a picture, a variable

FindMissing = Callable[[XmlNode, str, str], BilingualFile]  # takes the tree, its text and the target language
PairedTags = Callable[[XmlNode], bool]


def translate_bilingual(
    data: bytes, name: str, translate: TranslateSegments, find_missing: FindMissing, is_pair: PairedTags
) -> tuple[bytes, DocumentCounts]:
    """is_pair: whether an inline element surrounds text of the sentence; others stand alone."""
    language = current_target_language()
    source = decode_xml(data, name, allow_doctype=True)
    found = find_missing(parse_tree(source.text, name, {}), source.text, language)
    queue = SegmentQueue()
    reader = InlineReader(source.text, is_pair)
    queued = [
        (target, collect_segments(list(reader.read(target.source)), queue, XML_TEXT_FORMAT)) for target in found.missing
    ]
    queue.translate_all(translate)
    edits = list(found.edits)
    for target, parts in queued:
        content, changed = write_translated(parts, queue, XML_TEXT_FORMAT)
        if changed:
            edits.append((target.start, target.end, f"{target.before}{content}{target.after}"))
    counts = queue.counts()
    counts.warnings[:0] = found.warnings
    return DecodedText(apply_edits(source.text, edits), source.encoding).encode("xmlcharrefreplace"), counts


def apply_edits(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    output = []
    position = 0
    for start, end, new in sorted(edits):
        output += [text[position:start], new]
        position = end
    return "".join(output) + text[position:]


@dataclass(frozen=True)
class InlineReader:
    """The pieces of a source: its text, and its inline elements as tags."""

    text: str
    is_pair: PairedTags

    def read(self, node: XmlNode) -> Iterator[Piece]:
        for child in node.children:
            raw = self.text[child.start : child.end]
            if not child.name:
                yield Piece("text", raw, child.text)
            elif is_segment(child):
                yield Piece("break", self.text[child.start : child.content_start])
                yield from self.read(child)
                yield Piece("break", self.text[child.content_end : child.end])
            elif self.is_pair(child) and child.content_end > child.content_start:
                yield Piece("open", self.text[child.start : child.content_start], name=child.name)
                yield from self.read(child)
                yield Piece("close", self.text[child.content_end : child.end], name=child.name)
            elif find_attribute(child, "translate") == "no" and (words := collect_text(child).strip()):
                yield Piece("verbatim", raw, words)
            elif local_name(child) in OPENING_CODES:
                yield Piece("open", raw, name=find_range(child, OPENING_CODES))
            elif local_name(child) in CLOSING_CODES:
                yield Piece("close", raw, name=find_range(child, CLOSING_CODES))
            elif find_attribute(child, "ctype") == "lb":  # a line break
                yield Piece("break", raw)
            else:
                yield Piece("verbatim", raw, OBJECT) if local_name(child) in OBJECT_CODES else Piece("standalone", raw)


def find_range(node: XmlNode, codes: Mapping[str, Sequence[str]]) -> str:
    """What the two codes around a stretch of text have in common."""
    return "code " + next(filter(None, (find_attribute(node, name) for name in codes[local_name(node)])), "")


def is_segment(node: XmlNode) -> bool:
    """Whether an inline element is a sentence of its own, as tools mark it that have split a source."""
    return local_name(node) == "mrk" and find_attribute(node, "mtype") == "seg"


def collect_text(node: XmlNode) -> str:
    return "".join(child.text if not child.name else collect_text(child) for child in node.children)


def local_name(node: XmlNode) -> str:
    return node.name.rpartition(":")[2]


def find_child(node: XmlNode, name: str) -> XmlNode | None:
    return next((child for child in node.children if local_name(child) == name), None)


def find_attribute(node: XmlNode, name: str) -> str:
    found = re.search(rf"""(?:^|\s){re.escape(name)}\s*=\s*(?:"([^"]*)"|'([^']*)')""", node.attributes)
    return (found[1] or found[2] or "") if found else ""


def set_attribute(node: XmlNode, text: str, name: str, value: str) -> tuple[int, int, str]:
    """An edit of the start tag: the attribute with this value, added if it is missing."""
    tag = text[node.start : node.content_start]
    new = f'{name}="{escape_xml(value).replace(chr(34), "&quot;")}"'
    found = re.search(rf"""(?<=\s){re.escape(name)}\s*=\s*(?:"[^"]*"|'[^']*')""", tag)
    if found:
        return node.start + found.start(), node.start + found.end(), new
    end = node.start + len(tag.rstrip("/>").rstrip())
    return end, end, f" {new}"


def indent_before(text: str, position: int) -> str:
    """The line end and spaces before an element, to put another one below it."""
    start = text.rfind("\n", 0, position)
    indent = text[start:position] if start >= 0 else ""
    return indent if not indent.strip() else ""


def require_language(language: str, name: str) -> str:
    if not language:
        raise HeadwayError(f"{name} names the language of each text, and the target language is not known: give --to.")
    return language


def write_xml_text(items: OutputItems) -> str:
    return "".join(escape_xml(item) if isinstance(item, str) else item.raw for item in items)


XML_TEXT_FORMAT = MarkupFormat(write_xml_text)
