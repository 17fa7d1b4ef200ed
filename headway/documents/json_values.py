"""JSON (.json): strings that are values are translated; keys, numbers, layout and everything else are kept.

Placeholders are kept as in a .po file, and so are lines and tags inside a string. What does not look like text stays
as it is: addresses, identifiers, codes, dates, ICU plurals, and values of keys that begin with $ or @."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.limits import current_meter
from headway.documents.messages import QueuedMessage, queue_message, translate_message
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.errors import HeadwayError

TOKEN = re.compile(r'"(?P<string>(?:[^"\\]|\\.)*+)"|(?P<structure>[\[\]{}:,])|[^\s"\[\]{}:,]+')
NON_ASCII_ESCAPE = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
UNTRANSLATED_KEY = re.compile(r"[$@]")
ICU_ARGUMENT = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")
# One word that no reader sees as such. Words of one case without signs, as "Save" or "ok", are text.
CODE = re.compile(
    r"""[a-zA-Z][\w+.-]*:\S+              # a URL or another URI
    | [^\s@]+@[^\s@]+\.\w+                 # an e-mail address
    | [./~\\]\S*|\S*[/\\]\S*               # a path, a MIME type
    | [\w-]*[a-z][A-Z][\w-]*               # camelCase
    | \w*_\w*|[a-z0-9]+(?:-[a-z0-9]+)+     # snake_case, kebab-case
    | [\w-]+(?:\.[\w-]+)+                  # a file name, a version, a dotted name
    | \#[0-9a-fA-F]{3,8}|[0-9a-fA-F]{12,}  # a colour, a hash
    | [a-zA-Z]{2,3}(?:[-_][A-Z]\w+)+       # a language tag
    | (?=\S*\d)[\w.:+%-]+                  # a size, a date, a code with digits
    | [^\w\s]+""",
    re.VERBOSE,
)


class StringValue(NamedTuple):
    start: int  # of its quotes in the file
    end: int
    text: str


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    source = decode_text(data, name)
    current_meter().count_elements(sum(map(source.text.count, ",[{")), name)
    check_json(source.text.removeprefix("\ufeff"), name)
    queue = SegmentQueue()
    queued: list[tuple[StringValue, QueuedMessage]] = [
        (value, queue_message(value.text, queue))
        for value in find_values(source.text, name)
        if is_translatable(value.text)
    ]
    queue.translate_all(translate)
    ascii_only = bool(NON_ASCII_ESCAPE.search(source.text)) and source.text.removeprefix("\ufeff").isascii()
    output = []
    position = 0
    for value, message in queued:
        translation = translate_message(message, queue)
        if translation and translation != value.text:
            output += [source.text[position : value.start], json.dumps(translation, ensure_ascii=ascii_only)]
            position = value.end
    output.append(source.text[position:])
    return DecodedText("".join(output), source.encoding).encode(), queue.counts()


def check_json(text: str, name: str) -> None:
    def keep(number: str) -> str:  # numbers of any length are kept as they are
        return number

    try:
        json.loads(text, parse_int=keep, parse_float=keep)
    except json.JSONDecodeError as error:
        raise HeadwayError(f"{name} is not valid JSON: line {error.lineno}, column {error.colno}.") from None
    except RecursionError:
        raise HeadwayError(f"{name} is refused: its lists and objects are nested too deeply.") from None


def find_values(text: str, name: str) -> Iterator[StringValue]:
    """The strings of valid JSON that are values, in order."""
    max_depth = current_meter().limits.depth
    keys: list[str | None] = [None]  # of each open object: that of its current value; None in a list
    pending: StringValue | None = None  # a string that is a key if a colon follows
    for token in TOKEN.finditer(text):
        sign = token["structure"]
        if (
            pending is not None
            and sign != ":"
            and not any(key is not None and UNTRANSLATED_KEY.match(key) for key in keys)
        ):
            yield pending
        if sign == ":" and pending is not None:
            keys[-1] = pending.text
        elif sign in ("[", "{"):
            keys.append(None)
            if len(keys) > max_depth:
                raise HeadwayError(f"{name} has lists and objects nested more than {max_depth} deep, the limit.")
        elif sign in ("]", "}"):
            keys.pop()
        pending = None
        if token["string"] is not None:
            text_value: Any = json.loads(token[0], strict=False)
            pending = StringValue(token.start(), token.end(), text_value)
    if pending is not None:
        yield pending


def is_translatable(text: str) -> bool:
    if not any(character.isalpha() for character in text) or ICU_ARGUMENT.search(text):
        return False
    if any("\ud800" <= character <= "\udfff" for character in text):  # half of a character
        return False
    return CODE.fullmatch(text.strip()) is None
