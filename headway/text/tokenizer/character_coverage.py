"""Entries for the characters of scripts without spaces, which byte-level BPE learns only where they are frequent.

A Chinese text has thousands of characters of three bytes each. BPE spends its last merges on frequent words, and a
character that it did not reach is three tokens, one for each byte. So the last entries of a vocabulary are exchanged
for the characters that are missing, as far as they occur often enough to be learned.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from headway.text.tokenizer.vocabulary import byte_alphabet, is_control_token
from headway.text.unspaced import is_unspaced

Json = dict[str, Any]

MAX_CHARACTER_SHARE = 0.25  # of the vocabulary
MIN_OCCURRENCES = 3
COVERAGE = 0.9998  # of all characters of such scripts


def count_unspaced(lines: Iterable[str]) -> Counter[str]:
    """How often each character of scripts without spaces occurs."""
    counts: Counter[str] = Counter()
    for line in lines:
        if not line.isascii():
            counts.update(line)
    return Counter({character: count for character, count in counts.items() if is_unspaced(character)})


def choose_characters(counts: Counter[str], size: int) -> list[str]:
    """The most frequent ones that deserve an entry in a vocabulary of this size."""
    wanted: list[str] = []
    left = sum(counts.values()) * (1 - COVERAGE)
    rare = sum(counts.values())
    for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if rare <= left or count < MIN_OCCURRENCES or len(wanted) >= MAX_CHARACTER_SHARE * size:
            break
        wanted.append(character)
        rare -= count
    return wanted


def cover_characters(data: Json, characters: list[str]) -> Json:
    """The BPE model with an entry for each of these characters, and with as many entries as before."""
    if not characters:
        return data
    vocabulary: dict[str, int] = data["model"]["vocab"]
    merges = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in data["model"]["merges"]]
    letter_of = {byte: letter for letter, byte in byte_alphabet().items()}
    spellings = ["".join(letter_of[byte] for byte in character.encode()) for character in characters]
    kept, added = _exchange(merges, spellings)
    learned = {left + right for left, right in merges}
    names = [name for name in vocabulary if is_control_token(name) or name not in learned]
    entries = [*names, *dict.fromkeys(left + right for left, right in [*kept, *added])]
    data["model"]["vocab"] = {name: number for number, name in enumerate(entries)}
    data["model"]["merges"] = [list(merge) for merge in [*kept, *added]]
    return data


Merge = tuple[str, ...]


def _exchange(merges: list[Merge], spellings: list[str]) -> tuple[list[Merge], list[Merge]]:
    """How many of the merges are kept, and which ones follow, so that their number stays. Dropping merges may drop
    characters that they made, so the number to drop is found by trying."""
    drop = 0
    while True:
        kept = merges[: len(merges) - drop]
        added = _join_characters(kept, spellings)
        if len(added) <= drop:
            return kept, added
        if len(added) > len(merges):
            return merges, []  # a vocabulary of hardly more than the bytes
        drop = len(added)


def _join_characters(merges: list[Merge], spellings: list[str]) -> list[Merge]:
    """Further merges, by which each of these characters becomes one entry."""
    known = {left + right for left, right in merges}
    rank = {merge: number for number, merge in enumerate(merges)}
    added: dict[Merge, None] = {}
    for spelling in spellings:
        if spelling in known or len(spelling) == 1:
            continue
        parts = list(spelling)
        while len(parts) > 1:
            pairs = [(rank.get((left, right), len(rank)), n) for n, (left, right) in enumerate(pairwise(parts))]
            _, first = min(pairs)
            merge = (parts[first], parts[first + 1])
            if merge not in rank:
                added[merge] = None
                rank[merge] = len(rank)
                known.add("".join(merge))
            parts[first : first + 2] = ["".join(merge)]
    return list(added)
