"""Which language a text is in. The identifier is py3langid: small, without compiled code, and knows 139 languages."""

from collections.abc import Collection
from functools import cache
from typing import NamedTuple, Protocol

from headway.errors import HeadwayError, did_you_mean
from headway.text.language_codes import primary

__all__ = ["Guess", "detect", "is_other_language", "known_languages", "primary", "ranked"]

NO_LANGUAGE = "zxx"  # what the identifier calls numbers, markup and names of files
SURE, EXCLUDED = 0.4, 0.1  # shares of the best guess and of the expected language, to call a text foreign


class Guess(NamedTuple):
    language: str
    confidence: float  # from 0 to 1; those of all languages add up to 1


class Identifier(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...


def detect(text: str, among: Collection[str] = ()) -> list[Guess]:
    """The languages that a text may be in, the likeliest first; only `among` some, where they are given.

    A few words are enough to tell most languages apart; one word is not. Text without letters has no language: []."""
    unknown = sorted(set(among) - known_languages())
    if unknown:
        near = did_you_mean(unknown[0], sorted(known_languages()))
        raise HeadwayError(f'the language "{unknown[0]}" is not one that can be detected.{near}')
    if not any(character.isalpha() for character in text):
        return []
    found = [(name, share) for name, share in ranked(text) if not among or name in among]
    total = sum(share for name, share in found if name != NO_LANGUAGE) or 1.0
    return [Guess(name, share / total) for name, share in found if name != NO_LANGUAGE]


def ranked(text: str) -> list[tuple[str, float]]:
    """Every language that the identifier knows, and NO_LANGUAGE, with its share: the likeliest first."""
    return _identifier().rank(text)


def is_other_language(text: str, expected: str) -> str:
    """The language that a text is in when it is surely not the expected one; "" otherwise, and where nobody can say.

    One text in some thousands is named wrongly; a text of two or three words is left alone."""
    (first, share), *_ = found = ranked(text)
    if first in (expected, NO_LANGUAGE) or share < SURE:
        return ""
    return first if dict(found).get(expected, 0.0) < EXCLUDED else ""


@cache
def known_languages() -> frozenset[str]:
    return frozenset(name for name, _ in _identifier().rank("")) - {NO_LANGUAGE}


@cache
def _identifier() -> Identifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second

    identifier: Identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return identifier
