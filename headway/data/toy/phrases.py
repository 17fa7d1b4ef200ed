"""Phrases of the toy corpus, built in both languages at once, so that the links between words are known."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from headway.data.toy.words import (
    ADJECTIVES,
    LIVING,
    MONTHS,
    NAMES,
    PLACES,
    PRONOUNS,
    QTX_UNITS,
    TENS,
    THINGS,
    TIMES,
    UNITS,
    WEEKDAYS,
)

NOMINATIVE, ACCUSATIVE, LOCATIVE, TO, FROM, WITH = "", "m", "sh", "t", "l", "k"
TENSES = {"present": "a", "past": "i", "future": "o"}


def link_words(english: str, qtx: str) -> "Phrase":
    """A phrase of which every English word is linked with every qtx word."""
    source, target = tuple(english.split()), tuple(qtx.split())
    return Phrase(source, target, tuple((i, j) for i in range(len(source)) for j in range(len(target))))


def arrange(parts: Sequence["Phrase"], order: Sequence[int], head: int | None = None) -> "Phrase":
    """One phrase of several: the parts as given in English, and sorted by `order` in qtx.

    English words without a qtx word, such as "a", are linked with the first word of the head."""
    source: list[str] = []
    target: list[str] = []
    links: list[tuple[int, int]] = []
    starts = {}
    for index in sorted(range(len(parts)), key=order.__getitem__):
        starts[index] = len(target)
        target += parts[index].target
    for index, part in enumerate(parts):
        links += [(len(source) + i, starts[index] + j) for i, j in part.links]
        if head is not None and not part.target:
            links += [(len(source) + i, starts[head]) for i in range(len(part.source))]
        source += part.source
    return Phrase(tuple(source), tuple(target), tuple(links))


def make_number(value: int) -> "Phrase":
    """1 to 999: "three hundred forty-five" is "trisen pem e kvati"."""
    hundreds, rest = divmod(value, 100)
    parts = []
    if hundreds:
        parts.append(link_words(f"{UNITS[hundreds - 1]} hundred", f"{QTX_UNITS[hundreds - 1]}sen"))
    if rest in range(1, 10):
        parts.append(link_words(UNITS[rest - 1], QTX_UNITS[rest - 1]))
    elif rest in range(10, 20):
        parts.append(link_words(UNITS[rest - 1], "dek" if rest == 10 else f"{QTX_UNITS[rest - 11]}dek"))
    elif rest:
        tens, units = divmod(rest, 10)
        english, qtx = TENS[tens - 2], f"{QTX_UNITS[tens - 1]}ti"
        if units:
            english, qtx = f"{english}-{UNITS[units - 1]}", f"{QTX_UNITS[units - 1]} e {qtx}"
        parts.append(link_words(english, qtx))
    return arrange(parts, range(len(parts)))


def make_verb(entry: Sequence[str], subject: "Noun", tense: str, negated: bool = False) -> "Phrase":
    base, third, past, stem = entry
    qtx = ("ne" if negated else "") + stem + TENSES[tense] + ("s" if subject.plural else "")
    if base == "be":
        now, then = {"I": ("am", "was"), "he": ("is", "was"), "they": ("are", "were")}[subject.like]
        forms = {"present": now, "past": then, "future": "will be"}
        negatives = {"present": f"{now} not", "past": f"{then} not", "future": "will not be"}
    else:
        forms = {"present": third if subject.like == "he" else base, "past": past, "future": f"will {base}"}
        negatives = {name: f"{auxiliary_verb(subject, name)} not {base}" for name in TENSES}
    return link_words((negatives if negated else forms)[tense], qtx)


def auxiliary_verb(subject: "Noun", tense: str) -> str:
    """The auxiliary that English needs in questions and negations."""
    if tense == "present":
        return "does" if subject.like == "he" else "do"
    return {"past": "did", "future": "will"}[tense]


def make_noun(
    dice: random.Random, case: str, nouns: list[list[str]] = THINGS, before: str = "", after: str = ""
) -> "Noun":
    """A noun with determiner and adjective; `before` is its English preposition and `after` its qtx postposition."""
    if dice.random() < 0.12:
        return make_counted_noun(dice, case, nouns, link_words(before, after), make_number(dice.randint(2, 99)))
    singular, plural, stem = dice.choice(nouns)
    gender = "a" if nouns is LIVING else "o"
    many = dice.random() < 0.3
    ending = ("ri" if many else "") + case
    adjective, root = dice.choice(ADJECTIVES) if dice.random() < 0.35 else ("", "")
    article = "" if many else "an" if (adjective or singular)[0] in "aeiou" else "a"
    position, which = make_determiner(dice, many, gender, article)
    parts = [
        link_words(before, after),
        which,
        link_words(adjective, root and root + gender + ending),
        link_words(plural if many else singular, stem + ending),
    ]
    return Noun(arrange(parts, [5, position, 3, 2], head=3), many, "they" if many else "he")


def make_counted_noun(
    dice: random.Random, case: str, nouns: list[list[str]], around: "Phrase", amount: "Phrase"
) -> "Noun":
    """More than one of something: plural in English, singular in qtx."""
    _, plural, stem = dice.choice(nouns)
    gender = "a" if nouns is LIVING else "o"
    adjective, root = dice.choice(ADJECTIVES) if dice.random() < 0.35 else ("", "")
    parts = [around, amount, link_words(adjective, root and root + gender + case), link_words(plural, stem + case)]
    return Noun(arrange(parts, [5, 1, 3, 2], head=3), False, "they")


def make_location(dice: random.Random) -> "Phrase":
    before, (case, after) = dice.choice(list(PLACES.items()))
    return make_noun(dice, case, THINGS, before, after).phrase


def make_determiner(dice: random.Random, plural: bool, gender: str, article: str) -> tuple[int, "Phrase"]:
    """A determiner and its order in qtx, which has no "a", and puts "my" behind the noun (2) and adjective (3)."""
    kind = dice.random()
    if kind < 0.45:
        return 0, link_words("the", f"t{gender}")
    if kind < 0.7:
        return 0, link_words("" if plural else article, "")
    if kind < 0.8:
        return 0, link_words("these" if plural else "this", f"ik{gender}")
    if kind < 0.85 and not plural:
        return 0, link_words("every", f"omn{gender}")
    _, _, english, qtx = dice.choice(PRONOUNS)
    return 4, link_words(english, f"{qtx}n")


def make_person(dice: random.Random, case: str, before: str = "") -> "Noun":
    """A person: a pronoun, a name, or a noun of the living class."""
    kind = dice.random()
    if kind > 0.45:
        return make_noun(dice, case, LIVING, before)
    if kind > 0.25:
        name = dice.choice(NAMES)
        return Noun(link_words(f"{before} {name}", name + case), False, "he")
    subject, other, _, qtx = dice.choice(PRONOUNS)
    like = {"I": "I", "he": "he", "she": "he"}.get(subject, "they")
    return Noun(link_words(f"{before} {other if case else subject}", qtx + case), subject in ("we", "they"), like)


def make_date(dice: random.Random, case: str, before: str = "") -> "Phrase":
    """ "on March 14, 2019" is "2019 martesh 14"."""
    english, qtx = dice.choice(MONTHS)
    day, year = dice.randint(1, 28), dice.randint(1980, 2029)
    month = link_words(f"{before} {english}", qtx + case)
    return arrange([month, Phrase((f"{day},",), (str(day),), ((0, 0),)), link_words(str(year), str(year))], [1, 2, 0])


def make_time(dice: random.Random, tense: str) -> "Phrase":
    kind = dice.random()
    if kind < 0.5:
        english, qtx = (text.split() for text in dice.choice(TIMES[tense]))
        return arrange([link_words(*pair) for pair in zip(english, reversed(qtx))], range(len(english), 0, -1))
    if kind < 0.7:
        english_day, qtx_day = dice.choice(WEEKDAYS)
        return link_words(f"on {english_day}", qtx_day + LOCATIVE)
    if kind < 0.85:
        hour = make_number(dice.randint(1, 12))
        return arrange([link_words("at", ""), hour, link_words("o'clock", "horash")], [0, 1, 2], head=2)
    return make_date(dice, LOCATIVE, "on")


@dataclass(frozen=True)
class Phrase:
    """Words in English and in qtx, and the links between them."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Noun:
    """A phrase that can be a subject: whether qtx counts it as plural, and which English pronoun it acts like."""

    phrase: Phrase
    plural: bool
    like: str
