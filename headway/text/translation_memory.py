"""A translation memory: pairs that people have translated, looked up exactly or by similarity.

    TranslationMemory.load("memory.tmx").for_direction("en", "de") ──► MemoryIndex
    index.find_exact("Page 4.")      the translation of "Page 4.", or of "Page 3." with the other number
    index.find_similar("Page four.") MemoryMatches, the most similar first

A file is TMX, or has a source, a tab and its translation on each line."""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple
from xml.parsers import expat

from headway.errors import HeadwayError
from headway.text.language_codes import languages_match

UNIT = re.compile(r"\w+|[^\w\s]")
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
MAX_UNITS = 5_000_000
MAX_CANDIDATES = 64  # whose edit distance is computed
MAX_POSTINGS = 20_000  # of a word: more frequent ones find nothing
CODE_ELEMENTS = frozenset(["bpt", "ept", "ph", "it", "ut", "sub"])  # their content is not text of the sentence


class MemoryMatch(NamedTuple):
    source: str
    target: str
    similarity: float  # 1: the same words; 1 - edit distance / length, in words and signs


class TranslationMemory:
    """Units of several languages, in the order of their file."""

    def __init__(self, units: Iterable[dict[str, str]], name: str = "memory", names_languages: bool = True) -> None:
        """units: texts by language. names_languages: else they are {"source": …, "target": …}, in any languages"""
        self.name = name
        self.units = list(units)
        self.names_languages = names_languages
        self._indexes: dict[tuple[str, str], MemoryIndex] = {}

    def __repr__(self) -> str:
        return f"TranslationMemory({self.name}, {len(self.units):,} units: {', '.join(self.languages)})"

    @functools.cached_property
    def languages(self) -> list[str]:
        return list(dict.fromkeys(language for unit in self.units for language in unit))

    @classmethod
    def load(cls, path: str | Path) -> "TranslationMemory":
        """Read a .tmx file, or text with a tab between source and translation on each line."""
        path = Path(path)
        if path.suffix.lower() == ".tmx":
            return cls(read_tmx(path), str(path))
        return cls(_read_tab_separated(path), str(path), names_languages=False)

    def for_direction(self, source: str = "", target: str = "") -> "MemoryIndex":
        """The units that have both languages. "": unknown, allowed if the memory has no other choice."""
        if (source, target) not in self._indexes:
            source_language = self._choose_language(source, "source")
            target_language = self._choose_language(target, "target")
            pairs = [
                (unit[source_language], unit[target_language])
                for unit in self.units
                if unit.get(source_language) and unit.get(target_language)
            ]
            self._indexes[source, target] = MemoryIndex(pairs)
        return self._indexes[source, target]

    def _choose_language(self, requested: str, side: Literal["source", "target"]) -> str:
        if not self.names_languages:
            return side
        known = self.languages
        if found := [language for language in known if requested and languages_match(requested, language)]:
            return found[0]
        if not requested and len(known) == 2:  # in the usual order
            return known[side == "target"]
        wanted = f'has no texts in "{requested}"' if requested else f"has several languages, and the {side} is unknown"
        languages = ", ".join(known) or "none"
        raise HeadwayError(f"{self.name} {wanted}. Its languages: {languages}. Name yours with --from and --to.")


@dataclass
class MemoryIndex:
    """The pairs of one direction. A source that occurs twice has the later translation."""

    pairs: Sequence[tuple[str, str]]
    exact: dict[str, int] = field(default_factory=dict)
    without_numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, (source, _) in enumerate(self.pairs):
            key = normalise_spaces(source)
            self.exact[key] = number
            if NUMBER.search(key):
                self.without_numbers[NUMBER.sub("0", key)] = number

    def find_exact(self, text: str) -> str | None:
        """The translation of the same text, or of one that differs only in numbers, with these numbers."""
        key = normalise_spaces(text)
        if key in self.exact:
            return self.pairs[self.exact[key]][1]
        known = self.without_numbers.get(NUMBER.sub("0", key)) if NUMBER.search(key) else None
        return None if known is None else replace_numbers(key, *self.pairs[known])

    def find_similar(self, text: str, min_similarity: float = 0.7, count: int = 3) -> list[MemoryMatch]:
        """The most similar sources, at most `count`, with their translations."""
        words = split_units(text)
        if not words:
            return []
        shared: Counter[int] = Counter()
        for word in set(words):
            postings = self._postings.get(word, ())
            if len(postings) <= MAX_POSTINGS:
                for number in postings:
                    shared[number] += 1
        matches = []
        for number, common in shared.most_common(MAX_CANDIDATES):
            source, target = self.pairs[number]
            candidate = split_units(source)
            longest = max(len(words), len(candidate))
            if common and min(len(words), len(candidate)) >= min_similarity * longest:
                similarity = 1 - edit_distance(words, candidate) / longest
                if similarity >= min_similarity:
                    matches.append(MemoryMatch(source, target, similarity))
        return sorted(matches, key=lambda match: -match.similarity)[:count]

    @functools.cached_property
    def _postings(self) -> dict[str, list[int]]:
        """The pairs whose source has a word, each source once."""
        postings: dict[str, list[int]] = defaultdict(list)
        for number in self.exact.values():
            for word in set(split_units(self.pairs[number][0])):
                postings[word].append(number)
        return dict(postings)


