"""A made-up corpus: English beside a small invented language, with word alignments known by construction.

The invented language (private-use code qtx) is regular but far from English. The time comes first and the verb
last; adjectives follow their noun and agree with it in class, number and case; "in", "to", "from" and "with" are
case endings; a counted noun stays singular; numbers are said "three and twenty"; dates run year, month, day. So
translating it takes reordering, agreement, and words that become several words or none."""

import random
from dataclasses import dataclass
from pathlib import Path

from headway.data.toy.sentences import KINDS, Sentence
from headway.errors import HeadwayError

CODE = "qtx"
SHORTEST, LONGEST = 3, 20  # words in a sentence, on either side
HELD_OUT = 500  # sentences in valid, and in test


def toy_corpus(count: int, seed: int = 0) -> list["ToyPair"]:
    """`count` different sentences. A longer corpus of the same seed begins with the shorter one."""
    if count < 0:
        raise HeadwayError(f"a toy corpus cannot have {count} pairs: ask for 0 or more.")
    dice = random.Random(seed)
    kinds, weights = zip(*KINDS)
    pairs: dict[str, ToyPair] = {}
    while len(pairs) < count:
        (kind,) = dice.choices(kinds, weights)
        pair = punctuate(kind(dice))
        if all(SHORTEST <= len(side.split()) <= LONGEST for side in (pair.source, pair.target)):
            pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def write_toy(folder: str | Path, pairs: int = 8000, seed: int = 0, held_out: int = HELD_OUT) -> list[Path]:
    """Write train, valid and test, which share no sentence, and `test.align` (Moses i-j); return the files.

    valid and test depend on the seed and not on `pairs`, so that runs on more or less text can be compared."""
    for name, value in [("pairs", pairs), ("held_out", held_out)]:
        if value < 1:
            raise HeadwayError(f"{name} is {value}: a toy corpus needs at least 1 sentence in each part.")
    corpus = toy_corpus(pairs + 2 * held_out, seed)
    parts = {
        "train": corpus[2 * held_out :],
        "valid": corpus[:held_out],
        "test": corpus[held_out : 2 * held_out],
    }
    texts = {}
    for name, part in parts.items():
        texts[f"{name}.en"] = [pair.source for pair in part]
        texts[f"{name}.{CODE}"] = [pair.target for pair in part]
    texts["test.align"] = [" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in parts["test"]]
    files = {Path(folder) / name: "".join(f"{line}\n" for line in lines).encode() for name, lines in texts.items()}
    strange = [path.name for path, text in files.items() if path.exists() and not _holds(path, text)]
    if strange:
        raise HeadwayError(
            f"{folder} has {', '.join(strange)} already, with other text, which would be lost. Choose another folder."
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_bytes(text)
    return list(files)


def _holds(path: Path, text: bytes) -> bool:
    """Whether a file is what would be written: the same command may be given twice."""
    return path.is_file() and path.stat().st_size == len(text) and path.read_bytes() == text


def punctuate(sentence: Sentence) -> "ToyPair":
    """With a capital letter, and with its mark, which is part of the last word on each side."""
    phrase, mark = sentence
    source, target = (" ".join(side) for side in (phrase.source, phrase.target))
    return ToyPair(
        source[0].upper() + source[1:] + mark,
        target[0].upper() + target[1:] + mark,
        tuple(sorted(phrase.links)),
    )


@dataclass(frozen=True)
class ToyPair:
    """English, qtx, and which word of the one says which word of the other: (English, qtx), split at spaces."""

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]
