"""Noise for training data: pairs as people type them, in lower case, without punctuation, with emoji and URLs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from headway.data.corpora import PairSource, ParallelCorpus, count_pairs
from headway.data.parallel_files import Pair
from headway.files.cache import fingerprint

NOISE_VERSION = "variety 1"  # change it with the functions below: caches of noisy text go by it
SENTENCE_ENDS = ".!?…"
COPYABLE_WORD = re.compile(r"(?<!\S)(?:[A-Z][\w-]{2,}|\d[\d.,]*\d|\d)(?=[,;:.!?]?(?:\s|$))")
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
TOP_LEVEL_DOMAINS = ["com", "de", "org", "net", "io", "eu"]


def add_noise(corpus: ParallelCorpus, share: float) -> ParallelCorpus:
    """A noisy copy of this share of the pairs, each changed in one way; always the same pairs in the same ways."""
    origin = NoisyPairs(corpus.origin, share)
    identity = fingerprint([corpus.identity, NOISE_VERSION, str(share)])
    return replace(corpus, origin=origin, identity=identity, counts=count_pairs(origin, identity))


@dataclass(frozen=True)
class NoisyPairs:
    base: PairSource
    share: float

    def read(self) -> Iterator[Pair]:
        draw = Random(NOISE_VERSION)
        for source, target in self.base.read():
            if draw.random() < self.share:
                changed = draw.choice(NOISE_FUNCTIONS)(source, target, draw)
                if changed is not None and all(changed):
                    yield changed


def lowercase_source(source: str, target: str, draw: Random) -> Pair | None:
    """The target keeps its case, so that the model learns to restore it."""
    return (source.lower(), target) if source.lower() != source else None


def uppercase_both(source: str, target: str, draw: Random) -> Pair | None:
    return source.upper(), target.upper()


def title_case_source(source: str, target: str, draw: Random) -> Pair | None:
    """Every word capitalised, without a full stop."""
    words = [word[:1].upper() + word[1:] for word in source.split()]
    return " ".join(words).rstrip("."), target.rstrip(".")


def drop_final_punctuation(source: str, target: str, draw: Random) -> Pair | None:
    """If both sides have it."""
    if not source.endswith(tuple(SENTENCE_ENDS)) or not target.endswith(tuple(SENTENCE_ENDS)):
        return None
    return source.rstrip(SENTENCE_ENDS), target.rstrip(SENTENCE_ENDS)


def copy_target(source: str, target: str, draw: Random) -> Pair | None:
    """Text that is in the target language already stays as it is."""
    return target, target


def add_emoji(source: str, target: str, draw: Random) -> Pair | None:
    marks = "".join(chr(draw.choice(EMOJI)) for _ in range(draw.choice((1, 1, 1, 2, 3))))
    if draw.random() < 0.2:
        return f"{marks} {source}", f"{marks} {target}"
    return f"{source} {marks}", f"{target} {marks}"


def replace_name(source: str, target: str, draw: Random) -> Pair | None:
    """A name or number that occurs once on both sides becomes an item that can only be copied."""
    shared = [
        word
        for word in COPYABLE_WORD.findall(source)
        if len(find_word(word, source)) == 1 == len(find_word(word, target))
    ]
    item = make_untranslatable(draw)
    if not shared:
        return item, item
    word = draw.choice(shared)
    source_start = find_word(word, source)[0]
    target_start = find_word(word, target)[0]
    return (
        f"{source[:source_start]}{item}{source[source_start + len(word) :]}",
        f"{target[:target_start]}{item}{target[target_start + len(word) :]}",
    )


def find_word(word: str, text: str) -> list[int]:
    """The offsets of a whole word."""
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text)]


def make_untranslatable(draw: Random) -> str:
    """A random URL, e-mail address, number, time, path or identifier, which is copied in any language."""

    def word() -> str:
        return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(2, 4)))

    def number(digits: int) -> str:
        return str(draw.randrange(10 ** (digits - 1), 10**digits))

    kinds: list[Callable[[], str]] = [
        lambda: f"https://{word()}.{draw.choice(TOP_LEVEL_DOMAINS)}/{word()}?{draw.choice(LETTERS)}={number(3)}",
        lambda: f"www.{word()}-{word()}.{draw.choice(TOP_LEVEL_DOMAINS)}",
        lambda: f"http://{word()}.{draw.choice(TOP_LEVEL_DOMAINS)}/{word()}/{word()}.html",
        lambda: f"{word()}.{word()}@{word()}.{draw.choice(TOP_LEVEL_DOMAINS)}",
        lambda: f"{word()}{number(2)}@{word()}.{draw.choice(TOP_LEVEL_DOMAINS)}",
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


# Some stand twice, because people do them more often.
NOISE_FUNCTIONS = (
    lowercase_source,
    lowercase_source,
    uppercase_both,
    title_case_source,
    drop_final_punctuation,
    drop_final_punctuation,
    copy_target,
    add_emoji,
    replace_name,
    replace_name,
)
