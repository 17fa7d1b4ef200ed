"""Pairs as people type them: each change keeps what can be said by both sides, and copies what must be copied."""

import re
from random import Random

import pytest

from headway.data import noise
from headway.data.corpora import parallel_from_memory
from headway.data.noise import add_noise
from headway.data.parallel_files import Pair

SOURCE, TARGET = "Anna paid 120 euros to Peter.", "Anna zahlte Peter 120 Euro."


@pytest.mark.parametrize(
    ("way", "pair"),
    [
        (noise.lowercase_source, ("anna paid 120 euros to peter.", TARGET)),
        (noise.uppercase_both, ("ANNA PAID 120 EUROS TO PETER.", "ANNA ZAHLTE PETER 120 EURO.")),
        (noise.title_case_source, ("Anna Paid 120 Euros To Peter", "Anna zahlte Peter 120 Euro")),
        (noise.drop_final_punctuation, ("Anna paid 120 euros to Peter", "Anna zahlte Peter 120 Euro")),
        (noise.copy_target, (TARGET, TARGET)),
    ],
)
def test_ways(way: object, pair: Pair) -> None:
    assert way(SOURCE, TARGET, Random(0)) == pair  # type: ignore[operator]


def test_what_would_change_nothing_is_not_said_twice() -> None:
    assert noise.lowercase_source("all small", "alles klein", Random(0)) is None
    assert noise.drop_final_punctuation("No end", "Kein Ende.", Random(0)) is None


def test_emoji_stand_on_both_sides() -> None:
    for seed in range(50):
        found = noise.add_emoji(SOURCE, TARGET, Random(seed))
        assert found is not None
        source, target = (side.replace(text, "").strip() for side, text in zip(found, (SOURCE, TARGET)))
        assert source == target
        assert source and not source.isascii()


def test_a_name_or_a_number_of_both_sides_becomes_something_that_is_copied() -> None:
    for seed in range(200):
        found = noise.replace_name(SOURCE, TARGET, Random(seed))
        assert found is not None
        things = []
        for text, given in zip(found, (SOURCE, TARGET)):
            [(word, thing)] = [
                (word, found[1])
                for word in ("Anna", "Peter", "120")
                if (found := re.fullmatch(re.escape(given).replace(word, "(.+)"), text)) and word not in text
            ]
            things.append((word, thing))
        assert things[0] == things[1]


def test_without_a_shared_word_the_thing_stands_alone() -> None:
    found = noise.replace_name("It rains.", "Es regnet.", Random(1))
    assert found is not None
    assert found[0] == found[1] != "It rains."
    twice = noise.replace_name("Anna sees Anna.", "Anna sieht Anna.", Random(1))
    assert twice is not None and twice[0] == twice[1]


def test_the_same_share_of_a_corpus_in_the_same_ways_each_time() -> None:
    corpus = parallel_from_memory(
        [f"{SOURCE} {n}" for n in range(1000)], [f"{TARGET} {n}" for n in range(1000)], "en", "de", 3.0
    )
    more = add_noise(corpus, 0.2)
    pairs = list(more.read())
    assert pairs == list(add_noise(corpus, 0.2).read())
    assert 100 < len(pairs) < 300
    assert more.counts.lines == len(pairs)
    assert (more.source_language, more.target_language, more.weight) == ("en", "de", 3.0)
    assert len({corpus.identity, more.identity, add_noise(corpus, 0.3).identity}) == 3
    assert list(add_noise(corpus, 0.0).read()) == []


def test_an_empty_side_never_comes_out() -> None:
    corpus = parallel_from_memory(["..."] * 300, ["?!"] * 300)
    assert all(source and target for source, target in add_noise(corpus, 1.0).read())