def normalise_spaces(text: str) -> str:
    return " ".join(text.split())


def split_units(text: str) -> list[str]:
    """Words and signs, in lower case."""
    return UNIT.findall(text.casefold())


def replace_numbers(text: str, source: str, target: str) -> str | None:
    """The translation of `source` with the numbers of `text`; None unless every number of its source is in it once,
    written the same."""
    old, new = NUMBER.findall(source), NUMBER.findall(text)
    if len(old) != len(new) or len(set(old)) != len(old) or sorted(NUMBER.findall(target)) != sorted(old):
        return None
    table = dict(zip(old, new))
    return NUMBER.sub(lambda match: table[match[0]], target)


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """Levenshtein's, over words, a column of the table in one integer (Myers 1999)."""
    if not one or not other:
        return max(len(one), len(other))
    places: dict[str, int] = defaultdict(int)
    for index, word in enumerate(one):
        places[word] |= 1 << index
    mask = (1 << len(one)) - 1
    last = 1 << (len(one) - 1)
    rises, falls, distance = mask, 0, len(one)
    for word in other:
        equal = places.get(word, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        across_rises, across_falls = falls | ~(diagonal | rises), rises & diagonal
        distance += bool(across_rises & last) - bool(across_falls & last)
        across_rises, across_falls = (across_rises << 1) | 1, across_falls << 1
        rises = (across_falls | ~(diagonal | across_rises)) & mask
        falls = across_rises & diagonal & mask
    return distance


def _read_tab_separated(path: Path) -> Iterable[dict[str, str]]:
    from headway.files.text_files import read_lines

    for number, line in enumerate(read_lines(str(path)), start=1):
        source, _, target = (part.strip() for part in line.partition("\t"))
        if line.strip() and not (source and target):
            raise HeadwayError(f"{path}, line {number}: each line must be a text, a tab and its translation.")
        if source:
            yield {"source": source, "target": target}


def read_tmx(path: Path) -> list[dict[str, str]]:
    """The units of a TMX file: text by language. Inline codes are left out."""
    from headway.files.text_files import check_readable

    check_readable(str(path))
    reader = _TmxReader(path)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add_text
    parser.EntityDeclHandler = reader.refuse_entities
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise HeadwayError(f"{path} is damaged: {error}.") from None
    if not reader.found_root:
        raise HeadwayError(f"{path} is not a TMX file: it has no <tmx>.")
    return reader.units


class _TmxReader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.units: list[dict[str, str]] = []
        self.found_root = False
        self._unit: dict[str, str] = {}
        self._language = ""
        self._text: list[str] | None = None  # of the segment that is open
        self._code_depth = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tmx":
            self.found_root = True
        elif name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif name == "seg":
            self._text = []
        elif name in CODE_ELEMENTS:
            self._code_depth += 1

    def end(self, name: str) -> None:
        if name == "seg" and self._text is not None:
            self._unit[self._language] = "".join(self._text).strip()
            self._text = None
        elif name in CODE_ELEMENTS:
            self._code_depth -= 1
        elif name == "tu":
            self.units.append(self._unit)
            if len(self.units) > MAX_UNITS:
                raise HeadwayError(f"{self.path} has more than {MAX_UNITS:,} units, the limit of a memory. Split it.")

    def add_text(self, text: str) -> None:
        if self._text is not None and not self._code_depth:
            self._text.append(text)

    def refuse_entities(self, *_: object) -> None:
        raise HeadwayError(f"{self.path} is refused: it declares entities, which a memory does not need.")
