"""The statistical aligner: right on text whose links are known, and unmoved by anything that it may be given."""

import numpy as np
import pytest

from headway.data.toy import toy_corpus
from headway.text.align import aligner as align
from headway.text.align.aligner import Aligner, digamma, grow_diag_final_and, select_most_likely, train_aligner

CORPUS = toy_corpus(3300)
HELD, SEEN = CORPUS[:300], [(pair.source, pair.target) for pair in CORPUS[300:]]


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    return train_aligner(SEEN)


def error_rate(found: list[np.ndarray], gold: list[tuple[tuple[int, int], ...]]) -> float:
    right = sum(len({tuple(link) for link in links.tolist()} & set(true)) for links, true in zip(found, gold))
    return 1 - 2 * right / (sum(map(len, found)) + sum(map(len, gold)))


def test_it_aligns_text_that_it_has_not_seen(aligner: Aligner) -> None:
    """3,000 pairs are learned from; with 8,000 the error is lower still."""
    links = aligner.align([(pair.source, pair.target) for pair in HELD])
    assert error_rate(links, [pair.alignment for pair in HELD]) < 0.06
    assert all(own.dtype == np.uint16 and own.shape[1:] == (2,) for own in links)
    assert all((np.lexsort((own[:, 1], own[:, 0])) == np.arange(len(own))).all() for own in links)


def test_the_same_text_gives_the_same_links(aligner: Aligner) -> None:
    again = train_aligner(iter(SEEN))
    pairs = SEEN[:50]
    alone = [aligner.align([pair])[0] for pair in pairs]
    for one, other, by_itself in zip(aligner.align(pairs), again.align(pairs), alone):
        assert (one == other).all() and (one == by_itself).all()


def test_what_cannot_be_aligned_has_no_links(aligner: Aligner) -> None:
    pairs = [("", "Kavu dorma."), ("The dog sleeps.", "  "), ("", ""), ("dog " * 1001, "kavu"), SEEN[0]]
    links = aligner.align(pairs)
    assert [len(own) for own in links[:4]] == [0, 0, 0, 0]
    assert len(links[4])
    assert aligner.align([]) == []


def test_unknown_words_stand_where_the_others_leave_room(aligner: Aligner) -> None:
    (links,) = aligner.align([("Xyzzy sees the old house.", "Plugh to dome vetom vida.")])
    assert [0, 0] in links.tolist()


def test_signs_by_themselves_are_words(aligner: Aligner) -> None:
    (links,) = aligner.align([("The dog — sleeps .", "Ta kavu — dorma .")])
    assert {(0, 0), (1, 1), (3, 3)} <= {tuple(link) for link in links.tolist()}


def test_an_aligner_that_learned_nothing_still_answers() -> None:
    for pairs in ([], [("", "")], [("a " * 101, "b")]):
        (links,) = train_aligner(pairs).align([("a b", "c d")])
        assert links.max(initial=0) < 2


def test_it_learns_from_so_many_pairs_and_cells_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def pairs(count: int):  # type: ignore[no-untyped-def]
        for pair in SEEN[:count]:
            taken.append(pair)
            yield pair

    train_aligner(pairs(200), max_pairs=20)
    assert len(taken) == 20
    taken.clear()
    monkeypatch.setattr(align, "MAX_CELLS", 500)
    train_aligner(pairs(200))
    assert 3 < len(taken) < 30


def test_small_portions_count_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_aligner(SEEN[:200])
    monkeypatch.setattr(align, "CELLS_PER_COUNT", 1000)
    monkeypatch.setattr(align, "CELLS_PER_GROUP", 300)
    parts = train_aligner(SEEN[:200])
    assert (whole.codes == parts.codes).all()
    np.testing.assert_allclose(whole.forward, parts.forward, atol=1e-12)
    np.testing.assert_allclose(whole.jumps, parts.jumps, atol=1e-9)


def test_digamma() -> None:
    """ψ(1) = -γ, ψ(½) = -γ - 2 ln 2, and ψ(x + 1) = ψ(x) + 1/x."""
    gamma = 0.5772156649015329
    np.testing.assert_allclose(digamma(np.array([1.0, 0.5])), [-gamma, -gamma - 2 * np.log(2)], rtol=1e-8)
    x = np.array([0.01, 0.3, 7.0, 1e4])
    np.testing.assert_allclose(digamma(x + 1), digamma(x) + 1 / x, rtol=1e-7)


def test_the_likeliest_source_unless_it_is_nobody() -> None:
    found = select_most_likely(np.array([[[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]]))
    assert found.tolist() == [[[False, True], [False, False]]]


def square(text: str) -> np.ndarray:
    return np.array([[[sign == "x" for sign in row] for row in text.split()]])


@pytest.mark.parametrize(
    ("forward", "backward", "joined"),
    [
        ("x.. .x. ..x", "x.. .x. ..x", "x.. .x. ..x"),  # both agree
        ("x.. x.. ..x", "x.. .x. ..x", "x.. xx. ..x"),  # neighbours of a link, of words that had none
        ("x.. ..x ...", "... ... ..x", "x.. ..x ..."),  # beside no link: only what joins two words without one
        ("x.. ... x..", "x.. ... ...", "x.. ... ..."),  # one word of it has a link already, and it is not beside one
        ("... ... ...", "... ... ...", "... ... ..."),
    ],
)
def test_growing_from_what_both_say(forward: str, backward: str, joined: str) -> None:
    assert (grow_diag_final_and(square(forward), square(backward)) == square(joined)).all()
