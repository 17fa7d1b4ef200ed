"""The space between two translated sentences: as in the source, unless only one of the two languages has any.

这是一。那是二。 ─► This is one. That is two.          One. Two. ─► 一。二。
"""

from headway.text.unspaced import is_unspaced

WIDE_PUNCTUATION = frozenset("。｡，、；：？！（）「」『』【】《》〈〉・～")
QUOTATION_MARKS = "“”‘’\"'…*_"  # in every language, so they do not tell


def adapt_spacing(before: str, left_source: str, left: str, right: str) -> str:
    """What stands between the translations `left` and `right` of two sentences that `before` stands between in the
    source. Line breaks and wider gaps stay; so does a place without a space where the source is cut inside a word.

    left_source: the sentence that `left` is a translation of"""
    last, first = _last_character(left), right.lstrip(QUOTATION_MARKS)[:1]
    if not last or not first:
        return before
    if before == " " and _is_wide(last):
        return ""
    spaced = any(map(str.isspace, (left[-1], right[0])))
    if before == "" and not spaced and _is_wide(_last_character(left_source)) and not any(map(_is_wide, (last, first))):
        return " "
    return before


def _last_character(text: str) -> str:
    return text.rstrip(QUOTATION_MARKS)[-1:]


def _is_wide(character: str) -> bool:
    return character in WIDE_PUNCTUATION or is_unspaced(character)
