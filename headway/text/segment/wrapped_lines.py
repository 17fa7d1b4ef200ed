"""Paragraphs whose lines somebody broke at a width, as e-mail programs do: their sentences go on in the next line."""

import re
import textwrap
from itertools import pairwise
from typing import NamedTuple

NARROWEST = 25  # characters: addresses and lists are narrower
FULL = 0.75  # of the width: as far as a line goes at least, with the word that did not fit
ITEM = re.compile(r"\s*(?:[-*•·>#|]|\(?\w{1,3}[.)]\s)")
ENDED = re.compile(r"[.!?…:;。！？][\"'”’»›“)\]]*\s*$")
BREAK = re.compile(r"\r?\n")


class Paragraph(NamedTuple):
    """One line of what is read, and the lines that it was."""

    line: str
    lines: list[str]
    width: int = 0  # 0: it was not broken

    def laid_out(self, text: str, end: str) -> str:
        """What became of it, on lines of the same width."""
        if text == self.line:
            return end.join(self.lines)
        if not self.width:
            return text
        space = _indent(text)
        return end.join(
            textwrap.wrap(
                text.strip(), self.width, initial_indent=space, subsequent_indent=space,
                break_long_words=False, break_on_hyphens=False, expand_tabs=False, replace_whitespace=False,
            )
        )  # fmt: skip


class Layout(NamedTuple):
    paragraphs: list[Paragraph]
    end: str  # of a line

    @property
    def text(self) -> str:
        """A line for each paragraph."""
        return self.end.join(paragraph.line for paragraph in self.paragraphs)

    def restored(self, text: str) -> str:
        """A translation of that, line by line, broken where the source was. Nothing but white space changes."""
        lines = BREAK.split(text)
        if len(lines) != len(self.paragraphs):  # something made a line of its own
            return text
        return self.end.join(part.laid_out(line, self.end) for part, line in zip(self.paragraphs, lines))


def layout_of(text: str) -> Layout | None:
    """None where no paragraph is broken, or lines end now so and now otherwise."""
    first = BREAK.search(text)
    if first is None or text.count("\r\n") not in (0, text.count("\n")):
        return None
    paragraphs: list[Paragraph] = []
    block: list[str] = []
    for line in [*BREAK.split(text), None]:
        if line is not None and block and _goes_with(line, block):
            block.append(line)
            continue
        paragraphs += _paragraphs(block)
        block = [] if line is None else [line]
    return Layout(paragraphs, first[0]) if any(one.width for one in paragraphs) else None


def _goes_with(line: str, block: list[str]) -> bool:
    """Whether it may belong to the paragraph that these lines begin."""
    if not line.strip() or not block[0].strip() or ITEM.match(line):
        return False
    return _indent(line) == _indent(block[0])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _paragraphs(block: list[str]) -> list[Paragraph]:
    """Of lines without a blank one between them: apart where one ends long before it had to, as headings do."""
    width, groups = max(map(len, block), default=0), [block[:1]] if block else []
    for before, line in pairwise(block):
        if len(before) + 1 + len(line.split()[0]) <= FULL * width:
            groups.append([])
        groups[-1].append(line)
    return [paragraph for group in groups for paragraph in _joined(group, width)]


def _joined(lines: list[str], width: int) -> list[Paragraph]:
    """One where it begins and ends as a sentence does, and a word in small letters begins a line amid a sentence."""
    amid = any(not ENDED.search(line) and following.lstrip()[0].islower() for line, following in pairwise(lines))
    if not amid or width < NARROWEST or lines[0].lstrip()[0].islower() or not ENDED.search(lines[-1]):
        return [Paragraph(line, [line]) for line in lines]
    return [Paragraph(" ".join([lines[0].rstrip(), *(line.strip() for line in lines[1:])]), lines, width)]
