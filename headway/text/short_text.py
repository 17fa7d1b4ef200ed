"""Languages of texts of a few words, which say too little for the identifier of whole sentences.

A table has the log-probabilities of frequent words and of character n-grams (1 to 4, within words) in some languages. A
word of the table counts as a whole, any other by its n-grams. recipes/short_text_table.py makes it from corpora."""

import math
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

MAX_NGRAM = 4
NGRAM_WEIGHT = 0.5  # n-grams of a word overlap, so each is worth less than if it stood alone
TEMPERATURE = 3.0  # of the scores: it makes confidences as large as the share of texts that are guessed right
UNIT = 0.1  # of the table's integers
TABLE_FILE = "tables/short_text.tsv"


class ShortTextTable(NamedTuple):
    languages: tuple[str, ...]
    words: dict[str, tuple[float, ...]]  # log-probability in each of the languages
    ngrams: dict[str, tuple[float, ...]]  # with a space where a word begins or ends


def iter_ngrams(word: str) -> Iterator[str]:
    """The character n-grams of a word between two spaces; a space alone is none."""
    padded = f" {word} "
    for length in range(1, MAX_NGRAM + 1):
        for start in range(len(padded) - length + 1):
            ngram = padded[start : start + length]
            if ngram != " ":
                yield ngram


def score_short_text(words: Sequence[str], languages: Collection[str]) -> dict[str, float]:
    """The log-likelihood of casefolded words in each of the languages; {} unless the table has them all."""
    table = load_table()
    if not languages or not set(languages) <= set(table.languages):
        return {}
    scores = [0.0] * len(table.languages)
    for word in words:
        known = table.words.get(word)
        parts = [known] if known else [table.ngrams[one] for one in iter_ngrams(word) if one in table.ngrams]
        weight = 1.0 if known else NGRAM_WEIGHT
        for part in parts:
            scores = [score + weight * value for score, value in zip(scores, part)]
    return {language: scores[table.languages.index(language)] for language in languages}


def to_probabilities(scores: dict[str, float]) -> dict[str, float]:
    """The probability of each language, if the text is in one of these."""
    best = max(scores.values())
    shares = {language: math.exp((score - best) / TEMPERATURE) for language, score in scores.items()}
    return {language: share / sum(shares.values()) for language, share in shares.items()}


def known_share(words: Sequence[str], languages: Collection[str]) -> float:
    """How much of a text, by characters, is words that the table has from one of these languages."""
    table = load_table()

    def is_known(word: str) -> bool:
        values = table.words.get(word)
        return values is not None and table.languages[values.index(max(values))] in languages

    return sum(len(word) for word in words if is_known(word)) / max(1, sum(map(len, words)))


@cache
def load_table() -> ShortTextTable:
    text = files("headway.text").joinpath(TABLE_FILE).read_text(encoding="utf-8")
    header, *lines = text.rstrip("\n").split("\n")
    words: dict[str, tuple[float, ...]] = {}
    ngrams: dict[str, tuple[float, ...]] = {}
    for line in lines:
        kind, entry, *values = line.split("\t")
        (words if kind == "word" else ngrams)[entry] = tuple(UNIT * int(value) for value in values)
    return ShortTextTable(tuple(header.split("\t")[2:]), words, ngrams)
