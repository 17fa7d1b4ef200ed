"""Pairs in JSON: one object a line (JSONL), a list of objects, or objects one after the other."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headway.data.table_layout import list_languages
from headway.errors import HeadwayError
from headway.files.text_files import MAX_LINE_BYTES, read_chunks
from headway.text.language_codes import languages_match

COMMON_KEYS = (("source", "target"), ("src", "tgt"), ("src", "trg"))
SPACE = re.compile(r"\s*")

Pair = tuple[str, str]


class PairKeys(NamedTuple):
    """What is known about the keys of both sides."""

    columns: Pair | None = None  # given by the user
    languages: Pair = ("", "")

    def candidates(self) -> list[Pair]:
        return [self.columns] if self.columns else [self.languages, *COMMON_KEYS]


def read_json_lines(path: str, lines: Iterable[str], keys: PairKeys) -> Iterator[Pair]:
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise HeadwayError(f"{path}, line {number} is not JSON: each line must hold one object.") from None
        yield extract_pair(value, keys, f"{path}, line {number}")


def read_json_objects(path: str, keys: PairKeys) -> Iterator[Pair]:
    """The pairs of a file that holds a list of objects, or objects one after the other, never all in memory."""
    for number, value in enumerate(iterate_objects(path), start=1):
        source, target = extract_pair(value, keys, f"{path}, object {number}")
        yield " ".join(source.splitlines()), " ".join(target.splitlines())


def extract_pair(value: Any, keys: PairKeys, place: str) -> Pair:
    """Both sides of one object: by the given keys, by the languages, or by common names."""
    table = find_table(value)
    candidates = keys.candidates()
    if isinstance(table, dict):
        for source, target in candidates:
            if isinstance(table.get(source), str) and isinstance(table.get(target), str):
                return table[source], table[target]
        for source, target in candidates:
            if source in table and target in table:
                raise HeadwayError(f"{place}: what it has under {source} and {target} is not text.")
    found = f"the keys {', '.join(map(str, table))}" if isinstance(table, dict) else "no object"
    names = " or ".join(f"{source} and {target}" for source, target in candidates if source and target)
    raise HeadwayError(f"{place} has {found}: expected texts under {names}. Name other keys with --columns.")


def find_table(value: Any) -> Any:
    """The object with both sides: `value`, or what it has under "translation"."""
    inner = value.get("translation") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else value


def infer_keys(names: Mapping[str, Any], keys: PairKeys) -> tuple[PairKeys, Pair]:
    """Keys that are languages, where neither keys nor both languages were given, and the languages of both sides."""
    if keys.columns or any(source in names and target in names for source, target in keys.candidates()):
        return keys, keys.languages
    cells = list(names)
    found = list_languages(cells, keys.languages)
    by_side = [
        next((language for language in found if given and languages_match(given, language)), "")
        for given in keys.languages
    ]
    others = [language for language in found if language not in by_side]
    missing = by_side.count("")
    if (
        len(others) != missing
        or (missing == 1 and not any(keys.languages))
        or any(given and not match for given, match in zip(keys.languages, by_side))
    ):
        return keys, keys.languages
    source, target = (language or others.pop(0) for language in by_side)
    languages = keys.languages[0] or source, keys.languages[1] or target
    return PairKeys((cells[found[source]], cells[found[target]]), languages), languages


def iterate_objects(path: str) -> Iterator[Any]:
    """The objects of a JSON list or of a sequence of objects. Only what is being parsed is in memory."""
    text = JsonText(path)
    text.skip_space()
    is_list = text.take("[")
    number = 0
    while True:
        text.skip_space()
        if is_list and number and not text.take(",") and not text.starts_with("]") and not text.at_end():
            raise text.error(number, "is followed by neither a comma nor the end of the list")
        text.skip_space()
        if text.at_end():
            if is_list:
                raise text.error(number, "is followed by the end of the file, before the end of the list")
            return
        if is_list and text.take("]"):
            return
        number += 1
        yield text.parse_object(number)


class JsonText:
    """A window on the text of a file, which moves forward."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.chunks = codecs.iterdecode(read_chunks(Path(path)), "utf-8-sig")
        self.text = ""
        self.start = 0
        self.complete = False

    def fill(self, characters: int) -> None:
        """Read on until there are this many characters, or the file ends."""
        parts = [self.text[self.start :]]
        size = len(parts[0])
        while size < characters and not self.complete:
            try:
                chunk = next(self.chunks, None)
            except UnicodeDecodeError as error:
                raise HeadwayError(
                    f"{self.path}: byte 0x{error.object[error.start]:02x} is not UTF-8. Convert it first, for example "
                    "with: iconv -f latin1 -t utf-8"
                ) from None
            self.complete = chunk is None
            parts.append(chunk or "")
            size += len(parts[-1])
        self.text = "".join(parts)
        self.start = 0

    def skip_space(self) -> None:
        while True:
            found = SPACE.match(self.text, self.start)
            self.start = found.end() if found else self.start
            if self.start < len(self.text) or self.complete:
                return
            self.fill(1)

    def at_end(self) -> bool:
        return self.start == len(self.text) and self.complete

    def starts_with(self, character: str) -> bool:
        return self.text.startswith(character, self.start)

    def take(self, character: str) -> bool:
        found = self.starts_with(character)
        self.start += found
        return found

    def parse_object(self, number: int) -> Any:
        if not self.starts_with("{"):
            raise self.error(number, "is no object")
        while True:
            try:
                value, self.start = json.JSONDecoder().raw_decode(self.text, self.start)
                return value
            except RecursionError:
                raise self.error(number, "is nested too deeply") from None
            except ValueError:
                size = len(self.text) - self.start
                if self.complete:
                    raise self.error(number, "is not JSON") from None
                if size > MAX_LINE_BYTES:
                    raise self.error(
                        number, f"is not JSON, or longer than {MAX_LINE_BYTES >> 20} MiB, the most that one may have"
                    ) from None
                self.fill(2 * size + 1)

    def error(self, number: int, fault: str) -> HeadwayError:
        return HeadwayError(
            f"{self.path}, object {number} {fault}: a .json file holds a list of objects, or one after the other."
        )
