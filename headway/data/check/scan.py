"""Scan a group of lines for faults, with the models of the corpus. Nothing here looks beyond these lines."""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import (
    CodePoints,
    Hashes,
    Trigrams,
    WordHashes,
    count_line_scripts,
    extract_trigrams,
    extract_words,
    hash_sentences,
    to_code_points,
)
from headway.data.check.faults import FAULT_BITS, NOT_COMPARED_BITS
from headway.data.check.language_profiles import MIN_LANGUAGE_NATS, LanguageProfiles, mean_log_probability
from headway.data.check.pair_classifier import HALVES, PairClassifier, SentencePairs
from headway.data.check.raw_lines import DecodedPairs, Faults, LineGroup, decode_pairs
from headway.data.check.settings import CheckSettings
from headway.data.parallel_files import ParallelFiles
from headway.text.language_id import find_other_language

MIN_LETTERS = 20  # to identify a language
MIN_FOREIGN_LETTERS = 5  # of another script, for a script fault
NEW_SHARE = 0.5  # of the words of a line, from which it is evidence by itself
MIN_OVERLAP_WORDS = 6  # a sentence this long is not in two texts by chance
LINE_SEPARATORS = (0x2028, 0x2029)
WORD = re.compile(r"\w+")

LineMask = NDArray[np.bool_]  # (lines,)


class SideProfile(NamedTuple):
    """The language and scripts expected on one side."""

    language: str  # "" if it cannot be identified
    scripts: NDArray[np.bool_]  # (scripts,) that it may be written in
    threshold: float  # the language of a line with a lower mean log-probability is identified


class HeldOutHashes(NamedTuple):
    """The sentences of a validation or test text."""

    pairs: Hashes
    source: Hashes  # of long sentences only
    target: Hashes


class CorpusModel(NamedTuple):
    """What was fitted on a sample of the corpus, and the sentences that must not be in it."""

    source: SideProfile
    target: SideProfile
    profiles: LanguageProfiles
    centre: float  # of the logarithms of target length / source length
    classifier: PairClassifier | None = None  # None: too few pairs
    held_out: dict[str, HeldOutHashes] = {}  # by the kind of fault


class ScannedLines(NamedTuple):
    faults: Faults  # (lines,)
    hashes: Hashes  # (lines,) equal for equal pairs
    log_odds: NDArray[np.float32]  # (lines,) that a pair is not a translation; NaN where it was not compared
    novelty: NDArray[np.float16]  # (lines,) from 0 to 1: how much a line says that the one before did not


class SideFeatures(NamedTuple):
    """One side of some lines, in every form that a check needs."""

    lines: list[str]
    code_points: CodePoints
    trigrams: Trigrams
    words: WordHashes
    scripts: NDArray[np.int64]  # (lines, scripts)
    hashes: Hashes


def extract_features(lines: list[str]) -> SideFeatures:
    code_points = to_code_points(lines)
    words = extract_words(code_points)
    return SideFeatures(
        lines, code_points, extract_trigrams(code_points), words, count_line_scripts(code_points), hash_sentences(words)
    )


def scan_group(model: CorpusModel, settings: CheckSettings, files: ParallelFiles, group: LineGroup) -> ScannedLines:
    pairs = decode_pairs(files, group.first, group.lines)
    source, target = extract_features(pairs.source), extract_features(pairs.target)
    faults = pairs.faults | find_text_faults(source, target, model, settings)
    faults |= find_language_faults(source, target, model, faults)
    for kind, held_out in model.held_out.items():
        faults[_is_held_out(source, target, held_out)] |= FAULT_BITS[kind]
    log_odds = _log_odds(source, target, model.classifier, faults, group.first)
    novelty = np.minimum(measure_novelty(source.words), measure_novelty(target.words)).astype(np.float16)
    return ScannedLines(faults, hash_pairs(pairs), log_odds, novelty)


def find_text_faults(source: SideFeatures, target: SideFeatures, model: CorpusModel, settings: CheckSettings) -> Faults:
    """Faults that show in characters and lengths."""
    counts = source.words.counts(), target.words.counts()
    lengths = count_characters(source.lines), count_characters(target.lines)
    ratio = np.log((lengths[1] + 8.0) / (lengths[0] + 8.0)) - model.centre
    found = {
        "control": _has_control(source.code_points) | _has_control(target.code_points),
        "empty": np.minimum(*counts) == 0,
        "copy": (source.hashes == target.hashes) & (source.scripts.sum(axis=1) > 0),
        "long": np.maximum(*counts) > settings.max_words,
        "ratio": (np.abs(ratio) > np.log(settings.max_ratio)) & (np.minimum(*counts) > 0),
    }
    found["script"] = np.zeros(len(source.lines), np.bool_)
    for text, side in ((source, model.source), (target, model.target)):
        foreign = text.scripts[:, ~side.scripts].sum(axis=1)
        found["script"] |= (foreign >= MIN_FOREIGN_LETTERS) & (2 * foreign > text.scripts.sum(axis=1))
    return combine_faults(found)


