"""Split text into sentences without losing a character."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from headway.text.segment.abbreviations import is_in_table, table_words

CLOSING_PUNCTUATION = "\"'”’»›«‹)\\]}“‘」』）】》〉*_"
OPENING_PUNCTUATION = "\"'“‘„‚«»‹›(\\[{¿¡–—•*_-"
SENTENCE_END = re.compile(
    rf"""(?P<line>[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]|(?<![ ])[ ]{{4,}}+(?=\S))  # also what divides table cells
    | (?P<wide>[。｡！？।॥]+) (?P<quoted>[{CLOSING_PUNCTUATION}]*)         # these need no space after them
    | (?P<stop>[.!?…‽؟۔։።]+) [{CLOSING_PUNCTUATION}]* (?:[ \u00a0\u202f]»(?=\s))?
      (?:⟦\d+⟧|\[\d{{1,3}}\]|[⁰¹²³⁴-⁹†‡])*+               # footnote marks belong to the sentence""",
    re.VERBOSE,
)
HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
HALF_WIDTH_STOPS = (".", "!", "?")  # which some write in Chinese and Japanese, with no space after them
NEXT_WORD = re.compile(rf"\s*[{OPENING_PUNCTUATION}]*(?P<start>\w?)\w*(?P<dotted>\.?)")
# A word or a chain of single letters such as z. B. or J. S., up to where the string ends.
LETTER_CHAIN = re.compile(r"(?<![\w'’])(?:[^\W\d_]\.\s?)*[^\W\d_]$")
LAST_WORD = re.compile(rf"[^\s{OPENING_PUNCTUATION}]+$")
MAX_ABBREVIATION_CHARS = 40
ROMAN_NUMERAL = re.compile(r"[IVXL]{2,}")


class Segment(NamedTuple):
    """A piece of text and the whitespace before it."""

    before: str
    text: str


def split_sentences(text: str, language: str | None = None) -> list[Segment]:
    """The sentences of a text. Joined, with the whitespace before each, they are the text again.

    Whitespace at the end of the text stands before a last segment whose text is empty. A line break always ends a
    sentence, and so does a tab or whatever else divides table cells. In doubt two sentences stay together: a piece that
    is too long translates better than half a sentence.
    """
    main_language = (language or "").replace("_", "-").split("-")[0].lower()
    chunks = []
    start = 0
    for match in SENTENCE_END.finditer(text):
        end = match.start() if match["line"] else match.end()
        if match["line"] or _ends_sentence(text, start, match, main_language):
            chunks.append(text[start:end])
            start = end
    return make_segments([*chunks, text[start:]])


def make_segments(chunks: Iterable[str]) -> list[Segment]:
    """Chunks of a text as segments: whitespace moves to the segment after it."""
    segments = []
    space = ""
    for chunk in chunks:
        body = chunk.strip()
        if not body:
            space += chunk
            continue
        start = chunk.index(body)
        segments.append(Segment(space + chunk[:start], body))
        space = chunk[start + len(body) :]
    return [*segments, Segment(space, "")] if space else segments


def join_segments(segments: Iterable[Segment]) -> str:
    return "".join(segment.before + segment.text for segment in segments)


def _ends_sentence(text: str, start: int, match: re.Match[str], language: str) -> bool:
    """Whether punctuation found in a sentence that begins at `start` ends it."""
    end = match.end()
    before_space = end < len(text) and text[end].isspace()
    if match["wide"]:
        # 「…。」と言った: what follows the quotation at once belongs to the same sentence
        return before_space or not match["quoted"]
    following = NEXT_WORD.match(text, end)
    if match["stop"] in HALF_WIDTH_STOPS and HAN_OR_KANA.match(text[match.start() - 1 : match.start()]):
        return before_space or HAN_OR_KANA.match(text[end : end + 1]) is not None
    if not before_space or following is None or following["start"].islower():
        return False
    next_word = text[following.start("start") : following.end()]
    if match["stop"] in ("...", "…"):
        return next_word != "I"
    if match["stop"] != "." or end > match.end("stop"):
        return True
    # Only the last words matter; a slice from the start would make a long text quadratic.
    tail = text[max(start, match.start() - MAX_ABBREVIATION_CHARS) : match.start()]
    return _stop_ends_sentence(tail, next_word, language)


def _stop_ends_sentence(tail: str, next_word: str, language: str) -> bool:
    """Whether a single full stop after these words, before a word that is not lowercase, ends the sentence."""
    chain = LETTER_CHAIN.search(tail)
    last = LAST_WORD.search(tail)
    if last is None:
        return True
    word = re.sub(r"\s", "", chain[0]) if chain else last[0]
    before_starter = next_word in table_words("start", language)
    alone = word == tail.strip()
    maybe_german = language != "en"

    if word.isdigit():
        if alone:  # the number of an item: "1. Introduction"
            return False
        return (
            before_starter or not maybe_german or len(word) > 3
        )  # "am 3. Mai", "zum 100. Geburtstag"; "Es war 1999. …"
    if is_in_table(word, "number", language) and next_word[:1].isdigit():
        return False
    if is_in_table(word, "never", language):
        return False
    if word == "I" and not maybe_german and not alone:  # "So do I. …"
        return True
    if chain or is_in_table(word, "seldom", language) or (maybe_german and ROMAN_NUMERAL.fullmatch(word)):
        return before_starter
    return True
