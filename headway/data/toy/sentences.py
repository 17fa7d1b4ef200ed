"""The kinds of sentence in the toy corpus: functions from a random generator to a phrase and its punctuation."""

import random
from collections.abc import Callable, Sequence

from headway.data.toy.phrases import (
    ACCUSATIVE,
    FROM,
    LOCATIVE,
    NOMINATIVE,
    TENSES,
    TO,
    WITH,
    Noun,
    Phrase,
    arrange,
    auxiliary_verb,
    link_words,
    make_counted_noun,
    make_date,
    make_location,
    make_noun,
    make_number,
    make_person,
    make_time,
    make_verb,
)
from headway.data.toy.words import (
    ADJECTIVES,
    BE,
    CONJUNCTIONS,
    COST,
    GIVING,
    INTRANSITIVE,
    LIVING,
    MOTION,
    THINGS,
    TIMES,
    TRANSITIVE,
    WEEKDAYS,
)

Sentence = tuple[Phrase, str]
VERB_LAST = 9
DAYS = {tense: times[0] for tense, times in TIMES.items()}  # today, yesterday, tomorrow


def statement(dice: random.Random) -> Sentence:
    """ "The dog sees a red house." """
    return clause(dice), "."


def clause(dice: random.Random) -> Phrase:
    tense = dice.choice(list(TENSES))
    subject = make_person(dice, NOMINATIVE)
    kinds = [TRANSITIVE, TRANSITIVE, TRANSITIVE, INTRANSITIVE, MOTION, GIVING]
    verbs = dice.choice(kinds)
    doing = make_verb(dice.choice(verbs), subject, tense, negated=dice.random() < 0.15)
    parts = [(1, subject.phrase), (VERB_LAST, doing)]
    if verbs is TRANSITIVE:
        parts.append((3, someone_or_something(dice)))
    elif verbs is INTRANSITIVE and dice.random() < 0.4:
        parts.append((3, make_person(dice, WITH, "with").phrase))
    elif verbs is MOTION:
        way, case = dice.choice([("to", TO), ("from", FROM)])
        parts.append((3, make_noun(dice, case, THINGS, way).phrase))
    elif verbs is GIVING:
        parts += [(3, make_noun(dice, ACCUSATIVE).phrase), (2, make_person(dice, TO, "to").phrase)]
    if verbs in (TRANSITIVE, INTRANSITIVE) and dice.random() < 0.2:
        parts.append((4, make_location(dice)))
    if dice.random() < 0.35:
        parts.append((0, make_time(dice, tense)))
    return order_parts(parts)


def order_parts(parts: Sequence[tuple[int, Phrase]]) -> Phrase:
    return arrange([part for _, part in parts], [order for order, _ in parts])


def someone_or_something(dice: random.Random) -> Phrase:
    return (make_person if dice.random() < 0.3 else make_noun)(dice, ACCUSATIVE).phrase


def two_statements(dice: random.Random) -> Sentence:
    english, qtx = dice.choice(CONJUNCTIONS)
    return arrange([clause(dice), link_words(english, qtx), clause(dice)], [0, 1, 2]), "."


def description(dice: random.Random) -> Sentence:
    """ "These old houses are not big." """
    nouns = dice.choice([THINGS, LIVING])
    subject = make_noun(dice, NOMINATIVE, nouns)
    english, root = dice.choice(ADJECTIVES)
    adjective = link_words(english, root + ("a" if nouns is LIVING else "o") + ("ri" if subject.plural else ""))
    being = make_verb(BE, subject, dice.choice(list(TENSES)), negated=dice.random() < 0.2)
    return arrange([subject.phrase, being, adjective], [0, 2, 1]), "."


def amount(dice: random.Random) -> Sentence:
    """ "There are forty-five red apples on the table." """
    subject = make_counted_noun(
        dice, NOMINATIVE, dice.choice([THINGS, LIVING]), link_words("", ""), make_number(dice.randint(2, 99))
    )
    being = make_verb(BE, subject, dice.choice(list(TENSES)))
    return arrange([link_words("there", ""), being, subject.phrase, make_location(dice)], [0, 3, 2, 1], head=1), "."


