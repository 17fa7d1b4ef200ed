"""The forward-backward algorithm against the sum over all walks."""

import itertools

import numpy as np

from headway.text.align.hmm import MAX_JUMP, NULL_PROBABILITY, UNIFORM_JUMP_SHARE, compute_posteriors, uniform_jumps


def by_enumeration(said: np.ndarray, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One sentence (T, 1 + S): every walk, with its probability."""
    length, places = said.shape[0], said.shape[1] - 1
    found, made = np.zeros_like(said), np.zeros(2 * MAX_JUMP + 1)
    total = 0.0
    for walk in itertools.product(range(places), repeat=length):
        for silent in itertools.product([False, True], repeat=length):
            chance, leaps = 1.0, []
            for t, (place, nobody) in enumerate(zip(walk, silent)):
                here = walk[t - 1] if t else None
                if nobody:  # stays where it was; at the start it may be anywhere
                    chance *= NULL_PROBABILITY * said[t, 0] * (1 / places if here is None else float(place == here))
                    continue
                chance *= (1 - NULL_PROBABILITY) * said[t, 1 + place]
                if here is None:
                    chance *= 1 / places
                    continue
                leap = min(max(place - here, -MAX_JUMP), MAX_JUMP) + MAX_JUMP
                row = [jumps[min(max(to - here, -MAX_JUMP), MAX_JUMP) + MAX_JUMP] for to in range(places)]
                chance *= (1 - UNIFORM_JUMP_SHARE) * jumps[leap] / sum(row) + UNIFORM_JUMP_SHARE / places
                leaps.append(leap)
            total += chance
            for t, (place, nobody) in enumerate(zip(walk, silent)):
                found[t, 0 if nobody else 1 + place] += chance
            for leap in leaps:
                made[leap] += chance
    return found / total, made / total


def test_it_sums_over_all_walks() -> None:
    random = np.random.default_rng(0)
    jumps = random.random(2 * MAX_JUMP + 1)
    for length, places in ((1, 1), (1, 3), (3, 1), (4, 3)):
        said = random.random((2, length, 1 + places))
        said[..., 0] *= 100  # so that nobody counts
        found, made = compute_posteriors(said, jumps)
        expected = [by_enumeration(one, jumps) for one in said]
        np.testing.assert_allclose(found, [one for one, _ in expected], rtol=1e-9)
        np.testing.assert_allclose(made, sum(leaps for _, leaps in expected), rtol=1e-9, atol=1e-12)


def test_long_texts_do_not_underflow() -> None:
    said = np.full((1, 400, 401), 1e-9)
    said[0, np.arange(400), 1 + np.arange(400)] = 1e-3
    found, made = compute_posteriors(said, uniform_jumps())
    assert (found[0].argmax(1) == 1 + np.arange(400)).all()
    np.testing.assert_allclose(found.sum(2), 1)
    assert made.argmax() == MAX_JUMP + 1  # one place on, each time


def test_a_word_that_nothing_explains_is_left_to_the_walk() -> None:
    found, _ = compute_posteriors(np.zeros((1, 2, 4)), uniform_jumps())
    assert np.isfinite(found).all()
