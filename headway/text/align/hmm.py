"""Which source word each target word came from, if words are drawn one after the other by a walk over the source."""

import numpy as np

NOBODY = 0.002  # how often a word is said by no word of the other side
ANYWHERE = 0.6  # how often the next word's origin has nothing to do with that of the word before
FARTHEST = 12  # jumps beyond this count as this


def jumps_between(places: int) -> np.ndarray:
    """(from, to) -> index into the table of jumps."""
    steps = np.arange(places)[None, :] - np.arange(places)[:, None]
    table: np.ndarray = np.clip(steps, -FARTHEST, FARTHEST) + FARTHEST
    return table


def even_jumps() -> np.ndarray:
    return np.ones(2 * FARTHEST + 1)


def posterior(said: np.ndarray, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How likely each target word came from each source word, and how often each jump was made.

    said (N, T, 1 + S): the probability of target word t if source word s says it; s = 0 is nobody. Target word t comes
    from nobody with probability NOBODY; else from a place that depends on the last one by `jumps`, or, in ANYWHERE of
    all cases, on nothing. The forward-backward algorithm, each step scaled so that nothing underflows.
    """
    count, length, places = said.shape[0], said.shape[1], said.shape[2] - 1
    table = jumps_between(places)
    step = jumps[table]
    step = (1 - ANYWHERE) * step / step.sum(1, keepdims=True) + ANYWHERE / places  # (from, to)
    by_word = (1 - NOBODY) * np.maximum(said[:, :, 1:], 1e-12)  # (N, T, S)
    by_nobody = NOBODY * np.maximum(said[:, :, :1], 1e-12)  # (N, T, 1)

    # A word that nobody said leaves the walk where it was: `here` sums over whether the last word was such a one.
    word, nobody = np.zeros((2, count, length, places))
    here = np.full((count, places), 1 / places)
    for t in range(length):
        word[:, t] = (here @ step if t else here) * by_word[:, t]
        nobody[:, t] = here * by_nobody[:, t]
        total = (word[:, t] + nobody[:, t]).sum(1, keepdims=True)
        word[:, t] /= total
        nobody[:, t] /= total
        here = word[:, t] + nobody[:, t]

    made = np.zeros((places, places))
    rest = np.ones((count, places))  # what follows, given the place
    for t in range(length - 1, 0, -1):
        word[:, t] *= rest
        nobody[:, t] *= rest
        ahead = rest * by_word[:, t]
        before = word[:, t - 1] + nobody[:, t - 1]
        rest = ahead @ step.T + rest * by_nobody[:, t]
        made += ((before / (before * rest).sum(1, keepdims=True)).T @ ahead) * step
        rest /= rest.sum(1, keepdims=True)
    word[:, 0] *= rest
    nobody[:, 0] *= rest

    found = np.concatenate([nobody.sum(2, keepdims=True), word], axis=2)
    found /= found.sum(2, keepdims=True)
    return found, np.bincount(table.ravel(), made.ravel(), minlength=2 * FARTHEST + 1)
