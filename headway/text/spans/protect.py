"""Spans of a text that no translation may change: what they look like, and how placeholders stand for them."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from headway.errors import HeadwayError

EMOJI = "\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"  # pictures and signs, flags and colours of skin among them
RAISED = "⁰¹²³⁴-⁹"  # digits
# Those of a tag: with a value, or known to have none. In "if x <y and z> 1" there are none.
ATTRIBUTES = (
    r"(?:\s++(?:[\w:@.-]++\s*+=\s*+(?:\"[^\"]{0,500}+\"|'[^']{0,500}+'|[^\s\"'<>=]++)|[\w:@.]++-[\w:.-]++|checked|disabled|selected"
    r"|hidden|required|readonly|async|defer|controls|autoplay|autofocus|loop|muted|open|reversed|multiple|nowrap|ismap"
    r"|allowfullscreen|default|novalidate|nomodule|inert|playsinline)(?=[\s/>]))*+"
)
# What is protected unless somebody says otherwise. The first that matches at a place wins. Each takes time in proportion
# to a line, whatever is in it: hence some bounds, and *+, which gives nothing back.
KINDS = {
    "placeholder": r"⟦\d*⟧",
    "code": r"`[^`\n]+`",
    "address": r"(?:(?:https?|ftps?|file)://|www\.)[^\s<>\"`]*[^\s<>\"`.,;:!?'’”“»)\]}…]|mailto:[^\s@]{1,300}@\S*\w",
    "e-mail": r"(?<![\w.+-])[\w.+-]*\w@\w[\w-]*(?:\.\w[\w-]*)+",
    "tag": rf"</?[A-Za-z][\w:.-]*+{ATTRIBUTES}\s*+/?>|<!--.{{0,1000}}?-->",
    "entity": r"&(?:[A-Za-z]\w+|#\d+|#x[\dA-Fa-f]+);",
    "braces": r"\{\{[^{}]*\}\}|\$\{[^{}]*\}|\{[\w.:!,%$-]*\}",
    "dollar": r"\$\([\w.]+\)|(?<![\w$])\$[A-Za-z_]\w*",
    "emoji": rf"[{EMOJI}](?:[{EMOJI}\u200D\uFE0E\uFE0F])*+",
    "percent": (
        r"(?<!\d)%(?:\(\w+\)|\d+\$)?[-+#0]*+\d*+(?:\.\d+)?(?:hh|h|ll|l|z)?[sdifuxXgGeEcrqp@](?![A-Za-z])"
        r"|%\(\w+\)|(?<![\d%])%[1-9]\d?(?!\d)|%[A-Z][A-Z_]{2,}|%%"
    ),
    "note": rf"(?<=[^\s(\[])(?:\[\d{{1,3}}\])+|(?:(?<=[^\W\d_]{{3}})|(?<=[.!?…,;:)\"”’»]))[{RAISED}]+",
    "rule": r"\.{5,}|_{3,}|={3,}|\#{3,}|\*{4,}|~{3,}|-{4,}|…{2,}",
    "escape": r"\x1b\[[\d;]*[A-Za-z]",
}
# Nothing of the above is without one of these.
HINT = re.compile(rf"[`@<&{{$%⟦\x1b{RAISED}{EMOJI}]|://|www\.|\[\d|\.{{5}}|___|===|\#\#\#|\*{{4}}|~~~|----|……")
PLACEHOLDER = re.compile(r"⟦(\d+)⟧")
FRAME = re.compile(r"(⟦(\d+)⟧\s*)(.*\S)(\s*⟦(\d+)⟧)", re.DOTALL)
TOUCHING = re.compile(r"(?<=\w)(?=⟦\d)|(?<=\d⟧)(?=\w)")
LAST = re.compile(r"(.*[.!?…])(\s*⟦\d+⟧)", re.DOTALL)
OPENING_TAG = r"<([A-Za-z][\w:.-]*)(?:\s[\s\S]*)?(?<!/)>"
CLOSING_TAG = r"</([A-Za-z][\w:.-]*)\s*>"


@lru_cache(maxsize=1)
def usual() -> re.Pattern[str]:
    """All of these. To compile it takes milliseconds, which a text without any of them need not wait for."""
    return re.compile("|".join(KINDS.values()))


def placeholder(number: int) -> str:
    return f"⟦{number}⟧"


def spaced(text: str) -> str:
    """As a model reads it: a word that touches a placeholder would be spelled in other tokens than it has learned."""
    return TOUCHING.sub(" ", text)


class Protector:
    """Finds spans: those of patterns that were asked for, then the usual ones, then strange words."""

    def __init__(self, own: Sequence[re.Pattern[str]] = (), strange: re.Pattern[str] | None = None) -> None:
        """strange: see headway.text.spans.unknown_script"""
        self.own, self.strange = own, strange

    def spans(self, text: str) -> list[re.Match[str]]:
        """In order; none overlaps another."""
        asked = apart(found for own in self.own for found in own.finditer(text) if found[0].strip())
        known = beside(asked, usual().finditer(text)) if HINT.search(text) else asked
        return known if self.strange is None or text.isascii() else beside(known, self.strange.finditer(text))

    def hide(self, text: str) -> tuple[str, list[str]]:
        """The text with a placeholder for each span, and the spans."""
        found = self.spans(text)
        if not found:
            return text, []
        parts, end = [], 0
        for number, span in enumerate(found):
            parts += [text[end : span.start()], placeholder(number)]
            end = span.end()
        return "".join(parts) + text[end:], [span[0] for span in found]

    def missing(self, spans: Sequence[str], output: str) -> list[str]:
        """Which of a source's spans an output does not have as often; also those that it has too often, or in an order
        in which a tag closes before it opens."""
        said = [found[0] for found in self.spans(output)]
        wanted, had = Counter(spans), Counter(said)
        wrong = list(dict.fromkeys(span for span in (*spans, *said) if wanted[span] != had[span]))
        return wrong or unpaired(spans, said)


def beside(taken: list[re.Match[str]], more: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """With those of the others that overlap none of them, in order."""
    free = [one for one in more if all(one.end() <= t.start() or t.end() <= one.start() for t in taken)]
    return sorted([*taken, *free], key=lambda found: found.start())


def apart(matches: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """In order, without those that overlap another: the earliest stays, then the longest.

    Patterns are not joined into one, where flags, names and numbers of groups would get in each other's way."""
    taken: list[re.Match[str]] = []
    for found in sorted(matches, key=lambda found: (found.start(), -found.end())):
        if not taken or found.start() >= taken[-1].end():
            taken.append(found)
    return taken


