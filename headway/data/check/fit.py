"""What a sample of the corpus teaches about it: its languages and scripts, usual lengths, and a judge of pairs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headway.data.check.char_features import letters_of, script_counts, triples_of
from headway.data.check.faults import NOT_COMPARED
from headway.data.check.language_profiles import Table, learn_sides, ordinary
from headway.data.check.pair_classifier import HALVES, Sentences, learn_judge
from headway.data.check.raw_lines import Faults, Group, decoded
from headway.data.check.scan import (
    FEWEST_LETTERS,
    Knowledge,
    Side,
    faults_of_language,
    faults_of_text,
    half_of,
    letters_in,
    texts_of,
)
from headway.data.check.settings import Settings
from headway.data.parallel_files import ParallelFiles
from headway.text.language_id import detect, is_other_language, known_languages, primary
from headway.text.scripts import NAMES, scripts_of

TAUGHT = 20_000  # lines that teach what a language looks like
IDENTIFIED = 2000  # of them, whose language is identified to know what to expect
STRANGEST = 0.05  # share of the lines, least like their language, that are always identified
NOTABLE = 0.01  # share of foreign lines from which on as many are identified as are needed to find them
SCRIPT_SHARE = 0.2  # of the letters, that makes a script one of a language that nobody knows
PART, MOST_BYTES = 2048, 1 << 20  # lines that are learned from together, and their bytes


class Lesson(NamedTuple):
    knowledge: Knowledge
    notes: list[str]  # for the user


class Part(NamedTuple):
    """Some blocks of the sample, decoded."""

    source: list[str]
    target: list[str]
    faults: Faults
    half: NDArray[np.int64]


def learn(corpora: Sequence[ParallelFiles], sample: Sequence[Group], settings: Settings) -> Lesson:
    parts = [_part(corpora, blocks) for blocks in _together(sample)]
    lines = [(s, t) for part in parts for s, t, fault in zip(part.source, part.target, part.faults) if not fault]
    taught = lines[:: max(1, len(lines) // TAUGHT)]
    sides = learn_sides([source for source, _ in taught], [target for _, target in taught])
    source, some = learn_side("source", settings.source_language, [line for line, _ in taught], sides.source)
    target, more = learn_side("target", settings.target_language, [line for _, line in taught], sides.target)
    both = np.array([(len(source), len(target)) for source, target in taught if source and target], float)
    centre = float(np.median(np.log((both[:, 1] + 8) / (both[:, 0] + 8)))) if len(both) else 0.0
    knowledge = Knowledge(source, target, sides, centre)
    halves: list[list[Sentences]] = [[] for _ in range(HALVES)]
    for part in parts:
        sentences, half = _faultless(part, knowledge, settings)
        for number in range(HALVES):
            halves[number].append(sentences.of(half == number))
    judge = learn_judge(halves, centre, settings.max_ratio)
    few = [] if judge else ["too few pairs to learn which words belong together: that was not checked"]
    return Lesson(knowledge._replace(judge=judge), [*some, *more, *few])


def learn_side(name: str, given: str, lines: Sequence[str], table: Table) -> tuple[Side, list[str]]:
    """Its language and script, and how strange a line must be to have its language identified."""
    letters = letters_of(lines)
    scripts = script_counts(letters)
    telling = np.flatnonzero(scripts.sum(axis=1) >= FEWEST_LETTERS)
    some = telling[:: max(1, len(telling) // IDENTIFIED)]
    language = primary(given) or _commonest([lines[number] for number in some])
    if language not in known_languages():
        total = scripts.sum(axis=0)
        known_by_text = total >= max(1, SCRIPT_SHARE * total.sum())
        if given:
            note = f"the language of the {name} ({given}) is none that can be identified, so it was not checked"
        else:
            flag = {"source": "--from", "target": "--to"}[name]
            note = f"the language of the {name} is not clear, so it was not checked: name it with {flag}"
        return Side("", known_by_text, -np.inf), [note]
    expected = np.isin(NAMES, list(scripts_of(language)))
    foreign = np.array([bool(is_other_language(lines[number], language)) for number in some], np.bool_)
    if not len(some):
        return Side(language, expected, -np.inf), []
    values = ordinary(table, triples_of(letters))[some]
    cut = np.quantile(values, STRANGEST)
    if foreign.mean() >= NOTABLE:
        cut = max(cut, np.quantile(values[foreign], 0.98))
    notes = []
    if foreign.mean() > 0.5:
        notes.append(f"most of the {name} does not read as {language}: are the languages right?")
    return Side(language, expected, float(cut)), notes


def _commonest(lines: Sequence[str]) -> str:
    """The language that most lines are in; "" where none is."""
    guesses = Counter(detect(line)[0].language for line in lines[:: max(1, len(lines) // 300)])
    if not guesses:
        return ""
    language, count = guesses.most_common(1)[0]
    return language if 2 * count > guesses.total() else ""


def _together(sample: Sequence[Group]) -> list[list[Group]]:
    parts: list[list[Group]] = [[]]
    lines = size = 0
    for block in sample:
        if lines >= PART or size > MOST_BYTES:
            parts.append([])
            lines = size = 0
        parts[-1].append(block)
        lines += len(block.lines)
        size += sum(len(side) for line in block.lines for side in line)
    return parts


def _part(corpora: Sequence[ParallelFiles], blocks: Sequence[Group]) -> Part:
    pairs = [decoded(corpora[block.corpus], block.first, block.lines) for block in blocks]
    return Part(
        [line for block in pairs for line in block.source],
        [line for block in pairs for line in block.target],
        np.concatenate([block.faults for block in pairs]),
        np.concatenate([half_of(block.first, len(block.lines)) for block in blocks]),
    )


def _faultless(part: Part, knowledge: Knowledge, settings: Settings) -> tuple[Sentences, NDArray[np.int64]]:
    """What a judge can learn from, and the halves that it belongs to."""
    source, target = texts_of(part.source), texts_of(part.target)
    faults = part.faults | faults_of_text(source, target, knowledge, settings)
    faults |= faults_of_language(source, target, knowledge, faults)
    good = (faults & NOT_COMPARED) == 0
    sentences = Sentences(source.words, target.words, letters_in(part.source), letters_in(part.target))
    return sentences.of(good), part.half[good]
