"""Hard-wrapped text: join paragraphs whose lines were broken at a fixed width, as in e-mail, and wrap translations."""

import re
import textwrap
from itertools import pairwise
from typing import NamedTuple

from headway.text.unspaced import UNSPACED_CLASS, UNSPACED_PATTERN

MIN_WIDTH = 25  # characters: addresses and lists are narrower
MIN_FILL = 0.75  # of the width: how full a wrapped line is at least, together with the next word
LIST_ITEM = re.compile(r"\s*(?:[-*•·>#|]|\(?\w{1,3}[.)]\s)")
SENTENCE_ENDED = re.compile(r"[.!?…:;。！？][\"'”’»›“)\]]*\s*$")
LINE_BREAK = re.compile(r"\r?\n")
LAST_NARROW = 0x2E7F  # characters beyond it are two columns wide
WIDE_CLOSERS = "，。｡、；：！？）」』】》〉”’…"
WIDE_OPENERS = "（「『【《〈“‘"
# What a line break does not divide, with the space behind it.
BREAKABLE = re.compile(
    rf"[{WIDE_OPENERS}]*(?:[{UNSPACED_CLASS}]|[^\s{UNSPACED_CLASS}{WIDE_OPENERS}{WIDE_CLOSERS}]+)?[{WIDE_CLOSERS}]*\s*"
)


class Paragraph(NamedTuple):
    """A paragraph as one line, and the lines that it was."""

    line: str
    lines: list[str]
    width: int = 0  # 0: it was not wrapped

    def wrap(self, text: str, line_break: str) -> str:
        """Its translation, wrapped to the same width."""
        if text == self.line:
            return line_break.join(self.lines)
        if not self.width:
            return text
        indent = _indent(text)
        if UNSPACED_PATTERN.search(text):
            return line_break.join(wrap_unspaced(text.strip(), self.width, indent))
        return line_break.join(
            textwrap.wrap(
                text.strip(), self.width, initial_indent=indent, subsequent_indent=indent,
                break_long_words=False, break_on_hyphens=False, expand_tabs=False, replace_whitespace=False,
            )
        )  # fmt: skip


class WrappedText(NamedTuple):
    """The paragraphs of a hard-wrapped text."""

    paragraphs: list[Paragraph]
    line_break: str

    @property
    def text(self) -> str:
        """The text with one line per paragraph."""
        return self.line_break.join(paragraph.line for paragraph in self.paragraphs)

    def restore(self, text: str) -> str:
        """Wrap a line-by-line translation of `text` where the source was wrapped. Only whitespace changes."""
        lines = LINE_BREAK.split(text)
        if len(lines) != len(self.paragraphs):  # the translation has other line breaks
            return text
        wrapped = (paragraph.wrap(line, self.line_break) for paragraph, line in zip(self.paragraphs, lines))
        return self.line_break.join(wrapped)


def wrap_unspaced(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most so many columns of a text with a script without spaces, of which a character takes two: it may
    be broken between any of these, but not before what closes, nor after what opens."""
    lines = [indent]
    room = width - len(indent)
    used = 0
    for piece in BREAKABLE.findall(text):
        size = sum(2 if ord(character) > LAST_NARROW else 1 for character in piece.rstrip())
        if used and used + size > room:
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
            used = 0
        lines[-1] += piece
        used += size + len(piece) - len(piece.rstrip())
    return [*lines[:-1], lines[-1].rstrip()]


def unwrap_text(text: str) -> WrappedText | None:
    """The paragraphs of a text; None if no paragraph is wrapped, or line breaks are mixed."""
    first = LINE_BREAK.search(text)
    if first is None or text.count("\r\n") not in (0, text.count("\n")):
        return None
    paragraphs: list[Paragraph] = []
    block: list[str] = []
    for line in [*LINE_BREAK.split(text), None]:
        if line is not None and block and _may_continue(line, block):
            block.append(line)
            continue
        paragraphs += _split_paragraphs(block)
        block = [] if line is None else [line]
    return WrappedText(paragraphs, first[0]) if any(paragraph.width for paragraph in paragraphs) else None


def _may_continue(line: str, block: list[str]) -> bool:
    """Whether a line may belong to the paragraph that begins with these lines."""
    if not line.strip() or not block[0].strip() or LIST_ITEM.match(line):
        return False
    return _indent(line) == _indent(block[0])


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _split_paragraphs(block: list[str]) -> list[Paragraph]:
    """The paragraphs of lines without a blank line between them: split after a line that ends early, like a heading."""
    width = max(map(len, block), default=0)
    groups = [block[:1]] if block else []
    for before, line in pairwise(block):
        if len(before) + 1 + len(line.split()[0]) <= MIN_FILL * width:
            groups.append([])
        groups[-1].append(line)
    return [paragraph for group in groups for paragraph in _join_lines(group, width)]


def _join_lines(lines: list[str], width: int) -> list[Paragraph]:
    """One paragraph if it begins and ends like a sentence and a line within begins in lower case; else one per line."""
    continues = any(
        not SENTENCE_ENDED.search(line) and following.lstrip()[0].islower() for line, following in pairwise(lines)
    )
    if not continues or width < MIN_WIDTH or lines[0].lstrip()[0].islower() or not SENTENCE_ENDED.search(lines[-1]):
        return [Paragraph(line, [line]) for line in lines]
    return [Paragraph(" ".join([lines[0].rstrip(), *(line.strip() for line in lines[1:])]), lines, width)]
