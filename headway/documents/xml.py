"""XML as a tree over its own text: every element knows where it begins and ends, so that nothing is written anew.

A parser looks at it first and refuses what is not well-formed, and everything that declares entities."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from headway.documents.encodings import Encoded, decoded
from headway.errors import HeadwayError

TOKEN = re.compile(
    r"""<(?P<end>/?)(?P<name>[^\s/>!?]+)(?P<attributes>(?:[^>"'/]|"[^"]*"|'[^']*'|/(?!>))*+)(?P<empty>/?)>
    | <!--.*?--> | <!\[CDATA\[(?P<data>.*?)\]\]> | <\?.*?\?>""",
    re.VERBOSE | re.DOTALL,
)
SPACE_OF = re.compile(r"""\sxmlns(?::(?P<prefix>[^\s=]+))?\s*=\s*(?:"(?P<one>[^"]*)"|'(?P<two>[^']*)')""")
DECLARED = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([\w.:-]{1,40})""")
REFERENCE = re.compile(r"&(?:#x0*([0-9a-fA-F]+)|#0*([0-9]+)|(amp|lt|gt|quot|apos));")
LETTERS = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
COMMENT = "!"  # the name of a comment, or of an instruction to some program
MOST = 2_000_000  # tags: the tree takes some 200 bytes for each
DEEPEST = 150  # elements inside elements


@dataclass(slots=True)
class Node:
    """An element, or text between elements, which has no name. Places are characters of the part's text."""

    name: str  # with the prefix that the format's own documents use
    start: int
    inner: int  # where its first tag ends
    outer: int = 0  # where its last tag begins
    end: int = 0
    attributes: str = ""
    children: "list[Node]" = field(default_factory=list)
    said: str = ""  # of text: what it says

    def find(self, name: str) -> "Node | None":
        return next((child for child in self.children if child.name == name), None)

    def all(self, *names: str) -> "Iterator[Node]":
        """Everything of these names in it, in order, however deep."""
        for child in self.children:
            if child.name in names:
                yield child
            yield from child.all(*names)


def text_of(data: bytes, name: str) -> Encoded:
    """The text of a part, which is well-formed and declares nothing."""
    declared = DECLARED.match(data.removeprefix(b"\xef\xbb\xbf"))
    found = decoded(data, name, declared[1].decode() if declared else "")
    parser = expat.ParserCreate("utf-8")

    def refuse(*_: object) -> None:
        raise HeadwayError(
            f"{name} declares a document type or entities, which no document of its kind needs: refused."
        )

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(found.text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError, ValueError) as error:
        raise HeadwayError(f"{name} is damaged: {error}.") from None
    return found


def tree(text: str, name: str, spaces: dict[str, str]) -> Node:
    """The elements of a part. spaces: namespaces by address, with the prefix under which they are looked for."""
    root = Node("", 0, 0, len(text), len(text))
    path = [root]
    prefixes: dict[str, str] = {}
    at = 0
    if text.count("<") > MOST:
        raise HeadwayError(f"{name} has more than {MOST:,} elements: refused.")
    for token in TOKEN.finditer(text):
        if token.start() > at:
            add_text(path[-1], text, at, token.start())
        at = token.end()
        if token["data"] is not None:
            path[-1].children.append(Node("", token.start(), at, at, at, said=token["data"]))
        elif not token["name"]:
            path[-1].children.append(Node(COMMENT, token.start(), at, at, at))
        elif token["end"]:
            done = path.pop()
            done.outer, done.end = token.start(), at
        else:
            if len(path) == 1:
                prefixes = known_prefixes(token["attributes"], spaces)
            if len(path) > DEEPEST:
                raise HeadwayError(f"{name} has elements more than {DEEPEST} deep inside each other: refused.")
            node = Node(named(token["name"], prefixes), token.start(), at, at, at, token["attributes"])
            path[-1].children.append(node)
            if not token["empty"]:
                path.append(node)
    return root


def add_text(parent: Node, text: str, start: int, end: int) -> None:
    parent.children.append(Node("", start, end, end, end, said=unescaped(text[start:end])))


def unescaped(text: str) -> str:
    """By XML's rules: browsers read &#146; as an apostrophe, and know names that XML does not."""

    def letter(match: re.Match[str]) -> str:
        hexadecimal, decimal, name = match.groups()
        return LETTERS[name] if name else chr(int(hexadecimal, 16) if hexadecimal else int(decimal))

    return REFERENCE.sub(letter, text)


def known_prefixes(attributes: str, spaces: dict[str, str]) -> dict[str, str]:
    found = SPACE_OF.finditer(attributes)
    return {match["prefix"] or "": spaces.get(match["one"] or match["two"] or "", "") for match in found}


def named(name: str, prefixes: dict[str, str]) -> str:
    prefix, _, local = name.rpartition(":")
    known = prefixes.get(prefix)
    return f"{known}:{local}" if known else name


def prefix_in(text: str, address: str) -> str:
    """How a part itself writes a namespace: "w:" or "ns0:" or nothing."""
    root = next((token for token in TOKEN.finditer(text) if token["name"]), None)
    for match in SPACE_OF.finditer(root["attributes"] if root else ""):
        if (match["one"] or match["two"]) == address:
            return f"{match['prefix']}:" if match["prefix"] else ""
    return "w:"


def escaped(text: str) -> str:
    """Text as XML has it. What XML cannot have at all, most control characters, is left out."""
    text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]", "", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
