"""An XML tree over its source text: every element knows its span, so unchanged parts keep their exact bytes.

expat parses the text first, and refuses what is not well-formed or declares a document type or entities."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.limits import current_meter
from headway.errors import HeadwayError

TOKEN = re.compile(
    r"""<(?P<end>/?)(?P<name>[^\s/>!?]+)(?P<attributes>(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*+)(?P<empty>/?)>
    | <!--.*?--> | <!\[CDATA\[(?P<data>.*?)\]\]> | <\?.*?\?>""",
    re.VERBOSE | re.DOTALL,
)
NAMESPACE_DECLARATION = re.compile(r"""\sxmlns(?::(?P<prefix>[^\s=]+))?\s*=\s*(?:"(?P<one>[^"]*)"|'(?P<two>[^']*)')""")
DECLARED_ENCODING = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})""")
CHARACTER_REFERENCE = re.compile(r"&(?:#x0*([0-9a-fA-F]+)|#0*([0-9]+)|(amp|lt|gt|quot|apos));")
PREDEFINED_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
COMMENT = "!"  # the name of comments and processing instructions
EXPAT_CHARACTERS = 1 << 20  # that expat is given at a time, so that no second copy of a part is made for it


@dataclass(slots=True)
class XmlNode:
    """An element, or text between elements, which has no name. Positions are characters of the source text."""

    name: str  # with the canonical prefix of its namespace
    start: int
    content_start: int  # the end of its start tag
    content_end: int = 0  # the start of its end tag
    end: int = 0
    attributes: str = ""
    children: "list[XmlNode]" = field(default_factory=list)
    text: str = ""  # of a text node: unescaped

    def find(self, name: str) -> "XmlNode | None":
        return next((child for child in self.children if child.name == name), None)

    def find_all(self, *names: str) -> "Iterator[XmlNode]":
        """All descendants with these names, in document order."""
        for child in self.children:
            if child.name in names:
                yield child
            yield from child.find_all(*names)


def decode_xml(data: bytes, name: str, allow_doctype: bool = False) -> DecodedText:
    """Decode a part; refuse it unless it is well-formed and declares no document type or entities.

    allow_doctype: it may name a document type, which is not read, but declare nothing itself"""
    declared = DECLARED_ENCODING.match(data.removeprefix(b"\xef\xbb\xbf"))
    decoded = decode_text(data, name, declared[1].decode() if declared else "")
    current_meter().count_elements(decoded.text.count("<") - decoded.text.count("</"), name)  # before any is parsed
    parser = expat.ParserCreate("utf-8")

    def refuse(*_: object) -> None:
        raise HeadwayError(
            f"{name} is refused: it declares a document type or entities, which such a document does not need."
        )

    def check_doctype(doctype: str, system: str | None, public: str | None, has_declarations: bool) -> None:
        if has_declarations or not allow_doctype:
            refuse()

    parser.StartDoctypeDeclHandler = check_doctype
    parser.EntityDeclHandler = refuse
    try:
        for start in range(0, len(decoded.text), EXPAT_CHARACTERS):
            parser.Parse(decoded.text[start : start + EXPAT_CHARACTERS].encode(), False)
        parser.Parse(b"", True)
    except (expat.ExpatError, UnicodeEncodeError, ValueError) as error:
        raise HeadwayError(f"{name} is damaged: {error}.") from None
    return decoded


def parse_tree(text: str, name: str, namespaces: dict[str, str]) -> XmlNode:
    """The tree of a part. namespaces: canonical prefix by namespace URI."""
    root = XmlNode("", 0, 0, len(text), len(text))
    stack = [root]
    prefixes: dict[str, str] = {}
    position = 0
    max_depth = current_meter().limits.depth
    for token in TOKEN.finditer(text):
        if token.start() > position:
            add_text(stack[-1], text, position, token.start())
        position = token.end()
        if token["data"] is not None:
            stack[-1].children.append(XmlNode("", token.start(), position, position, position, text=token["data"]))
        elif not token["name"]:
            stack[-1].children.append(XmlNode(COMMENT, token.start(), position, position, position))
        elif token["end"]:
            done = stack.pop()
            done.content_end, done.end = token.start(), position
        else:
            if len(stack) == 1:
                prefixes = canonical_prefixes(token["attributes"], namespaces)
            if len(stack) > max_depth:
                raise HeadwayError(f"{name} has elements nested more than {max_depth} deep, the limit for a part.")
            node_name = canonical_name(token["name"], prefixes)
            node = XmlNode(node_name, token.start(), position, position, position, token["attributes"])
            stack[-1].children.append(node)
            if not token["empty"]:
                stack.append(node)
    return root


def add_text(parent: XmlNode, text: str, start: int, end: int) -> None:
    parent.children.append(XmlNode("", start, end, end, end, text=unescape_xml(text[start:end])))


def unescape_xml(text: str) -> str:
    """Unescape by XML's rules, not HTML's: browsers read &#146; as an apostrophe and know more names."""

    def character(match: re.Match[str]) -> str:
        hexadecimal, decimal, name = match.groups()
        return PREDEFINED_ENTITIES[name] if name else chr(int(hexadecimal, 16) if hexadecimal else int(decimal))

    return CHARACTER_REFERENCE.sub(character, text)


def canonical_prefixes(attributes: str, namespaces: dict[str, str]) -> dict[str, str]:
    """The canonical prefix for each prefix that an element declares."""
    declarations = NAMESPACE_DECLARATION.finditer(attributes)
    return {match["prefix"] or "": namespaces.get(match["one"] or match["two"] or "", "") for match in declarations}


def canonical_name(name: str, prefixes: dict[str, str]) -> str:
    prefix, _, local = name.rpartition(":")
    known = prefixes.get(prefix)
    return f"{known}:{local}" if known else name


def find_prefix(text: str, namespace: str) -> str:
    """The prefix that a part itself uses for a namespace: "w:" or "ns0:" or none."""
    root = next((token for token in TOKEN.finditer(text) if token["name"]), None)
    for match in NAMESPACE_DECLARATION.finditer(root["attributes"] if root else ""):
        if (match["one"] or match["two"]) == namespace:
            return f"{match['prefix']}:" if match["prefix"] else ""
    return "w:"


def escape_xml(text: str) -> str:
    """Escape text for XML. Characters that XML does not allow, such as most control characters, are dropped."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
