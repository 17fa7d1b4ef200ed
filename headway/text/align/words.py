"""Words, as alignments count them (between spaces), and which word each token belongs to.

Whether a token starts or continues a word follows from its own text alone.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from headway.errors import ConfigError
from headway.text.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np

# The role of a token: a control token, spaces only, part of the word before it, or the start of a new one.
CONTROL, BLANK, CONTINUES_WORD, STARTS_WORD = range(4)
SPACES = " \t\n\r\f\v"  # no others: a no-break space joins words
WORD = re.compile(f"[^{SPACES}]+")
UNIT = re.compile(r"[^\W_]+")  # letters and digits


def split_words(text: str) -> list[str]:
    """The words of a text, counted from 0 in alignments. Punctuation belongs to the word it touches."""
    return WORD.findall(text)


def current_word_index(text: str) -> int:
    """The index of the word that continues, or would begin, where this text ends."""
    return len(split_words(text)) - (text[-1:] not in SPACES)


def format_moses_links(links: Iterable[Sequence[int]]) -> str:
    """Word links in Moses format (Pharaoh): i-j i-j."""
    return " ".join(f"{i}-{j}" for i, j in links)


def split_units(text: str) -> tuple[list[str], list[int]]:
    """The units that an aligner counts, and the word index of each: lowercased words, split at punctuation
    ("twenty-one" is two)."""
    units: list[str] = []
    indices: list[int] = []
    for index, word in enumerate(split_words(text)):
        parts = UNIT.findall(word.lower()) or [word]
        units += parts
        indices += [index] * len(parts)
    return units, indices


def token_roles(tokenizer: Tokenizer) -> "np.ndarray":
    """(V,) uint8: the role of each vocabulary entry."""
    import numpy as np

    if tokenizer.kind == "wordpiece":
        raise ConfigError(
            'alignments count words between spaces, and "wordpiece" loses spaces. Use "bpe" or "unigram".', "tokenizer"
        )
    roles = np.array(
        [
            BLANK if not piece.strip(SPACES) else STARTS_WORD if piece[0] in SPACES else CONTINUES_WORD
            for piece in tokenizer.pieces(range(tokenizer.size))
        ],
        dtype=np.uint8,
    )
    roles[list(tokenizer.control_ids)] = CONTROL
    return roles


def subword_roles(tokenizer: Tokenizer) -> "np.ndarray":
    """The same for any tokenizer, with words as it sees them: WordPiece's end at punctuation. For masking, which needs
    no words between spaces."""
    import numpy as np

    if tokenizer.kind != "wordpiece":
        return token_roles(tokenizer)
    continues = np.array([tokenizer.spelling(n).startswith("##") for n in range(tokenizer.size)])
    roles = np.where(continues, CONTINUES_WORD, STARTS_WORD).astype(np.uint8)
    roles[list(tokenizer.control_ids)] = CONTROL
    return roles


def word_indices(ids: "Sequence[int] | np.ndarray", roles: "np.ndarray") -> "np.ndarray":
    """The index of the word that each token belongs to; -1 for control tokens and spaces. Rows of ids may be padded."""
    import numpy as np

    role = roles[np.asarray(ids, dtype=np.int64)]
    before = np.concatenate([np.full_like(role[..., :1], BLANK), role[..., :-1]], axis=-1)
    starts = (role == STARTS_WORD) | ((role == CONTINUES_WORD) & (before == BLANK))
    return np.where(role >= CONTINUES_WORD, np.cumsum(starts, axis=-1) - 1, -1)
