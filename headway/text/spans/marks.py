"""Marks for what must come through two translations in a row: ⟦7⟧ in place of a user's protected text, or of a term of
a glossary. Models leave such placeholders as they are, and `MarkedText.restore` fills them in at the end.

Das Rechenzentrum von Müller ─► Das ⟦0⟧ von ⟦1⟧ ─► The ⟦0⟧ of ⟦1⟧ ─► ⟦1⟧的⟦0⟧ ─► Müller的数据中心

What is protected by default (URLs, tags, code) needs no mark: each translation finds it again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headway.text.align.words import WORD
from headway.text.spans.protect import Protector, format_placeholder
from headway.text.unspaced import is_unspaced

if TYPE_CHECKING:
    from headway.text.glossary import Glossary

ANY_PLACEHOLDER = re.compile(r"⟦(\d*)⟧")
Links = list[tuple[int, int]]


class Mark(NamedTuple):
    number: int  # of its placeholder
    source: str  # what stood there
    target: str  # what is put there


@dataclass(frozen=True)
class MarkedText:
    """A text with marks, and what they stand for."""

    text: str
    marks: Sequence[Mark] = ()
    warnings: Sequence[str] = ()

    def restore(self, output: str) -> str:
        """A translation of the text with the marks filled in. A script without spaces has none around a term."""
        for mark in self.marks:
            output = _fill(output, mark)
        return output

    def find_missing(self, output: str) -> list[str]:
        """A warning for each mark that a translation of the text lacks."""
        lost = [mark for mark in self.marks if format_placeholder(mark.number) not in output]
        return [
            f'"{mark.source}" was lost'
            if mark.source == mark.target
            else f'the term "{mark.source}" could not be placed as "{mark.target}"'
            for mark in lost
        ]

    def restore_links(self, links: Links, output: str) -> Links:
        """Links between the words of the text and of its translation `output`, both with marks, as links between those
        that the marks stand for."""
        if not self.marks:
            return links
        sources = _expand_words(self.text, {mark.number: mark.source for mark in self.marks}, self._fill_sources())
        targets = _expand_words(output, {mark.number: mark.target for mark in self.marks}, self.restore(output))
        return sorted({(i, j) for one, other in links for i in sources.get(one, ()) for j in targets.get(other, ())})

    def _fill_sources(self) -> str:
        values = {mark.number: mark.source for mark in self.marks}
        return ANY_PLACEHOLDER.sub(lambda found: _value_of(found, values), self.text)


def mark_text(text: str, protector: Protector, glossary: "Glossary | None" = None) -> MarkedText:
    """Marks in place of what the protector's own patterns find, and of a glossary's terms outside all protected spans.

    Numbers that the text has already, as segments of documents do, stay free."""
    if not protector.custom_patterns and glossary is None:
        return MarkedText(text)
    spans = protector.find_spans(text)
    custom = [span for span in spans if span.re in protector.custom_patterns]
    pieces = [(span.start(), span.end(), span[0], span[0]) for span in custom]
    warnings: list[str] = []
    if glossary is not None:
        terms, warnings = glossary.locate_terms(_hide(text, spans))
        pieces += [(start, end, text[start:end], term.target) for term, start, end in terms]
    number = 1 + max((int(found[1]) for found in ANY_PLACEHOLDER.finditer(text) if found[1]), default=-1)
    marks: list[Mark] = []
    parts: list[str] = []
    last = 0
    for start, end, source, target in sorted(pieces):
        marks.append(Mark(number + len(marks), source, target))
        parts += [text[last:start], format_placeholder(marks[-1].number)]
        last = end
    return MarkedText("".join(parts) + text[last:], marks, warnings)


def _hide(text: str, spans: Sequence[re.Match[str]]) -> str:
    """The text with characters that no term has in place of the spans: all else stays at its offset."""
    parts: list[str] = []
    last = 0
    for span in spans:
        parts += [text[last : span.start()], "⟦" * len(span[0])]
        last = span.end()
    return "".join(parts) + text[last:]


def _fill(output: str, mark: Mark) -> str:
    """The value in place of its placeholder, without a space between two characters of scripts without spaces."""
    parts = output.split(format_placeholder(mark.number))
    filled = parts[0]
    for part in parts[1:]:
        if is_unspaced(mark.target[:1]) and filled.endswith(" ") and is_unspaced(filled[-2:-1]):
            filled = filled[:-1]
        if is_unspaced(mark.target[-1:]) and part.startswith(" ") and is_unspaced(part[1:2]):
            part = part[1:]
        filled += mark.target + part
    return filled


def _value_of(found: re.Match[str], values: dict[int, str]) -> str:
    return values.get(int(found[1]), found[0]) if found[1] else found[0]


def _expand_words(marked: str, values: dict[int, str], filled: str) -> dict[int, set[int]]:
    """For each word of a text with marks, the words of the filled text that it became."""
    owners = [word for word, match in enumerate(WORD.finditer(filled)) for _ in range(len(match[0]))]
    rest = iter(owners)  # of the characters that are no spaces, in order: filling in changes no other character
    expanded: dict[int, set[int]] = {}
    for number, word in enumerate(WORD.finditer(marked)):
        value = ANY_PLACEHOLDER.sub(lambda found: _value_of(found, values), word[0])
        length = sum(len(part[0]) for part in WORD.finditer(value))
        expanded[number] = {owner for _, owner in zip(range(length), rest)}
    return expanded
