"""Word alignments of training corpora for guided alignment: computed once by a statistical aligner, then cached."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from headway.data.corpora import ParallelCorpus
from headway.data.parallel_files import Pair
from headway.data.ragged import RaggedArray, RaggedWriter, open_ragged
from headway.files.cache import fingerprint, load_or_build
from headway.text.align.aligner import MAX_PAIRS, Aligner, train_aligner

ALIGNER_VERSION = "aligner 1"  # part of the cache key: change it with the aligner
PAIRS_PER_GROUP = 4096  # aligned together


def align_corpora(corpora: Sequence[ParallelCorpus]) -> list[RaggedArray]:
    """For each corpus, one row per pair: source word, target word, source word, target word and so on.

    Corpora of the same two languages share an aligner."""
    aligners: dict[tuple[str, str], Aligner] = {}

    def build(folder: Path, corpus: ParallelCorpus, alike: Sequence[ParallelCorpus]) -> None:
        direction = language_pair(corpus)
        if direction not in aligners:
            aligners[direction] = train_aligner(sample_pairs(alike))
        write_links(folder, aligners[direction], corpus.read())

    found = []
    for corpus in corpora:
        alike = [other for other in corpora if language_pair(other) == language_pair(corpus)]
        key = fingerprint([ALIGNER_VERSION, corpus.identity, *(other.identity for other in alike)])
        found.append(
            load_or_build(
                "links",
                key,
                lambda folder, c=corpus, a=alike: build(folder, c, a),  # type: ignore[misc]
                lambda folder: open_ragged(folder, "links"),
            )
        )
    return found


def language_pair(corpus: ParallelCorpus) -> tuple[str, str]:
    return corpus.source_language, corpus.target_language


def sample_pairs(corpora: Sequence[ParallelCorpus]) -> Iterator[Pair]:
    """As many pairs as an aligner is trained on, evenly spread over the corpora."""
    total = sum(corpus.counts.lines for corpus in corpora)
    step = max(-(-total // MAX_PAIRS), 1)
    return islice(chain.from_iterable(corpus.read() for corpus in corpora), 0, None, step)


def write_links(folder: Path, aligner: Aligner, pairs: Iterator[Pair]) -> None:
    with RaggedWriter(folder, "links", 2**16 - 1) as writer:
        while group := list(islice(pairs, PAIRS_PER_GROUP)):
            links = aligner.align(group)
            ends = np.cumsum([own.size for own in links], dtype=np.int64)
            writer.append(RaggedArray(np.concatenate(links).ravel(), ends))
