"""The faults of some lines, by what is known of the corpus. Nothing here looks further than these lines."""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import (
    Hashes,
    Letters,
    Triples,
    Words,
    letters_of,
    script_counts,
    sentence_hashes,
    triples_of,
    words_of,
)
from headway.data.check.faults import BITS, NOT_COMPARED
from headway.data.check.language_profiles import SURE, Sides, ordinary
from headway.data.check.pair_classifier import BLOCK, HALVES, Judge, Sentences
from headway.data.check.raw_lines import Faults, Group, Pairs, decoded
from headway.data.check.settings import Settings
from headway.data.parallel_files import ParallelFiles
from headway.text.language_id import is_other_language

FEWEST_LETTERS = 20  # that tell a language
FEWEST_FOREIGN = 5  # letters of another script that make a line suspicious
TELLING_WORDS = 6  # a sentence of so many words does not stand in two texts by chance
LINE_ENDS = (0x2028, 0x2029)
WORD = re.compile(r"\w+")

Lines = NDArray[np.bool_]  # (lines,)


class Side(NamedTuple):
    """What is expected of one side."""

    language: str  # "" where it cannot be identified
    scripts: NDArray[np.bool_]  # (scripts,) that it may be written in
    cut: float  # a line less ordinary than this has its language identified


class HeldOut(NamedTuple):
    """The sentences of a validation or test text."""

    pairs: Hashes
    source: Hashes  # of long sentences only
    target: Hashes


class Knowledge(NamedTuple):
    source: Side
    target: Side
    sides: Sides
    centre: float  # of the logarithms of target length / source length
    judge: Judge | None = None
    held_out: dict[str, HeldOut] = {}  # by the kind of fault


class Scanned(NamedTuple):
    faults: Faults  # (lines,)
    hashes: Hashes  # (lines,) equal for equal pairs
    odds: NDArray[np.float32]  # (lines,) that the sides do not belong together; NaN where they were not compared


class Texts(NamedTuple):
    """One side, in every form that a check needs."""

    lines: list[str]
    letters: Letters
    triples: Triples
    words: Words
    scripts: NDArray[np.int64]  # (lines, scripts)
    hashes: Hashes


def texts_of(lines: list[str]) -> Texts:
    letters = letters_of(lines)
    words = words_of(letters)
    return Texts(lines, letters, triples_of(letters), words, script_counts(letters), sentence_hashes(words))


def scan(knowledge: Knowledge, settings: Settings, files: ParallelFiles, group: Group) -> Scanned:
    pairs = decoded(files, group.first, group.lines)
    source, target = texts_of(pairs.source), texts_of(pairs.target)
    faults = pairs.faults | faults_of_text(source, target, knowledge, settings)
    faults |= faults_of_language(source, target, knowledge, faults)
    for kind, held_out in knowledge.held_out.items():
        faults[_is_held_out(source, target, held_out)] |= BITS[kind]
    return Scanned(faults, pair_hashes(pairs), _odds(source, target, knowledge.judge, faults, group.first))


def faults_of_text(source: Texts, target: Texts, knowledge: Knowledge, settings: Settings) -> Faults:
    """What can be told from characters and lengths."""
    counts = source.words.counts(), target.words.counts()
    lengths = letters_in(source.lines), letters_in(target.lines)
    ratio = np.log((lengths[1] + 8.0) / (lengths[0] + 8.0)) - knowledge.centre
    found = {
        "control": _controls(source.letters) | _controls(target.letters),
        "empty": np.minimum(*counts) == 0,
        "copy": (source.hashes == target.hashes) & (source.scripts.sum(axis=1) > 0),
        "long": np.maximum(*counts) > settings.max_words,
        "ratio": (np.abs(ratio) > np.log(settings.max_ratio)) & (np.minimum(*counts) > 0),
    }
    found["script"] = np.zeros(len(source.lines), np.bool_)
    for text, side in ((source, knowledge.source), (target, knowledge.target)):
        foreign = text.scripts[:, ~side.scripts].sum(axis=1)
        found["script"] |= (foreign >= FEWEST_FOREIGN) & (2 * foreign > text.scripts.sum(axis=1))
    return sum_of(found)


