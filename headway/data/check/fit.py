"""Fit the models of a corpus on a sample of it: languages, scripts, usual length ratio, and a classifier of pairs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import count_line_scripts, extract_trigrams, to_code_points
from headway.data.check.faults import NOT_COMPARED_BITS
from headway.data.check.language_profiles import Table, fit_language_profiles, mean_log_probability
from headway.data.check.pair_classifier import HALVES, SentencePairs, fit_pair_classifier
from headway.data.check.raw_lines import Faults, LineGroup, decode_pairs
from headway.data.check.scan import (
    MIN_LETTERS,
    CorpusModel,
    SideProfile,
    count_characters,
    extract_features,
    find_language_faults,
    find_text_faults,
    half_numbers,
)
from headway.data.check.settings import CheckSettings
from headway.data.parallel_files import ParallelFiles
from headway.text.language_id import find_other_language, guess_languages, known_languages, primary_language
from headway.text.scripts import SCRIPT_NAMES, scripts_of

MAX_PROFILE_LINES = 20_000  # that language profiles are fitted on
MAX_IDENTIFIED_LINES = 2000  # of them, whose language is identified
ALWAYS_IDENTIFIED_SHARE = 0.05  # of the lines, those that look least like their language
NOTABLE_FOREIGN_SHARE = 0.01  # of foreign lines, above which enough lines are identified to find them
MIN_SCRIPT_SHARE = 0.2  # of the letters, for a script to be expected in an unknown language
LINES_PER_CHUNK = 2048
BYTES_PER_CHUNK = 1 << 20


class FittedCorpus(NamedTuple):
    model: CorpusModel
    notes: list[str]  # for the user


class SampleChunk(NamedTuple):
    """Some blocks of the sample, decoded."""

    source: list[str]
    target: list[str]
    faults: Faults
    half: NDArray[np.int64]


def fit_corpus(corpora: Sequence[ParallelFiles], sample: Sequence[LineGroup], settings: CheckSettings) -> FittedCorpus:
    chunks = [_decode_chunk(corpora, blocks) for blocks in _group_blocks(sample)]
    lines = [(s, t) for chunk in chunks for s, t, fault in zip(chunk.source, chunk.target, chunk.faults) if not fault]
    profile_lines = lines[:: max(1, len(lines) // MAX_PROFILE_LINES)]
    profiles = fit_language_profiles([source for source, _ in profile_lines], [target for _, target in profile_lines])
    source, source_notes = fit_side(
        "source", settings.source_language, [line for line, _ in profile_lines], profiles.source
    )
    target, target_notes = fit_side(
        "target", settings.target_language, [line for _, line in profile_lines], profiles.target
    )
    both = np.array([(len(source), len(target)) for source, target in profile_lines if source and target], float)
    centre = float(np.median(np.log((both[:, 1] + 8) / (both[:, 0] + 8)))) if len(both) else 0.0
    model = CorpusModel(source, target, profiles, centre)
    halves: list[list[SentencePairs]] = [[] for _ in range(HALVES)]
    for chunk in chunks:
        sentences, half = _select_faultless(chunk, model, settings)
        for number in range(HALVES):
            halves[number].append(sentences.select(half == number))
    classifier = fit_pair_classifier(halves, centre, settings.max_ratio)
    notes = [*source_notes, *target_notes]
    if not classifier:
        notes.append("too few pairs to learn which words translate each other: wrong translations were not looked for")
    return FittedCorpus(model._replace(classifier=classifier), notes)


def fit_side(name: str, given: str, lines: Sequence[str], table: Table) -> tuple[SideProfile, list[str]]:
    """The language and scripts of a side, and below which score the language of a line is identified."""
    code_points = to_code_points(lines)
    scripts = count_line_scripts(code_points)
    long_enough = np.flatnonzero(scripts.sum(axis=1) >= MIN_LETTERS)
    identified = long_enough[:: max(1, len(long_enough) // MAX_IDENTIFIED_LINES)]
    language = primary_language(given) or _most_common_language([lines[number] for number in identified])
    if language not in known_languages():
        total = scripts.sum(axis=0)
        frequent_scripts = total >= max(1, MIN_SCRIPT_SHARE * total.sum())
        if given:
            note = f"the {name} language ({given}) cannot be identified, so it was not checked"
        else:
            flag = {"source": "--from", "target": "--to"}[name]
            note = f"the {name} language is not clear, so it was not checked: set it with {flag}"
        return SideProfile("", frequent_scripts, -np.inf), [note]
    expected = np.isin(SCRIPT_NAMES, list(scripts_of(language)))
    foreign = np.array([bool(find_other_language(lines[number], language)) for number in identified], np.bool_)
    if not len(identified):
        return SideProfile(language, expected, -np.inf), []
    values = mean_log_probability(table, extract_trigrams(code_points))[identified]
    threshold = np.quantile(values, ALWAYS_IDENTIFIED_SHARE)
    if foreign.mean() >= NOTABLE_FOREIGN_SHARE:
        threshold = max(threshold, np.quantile(values[foreign], 0.98))
    notes = []
    if foreign.mean() > 0.5:
        notes.append(f"most of the {name} does not look like {language}: are the languages right?")
    return SideProfile(language, expected, float(threshold)), notes


def _most_common_language(lines: Sequence[str]) -> str:
    """The language of more than half of the lines; "" if there is none."""
    guesses = Counter(guess_languages(line)[0].language for line in lines[:: max(1, len(lines) // 300)])
    if not guesses:
        return ""
    language, count = guesses.most_common(1)[0]
    return language if 2 * count > guesses.total() else ""


def _group_blocks(sample: Sequence[LineGroup]) -> list[list[LineGroup]]:
    chunks: list[list[LineGroup]] = [[]]
    lines = size = 0
    for block in sample:
        if lines >= LINES_PER_CHUNK or size > BYTES_PER_CHUNK:
            chunks.append([])
            lines = size = 0
        chunks[-1].append(block)
        lines += len(block.lines)
        size += sum(len(side) for line in block.lines for side in line)
    return chunks


def _decode_chunk(corpora: Sequence[ParallelFiles], blocks: Sequence[LineGroup]) -> SampleChunk:
    pairs = [decode_pairs(corpora[block.corpus], block.first, block.lines) for block in blocks]
    return SampleChunk(
        [line for block in pairs for line in block.source],
        [line for block in pairs for line in block.target],
        np.concatenate([block.faults for block in pairs]),
        np.concatenate([half_numbers(block.first, len(block.lines)) for block in blocks]),
    )


def _select_faultless(
    chunk: SampleChunk, model: CorpusModel, settings: CheckSettings
) -> tuple[SentencePairs, NDArray[np.int64]]:
    """The pairs that the classifier can be fitted on, and the half of the corpus that each belongs to."""
    source, target = extract_features(chunk.source), extract_features(chunk.target)
    faults = chunk.faults | find_text_faults(source, target, model, settings)
    faults |= find_language_faults(source, target, model, faults)
    good = (faults & NOT_COMPARED_BITS) == 0
    sentences = SentencePairs(
        source.words, target.words, count_characters(chunk.source), count_characters(chunk.target)
    )
    return sentences.select(good), chunk.half[good]
