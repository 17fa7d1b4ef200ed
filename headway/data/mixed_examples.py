"""Mixed examples: text, pictures and sounds in one sequence, one example a line of a JSON lines file.

    {"parts": [{"text": "Question: what is on "}, {"picture": "a.png"}, {"text": "? Answer:"}], "target": " A dog."}
    {"parts": [{"sound": "talk.wav", "from": 12.5, "to": 20}], "target": "Guten Tag.", "language": "de"}

parts      in order: {"text": …}, {"picture": …} or {"sound": …, "from": seconds, "to": seconds}. A picture or a sound
           is a path, relative to the folder of the file, or a data URL: "data:image/png;base64,…"
target     the text to be written; label: one of several; language, task: of the target, where a model has several

In a sequence of tokens, a picture or a sound stands between two markers, as so many fillers as it has vectors, which
take their place: lay_out() says where."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from headway.errors import HeadwayError, did_you_mean
from headway.files.text_files import format_path, read_lines

PartKind = Literal["text", "picture", "sound"]
KINDS: tuple[PartKind, ...] = ("text", "picture", "sound")
TIMES = ("from", "to")  # of a sound, in seconds
FIELDS = ("parts", "target", "label", "language", "task")
DATA_URL = re.compile(r"data:(image|audio)/[\w.+-]{1,100};base64,", re.ASCII)
MEDIA = {"image": "picture", "audio": "sound"}
MAX_PARTS = 1000
MAX_LINE_CHARACTERS = 100_000_000
MARKERS = {"picture": ("<picture>", "</picture>"), "sound": ("<sound>", "</sound>")}
FILLER = "<vector>"  # whose embedding a vector replaces


@dataclass(frozen=True)
class MixedPart:
    kind: PartKind
    value: str | bytes  # a text; of pictures and sounds a path, or the bytes of a file
    start: float = 0.0  # of a sound, in seconds
    end: float | None = None


@dataclass(frozen=True)
class MixedExample:
    parts: tuple[MixedPart, ...]
    target: str | None = None
    label: str | None = None
    language: str | None = None
    task: str | None = None
    where: str = ""  # file and line, for messages


class MediaSpan(NamedTuple):
    """Where the vectors of a part stand."""

    part: int  # its index in the example
    first: int  # index of its first filler
    length: int


class MixedIds(NamedTuple):
    """A sequence of ids, and which of them are fillers."""

    ids: list[int]
    spans: tuple[MediaSpan, ...]


def read_mixed(path: str | Path) -> Iterator[MixedExample]:
    """The examples of a file, one by one. No picture or sound is opened."""
    folder = Path(path).parent
    for number, line in enumerate(read_lines(str(path)), 1):
        where = f"{format_path(path)}, line {number}"
        if len(line) > MAX_LINE_CHARACTERS:
            raise HeadwayError(f"{where} has {len(line):,} characters: at most {MAX_LINE_CHARACTERS:,} are read.")
        if line.strip():
            yield parse_mixed(line, where, folder)


def parse_mixed(line: str, where: str, folder: Path = Path()) -> MixedExample:
    """One line. folder: what paths are relative to"""
    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise HeadwayError(f'{where} is not a JSON object. Write one a line: {{"parts": […], "target": "…"}}')
    for name in table:
        if name not in FIELDS:
            hint = did_you_mean(name, list(FIELDS))
            raise HeadwayError(f'{where}: there is no "{name[:50]}".{hint} Known: {", ".join(FIELDS)}.')
    parts = table.get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MAX_PARTS:
        raise HeadwayError(f"{where}: parts must be a list of 1 to {MAX_PARTS:,} texts, pictures and sounds.")
    texts = {name: table.get(name) for name in FIELDS[1:]}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise HeadwayError(f"{where}: {name} must be a text.")
    read = tuple(_read_part(part, f"{where}, part {number}", folder) for number, part in enumerate(parts, 1))
    return MixedExample(read, where=where, **texts)


def _read_part(part: Any, where: str, folder: Path) -> MixedPart:
    names = set(part) if isinstance(part, dict) else set()
    kinds = [kind for kind in KINDS if kind in names]
    allowed = {*kinds, *(TIMES if kinds == ["sound"] else ())}
    if len(kinds) != 1 or names - allowed:
        raise HeadwayError(
            f'{where} must be one of {{"text": …}}, {{"picture": …}}, {{"sound": …, "from": seconds, "to": seconds}}.'
        )
    kind = kinds[0]
    value = part[kind]
    if not isinstance(value, str) or (kind != "text" and not value):
        raise HeadwayError(f"{where}: the {kind} must be a {'text' if kind == 'text' else 'path or a data URL'}.")
    if kind == "text":
        return MixedPart(kind, value)
    start, end = part.get("from", 0.0), part.get("to")
    if any(isinstance(time, bool) or not isinstance(time, int | float) for time in (start, end) if time is not None):
        raise HeadwayError(f"{where}: from and to are numbers of seconds.")
    if start is None or start < 0 or (end is not None and end <= start):
        raise HeadwayError(f"{where}: a sound goes from 0 s or later to a later time.")
    return MixedPart(kind, _read_value(value, kind, where, folder), float(start), None if end is None else float(end))


def _read_value(value: str, kind: str, where: str, folder: Path) -> str | bytes:
    if not value.startswith("data:"):
        return str(folder / value)
    found = DATA_URL.match(value)
    if not found or MEDIA[found[1]] != kind:
        raise HeadwayError(f'{where}: the data URL of a {kind} begins "data:{_media_type(kind)}/…;base64,".')
    try:
        return base64.b64decode(value[found.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise HeadwayError(f"{where}: its data URL is not valid base64.") from None


def _media_type(kind: str) -> str:
    return next(media for media, known in MEDIA.items() if known == kind)


def format_mixed(example: MixedExample, folder: Path = Path()) -> str:
    """The line of an example, with paths relative to `folder` where they lie in it."""
    table: dict[str, Any] = {"parts": [_format_part(part, folder) for part in example.parts]}
    for name in FIELDS[1:]:
        if (value := getattr(example, name)) is not None:
            table[name] = value
    return json.dumps(table, ensure_ascii=False)


def _format_part(part: MixedPart, folder: Path) -> dict[str, Any]:
    value = part.value
    if isinstance(value, bytes):
        value = f"data:{_media_type(part.kind)}/unknown;base64,{base64.b64encode(value).decode()}"
    elif part.kind != "text" and Path(value).is_relative_to(folder):
        value = str(Path(value).relative_to(folder))
    table: dict[str, Any] = {part.kind: value}
    if part.start:
        table["from"] = part.start
    if part.end is not None:
        table["to"] = part.end
    return table


def lay_out(
    example: MixedExample,
    encode: Callable[[str], list[int]],
    markers: Mapping[str, tuple[int, int]],
    filler: int,
    count_vectors: Callable[[MixedPart], int],
) -> MixedIds:
    """The parts as one sequence of ids. A text is only text: a marker that is written in it is encoded as its letters.

    markers: the ids around each kind, {"picture": (start, end)}; filler: the id in the place of each vector"""
    ids: list[int] = []
    spans = []
    for number, part in enumerate(example.parts):
        if part.kind == "text":
            assert isinstance(part.value, str)
            ids += encode(part.value)
            continue
        if part.kind not in markers:
            raise HeadwayError(f"{example.where or 'this example'} holds a {part.kind}, and the model reads none.")
        start, end = markers[part.kind]
        count = count_vectors(part)
        spans.append(MediaSpan(number, len(ids) + 1, count))
        ids += [start, *[filler] * count, end]
    return MixedIds(ids, tuple(spans))
