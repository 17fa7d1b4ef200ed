"""Pairs as people type them: a corpus is tidy, and what a translator is given later is not."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from headway.data.corpora import Parallel, Readable, count_pairs
from headway.data.parallel_files import Pair
from headway.files.cache import fingerprint

VERSION = "variety 1"  # another way to vary makes other text: what is kept of it must not outlive it
ENDS = ".!?…"
NAME = re.compile(r"(?<!\S)(?:[A-Z][\w-]{2,}|\d[\d.,]*\d|\d)(?=[,;:.!?]?(?:\s|$))")
EMOJI = [*range(0x1F600, 0x1F650), *range(0x1F330, 0x1F390), *range(0x1F680, 0x1F6B0), 0x2705, 0x274C, 0x2728, 0x2B50]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SYLLABLES = [
    "an",
    "be",
    "co",
    "da",
    "el",
    "fi",
    "go",
    "ha",
    "in",
    "jo",
    "ka",
    "lu",
    "mi",
    "no",
    "or",
    "pa",
    "ru",
    "sa",
    "te",
    "un",
    "vi",
    "wo",
    "ex",
    "zu",
]
ENDINGS = ["com", "de", "org", "net", "io", "eu"]


def varied(corpus: Parallel, share: float) -> Parallel:
    """So large a share of the pairs once more, each changed in one way; the same pairs in the same ways each time."""
    origin = Varied(corpus.origin, share)
    identity = fingerprint([corpus.identity, VERSION, str(share)])
    return replace(corpus, origin=origin, identity=identity, counts=count_pairs(origin, identity))


@dataclass(frozen=True)
class Varied:
    whole: Readable
    share: float

    def read(self) -> Iterator[Pair]:
        draw = Random(VERSION)
        for source, target in self.whole.read():
            if draw.random() < self.share:
                changed = draw.choice(WAYS)(source, target, draw)
                if changed is not None and all(changed):
                    yield changed


def lower(source: str, target: str, draw: Random) -> Pair | None:
    """Small letters are read, and what is written is spelled as it should be."""
    return (source.lower(), target) if source.lower() != source else None


def capitals(source: str, target: str, draw: Random) -> Pair | None:
    return source.upper(), target.upper()


def title(source: str, target: str, draw: Random) -> Pair | None:
    """Every word begins with a capital, and there is no full stop."""
    words = [word[:1].upper() + word[1:] for word in source.split()]
    return " ".join(words).rstrip("."), target.rstrip(".")


def unended(source: str, target: str, draw: Random) -> Pair | None:
    """Without what ends a sentence, where both have it."""
    if not source.endswith(tuple(ENDS)) or not target.endswith(tuple(ENDS)):
        return None
    return source.rstrip(ENDS), target.rstrip(ENDS)


def copy(source: str, target: str, draw: Random) -> Pair | None:
    """What is in the target language already is left as it is."""
    return target, target


def emoji(source: str, target: str, draw: Random) -> Pair | None:
    marks = "".join(chr(draw.choice(EMOJI)) for _ in range(draw.choice((1, 1, 1, 2, 3))))
    if draw.random() < 0.2:
        return f"{marks} {source}", f"{marks} {target}"
    return f"{source} {marks}", f"{target} {marks}"


def item(source: str, target: str, draw: Random) -> Pair | None:
    """A name or a number that both sides have once becomes something that can only be copied."""
    shared = [word for word in NAME.findall(source) if len(places(word, source)) == 1 == len(places(word, target))]
    thing = something(draw)
    if not shared:
        return thing, thing
    word = draw.choice(shared)
    changed = [f"{text[: (at := places(word, text)[0])]}{thing}{text[at + len(word) :]}" for text in (source, target)]
    return changed[0], changed[1]


def places(word: str, text: str) -> list[int]:
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def something(draw: Random) -> str:
    """An address, a number, a time, a path, a name of a program: nothing that has a translation."""

    def word() -> str:
        return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(2, 4)))

    def number(digits: int) -> str:
        return str(draw.randrange(10 ** (digits - 1), 10**digits))

    kinds: list[Callable[[], str]] = [
        lambda: f"https://{word()}.{draw.choice(ENDINGS)}/{word()}?{draw.choice(LETTERS)}={number(3)}",
        lambda: f"www.{word()}-{word()}.{draw.choice(ENDINGS)}",
        lambda: f"http://{word()}.{draw.choice(ENDINGS)}/{word()}/{word()}.html",
        lambda: f"{word()}.{word()}@{word()}.{draw.choice(ENDINGS)}",
        lambda: f"{word()}{number(2)}@{word()}.{draw.choice(ENDINGS)}",
        lambda: number(draw.randint(1, 9)),
        lambda: f"{draw.randint(0, 23)}:{draw.randint(0, 59):02}",
        lambda: f"{draw.randint(1900, 2040)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
        lambda: f"+{number(2)} {number(3)} {number(6)}",
        lambda: f"/{word()}/{word()}.{draw.choice(('txt', 'py', 'conf', 'log'))}",
        lambda: f"{word()}_{word()}()",
        lambda: f"--{word()}-{word()}",
        lambda: f"{word().upper()}-{number(3)}",
        lambda: f"{word().capitalize()}{word().capitalize()}",
    ]
    return draw.choice(kinds)()


# The first ones are what people do most.
WAYS = (lower, lower, capitals, title, unended, unended, copy, emoji, item, item)
