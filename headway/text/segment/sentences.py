"""Cutting text into sentences without losing a character of it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from headway.text.segment.abbreviations import is_listed, words_of

CLOSING = "\"'”’»›«‹)\\]}“‘」』）】》〉*_"
OPENING = "\"'“‘„‚«»‹›(\\[{¿¡–—•*_-"
MARK = re.compile(
    rf"""(?P<line>[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]|(?<![ ])[ ]{{4,}}+(?=\S))  # also what divides cells
    | (?P<wide>[。｡！？।॥]+) (?P<quoted>[{CLOSING}]*)         # these need no space after them
    | (?P<stop>[.!?…‽؟۔։።]+) [{CLOSING}]* (?:[ \u00a0\u202f]»(?=\s))?
      (?:⟦\d+⟧|\[\d{{1,3}}\]|[⁰¹²³⁴-⁹†‡])*+               # notes belong to what they are about""",
    re.VERBOSE,
)
NEXT = re.compile(rf"\s*[{OPENING}]*(?P<start>\w?)\w*(?P<dotted>\.?)")
# A word or a chain of single letters such as z. B. or J. S., up to where the string ends.
LETTER_CHAIN = re.compile(r"(?<![\w'’])(?:[^\W\d_]\.\s?)*[^\W\d_]$")
LAST_WORD = re.compile(rf"[^\s{OPENING}]+$")
LONGEST_ABBREVIATION = 40
ROMAN = re.compile(r"[IVXL]{2,}")


class Segment(NamedTuple):
    """A piece of text and the white space before it."""

    before: str
    text: str


def split_sentences(text: str, language: str | None = None) -> list[Segment]:
    """The sentences of a text. Joined, with what stands before each, they are the text again.

    White space at the end of the text stands before a last segment whose text is empty. A line break always ends a
    sentence, and so does a tab, or whatever else divides cells. In doubt two sentences stay together: too long a piece translates better than half a sentence.
    """
    main_language = (language or "").replace("_", "-").split("-")[0].lower()
    chunks, start = [], 0
    for mark in MARK.finditer(text):
        end = mark.start() if mark["line"] else mark.end()
        if mark["line"] or _ends_sentence(text, start, mark, main_language):
            chunks.append(text[start:end])
            start = end
    return segments([*chunks, text[start:]])


def segments(chunks: Iterable[str]) -> list[Segment]:
    """Chunks of a text as segments: white space moves to the segment after it."""
    found, space = [], ""
    for chunk in chunks:
        body = chunk.strip()
        if not body:
            space += chunk
            continue
        before, after = chunk[: chunk.index(body)], chunk[chunk.index(body) + len(body) :]
        found.append(Segment(space + before, body))
        space = after
    return [*found, Segment(space, "")] if space else found


def join(pieces: Iterable[Segment]) -> str:
    return "".join(piece.before + piece.text for piece in pieces)


def _ends_sentence(text: str, start: int, mark: re.Match[str], language: str) -> bool:
    end = mark.end()
    spaced = end < len(text) and text[end].isspace()
    if mark["wide"]:
        # 「…。」と言った: what follows the quotation at once belongs to the same sentence
        return spaced or not mark["quoted"]
    following = NEXT.match(text, end)
    if not spaced or following is None or following["start"].islower():
        return False
    next_word = text[following.start("start") : following.end()]
    if mark["stop"] in ("...", "…"):
        return next_word != "I"
    if mark["stop"] != "." or end > mark.end("stop"):
        return True
    # Only the last words matter; a slice from the start would make a long text quadratic.
    tail = text[max(start, mark.start() - LONGEST_ABBREVIATION) : mark.start()]
    return _full_stop(tail, next_word, language)


def _full_stop(tail: str, next_word: str, language: str) -> bool:
    """Whether a single stop after these words, before a word that is not in small letters, ends the sentence."""
    chain, last = LETTER_CHAIN.search(tail), LAST_WORD.search(tail)
    if last is None:
        return True
    word = re.sub(r"\s", "", chain[0]) if chain else last[0]
    is_start = next_word in words_of("start", language)
    alone = word == tail.strip()
    maybe_german = language != "en"

    if word.isdigit():
        if alone:  # the number of an item: "1. Introduction"
            return False
        return is_start or not maybe_german or len(word) > 3  # "am 3. Mai", "zum 100. Geburtstag"; "Es war 1999. …"
    if is_listed(word, "number", language) and next_word[:1].isdigit():
        return False
    if is_listed(word, "never", language):
        return False
    if word == "I" and not maybe_german and not alone:  # "So do I. …"
        return True
    if chain or is_listed(word, "seldom", language) or (maybe_german and ROMAN.fullmatch(word)):
        return is_start
    return True
