"""A glossary: terms with a required translation, read from a file and found in sentences, the longest first."""

import re
import reprlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.unspaced import UNSPACED_CLASS, is_unspaced

# A placeholder of a protected span is a unit, which no term contains; so is a character of a script without spaces.
UNIT = re.compile(rf"⟦\d+⟧|[{UNSPACED_CLASS}]|[^\W{UNSPACED_CLASS}]+|[^\w\s]")
BRACKET = re.compile("[⟦⟧]")


class Term(NamedTuple):
    source: str
    target: str
    no_space: bool = False  # whether punctuation touches it in this sentence, as an opening quotation mark does


class TermMatch(NamedTuple):
    term: Term
    first: int  # unit of the sentence
    end: int  # the unit after the last


class PlacedTerm(NamedTuple):
    term: Term
    start: int  # in the text
    end: int


class GlossaryResult(NamedTuple):
    """The terms of a sentence."""

    terms: list[Term]  # in order
    text: str  # with the translations in place of the terms
    warnings: list[str]


class Glossary:
    """Terms and their given translations. Hashable, and equal to another with the same terms in the same order."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        self.terms = dict(terms)
        self._by_first: dict[str, list[tuple[list[str], Term]]] = defaultdict(list)
        for source, target in terms.items():
            units = UNIT.findall(source)
            if not units or not target.strip():
                raise HeadwayError(f"the glossary translates {source!r} by {target!r}: neither may be empty.")
            if BRACKET.search(source + target):
                raise HeadwayError(
                    f"the glossary translates {source!r} by {target!r}: the brackets ⟦ and ⟧ are reserved for "
                    "protected spans. Remove them."
                )
            self._by_first[units[0].casefold()].append((units, Term(source, target.strip())))

    def __repr__(self) -> str:
        return f"Glossary({reprlib.repr(self.terms)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Glossary) and tuple(self.terms.items()) == tuple(other.terms.items())

    def __hash__(self) -> int:
        return hash(tuple(self.terms.items()))

    @classmethod
    def load(cls, path: str | Path) -> "Glossary":
        """Read a file with a term, a tab and its translation on each line. Blank lines are skipped."""
        from headway.files.text_files import read_lines

        terms: dict[str, str] = {}
        lines: dict[str, int] = {}
        for number, line in enumerate(read_lines(str(path)), start=1):
            if not line.strip():
                continue
            source, _, target = (part.strip() for part in line.partition("\t"))
            where = f"{path}, line {number}"
            if not (source and target):
                raise HeadwayError(f"{where}: each line must be a term, a tab and its translation.")
            if terms.setdefault(source, target) != target:
                raise HeadwayError(
                    f'{where}: "{source}" is "{target}" here and "{terms[source]}" on line {lines[source]}. Keep one.'
                )
            lines.setdefault(source, number)
        return cls(terms)

    def find_terms(self, text: str) -> GlossaryResult:
        """The terms of a sentence, and warnings about those that overlap.

        A term is found as it is written; a lowercase one also capitalised, as at the start of a sentence."""
        placed, warnings = self.locate_terms(text)
        terms = [one.term for one in placed]
        for term, start, end in reversed(placed):
            text = text[:start] + term.target + text[end:]
        return GlossaryResult(terms, text, warnings)

    def locate_terms(self, text: str) -> tuple[list[PlacedTerm], list[str]]:
        """The same terms, and where they stand; the warnings."""
        tokens = list(UNIT.finditer(text))
        units = [token[0] for token in tokens]
        matches = [
            TermMatch(term, first, first + len(term_units))
            for first, unit in enumerate(units)
            for term_units, term in self._by_first.get(unit.casefold(), ())
            if _matches_term(units[first : first + len(term_units)], term_units)
        ]
        taken: list[TermMatch] = []
        warnings = []
        for match in sorted(matches, key=lambda m: (m.first - m.end, -len(m.term.source), m.first)):
            overlapping = [other for other in taken if match.first < other.end and other.first < match.end]
            if not overlapping:
                taken.append(match)
            elif match.first < overlapping[0].first or match.end > overlapping[0].end:
                longer = overlapping[0].term.source
                warnings.append(f'the terms "{longer}" and "{match.term.source}" overlap: the first was taken')
        placed = []
        for match in sorted(taken, key=lambda match: match.first):
            start = tokens[match.first].start()
            term = match.term._replace(no_space=_touches_previous(text, start))
            placed.append(PlacedTerm(term, start, tokens[match.end - 1].end()))
        return placed, warnings


def _matches_term(units: list[str], term: list[str]) -> bool:
    return units == term or [units[0][:1].lower() + units[0][1:], *units[1:]] == term


def _touches_previous(text: str, offset: int) -> bool:
    return offset > 0 and not text[offset - 1].isspace()


def encode_term(term: Term, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The ids of a term's translation, with a space before it, or without if punctuation touches the term, or the
    translation is in a script without spaces."""
    if term.no_space or is_unspaced(term.target[:1]):
        bracket = tokenizer.encode("(")
        both = tokenizer.encode(f"({term.target}")
        if both[: len(bracket)] == bracket:
            return tuple(both[len(bracket) :])
    return tuple(tokenizer.encode(term.target))


def find_unplaced_terms(terms: list[Term], output: str) -> list[str]:
    """A warning for each term that an output lacks."""
    expected = Counter(term.target for term in terms)
    units = UNIT.findall(output)
    return [
        f'the term "{term.source}" could not be placed as "{term.target}"'
        for term in dict.fromkeys(term._replace(no_space=False) for term in terms)
        if _count_term(units, UNIT.findall(term.target)) < expected[term.target]
    ]


def _count_term(units: list[str], term: list[str]) -> int:
    return sum(units[i : i + len(term)] == term for i in range(len(units)))