def faults_of_language(source: Texts, target: Texts, knowledge: Knowledge, faults: Faults) -> Faults:
    """Sides that read like each other's language, or like a third one."""
    judged = (faults & sum(BITS[name] for name in ("broken", "empty", "copy", "script"))) == 0
    reads_as_target = judged & (knowledge.sides.source_rather(source.triples) < -SURE)
    reads_as_source = judged & (knowledge.sides.source_rather(target.triples) > SURE)
    swapped = reads_as_target & reads_as_source
    found = np.zeros(len(source.lines), np.bool_)
    for text, beside, side, table, reads_as_other in (
        (source, target, knowledge.source, knowledge.sides.source, reads_as_target),
        (target, source, knowledge.target, knowledge.sides.target, reads_as_source),
    ):
        if not side.language:
            found |= reads_as_other & ~swapped
            continue
        strange = reads_as_other | (ordinary(table, text.triples) < side.cut)
        strange &= judged & ~swapped & (text.scripts.sum(axis=1) >= FEWEST_LETTERS)
        for number in np.flatnonzero(strange):
            line = text.lines[number]
            if not reads_as_other[number]:
                line = without_shared(line, beside.lines[number])
            found[number] |= enough(line) and bool(is_other_language(line, side.language))
    return sum_of({"swapped": swapped, "language": found})


def without_shared(line: str, other: str) -> str:
    """A line without the words that stand on the other side too: names and quotations, which are in any language."""
    shared = set(WORD.findall(other))
    return WORD.sub(lambda word: "" if word[0] in shared else word[0], line)


def enough(line: str) -> bool:
    return sum(map(str.isalpha, line)) >= FEWEST_LETTERS


def sum_of(found: dict[str, Lines]) -> Faults:
    faults: Faults = np.sum([lines * np.uint16(BITS[name]) for name, lines in found.items()], axis=0, dtype=np.uint16)
    return faults


def letters_in(lines: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, lines), np.int64, len(lines))


def pair_hashes(pairs: Pairs) -> Hashes:
    """Of the text as it stands. Python's own hash is another in every process."""
    hashes = np.zeros(len(pairs.source), np.uint64)
    for number, (source, target) in enumerate(zip(pairs.source, pairs.target)):
        digest = hashlib.blake2b(f"{source}\t{target}".encode(errors="surrogatepass"), digest_size=8).digest()
        hashes[number] = int.from_bytes(digest, "little")
    return hashes


def held_out(parts: Sequence[tuple[Texts, Texts]]) -> HeldOut:
    """The sentences of a text that training must not see."""
    found: list[list[Hashes]] = [[], [], []]
    for source, target in parts:
        said = np.minimum(source.words.counts(), target.words.counts()) > 0
        found[0].append(both_hashes(source, target)[said])
        found[1].append(source.hashes[source.words.counts() >= TELLING_WORDS])
        found[2].append(target.hashes[target.words.counts() >= TELLING_WORDS])
    pairs, one, other = (np.unique(np.concatenate([*hashes, np.zeros(0, np.uint64)])) for hashes in found)
    return HeldOut(pairs, one, other)


def both_hashes(source: Texts, target: Texts) -> Hashes:
    hashes: Hashes = source.hashes * np.uint64(3) ^ target.hashes
    return hashes


def _is_held_out(source: Texts, target: Texts, text: HeldOut) -> Lines:
    """Both sides of a pair stand there, or a side that is too long for chance; case and punctuation do not count."""
    return (
        np.isin(both_hashes(source, target), text.pairs)
        | (np.isin(source.hashes, text.source) & (source.words.counts() >= TELLING_WORDS))
        | (np.isin(target.hashes, text.target) & (target.words.counts() >= TELLING_WORDS))
    )


def _controls(letters: Letters) -> Lines:
    codes = letters.codes
    found = ((codes < 0x20) & (codes != 9) & (codes != 10)) | ((codes >= 0x7F) & (codes < 0xA0))
    found |= np.isin(codes, LINE_ENDS)
    lines = np.zeros(letters.lines, np.bool_)
    lines[letters.line[found]] = True
    return lines


def _odds(source: Texts, target: Texts, judge: Judge | None, faults: Faults, first: int) -> NDArray[np.float32]:
    odds = np.full(len(faults), np.nan, np.float32)
    compared = (faults & NOT_COMPARED) == 0
    if judge is not None and compared.any():
        sentences = Sentences(source.words, target.words, letters_in(source.lines), letters_in(target.lines))
        odds[compared] = judge.odds(sentences.of(compared), half_of(first, len(faults))[compared])
    return odds


def half_of(first: int, count: int) -> NDArray[np.int64]:
    """The half that each of `count` lines from `first` on belongs to."""
    halves: NDArray[np.int64] = np.arange(first, first + count) // BLOCK % HALVES
    return halves