def find_language_faults(source: SideFeatures, target: SideFeatures, model: CorpusModel, faults: Faults) -> Faults:
    """Sides in each other's language, or in a third one."""
    checked = (faults & sum(FAULT_BITS[name] for name in ("broken", "empty", "copy", "script"))) == 0
    reads_as_target = checked & (model.profiles.source_log_odds(source.trigrams) < -MIN_LANGUAGE_NATS)
    reads_as_source = checked & (model.profiles.source_log_odds(target.trigrams) > MIN_LANGUAGE_NATS)
    swapped = reads_as_target & reads_as_source
    found = np.zeros(len(source.lines), np.bool_)
    for text, other, side, profile, reads_as_other in (
        (source, target, model.source, model.profiles.source, reads_as_target),
        (target, source, model.target, model.profiles.target, reads_as_source),
    ):
        if not side.language:
            found |= reads_as_other & ~swapped
            continue
        unusual = reads_as_other | (mean_log_probability(profile, text.trigrams) < side.threshold)
        unusual &= checked & ~swapped & (text.scripts.sum(axis=1) >= MIN_LETTERS)
        for number in np.flatnonzero(unusual):
            line = text.lines[number]
            if not reads_as_other[number]:
                line = drop_shared_words(line, other.lines[number])
            found[number] |= has_enough_letters(line) and bool(find_other_language(line, side.language))
    return combine_faults({"swapped": swapped, "language": found})


def drop_shared_words(line: str, other: str) -> str:
    """A line without the words that are on the other side too: names and quotations, which can be in any language."""
    shared = set(WORD.findall(other))
    return WORD.sub(lambda word: "" if word[0] in shared else word[0], line)


def has_enough_letters(line: str) -> bool:
    return sum(map(str.isalpha, line)) >= MIN_LETTERS


def combine_faults(found: dict[str, LineMask]) -> Faults:
    faults: Faults = np.sum(
        [lines * np.uint16(FAULT_BITS[name]) for name, lines in found.items()], axis=0, dtype=np.uint16
    )
    return faults


def count_characters(lines: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(len, lines), np.int64, len(lines))


def hash_pairs(pairs: DecodedPairs) -> Hashes:
    """Hashes of the exact text. Python's own hash differs between processes."""
    hashes = np.zeros(len(pairs.source), np.uint64)
    for number, (source, target) in enumerate(zip(pairs.source, pairs.target)):
        digest = hashlib.blake2b(f"{source}\t{target}".encode(errors="surrogatepass"), digest_size=8).digest()
        hashes[number] = int.from_bytes(digest, "little")
    return hashes


def hash_held_out(parts: Sequence[tuple[SideFeatures, SideFeatures]]) -> HeldOutHashes:
    """The sentences of a validation or test text."""
    found: list[list[Hashes]] = [[], [], []]
    for source, target in parts:
        nonempty = np.minimum(source.words.counts(), target.words.counts()) > 0
        found[0].append(combine_hashes(source, target)[nonempty])
        found[1].append(source.hashes[source.words.counts() >= MIN_OVERLAP_WORDS])
        found[2].append(target.hashes[target.words.counts() >= MIN_OVERLAP_WORDS])
    pairs, source_only, target_only = (np.unique(np.concatenate([*hashes, np.zeros(0, np.uint64)])) for hashes in found)
    return HeldOutHashes(pairs, source_only, target_only)


def combine_hashes(source: SideFeatures, target: SideFeatures) -> Hashes:
    hashes: Hashes = source.hashes * np.uint64(3) ^ target.hashes
    return hashes


def _is_held_out(source: SideFeatures, target: SideFeatures, text: HeldOutHashes) -> LineMask:
    """Lines with both sides, or one long side, in the held-out text; case and punctuation are ignored."""
    return (
        np.isin(combine_hashes(source, target), text.pairs)
        | (np.isin(source.hashes, text.source) & (source.words.counts() >= MIN_OVERLAP_WORDS))
        | (np.isin(target.hashes, text.target) & (target.words.counts() >= MIN_OVERLAP_WORDS))
    )


def _has_control(code_points: CodePoints) -> LineMask:
    codes = code_points.codes
    found = ((codes < 0x20) & (codes != 9) & (codes != 10)) | ((codes >= 0x7F) & (codes < 0xA0))
    found |= np.isin(codes, LINE_SEPARATORS)
    lines = np.zeros(code_points.lines, np.bool_)
    lines[code_points.line[found]] = True
    return lines


def measure_novelty(words: WordHashes) -> NDArray[np.float64]:
    """From 0 to 1: the share of words that were not in the line before, where NEW_SHARE or more is 1."""
    spread = np.uint64(0x9E3779B97F4A7C15)
    here = words.hash ^ (words.line.astype(np.uint64) * spread)
    before = words.hash ^ ((words.line + 1).astype(np.uint64) * spread)
    repeated = np.bincount(words.line[np.isin(here, before)], minlength=words.lines)
    share: NDArray[np.float64] = 1 - repeated / np.maximum(words.counts(), 1)
    return np.minimum(share / NEW_SHARE, 1.0)


def _log_odds(
    source: SideFeatures, target: SideFeatures, classifier: PairClassifier | None, faults: Faults, first: int
) -> NDArray[np.float32]:
    log_odds = np.full(len(faults), np.nan, np.float32)
    compared = (faults & NOT_COMPARED_BITS) == 0
    if classifier is not None and compared.any():
        sentences = SentencePairs(
            source.words, target.words, count_characters(source.lines), count_characters(target.lines)
        )
        log_odds[compared] = classifier.log_odds(sentences.select(compared), half_numbers(first, len(faults))[compared])
    return log_odds


def half_numbers(first: int, count: int) -> NDArray[np.int64]:
    """The half of the corpus, 0 or 1, that each of `count` lines from `first` on belongs to. They take turns: in
    a sorted corpus, too, the words of one half are then in the other."""
    halves: NDArray[np.int64] = np.arange(first, first + count) % HALVES
    return halves
