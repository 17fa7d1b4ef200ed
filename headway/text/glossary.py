"""Terms whose translation is given: read from a table, and found in a sentence, the longest first. No tensors here."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer

UNIT = re.compile(r"⟦\d+⟧|\w+|[^\w\s]")  # what stands for a protected span is a unit, which no term has
BRACKET = re.compile("[⟦⟧]")


class Term(NamedTuple):
    source: str
    target: str
    glued: bool = False  # in this sentence, to a sign before it, as by a quotation mark


class Match(NamedTuple):
    term: Term
    first: int  # unit of the sentence
    last: int  # one past


class Found(NamedTuple):
    """What a glossary has to say of a sentence."""

    terms: list[Term]  # in order
    text: str  # with the translations in place of the terms
    warnings: list[str]


class Glossary:
    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = dict(terms)
        self._by_first: dict[str, list[tuple[list[str], Term]]] = defaultdict(list)
        for source, target in terms.items():
            units = UNIT.findall(source)
            if not units or not target.strip():
                raise HeadwayError(f"a glossary has the term {source!r} for {target!r}: neither may be empty.")
            if BRACKET.search(source + target):
                raise HeadwayError(
                    f"a glossary has the term {source!r} for {target!r}: the signs ⟦ and ⟧ stand for what is protected. "
                    "Leave them out."
                )
            self._by_first[units[0].casefold()].append((units, Term(source, target.strip())))

    @classmethod
    def load(cls, path: str | Path) -> "Glossary":
        """Source, a tab and target on each line. Blank lines are nothing."""
        from headway.files.text_files import read_lines

        terms: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(read_lines(str(path)), start=1):
            if not line.strip():
                continue
            source, _, target = (part.strip() for part in line.partition("\t"))
            where = f"{path}, line {number}"
            if not (source and target):
                raise HeadwayError(f"{where}: a term and its translation stand in one line with a tab between them.")
            if terms.setdefault(source, target) != target:
                raise HeadwayError(
                    f'{where}: "{source}" is "{target}" here and "{terms[source]}" on line {lines[source]}. Keep one.'
                )
            lines.setdefault(source, number)
        return cls(terms)

    def find(self, text: str) -> Found:
        """The terms of a sentence, and what could not be obeyed, in words.

        A term is found as it is written; one in small letters with a capital, too, as at the start of a sentence."""
        places = list(UNIT.finditer(text))
        units = [place[0] for place in places]
        matches = [
            Match(term, first, first + len(own))
            for first, unit in enumerate(units)
            for own, term in self._by_first.get(unit.casefold(), ())
            if _alike(units[first : first + len(own)], own)
        ]
        taken: list[Match] = []
        told = []
        for match in sorted(matches, key=lambda m: (m.first - m.last, -len(m.term.source), m.first)):
            over = [other for other in taken if match.first < other.last and other.first < match.last]
            if not over:
                taken.append(match)
            elif match.first < over[0].first or match.last > over[0].last:
                told.append(f'the terms "{over[0].term.source}" and "{match.term.source}" overlap: the first was taken')
        taken.sort(key=lambda match: match.first)
        terms = [m.term._replace(glued=_touches(text, places[m.first].start())) for m in taken]
        for m in reversed(taken):
            text = text[: places[m.first].start()] + m.term.target + text[places[m.last - 1].end() :]
        return Found(terms, text, told)


def _alike(said: list[str], term: list[str]) -> bool:
    return said == term or [said[0][:1].lower() + said[0][1:], *said[1:]] == term


def _touches(text: str, place: int) -> bool:
    return place > 0 and not text[place - 1].isspace()


def spelled(term: Term, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of a term's translation, with the space before it, or without where a sign touches it."""
    if term.glued:
        sign = tokenizer.encode("(")
        both = tokenizer.encode(f"({term.target}")
        if both[: len(sign)] == sign:
            return tuple(both[len(sign) :])
    return tuple(tokenizer.encode(term.target))


def unplaced(terms: list[Term], output: str) -> list[str]:
    """Which terms an output lacks, in words."""
    wanted = Counter(term.target for term in terms)
    units = UNIT.findall(output)
    return [
        f'the term "{term.source}" could not be placed as "{term.target}"'
        for term in dict.fromkeys(term._replace(glued=False) for term in terms)
        if _count(units, UNIT.findall(term.target)) < wanted[term.target]
    ]


def _count(units: list[str], term: list[str]) -> int:
    return sum(units[place : place + len(term)] == term for place in range(len(units)))
