"""Links of a corpus: worked out once, kept, and found again."""

from pathlib import Path

import numpy as np
import pytest

from headway.data.corpora import ParallelCorpus, parallel_from_memory
from headway.data.toy import toy_corpus
from headway.text.align.aligner import train_aligner
from headway.train import alignment_links
from headway.train.alignment_links import align_corpora, sample_pairs

PAIRS = [(pair.source, pair.target) for pair in toy_corpus(120)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))


def corpus(pairs: list[tuple[str, str]], to: str = "qtx") -> ParallelCorpus:
    return parallel_from_memory([a for a, _ in pairs], [b for _, b in pairs], "en", to)


def test_each_pair_has_the_links_of_the_aligner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment_links, "PAIRS_PER_GROUP", 50)
    pairs = [*PAIRS, ("", "nothing"), PAIRS[0]]
    (rows,) = align_corpora([corpus(pairs)])
    expected = train_aligner(pairs).align(pairs)
    assert len(rows) == len(pairs) == 122
    for row, own in enumerate(expected):
        assert np.array_equal(rows[row].reshape(-1, 2), own)
    assert len(rows[120]) == 0


def test_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = align_corpora([corpus(PAIRS)])
    monkeypatch.setattr(alignment_links, "train_aligner", lambda pairs: pytest.fail("learned again"))
    again = align_corpora([corpus(PAIRS)])
    assert np.array_equal(first[0].flat, again[0].flat)


def test_corpora_of_the_same_languages_are_learned_from_together(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[int] = []

    def learn(pairs: object) -> object:
        known = list(pairs)  # type: ignore[call-overload]
        learned.append(len(known))
        return train_aligner(known)

    monkeypatch.setattr(alignment_links, "train_aligner", learn)
    corpora = [corpus(PAIRS[:40]), corpus(PAIRS[40:]), corpus(PAIRS[:30], to="other")]
    assert [len(rows) for rows in align_corpora(corpora)] == [40, 80, 30]
    assert learned == [120, 30]


def test_a_large_text_is_sampled_from_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment_links, "MAX_PAIRS", 50)
    taken = list(sample_pairs([corpus(PAIRS)]))
    assert taken == PAIRS[::3]
