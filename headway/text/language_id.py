"""Language identification of texts, by py3langid: small, without compiled code, 139 languages."""

from collections.abc import Collection
from functools import cache
from typing import NamedTuple, Protocol

from headway.errors import HeadwayError, did_you_mean
from headway.text.language_codes import primary_language

__all__ = [
    "LanguageGuess",
    "find_other_language",
    "guess_languages",
    "known_languages",
    "primary_language",
    "rank_languages",
]

NO_LANGUAGE = "zxx"  # what the identifier calls numbers, markup and file names
MIN_FOREIGN_SHARE = 0.4  # of the best guess, to call a text foreign
MAX_EXPECTED_SHARE = 0.1  # of the expected language, to call a text foreign


class LanguageGuess(NamedTuple):
    language: str
    confidence: float  # from 0 to 1; those of all languages sum to 1


class Identifier(Protocol):
    def rank(self, text: str) -> list[tuple[str, float]]: ...


def guess_languages(text: str, among: Collection[str] = ()) -> list[LanguageGuess]:
    """The languages that a text may be in, the most likely first; only those in `among`, if given.

    A few words are enough to tell most languages apart; one word is not. Text without letters has no language: []."""
    unknown = sorted(set(among) - known_languages())
    if unknown:
        near = did_you_mean(unknown[0], sorted(known_languages()))
        raise HeadwayError(f'the language "{unknown[0]}" cannot be detected.{near}')
    if not any(character.isalpha() for character in text):
        return []
    ranked = [(name, share) for name, share in rank_languages(text) if not among or name in among]
    total = sum(share for name, share in ranked if name != NO_LANGUAGE) or 1.0
    return [LanguageGuess(name, share / total) for name, share in ranked if name != NO_LANGUAGE]


def rank_languages(text: str) -> list[tuple[str, float]]:
    """Every language that the identifier knows, and NO_LANGUAGE, with its probability; the most likely first."""
    return _identifier().rank(text)


def find_other_language(text: str, expected: str) -> str:
    """The language of a text that is certainly not in the expected one; otherwise "".

    One text in some thousands is misjudged; a text of two or three words never counts as foreign."""
    ranked = rank_languages(text)
    best, share = ranked[0]
    if best in (expected, NO_LANGUAGE) or share < MIN_FOREIGN_SHARE:
        return ""
    return best if dict(ranked).get(expected, 0.0) < MAX_EXPECTED_SHARE else ""


@cache
def known_languages() -> frozenset[str]:
    return frozenset(name for name, _ in _identifier().rank("")) - {NO_LANGUAGE}


@cache
def _identifier() -> Identifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # importing takes a second

    identifier: Identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return identifier
