"""Which tokens are predicted together: whole words (BERT's whole-word masking), spans of words (SpanBERT).

A token that continues a word belongs to the same unit as the one before it. B rows, T tokens."""

import numpy as np

from headway.text.align.words import CONTINUES_WORD

Spans = tuple[float, int]  # p of the geometric distribution of the lengths, and the greatest length, in words


def number_units(ids: np.ndarray, text: np.ndarray, roles: np.ndarray) -> np.ndarray:
    """(B, T) the index, in its row, of the word that each token belongs to; -1 where `text` is false."""
    before = np.concatenate([np.zeros_like(text[:, :1]), text[:, :-1]], axis=1)
    starts = text & ~((roles[ids] == CONTINUES_WORD) & before)
    return np.where(text, np.cumsum(starts, axis=1) - 1, -1)


def choose_words(
    ids: np.ndarray, text: np.ndarray, roles: np.ndarray, share: float, random: np.random.Generator
) -> np.ndarray:
    """(B, T) true on all tokens of words that are drawn with this probability; at least one word of each row."""
    units = number_units(ids, text, roles)
    draws = random.random((len(ids), int(units.max(initial=0)) + 1))
    chosen = text & (np.take_along_axis(draws, np.maximum(units, 0), axis=1) < share)
    for row in np.flatnonzero(~chosen.any(axis=1) & text.any(axis=1)):
        chosen[row] = units[row] == random.integers(units[row].max() + 1)
    return chosen


def choose_spans(
    ids: np.ndarray, text: np.ndarray, roles: np.ndarray, share: float, spans: Spans, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) true on spans of whole words, as many as make up this share of the tokens (the last may be cut); and one
    random number for each span, on all of its tokens."""
    units = number_units(ids, text, roles)
    chosen, dice = np.zeros(ids.shape, bool), np.zeros(ids.shape)
    stop, longest = spans
    shares = stop * (1 - stop) ** np.arange(longest)
    shares /= shares.sum()
    for row in range(len(ids)):
        words = int(units[row].max(initial=-1)) + 1
        left = max(1, round(share * int(text[row].sum()))) if words else 0
        while left > 0:
            length = 1 + int(random.choice(longest, p=shares))
            start = int(random.integers(words))
            span = np.flatnonzero((units[row] >= start) & (units[row] < start + length) & ~chosen[row])[:left]
            chosen[row, span] = True
            dice[row, span] = random.random()
            left -= len(span)
    return chosen, dice
