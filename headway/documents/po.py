"""Gettext catalogues (.po): untranslated messages are translated, and nothing else changes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.limits import current_meter
from headway.documents.messages import queue_message, translate_message
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.errors import HeadwayError

PO_LINE = re.compile(
    r"(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[(?P<form>\d{1,3})\])?)?[ \t]*"
    r'"(?P<value>(?:[^"\\]|\\.)*+)"[ \t]*'
)
NUMERIC_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2}))")
ESCAPE = re.compile(rf"(?:{NUMERIC_ESCAPE.pattern})+|\\.")
LETTER_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
ESCAPED = {letter: f"\\{name}" for name, letter in LETTER_ESCAPES.items()} | {'"': '\\"', "\\": "\\\\"}
DECLARED_ENCODING = re.compile(rb"charset=([\w.:-]{1,40})")
PLURAL_COUNT = re.compile(r"nplurals\s*=\s*(\d{1,3})")
UNSET_CHARSET = "CHARSET"  # in a template that nobody has filled in


@dataclass
class PoString:
    """A keyword with its string, and the lines that they take."""

    keyword: str
    form: int
    first_line: int
    last_line: int
    value: str


@dataclass
class PoEntry:
    fields: dict[str, PoString] = field(default_factory=dict)  # by keyword
    forms: list[PoString] = field(default_factory=list)  # msgstr, or msgstr[0], msgstr[1] …


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    declared = DECLARED_ENCODING.search(data)
    charset = declared[1].decode() if declared else ""
    source = decode_text(data, name, "" if charset.upper() == UNSET_CHARSET else charset)
    current_meter().count_elements(source.text.count("\n") + source.text.count("<"), name)
    lines = source.text.split("\n")
    entries = list(parse_po(lines, name, source.encoding))
    header = next((entry for entry in entries if is_header(entry)), None)
    plurals = PLURAL_COUNT.search(header.forms[0].value) if header and header.forms else None
    plural_count = int(plurals[1]) if plurals else 2
    queue = SegmentQueue()
    pending = [
        (string, queue_message(text, queue))
        for entry in entries
        for string, text in find_untranslated(entry, plural_count)
    ]
    queue.translate_all(translate)
    for string, message in reversed(pending):  # from the end, because new lines shift those that follow
        translation = translate_message(message, queue)
        if translation:
            line_end = "\r" if lines[string.first_line].endswith("\r") else ""
            new_lines = [line + line_end for line in quote_lines(string, translation)]
            lines[string.first_line : string.last_line + 1] = new_lines
    return DecodedText("\n".join(lines), source.encoding).encode(), queue.counts()


def parse_po(lines: list[str], name: str, encoding: str) -> Iterator[PoEntry]:
    """The entries of a catalogue. Comments, including commented-out messages, and blank lines are skipped."""
    entry = PoEntry()
    last: PoString | None = None
    for number, line in enumerate(lines):
        body = line.rstrip("\r").strip(" \t\ufeff")
        if not body or body.startswith("#"):
            last = None
            continue
        match = PO_LINE.fullmatch(body)
        if not match or not (match["keyword"] or last):
            raise HeadwayError(f'{name}, line {number + 1} is not valid in a .po file: "{body[:40]}".')
        value = unescape_po(match["value"], encoding)
        keyword = match["keyword"]
        if keyword is None:
            assert last is not None
            last.value += value
            last.last_line = number
            continue
        if (keyword in ("msgid", "msgctxt") and entry.forms) or (
            keyword in entry.fields and not keyword.startswith("msgstr")
        ):
            yield entry
            entry = PoEntry()
        last = PoString(keyword, int(match["form"] or 0), number, number, value)
        if keyword.startswith("msgstr"):
            entry.forms.append(last)
        else:
            entry.fields[keyword] = last
    yield entry


def is_header(entry: PoEntry) -> bool:
    return "msgid" in entry.fields and not entry.fields["msgid"].value and "msgctxt" not in entry.fields


def find_untranslated(entry: PoEntry, plural_count: int) -> Iterator[tuple[PoString, str]]:
    """Empty strings and their source texts. The first of several plural forms is the singular."""
    message, plural = entry.fields.get("msgid"), entry.fields.get("msgid_plural")
    if message is None or not message.value:
        return
    for string in entry.forms:
        if not string.value:
            yield string, plural.value if plural and (string.form or plural_count == 1) else message.value


def unescape_po(value: str, encoding: str) -> str:
    """Unescape a string. Numeric escapes are bytes in the file's encoding, several of which may be one character."""

    def characters(match: re.Match[str]) -> str:
        numbers = NUMERIC_ESCAPE.findall(match[0])
        if not numbers:
            return LETTER_ESCAPES.get(match[0][1], match[0][1])
        data = bytes(int(octal, 8) & 255 if octal else int(hexadecimal, 16) for octal, hexadecimal in numbers)
        try:
            return data.decode("utf-8" if encoding.lower().startswith("utf") else encoding)
        except UnicodeDecodeError:
            return data.decode("latin-1")

    return ESCAPE.sub(characters, value)


def quote_lines(string: PoString, text: str) -> list[str]:
    """The lines of a string as gettext writes them: one, or an empty one and one for each line of the text."""
    lines = [line for line in re.split(r"(?<=\n)", text) if line]
    quoted = [f'"{"".join(ESCAPED.get(character, character) for character in line)}"' for line in lines]
    return [f"{string.keyword} {quoted[0]}"] if len(quoted) == 1 else [f'{string.keyword} ""', *quoted]
