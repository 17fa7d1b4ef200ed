"""Placeholders ⟦0⟧ in training pairs, in place of words, around them or beside them, so that a model learns to copy
each to the right position (see headway.text.spans.protect). A statistical aligner says which words correspond."""

import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headway.data.corpora import FilePairs, ParallelCorpus
from headway.data.parallel_files import Pair, ParallelFiles
from headway.files.cache import fingerprint, load_or_build
from headway.text.align.aligner import Aligner, train_aligner
from headway.text.align.words import WORD
from headway.text.spans.protect import PLACEHOLDER, format_placeholder, space_placeholders
from headway.train.alignment_links import PAIRS_PER_GROUP, language_pair, sample_pairs

RULES_VERSION = "placeholders 3"  # part of the cache key: change it with the rules
MAX_PHRASES = 3  # of a pair that get placeholders
MAX_PHRASE_WORDS = 3
WORD_CORE = re.compile(r"[^\W_](?:\S*[^\W_])?")  # a word without the punctuation around it
FINAL_PUNCTUATION = re.compile(r"[.!?…]*$")

Links = Sequence[tuple[int, int]]  # source word, target word
CharSpan = tuple[int, int]  # start and end, in characters
Edit = tuple[int, int, str]  # start and end of what is replaced, and by what


def insert_placeholders(pair: Pair, links: Links, chance: random.Random) -> Pair:
    """The pair with placeholders: at linked phrases, or at the edges if no words are linked. Unchanged if it
    has some."""
    if any("⟦" in side for side in pair):
        return pair
    found = find_phrases(pair, links)
    chance.shuffle(found)
    edits: tuple[list[Edit], list[Edit]] = ([], [])
    taken: list[tuple[CharSpan, CharSpan]] = []
    count = 0  # placeholders so far
    wanted = chance.randint(1, MAX_PHRASES)
    for spans in found:
        if len(taken) == wanted:
            break
        if all(_are_disjoint(a, b) for other in taken for a, b in zip(spans, other)):
            taken.append(spans)
            count += _edit_phrase(pair, spans, edits, count, chance)
    if not taken or chance.random() < 0.15:
        _edit_edges(pair, edits, count, chance)
    return _renumber([_apply_edits(side, own) for side, own in zip(pair, edits)])


def find_phrases(pair: Pair, links: Links) -> list[tuple[CharSpan, CharSpan]]:
    """Phrase pairs: up to MAX_PHRASE_WORDS source words, and the target words that are linked with them and
    no others."""
    source, target = ([(w.start(), w[0]) for w in WORD.finditer(side)] for side in pair)
    found = []
    for first in range(len(source)):
        for last in range(first, min(first + MAX_PHRASE_WORDS, len(source))):
            linked = {j for i, j in links if first <= i <= last}
            if not linked:
                continue
            start, end = min(linked), max(linked)
            consistent = all(first <= i <= last for i, j in links if start <= j <= end)
            if consistent and end - start <= last - first + 1:
                source_span = _core_span(source[first : last + 1])
                target_span = _core_span(target[start : end + 1])
                if source_span and target_span:
                    found.append((source_span, target_span))
    return found


def _core_span(words: Sequence[tuple[int, str]]) -> CharSpan | None:
    """The span of these words (offset, word), without the punctuation before the first and after the last."""
    first, last = WORD_CORE.search(words[0][1]), WORD_CORE.search(words[-1][1])
    if first is None or last is None:
        return None
    return words[0][0] + first.start(), words[-1][0] + last.end()


