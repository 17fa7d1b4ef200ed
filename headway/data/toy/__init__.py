"""Synthetic text: tasks for language models (tasks: write_task), and the toy corpus, English beside a small invented
language, with word alignments known by construction.

    words (dictionary) ──► phrases (both languages at once, with links) ──► sentences (kinds) ──► toy_corpus, write_toy
    tasks (copy, needle, …: prompts with answers) ──► write_task            all are written by output
    algorithms (sort, bfs, …: problems, graphs, answers) ──► write_problems

The invented language (private-use code qtx) is regular but far from English. The time comes first and the verb
last; adjectives follow their noun and agree with it in class, number and case; "in", "to", "from" and "with" are
case endings; a counted noun stays singular; numbers are spoken "three and twenty"; dates run year, month, day. So
translating it takes reordering, agreement, and words that become several words or none."""

import random
from dataclasses import dataclass
from pathlib import Path

from headway.data.toy.output import write_texts
from headway.data.toy.sentences import SENTENCE_KINDS, Sentence
from headway.errors import HeadwayError

TOY_LANGUAGE = "qtx"
MIN_WORDS = 3  # in a sentence, on either side
MAX_WORDS = 20
HELD_OUT = 500  # sentences in valid, and in test


def toy_corpus(count: int, seed: int = 0) -> list["ToyPair"]:
    """`count` different sentences. A longer corpus of the same seed begins with the shorter one."""
    if count < 0:
        raise HeadwayError(f"count must be at least 0, not {count}.")
    dice = random.Random(seed)
    kinds, weights = zip(*SENTENCE_KINDS)
    pairs: dict[str, ToyPair] = {}
    while len(pairs) < count:
        (kind,) = dice.choices(kinds, weights)
        pair = punctuate(kind(dice))
        if all(MIN_WORDS <= len(side.split()) <= MAX_WORDS for side in (pair.source, pair.target)):
            pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def write_toy(folder: str | Path, pairs: int = 8000, seed: int = 0, held_out: int = HELD_OUT) -> list[Path]:
    """Write train, valid and test, which share no sentence, and `test.align` (Moses i-j); return the files.

    valid and test depend on the seed and not on `pairs`, so that runs on more or less text can be compared."""
    for name, value in [("pairs", pairs), ("held_out", held_out)]:
        if value < 1:
            raise HeadwayError(f"{name} must be at least 1, not {value}.")
    corpus = toy_corpus(pairs + 2 * held_out, seed)
    parts = {
        "train": corpus[2 * held_out :],
        "valid": corpus[:held_out],
        "test": corpus[held_out : 2 * held_out],
    }
    texts = {}
    for name, part in parts.items():
        texts[f"{name}.en"] = [pair.source for pair in part]
        texts[f"{name}.{TOY_LANGUAGE}"] = [pair.target for pair in part]
    texts["test.align"] = [" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in parts["test"]]
    return write_texts(folder, texts)


def punctuate(sentence: Sentence) -> "ToyPair":
    """With a capital letter and the closing punctuation, which is part of the last word on each side."""
    phrase, punctuation = sentence
    source, target = (" ".join(side) for side in (phrase.source, phrase.target))
    return ToyPair(
        source[0].upper() + source[1:] + punctuation,
        target[0].upper() + target[1:] + punctuation,
        tuple(sorted(phrase.links)),
    )


@dataclass(frozen=True)
class ToyPair:
    """An English sentence, its qtx translation, and the alignment as pairs of word indices (English, qtx)."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
