"""Protected spans: URLs, tags, code and other parts that a translation must not change.

Protector finds them; MaskedText holds a sentence with a placeholder ⟦0⟧, ⟦1⟧, … for each, and fills them in again.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.text.spans.long_words import MAX_WORD_CHARACTERS, find_long_words
from headway.text.spans.unknown_script import CharacterRepertoire

EMOJI = "\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"  # with flags and skin tones
SUPERSCRIPT_DIGITS = "⁰¹²³⁴-⁹"
# Attributes of a tag: with a value, or known to have none. "if x <y and z> 1" has none and so is no tag.
TAG_ATTRIBUTES = (
    r"(?:\s++(?:[\w:@.-]++\s*+=\s*+(?:\"[^\"]{0,500}+\"|'[^']{0,500}+'|[^\s\"'<>=]++)|[\w:@.]++-[\w:.-]++"
    r"|checked|disabled|selected|hidden|required|readonly|async|defer|controls|autoplay|autofocus|loop|muted|open|reversed|multiple|nowrap|ismap"
    r"|allowfullscreen|default|novalidate|nomodule|inert|playsinline)(?=[\s/>]))*+"
)
# Elements whose content is not translated either: code, and what says so itself.
KEPT_ELEMENTS = "code|kbd|samp|tt|var|pre|math|svg|script|style"
NO_TRANSLATE = r"translate\s*=\s*[\"']?no\b|class\s*=\s*[\"']?[^\"'<>]{0,200}\bnotranslate\b"
LINK_TARGET = r"\((?:[^()\s]|\([^()\s]{0,100}\)){1,1000}(?:\s\"[^\"\n]{0,200}\")?\)"  # of Markdown
WIDE_STOPS = "，。；：！？、（）「」『』【】《》〈〉"  # no part of an address, though no space may follow it
LETTERS = "A-Za-z0-9_\u00c0-\u024f\u0370-\u052f"  # of mail addresses: scripts whose words have spaces around them
# What is protected by default; the first pattern that matches at a position wins. Each takes time linear in the length
# of a line, whatever is in it: hence the bounds, and the possessive *+, which does not backtrack.
SPAN_PATTERNS = {
    "placeholder": r"⟦\d*⟧",
    "code": r"``[^\n]{1,1000}?``|(?P<emphasis>\*{1,3}|_{1,3})`[^`\n]+`(?P=emphasis)|`[^`\n]+`(?:\s?[+/,]\s?`[^`\n]+`)*",
    "image": rf"!\[[^\[\]\n]{{0,500}}\]{LINK_TARGET}",
    "link": rf"\[(?=[^\[\]\n]{{1,500}}\]{LINK_TARGET})|\]{LINK_TARGET}",
    "url": (
        rf"(?:(?:https?|ftps?|file)://|www\.)[^\s<>\"`{WIDE_STOPS}]*[^\s<>\"`.,;:!?'’”“»)\]}}…{WIDE_STOPS}]"
        r"|mailto:[^\s@]{1,300}@\S*\w"
    ),
    "e-mail": rf"(?<![{LETTERS}.+-])[{LETTERS}.+-]*[{LETTERS}]@[{LETTERS}][{LETTERS}-]*(?:\.[{LETTERS}][{LETTERS}-]*)+",
    "element": (
        rf"<(?P<kept>(?i:{KEPT_ELEMENTS})){TAG_ATTRIBUTES}\s*+>[\s\S]{{0,1000}}?</(?P=kept)\s*>"
        rf"|<(?P<held>[A-Za-z][\w:.-]*+)(?=[^<>]{{0,500}}\s(?i:{NO_TRANSLATE})){TAG_ATTRIBUTES}\s*+>"
        r"[\s\S]{0,1000}?</(?P=held)\s*>"
    ),
    "tag": rf"</?[A-Za-z][\w:.-]*+{TAG_ATTRIBUTES}\s*+/?>|<!--.{{0,1000}}?-->",
    "entity": r"&(?:[A-Za-z]\w+|#\d+|#x[\dA-Fa-f]+);",
    "braces": r"\{\{[^{}]*\}\}|\$\{[^{}]*\}|\{[\w.:!,%$-]*\}",
    "dollar": r"\$\([\w.]+\)|(?<![A-Za-z0-9_$])\$[A-Za-z_][A-Za-z0-9_]*",
    "emoji": rf"[{EMOJI}](?:[{EMOJI}\u200D\uFE0E\uFE0F])*+",
    "percent": (
        r"(?<!\d)%(?:\(\w+\)|\d+\$)?[-+#0]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|z)?[sdifuxXgGeEcrqp@](?![A-Za-z])"
        r"|%\(\w+\)|(?<![\d%])%[1-9]\d?(?!\d)|%[A-Z][A-Z_]{2,}|%%"
    ),
    "note": rf"(?<=[^\s(\[])(?:\[\d{{1,3}}\])+|(?:(?<=[^\W\d_]{{3}})|(?<=[.!?…,;:)\"”’»]))[{SUPERSCRIPT_DIGITS}]+",
    "rule": r"\.{5,}|_{3,}|={3,}|\#{3,}|\*{4,}|~{3,}|-{4,}|…{2,}",
    "escape": r"\x1b\[[\d;]*[A-Za-z]",
}
# Every match of the above contains one of these.
HINT = re.compile(
    rf"[`@<&{{$%⟦\x1b{SUPERSCRIPT_DIGITS}{EMOJI}]|\]\(|://|www\.|\[\d|\.{{5}}|___|===|\#\#\#|\*{{4}}|~~~|----|……"
)
PLACEHOLDER = re.compile(r"⟦(\d+)⟧")
OUTER_PLACEHOLDERS = re.compile(r"(⟦(\d+)⟧\s*)(.*\S)(\s*⟦(\d+)⟧)", re.DOTALL)
TOUCHING_PLACEHOLDER = re.compile(r"(?<=\w)(?=⟦\d)|(?<=\d⟧)(?=\w)")
TRAILING_PLACEHOLDER = re.compile(r"(.*[.!?…])(\s*⟦\d+⟧)", re.DOTALL)
OPENING_TAG = re.compile(r"<([A-Za-z][\w:.-]*)(?:\s(?:[^<>\"']|\"[^\"]*\"|'[^']*')*)?(?<!/)>|\[")
CLOSING_TAG = re.compile(r"</([A-Za-z][\w:.-]*)\s*>|\]\(.*", re.DOTALL)


@lru_cache(maxsize=1)
def default_pattern() -> re.Pattern[str]:
    """All of SPAN_PATTERNS, compiled on first use: that takes milliseconds, and many texts contain none of them."""
    return re.compile("|".join(SPAN_PATTERNS.values()))


def format_placeholder(number: int) -> str:
    return f"⟦{number}⟧"


def space_placeholders(text: str) -> str:
    """Put spaces around placeholders, as a model reads them: a word touching one would become other tokens."""
    return TOUCHING_PLACEHOLDER.sub(" ", text)


class Protector:
    """Finds protected spans: first by custom patterns, then by the default ones, then what a model cannot say."""

    def __init__(
        self, custom_patterns: Sequence[re.Pattern[str]] = (), repertoire: CharacterRepertoire | None = None
    ) -> None:
        """repertoire: the characters that a model can say"""
        self.custom_patterns = custom_patterns
        self.repertoire = repertoire

    def find_spans(self, text: str) -> list[re.Match[str]]:
        """In order, without overlaps."""
        matches = (match for pattern in self.custom_patterns for match in pattern.finditer(text))
        spans = drop_overlaps(match for match in matches if match[0].strip())
        if HINT.search(text):
            spans = add_without_overlap(spans, default_pattern().finditer(text))
        if self.repertoire is not None and not text.isascii():
            ends = [0, *(span.end() for span in spans)]
            starts = [*(span.start() for span in spans), len(text)]
            found = [each for gap in zip(ends, starts) for each in self.repertoire.find_spans(text, *gap)]
            spans = sorted([*spans, *found], key=lambda match: match.start())
        if len(text) > MAX_WORD_CHARACTERS:
            spans = add_without_overlap(spans, find_long_words(text, spans))
        return spans

    def mask(self, text: str) -> tuple[str, list[str]]:
        """The text with a placeholder for each span, and the spans."""
        spans = self.find_spans(text)
        if not spans:
            return text, []
        parts = []
        end = 0
        for number, span in enumerate(spans):
            parts += [text[end : span.start()], format_placeholder(number)]
            end = span.end()
        return "".join(parts) + text[end:], [span[0] for span in spans]

    def find_missing(self, spans: Sequence[str], output: str) -> list[str]:
        """The spans that occur less or more often in an output than in the source, or tags that close before they
        open."""
        output_spans = [match[0] for match in self.find_spans(output)]
        expected = Counter(spans)
        actual = Counter(output_spans)
        wrong = list(dict.fromkeys(span for span in (*spans, *output_spans) if expected[span] != actual[span]))
        return wrong or find_unpaired_tags(spans, output_spans)


def add_without_overlap(taken: list[re.Match[str]], more: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """The matches, and of `more` those that overlap none of them, in order. Both are in order, without overlaps."""
    merged = []
    index = 0
    for one in more:
        while index < len(taken) and taken[index].end() <= one.start():
            merged.append(taken[index])
            index += 1
        if index == len(taken) or one.end() <= taken[index].start():
            merged.append(one)
    return [*merged, *taken[index:]]


def drop_overlaps(matches: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """The matches in order, without those that overlap another: the earliest stays, then the longest.

    Custom patterns are not joined into one, because their flags and groups would conflict."""
    taken: list[re.Match[str]] = []
    for match in sorted(matches, key=lambda match: (match.start(), -match.end())):
        if not taken or match.start() >= taken[-1].end():
            taken.append(match)
    return taken


@lru_cache(maxsize=16)
def make_protector(patterns: tuple[str, ...] = (), repertoire: CharacterRepertoire | None = None) -> Protector:
    """A protector with custom patterns, for a model that can say these characters."""
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern))
        except re.error as error:
            raise HeadwayError(f"{pattern!r} is not a regular expression: {error}.") from None
        if compiled[-1].match(""):
            raise HeadwayError(f"pattern {pattern!r} matches the empty string; it must match at least one character.")
    return Protector(compiled, repertoire)


def pair_tags(spans: Sequence[str]) -> list[tuple[int, int]]:
    """(opening, closing) span numbers of each element whose two tags are among the spans."""
    pairs = []
    unclosed: list[tuple[str, int]] = []
    for number, span in enumerate(spans):
        if opening := OPENING_TAG.fullmatch(span):
            unclosed.append((opening[1], number))
        elif closing := CLOSING_TAG.fullmatch(span):
            same_name = [index for index, (name, _) in enumerate(unclosed) if name == closing[1]]
            if same_name:
                pairs.append((unclosed[same_name[-1]][1], number))
                del unclosed[same_name[-1] :]
    return pairs


def find_empty_tags(text: str, spans: Sequence[str]) -> list[str]:
    """Tags with nothing between them, in a text with placeholders for these spans."""
    tags = []
    for opening, closing in pair_tags(spans):
        if re.search(rf"⟦{opening}⟧\s*⟦{closing}⟧", text):
            tags += [spans[opening], spans[closing]]
    return tags


def find_unpaired_tags(spans: Sequence[str], output_spans: Sequence[str]) -> list[str]:
    """Tags that are a pair in the source and not in the output."""
    expected, actual = (Counter((side[a], side[b]) for a, b in pair_tags(side)) for side in (spans, output_spans))
    return [tag for pair in (expected - actual) for tag in pair]


class MaskedText(NamedTuple):
    """A sentence with placeholders, and the spans that they stand for."""

    text: str  # with ⟦0⟧, ⟦1⟧ … in order
    spans: list[str]

    @property
    def original(self) -> str:
        return fill_placeholders(self.text, self.spans)

    def extract(self, text: str) -> "MaskedText":
        """A part of the text with its own spans, the placeholders renumbered from 0."""
        numbers = [int(match[1]) for match in PLACEHOLDER.finditer(text)]
        order = iter(range(len(numbers)))
        return MaskedText(
            PLACEHOLDER.sub(lambda _: format_placeholder(next(order)), text), [self.spans[n] for n in numbers]
        )

    def find_missing(self, output: str) -> list[str]:
        """Spans whose placeholder an output does not have exactly once, or whose tags it has in the wrong order."""
        numbers = [int(match[1]) for match in PLACEHOLDER.finditer(output)]
        counts = Counter(numbers)
        known = range(len(self.spans))
        wrong = [self.spans[n] for n in known if counts[n] != 1]
        wrong += [format_placeholder(n) for n in counts if n not in known]
        if wrong:
            return wrong
        wrong = find_unpaired_tags(self.spans, [self.spans[n] for n in numbers])
        if wrong:
            return wrong
        empty_in_source = find_empty_tags(self.text, self.spans)
        return [span for span in find_empty_tags(output, self.spans) if span not in empty_in_source]

    def restore(self, output: str) -> str:
        """An output with the spans in place of their placeholders. A span touches a word only if it did in the source;
        a tag also touches punctuation."""
        output = space_placeholders(output)
        for number, span in enumerate(self.spans):
            placeholder = format_placeholder(number)
            opens = OPENING_TAG.fullmatch(span)
            closes = CLOSING_TAG.fullmatch(span)
            neighbour = r"\S" if opens or closes else r"\w"
            if not closes and re.search(placeholder + neighbour, self.text):
                output = re.sub(rf"{placeholder}\s+", placeholder, output)
            if not opens and re.search(neighbour + placeholder, self.text):
                output = re.sub(rf"\s+{placeholder}", placeholder, output)
        return fill_placeholders(output, self.spans)

    def split_outer(self) -> tuple[str, str, str]:
        """(before, text, after): what surely stays at the ends, and the text between. That is a pair of tags around all
        of it, and placeholders after the end of the sentence."""
        before, text, after = "", self.text, ""
        pairs = pair_tags(self.spans)
        while outer := OUTER_PLACEHOLDERS.fullmatch(text):
            if (int(outer[2]), int(outer[5])) not in pairs:
                break
            before, text, after = before + outer[1], outer[3], outer[4] + after
        closing_tags = [format_placeholder(closing) for _, closing in pairs]
        while (last := TRAILING_PLACEHOLDER.fullmatch(text)) and last[2].strip() not in closing_tags:
            text, after = last[1], last[2] + after
        return before, text, after


def fill_placeholders(text: str, spans: Sequence[str]) -> str:
    """Replace placeholders by their spans."""
    return PLACEHOLDER.sub(lambda match: spans[int(match[1])], text)
