"""Which words of a corpus are linked: worked out once by a statistical aligner, and kept beside its tokens."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from headway.data.corpora import Parallel
from headway.data.parallel_files import Pair
from headway.data.ragged import Rows, RowsWriter, open_rows
from headway.files.cache import cached, fingerprint
from headway.text.align.aligner import PAIRS_AT_MOST, Aligner, learn_aligner

VERSION = "aligner 1"  # another aligner finds other links: what is kept must not outlive it
GROUP = 4096  # pairs aligned together


def links_of(corpora: Sequence[Parallel]) -> list[Rows]:
    """Of each corpus one row a pair: source word, target word, source word, target word and so on.

    Corpora of the same two languages are learned from together."""
    learned: dict[tuple[str, str], Aligner] = {}

    def build(folder: Path, corpus: Parallel, alike: Sequence[Parallel]) -> None:
        direction = languages_of(corpus)
        if direction not in learned:
            learned[direction] = learn_aligner(sampled(alike))
        write_links(folder, learned[direction], corpus.read())

    found = []
    for corpus in corpora:
        alike = [other for other in corpora if languages_of(other) == languages_of(corpus)]
        key = fingerprint([VERSION, corpus.identity, *(other.identity for other in alike)])
        found.append(
            cached(
                "links",
                key,
                lambda folder, c=corpus, a=alike: build(folder, c, a),  # type: ignore[misc]
                lambda folder: open_rows(folder, "links"),
            )
        )
    return found


def languages_of(corpus: Parallel) -> tuple[str, str]:
    return corpus.source_language, corpus.target_language


def sampled(corpora: Sequence[Parallel]) -> Iterator[Pair]:
    """As many pairs as an aligner learns from, from all parts of the text."""
    total = sum(corpus.counts.lines for corpus in corpora)
    step = max(-(-total // PAIRS_AT_MOST), 1)
    return islice(chain.from_iterable(corpus.read() for corpus in corpora), 0, None, step)


def write_links(folder: Path, aligner: Aligner, pairs: Iterator[Pair]) -> None:
    with RowsWriter(folder, "links", 2**16 - 1) as writer:
        while group := list(islice(pairs, GROUP)):
            links = aligner.align(group)
            ends = np.cumsum([own.size for own in links], dtype=np.int64)
            writer.append(Rows(np.concatenate(links).ravel(), ends))
