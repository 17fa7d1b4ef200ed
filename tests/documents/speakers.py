"""Translators that need no model, and say exactly which word says which."""

import re
from collections.abc import Sequence

from headway.documents import Asked, Said, Translate
from headway.text.align.words import words


def same(asked: Sequence[Asked]) -> list[Said]:
    return [Said(one.text) for one in asked]


def louder(asked: Sequence[Asked]) -> list[Said]:
    """IN CAPITALS."""
    return [Said(one.text.upper(), [(i, i) for i in range(len(words(one.text)))]) for one in asked]


def backwards(asked: Sequence[Asked]) -> list[Said]:
    """The last word first, in capitals."""
    said = []
    for one in asked:
        given = words(one.text)
        links = [(i, len(given) - 1 - i) for i in range(len(given))]
        said.append(Said(" ".join(word.upper() for word in reversed(given)), links))
    return said


def ending(asked: Sequence[Asked]) -> list[Said]:
    """Every word with another ending, so that none is as it was."""
    return [
        Said(re.sub(r"[^\W\d_]+", r"\g<0>en", one.text), [(i, i) for i in range(len(words(one.text)))]) for one in asked
    ]


def without_links(asked: Sequence[Asked]) -> list[Said]:
    return [Said(one.text.upper()) for one in asked]


def silent(asked: Sequence[Asked]) -> list[Said]:
    return [Said(" ") for _ in asked]


def copying(*kept: str) -> Translate:
    """The last word first, in capitals, but these words as they are."""

    def translate(asked: Sequence[Asked]) -> list[Said]:
        said = []
        for one in asked:
            given = [word if word.strip(".") in kept else word.upper() for word in words(one.text)]
            links = [(i, len(given) - 1 - i) for i in range(len(given))]
            said.append(Said(" ".join(reversed(given)), links))
        return said

    return translate


def fixed(text: str, *links: tuple[int, int]) -> Translate:
    """Always the same answer."""
    return lambda asked: [Said(text, links or None) for _ in asked]
