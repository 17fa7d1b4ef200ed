"""Gettext's catalogues: what has no translation yet gets one, and nothing else changes.

Placeholders are kept pieces, so each is in the translation once; were one lost or doubled all the same, or put before
another although only their order says what they stand for, the message stays empty: programs may break down over it."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from headway.documents.encodings import Encoded, decoded
from headway.documents.html import INLINE, POINTS, piece_of, tokens
from headway.documents.markup import Piece, Segment, gather, written
from headway.documents.segments import Counts, Translate, Work
from headway.documents.txt import PLAIN
from headway.errors import HeadwayError

LINE = re.compile(
    r'(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d{1,3})\])?)?[ \t]*"(?P<said>(?:[^"\\]|\\.)*+)"[ \t]*'
)
NUMBER = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2}))")
ESCAPE = re.compile(rf"(?:{NUMBER.pattern})+|\\.")
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
BACK = {letter: f"\\{name}" for name, letter in LETTERS.items()} | {'"': '\\"', "\\": "\\\\"}
PLACEHOLDER = re.compile(
    r"%(?:\([^()\s]+\)|\d+\$)?[-+#0]*+(?:\d++|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|j|z|t|L|q)?[diouxXeEfFgGaAcsprn@%]"
    r"|%<\w+>[a-zA-Z]?|\$?\{[^{}\s]*\}|\$\([^()\s]+\)|%\w+%"
)
BY_ORDER = re.compile(r"%(?![(<]|\d+\$)[^%]+|\{(?:[:!].*)?\}")  # of these, such as say neither a name nor a number
BLOCKS = frozenset(
    [
        "p",
        "br",
        "li",
        "ul",
        "ol",
        "div",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "table",
        "tr",
        "td",
        "th",
        "hr",
        "pre",
        "blockquote",
    ]
)
CHARSET = re.compile(rb"charset=([\w.:-]{1,40})")
FORMS = re.compile(r"nplurals\s*=\s*(\d{1,3})")
NO_CHARSET = "CHARSET"  # what a template says before anybody has filled it in


@dataclass
class Field:
    """A keyword with its string, and the lines that they take."""

    keyword: str
    form: int
    first: int
    last: int
    said: str


@dataclass
class Entry:
    fields: dict[str, Field] = field(default_factory=dict)  # by keyword
    forms: list[Field] = field(default_factory=list)  # msgstr, or msgstr[0], msgstr[1] …


@dataclass
class Filling:
    """A message to be translated for a field."""

    place: Field
    source: str
    parts: list[Piece | Segment]
    first: int  # its segments, by number
    last: int


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    declared = CHARSET.search(data)
    charset = declared[1].decode() if declared else ""
    source = decoded(data, name, "" if charset.upper() == NO_CHARSET else charset)
    lines = source.text.split("\n")
    entries = list(read(lines, name, source.encoding))
    header = next((entry for entry in entries if is_header(entry)), None)
    found = FORMS.search(header.forms[0].said) if header and header.forms else None
    work = Work()
    fillings = [
        filling(place, text, work) for entry in entries for place, text in to_fill(entry, int(found[1]) if found else 2)
    ]
    work.run(translate)
    for one in reversed(fillings):  # from the end: what is put in moves the lines that follow
        new = filled(one, work)
        if new:
            end = "\r" if lines[one.place.first].endswith("\r") else ""
            lines[one.place.first : one.place.last + 1] = [line + end for line in quoted(one.place, new)]
    return Encoded("\n".join(lines), source.encoding).bytes(), work.counts()


def read(lines: list[str], name: str, encoding: str) -> Iterator[Entry]:
    """The messages. Comments, also those that comment messages out, and blank lines are passed over."""
    entry = Entry()
    last: Field | None = None
    for number, line in enumerate(lines):
        body = line.rstrip("\r").strip(" \t\ufeff")
        if not body or body.startswith("#"):
            last = None
            continue
        found = LINE.fullmatch(body)
        if not found or not (found["keyword"] or last):
            raise HeadwayError(f'{name}, line {number + 1} is not part of a .po file: "{body[:40]}".')
        said = unescaped(found["said"], encoding)
        keyword = found["keyword"]
        if keyword is None:
            assert last is not None
            last.said, last.last = last.said + said, number
            continue
        if (keyword in ("msgid", "msgctxt") and entry.forms) or (
            keyword in entry.fields and not keyword.startswith("msgstr")
        ):
            yield entry
            entry = Entry()
        last = Field(keyword, int(found["form"] or 0), number, number, said)
        if keyword.startswith("msgstr"):
            entry.forms.append(last)
        else:
            entry.fields[keyword] = last
    yield entry


def is_header(entry: Entry) -> bool:
    return "msgid" in entry.fields and not entry.fields["msgid"].said and "msgctxt" not in entry.fields


def to_fill(entry: Entry, forms: int) -> Iterator[tuple[Field, str]]:
    """What is empty, and what it should say. The first of several forms is the singular."""
    message, plural = entry.fields.get("msgid"), entry.fields.get("msgid_plural")
    if message is None or not message.said:
        return
    for place in entry.forms:
        if not place.said:
            yield place, plural.said if plural and (place.form or forms == 1) else message.said


def filling(place: Field, source: str, work: Work) -> Filling:
    first = len(work.asked)
    return Filling(place, source, gather(pieces(source), work, PLAIN), first, len(work.asked))


def pieces(text: str) -> list[Piece]:
    """Lines of a message, with tags and placeholders in them. A tag that HTML does not have stands for a word."""
    found: list[Piece] = []
    for token in tokens(text):
        if token.kind in ("start", "end") and token.name in BLOCKS | INLINE | POINTS:
            found.append(piece_of(token))
        elif token.kind in ("start", "end"):
            found.append(Piece("kept", token.raw, token.raw))
        else:
            for line in re.findall(r"[\n\t]+|[^\n\t]+", token.raw):
                found += [Piece("break", line)] if line[0] in "\n\t" else around_placeholders(line)
    return found


def around_placeholders(line: str) -> Iterator[Piece]:
    at = 0
    for match in PLACEHOLDER.finditer(line):
        if match.start() > at:
            yield Piece("text", line[at : match.start()], line[at : match.start()])
        yield Piece("kept", match[0], match[0])
        at = match.end()
    if at < len(line):
        yield Piece("text", line[at:], line[at:])


def filled(one: Filling, work: Work) -> str:
    """The translation of a message; nothing if there is none that can be used."""
    new, _ = written(one.parts, work, PLAIN)
    numbers = range(one.first, one.last)
    found, wanted = (PLACEHOLDER.findall(text) for text in (new, one.source))
    fault = "are others" if Counter(found) != Counter(wanted) else ""
    if not fault and by_order(found) != by_order(wanted):
        fault = "stand in another order"
    if fault:
        for number in numbers:
            work.refuse(number, f"the placeholders of its translation {fault}")
        return ""
    return new if numbers and all(work.said[number].text.strip() for number in numbers) else ""


def by_order(found: list[str]) -> list[str]:
    return [one for one in found if BY_ORDER.fullmatch(one)]


def unescaped(said: str, encoding: str) -> str:
    """Numbers are bytes as the file has them, of which several may be a letter."""

    def letters(match: re.Match[str]) -> str:
        numbers = NUMBER.findall(match[0])
        if not numbers:
            return LETTERS.get(match[0][1], match[0][1])
        data = bytes(int(octal, 8) & 255 if octal else int(other, 16) for octal, other in numbers)
        try:
            return data.decode("utf-8" if encoding.lower().startswith("utf") else encoding)
        except UnicodeDecodeError:
            return data.decode("latin-1")

    return ESCAPE.sub(letters, said)


def quoted(place: Field, text: str) -> list[str]:
    """The lines of a field, as gettext writes them: one, or one for each line of the text."""
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    strings = [f'"{"".join(BACK.get(letter, letter) for letter in line)}"' for line in lines]
    return [f"{place.keyword} {strings[0]}"] if len(strings) == 1 else [f'{place.keyword} ""', *strings]
