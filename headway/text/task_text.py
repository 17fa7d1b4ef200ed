"""Texts, pairs of texts and words as the ids that an encoder reads, cut to what it can read."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.text.lm_text import encode_after_line_end, frame_text, line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.tokenizer import Tokenizer

MAX_CHARACTERS_PER_TOKEN = 64  # more of a long text is not tokenized: it would be cut off
TEXTS_PER_CALL = 4096


class EncodedPair(NamedTuple):
    ids: list[int]
    second: int  # where the second text begins


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int) -> list[list[int]]:
    """The ids of each text, framed, and cut to max_tokens."""
    room = max_tokens - len(frame_text([], tokenizer))
    cut = [text[: max_tokens * MAX_CHARACTERS_PER_TOKEN] for text in texts]
    if tokenizer.kind != "imported":  # whose first word must be encoded as one that follows a line end
        return [frame_text(encode_after_line_end(text, tokenizer)[:room], tokenizer) for text in cut]
    rows: list[list[int]] = []
    for start in range(0, len(cut), TEXTS_PER_CALL):
        rows += tokenizer.encode_batch(cut[start : start + TEXTS_PER_CALL])
    return [frame_text(row[:room], tokenizer) for row in rows]


def encode_pair(first: str, other: str, tokenizer: Tokenizer, max_tokens: int) -> EncodedPair:
    """Two texts in one row, as BERT reads them. Where they are too long, the longer one is cut."""
    characters = max_tokens * MAX_CHARACTERS_PER_TOKEN
    sides = [encode_after_line_end(text[:characters], tokenizer) for text in (first, other)]
    before, between, after = pair_frame(tokenizer)
    room = max(max_tokens - len(before) - len(between) - len(after), 2)
    lengths = cut_lengths(len(sides[0]), len(sides[1]), room)
    left, right = (side[:length] for side, length in zip(sides, lengths))
    return EncodedPair([*before, *left, *between, *right, *after], len(before) + len(left) + len(between))


def cut_lengths(first: int, other: int, room: int) -> tuple[int, int]:
    """How much is kept of two texts: all, or of the longer one as much less as it takes."""
    if first + other <= room:
        return first, other
    shorter = min(first, other, room // 2)
    return (shorter, room - shorter) if first <= other else (room - shorter, shorter)


def pair_frame(tokenizer: Tokenizer) -> tuple[list[int], list[int], list[int]]:
    """The ids before, between and after two texts: a line end before each; of another toolkit, [CLS] a [SEP] b [SEP],
    or with two separators between, as RoBERTa has them."""
    if not isinstance(tokenizer, ImportedTokenizer):
        return [line_end_id(tokenizer)], [line_end_id(tokenizer)], []
    return [tokenizer.start], [tokenizer.end] * tokenizer.pair_separators, [tokenizer.end]


def encode_words(words: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of each word, as it is spelled in a text after a space. A word that has none becomes one padding id, so
    that it has a place."""
    if not words:
        return []
    first = encode_after_line_end(words[0], tokenizer)
    spaced = [f" {word}" for word in words[1:]] if tokenizer.kind == "imported" else list(words[1:])
    rest = tokenizer.encode_batch(spaced) if spaced else []
    blank = tokenizer.unknown if tokenizer.unknown >= 0 else tokenizer.pad
    return [row or [blank] for row in (first, *rest)]


class WordWindow(NamedTuple):
    """Words that are read together."""

    start: int  # number of its first word
    ids: list[int]  # framed
    first_tokens: list[int]  # index in ids of the first token of each word


def make_windows(pieces: Sequence[Sequence[int]], tokenizer: Tokenizer, max_tokens: int) -> list[WordWindow]:
    """All words in windows of at most max_tokens, each of which begins in the last quarter of the one before; one
    window where all fit."""
    frame = frame_text([], tokenizer)
    before = 1  # both frames begin with one token
    room = max(max_tokens - len(frame), 1)
    windows: list[WordWindow] = []
    start = 0
    while start < len(pieces):
        ids: list[int] = []
        first_tokens: list[int] = []
        stop = start
        while stop < len(pieces) and (stop == start or len(ids) + len(pieces[stop]) <= room):
            first_tokens.append(before + len(ids))
            ids += pieces[stop][:room]
            stop += 1
        windows.append(WordWindow(start, frame_text(ids, tokenizer), first_tokens))
        if stop == len(pieces):
            break
        start = max(stop - (stop - start) // 4, start + 1)
    return windows


def choose_windows(windows: Sequence[WordWindow], words: int) -> list[tuple[int, int]]:
    """For each word the window that reads it farthest from its borders, and its number there."""
    best: list[tuple[int, int, int]] = [(-1, 0, 0)] * words
    for number, window in enumerate(windows):
        count = len(window.first_tokens)
        for index in range(count):
            word = window.start + index
            left = index if window.start else words  # the beginning of the text is no border
            right = count - 1 - index if window.start + count < words else words
            if min(left, right) > best[word][0]:
                best[word] = (min(left, right), number, index)
    return [(number, index) for _, number, index in best]
