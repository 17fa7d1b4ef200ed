"""Words: what stands between spaces. Which of them a token belongs to can be told from what it spells alone."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headway.errors import ConfigError
from headway.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np

NO_TEXT, BLANK, GOES_ON, BEGINS = range(4)  # what a token does: a control token, spaces only, part of a word, a new one
SPACES = " \t\n\r\f\v"  # no others: a no-break space joins words
WORD = re.compile(f"[^{SPACES}]+")
UNIT = re.compile(r"[^\W_]+")  # letters and digits


def words(text: str) -> list[str]:
    """The words of a text, counted from 0 in alignments. Punctuation belongs to the word it touches."""
    return WORD.findall(text)


def words_before(text: str) -> int:
    """The number of the word that begins, or goes on, where this text ends."""
    return len(words(text)) - (text[-1:] not in SPACES)


def moses(links: Iterable[Sequence[int]]) -> str:
    """Links of words as Moses and its kin write them: i-j i-j."""
    return " ".join(f"{i}-{j}" for i, j in links)


def units(text: str) -> tuple[list[str], list[int]]:
    """What an aligner counts: words in small letters, cut at signs ("twenty-one" is two), and the word of each."""
    spelled, numbers = [], []
    for number, word in enumerate(words(text)):
        parts = UNIT.findall(word.lower()) or [word]
        spelled += parts
        numbers += [number] * len(parts)
    return spelled, numbers


def word_roles(tokenizer: Tokenizer) -> "np.ndarray":
    """(V,) What each entry of a vocabulary does."""
    import numpy as np

    if tokenizer.kind == "wordpiece":
        raise ConfigError(
            'alignments join words between spaces, and "wordpiece" forgets spaces. Use "bpe" or "unigram".', "tokenizer"
        )
    roles = [
        BLANK if not piece.strip(SPACES) else BEGINS if piece[0] in SPACES else GOES_ON
        for piece in tokenizer.pieces(range(tokenizer.size))
    ]
    roles_of = np.array(roles, dtype=np.uint8)
    roles_of[list(tokenizer.controls)] = NO_TEXT
    return roles_of


def word_numbers(ids: "Sequence[int] | np.ndarray", roles: "np.ndarray") -> "np.ndarray":
    """The word that each token belongs to, counted from 0; -1 for control tokens and spaces by themselves.

    Rows of ids may be padded."""
    import numpy as np

    role = roles[np.asarray(ids, dtype=np.int64)]
    before = np.concatenate([np.full_like(role[..., :1], BLANK), role[..., :-1]], axis=-1)
    begins = (role == BEGINS) | ((role == GOES_ON) & (before == BLANK))
    return np.where(role >= GOES_ON, np.cumsum(begins, axis=-1) - 1, -1)
