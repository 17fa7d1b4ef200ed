"""The HMM alignment model (Vogel et al. 1996): posteriors of source words by the forward-backward algorithm."""

import numpy as np

NULL_PROBABILITY = 0.002  # that a word is aligned to NULL, no word of the other side
UNIFORM_JUMP_SHARE = 0.6  # how often the next word's origin does not depend on that of the word before
MAX_JUMP = 12  # longer jumps count as this


def jump_indices(size: int) -> np.ndarray:
    """(from, to) -> index into the table of jumps."""
    steps = np.arange(size)[None, :] - np.arange(size)[:, None]
    table: np.ndarray = np.clip(steps, -MAX_JUMP, MAX_JUMP) + MAX_JUMP
    return table


def uniform_jumps() -> np.ndarray:
    return np.ones(2 * MAX_JUMP + 1)


def compute_posteriors(emissions: np.ndarray, jumps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N, T, 1 + S) The probability that a target word is aligned to each source word, and how often each jump occurs.

    emissions (N, T, 1 + S): the probability of target word t given source word s; s = 0 is NULL. Target word t is
    aligned to NULL with probability NULL_PROBABILITY; else to a source position that depends on the last one by
    `jumps`, or, with probability UNIFORM_JUMP_SHARE, on nothing. Each step is scaled, so that nothing underflows.
    """
    count, length, size = emissions.shape[0], emissions.shape[1], emissions.shape[2] - 1
    indices = jump_indices(size)
    transition = jumps[indices]
    transition = (1 - UNIFORM_JUMP_SHARE) * transition / transition.sum(1, keepdims=True) + UNIFORM_JUMP_SHARE / size
    by_word = (1 - NULL_PROBABILITY) * np.maximum(emissions[:, :, 1:], 1e-12)  # (N, T, S)
    by_null = NULL_PROBABILITY * np.maximum(emissions[:, :, :1], 1e-12)  # (N, T, 1)

    # A word aligned to NULL leaves the source position as it was: `position` sums over whether the last word was one.
    word, null = np.zeros((2, count, length, size))
    position = np.full((count, size), 1 / size)
    for t in range(length):
        word[:, t] = (position @ transition if t else position) * by_word[:, t]
        null[:, t] = position * by_null[:, t]
        total = (word[:, t] + null[:, t]).sum(1, keepdims=True)
        word[:, t] /= total
        null[:, t] /= total
        position = word[:, t] + null[:, t]

    jump_counts = np.zeros((size, size))
    backward = np.ones((count, size))  # the probability of the following words, given the position
    for t in range(length - 1, 0, -1):
        word[:, t] *= backward
        null[:, t] *= backward
        ahead = backward * by_word[:, t]
        before = word[:, t - 1] + null[:, t - 1]
        backward = ahead @ transition.T + backward * by_null[:, t]
        jump_counts += ((before / (before * backward).sum(1, keepdims=True)).T @ ahead) * transition
        backward /= backward.sum(1, keepdims=True)
    word[:, 0] *= backward
    null[:, 0] *= backward

    posteriors = np.concatenate([null.sum(2, keepdims=True), word], axis=2)
    posteriors /= posteriors.sum(2, keepdims=True)
    return posteriors, np.bincount(indices.ravel(), jump_counts.ravel(), minlength=2 * MAX_JUMP + 1)