def price(dice: random.Random) -> Sentence:
    """ "This book costs three hundred forty-five coins." """
    subject = make_noun(dice, NOMINATIVE)
    coins = arrange([make_number(dice.randint(2, 999)), link_words("coins", "monetem")], [0, 1])
    return arrange([subject.phrase, make_verb(COST, subject, "present"), coins], [0, 2, 1]), "."


def age(dice: random.Random) -> Sentence:
    """ "My brother is thirty-two years old." """
    subject = make_person(dice, NOMINATIVE)
    parts = [
        subject.phrase,
        make_verb(BE, subject, "present"),
        make_number(dice.randint(2, 99)),
        link_words("years old", "anuk"),
    ]
    return arrange(parts, [0, 3, 1, 2]), "."


def sum_of_numbers(dice: random.Random) -> Sentence:
    """ "Seven plus twelve is nineteen." """
    left, right = dice.randint(1, 99), dice.randint(1, 99)
    operation, result = link_words("plus", "adi"), left + right
    if left > right:
        operation, result = link_words("minus", "subi"), left - right
    parts = [make_number(left), operation, make_number(right), link_words("is", "esta"), make_number(result)]
    return arrange(parts, [0, 2, 1, 4, 3]), "."


def day(dice: random.Random) -> Sentence:
    """ "Today is Monday, March 14, 2019." """
    tense, (english, qtx) = dice.choice(list(DAYS.items()))
    being = make_verb(BE, Noun(link_words("", ""), False, "he"), tense)
    weekday, qtx_weekday = dice.choice(WEEKDAYS)
    parts = [link_words(english, qtx), being, link_words(f"{weekday},", qtx_weekday), make_date(dice, NOMINATIVE)]
    return arrange(parts, [0, 3, 2, 1]), "."


def birth(dice: random.Random) -> Sentence:
    """ "Anna was born on March 14, 1987." """
    subject = make_person(dice, NOMINATIVE)
    born = link_words("were born" if subject.like == "they" else "was born", "naski" + ("s" if subject.plural else ""))
    return arrange([subject.phrase, born, make_date(dice, LOCATIVE, "on")], [0, 2, 1]), "."


def yes_or_no(dice: random.Random) -> Sentence:
    """ "Does Anna see the old house?" The helping verb becomes a particle at the very end."""
    tense = dice.choice(list(TENSES))
    subject = make_person(dice, NOMINATIVE)
    base, _, _, stem = dice.choice(TRANSITIVE)
    parts = [
        (VERB_LAST + 1, link_words(auxiliary_verb(subject, tense), "ka")),
        (1, subject.phrase),
        (VERB_LAST, link_words(base, stem + TENSES[tense] + ("s" if subject.plural else ""))),
        (2, someone_or_something(dice)),
    ]
    if dice.random() < 0.2:
        parts.append((0, make_time(dice, tense)))
    return order_parts(parts), "?"


def who(dice: random.Random) -> Sentence:
    """ "Who found the red hat?" """
    subject = Noun(link_words("who", "kiu"), False, "he")
    tense = dice.choice(list(TENSES))
    parts = [subject.phrase, make_verb(dice.choice(TRANSITIVE), subject, tense), someone_or_something(dice)]
    return arrange(parts, [0, 2, 1]), "?"


def where(dice: random.Random) -> Sentence:
    """ "Where are my keys?" """
    subject = make_noun(dice, NOMINATIVE)
    being = make_verb(BE, subject, dice.choice(["present", "past"]))
    return arrange([link_words("where", "ube"), being, subject.phrase], [1, 2, 0]), "?"


# How often each kind is drawn.
SENTENCE_KINDS: list[tuple[Callable[[random.Random], Sentence], int]] = [
    (statement, 40),
    (two_statements, 6),
    (description, 8),
    (amount, 6),
    (price, 5),
    (age, 3),
    (sum_of_numbers, 4),
    (day, 4),
    (birth, 4),
    (yes_or_no, 8),
    (who, 5),
    (where, 5),
]