def _are_disjoint(one: CharSpan, other: CharSpan) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _edit_phrase(
    pair: Pair,
    spans: tuple[CharSpan, CharSpan],
    edits: tuple[list[Edit], list[Edit]],
    count: int,
    chance: random.Random,
) -> int:
    """Put placeholders instead of a phrase, around it or beside it; returns how many. Or put the target phrase into the
    source, as a glossary will."""
    kind = chance.choices(("instead", "around", "before", "after", "glossary"), (35, 25, 10, 10, 20))[0]
    one, other = format_placeholder(count), format_placeholder(count + 1)
    if kind == "glossary":
        edits[0].append((*spans[0], pair[1][slice(*spans[1])]))
        return 0
    for (start, end), own in zip(spans, edits):
        if kind == "instead":
            own.append((start, end, one))
        elif kind == "around":
            own += [(start, start, one), (end, end, other)]
        else:
            own.append((start, start, f"{one} ") if kind == "before" else (end, end, f" {one}"))
    return 2 if kind == "around" else 1


def _edit_edges(pair: Pair, edits: tuple[list[Edit], list[Edit]], count: int, chance: random.Random) -> None:
    """Put placeholders at the beginning, at the end, or around the whole sentence."""
    kind = chance.choices(("begin", "end", "around"), (4, 4, 2))[0]
    space = chance.choice(("", " ")) if kind == "around" else " "
    inside = chance.random() < 0.5  # before the full stop
    for side, own in zip(pair, edits):
        stop = FINAL_PUNCTUATION.search(side)
        assert stop is not None
        end = stop.start() if inside else len(side)
        if kind != "end":
            own.append((0, 0, f"{format_placeholder(count)}{space}"))
        if kind != "begin":
            own.insert(0, (end, end, f"{space}{format_placeholder(count + 1)}"))


def _apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """From the last to the first, so that offsets stay valid; of two at one offset, the later one comes first."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _renumber(sides: Sequence[str]) -> Pair:
    """Number placeholders in their order in the source, ⟦0⟧, ⟦1⟧ …, with spaces between them and words."""
    numbers = {found[1]: n for n, found in enumerate(PLACEHOLDER.finditer(sides[0]))}
    source, target = (PLACEHOLDER.sub(lambda found: format_placeholder(numbers[found[1]]), side) for side in sides)
    return space_placeholders(source), space_placeholders(target)


def add_placeholders(corpora: Sequence[ParallelCorpus], share: float) -> list[ParallelCorpus]:
    """The corpora with placeholders in a share of their pairs, from the cache if they are there. Corpora that already
    have as many are returned as they are."""
    if sum(corpus.counts.with_placeholders for corpus in corpora) >= share * sum(
        corpus.counts.nonempty for corpus in corpora
    ):
        return list(corpora)
    aligners: dict[tuple[str, str], Aligner] = {}

    def build(folder: Path, corpus: ParallelCorpus, alike: Sequence[ParallelCorpus]) -> None:
        direction = language_pair(corpus)
        if direction not in aligners:
            aligners[direction] = train_aligner(sample_pairs(alike))
        with (folder / "pairs.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for source, target in insert_into_share(corpus.read(), aligners[direction], share):
                file.write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")

    found = []
    for corpus in corpora:
        alike = [other for other in corpora if language_pair(other) == language_pair(corpus)]
        identity = fingerprint([RULES_VERSION, str(share), corpus.identity, *(other.identity for other in alike)])
        path = load_or_build(
            "placeholders",
            identity,
            lambda folder, c=corpus, a=alike: build(folder, c, a),  # type: ignore[misc]
            lambda folder: folder / "pairs.jsonl",
        )
        files = ParallelFiles(str(path), "", columns=("source", "target"))
        found.append(replace(corpus, origin=FilePairs(files), identity=identity))
    return found


def insert_into_share(pairs: Iterator[Pair], aligner: Aligner, share: float) -> Iterator[Pair]:
    """All pairs, a share of them with placeholders. Which, and how, depends on each pair alone."""
    while group := list(islice(pairs, PAIRS_PER_GROUP)):
        seeds = [zlib.crc32("\t".join(pair).encode()) for pair in group]
        rows = [row for row, seed in enumerate(seeds) if seed < share * 2**32]
        for row, links in zip(rows, aligner.align([group[row] for row in rows])):
            group[row] = insert_placeholders(group[row], links.tolist(), random.Random(seeds[row]))
        yield from group