@lru_cache(maxsize=16)
def protector(patterns: tuple[str, ...] = (), strange: re.Pattern[str] | None = None) -> Protector:
    """With patterns of one's own, before the usual ones, and with what finds words that a model cannot say."""
    own = []
    for pattern in patterns:
        try:
            found = re.compile(pattern)
        except re.error as error:
            raise HeadwayError(f"{pattern!r} is not a regular expression: {error}.") from None
        own.append(found)
        if found.match(""):
            raise HeadwayError(
                f"{pattern!r} matches nothing at all, which cannot be protected. Make it match something."
            )
    return Protector(own, strange)


def pairs_of(spans: Sequence[str]) -> list[tuple[int, int]]:
    """Which spans are the two tags of an element, by their numbers."""
    pairs, waiting = [], []
    for number, span in enumerate(spans):
        if opening := re.fullmatch(OPENING_TAG, span):
            waiting.append((opening[1], number))
        elif closing := re.fullmatch(CLOSING_TAG, span):
            open_ones = [place for place, (name, _) in enumerate(waiting) if name == closing[1]]
            if open_ones:
                pairs.append((waiting[open_ones[-1]][1], number))
                del waiting[open_ones[-1] :]
    return pairs


def empty(text: str, spans: Sequence[str]) -> list[str]:
    """Tags with nothing between them, in a text with its own placeholders for these spans."""
    found = []
    for opening, closing in pairs_of(spans):
        if re.search(rf"⟦{opening}⟧\s*⟦{closing}⟧", text):
            found += [spans[opening], spans[closing]]
    return found


def unpaired(spans: Sequence[str], said: Sequence[str]) -> list[str]:
    """Tags that are a pair in the source and none in the output."""
    wanted, had = (Counter((side[a], side[b]) for a, b in pairs_of(side)) for side in (spans, said))
    return [tag for pair in (wanted - had) for tag in pair]


class Hidden(NamedTuple):
    """A sentence with spans: what stands for them, and what they are."""

    text: str  # ⟦0⟧, ⟦1⟧ … in order
    spans: list[str]

    @property
    def original(self) -> str:
        return shown(self.text, self.spans)

    def part(self, text: str) -> "Hidden":
        """A piece of the text, its placeholders counted anew."""
        numbers = [int(found[1]) for found in PLACEHOLDER.finditer(text)]
        order = iter(range(len(numbers)))
        return Hidden(PLACEHOLDER.sub(lambda _: placeholder(next(order)), text), [self.spans[n] for n in numbers])

    def missing(self, output: str) -> list[str]:
        """Spans whose placeholder an output does not have exactly once, or whose tags it has in a wrong order."""
        numbers = [int(found[1]) for found in PLACEHOLDER.finditer(output)]
        had, known = Counter(numbers), range(len(self.spans))
        wrong = [self.spans[n] for n in known if had[n] != 1] + [placeholder(n) for n in had if n not in known]
        if wrong:
            return wrong
        wrong = unpaired(self.spans, [self.spans[n] for n in numbers])
        return wrong or [span for span in empty(output, self.spans) if span not in empty(self.text, self.spans)]

    def said(self, output: str) -> str:
        """An output with the spans in place of their placeholders. They touch words where they did, and only there; tags
        also touch signs."""
        output = spaced(output)
        for number, span in enumerate(self.spans):
            sign = placeholder(number)
            opens, closes = re.fullmatch(OPENING_TAG, span), re.fullmatch(CLOSING_TAG, span)
            neighbour = r"\S" if opens or closes else r"\w"
            if not closes and re.search(sign + neighbour, self.text):
                output = re.sub(rf"{sign}\s+", sign, output)
            if not opens and re.search(neighbour + sign, self.text):
                output = re.sub(rf"\s+{sign}", sign, output)
        return shown(output, self.spans)

    def peeled(self) -> tuple[str, str, str]:
        """What can be taken off both ends, for it surely stays there, and what is left: tags around everything, and
        whatever stands behind the end of the sentence."""
        before, text, behind = "", self.text, ""
        pairs = pairs_of(self.spans)
        while framed := FRAME.fullmatch(text):
            if (int(framed[2]), int(framed[5])) not in pairs:
                break
            before, text, behind = before + framed[1], framed[3], framed[4] + behind
        closers = [placeholder(closing) for _, closing in pairs]
        while (last := LAST.fullmatch(text)) and last[2].strip() not in closers:
            text, behind = last[1], last[2] + behind
        return before, text, behind


def shown(text: str, spans: Sequence[str]) -> str:
    """With the spans in place of their placeholders."""
    return PLACEHOLDER.sub(lambda found: spans[int(found[1])], text)
