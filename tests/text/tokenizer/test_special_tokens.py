"""Special tokens of a tokenizer, for training and for decoding."""

from dataclasses import replace

import numpy as np

from headway.text.tokenizer.special_tokens import SpecialTokens, special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer


def test_they_are_those_of_the_tokenizer() -> None:
    tokenizer = Tokenizer.train(["a line of text"], "bytes", tags=["de"])
    special = special_tokens(tokenizer)
    assert (special.pad, special.start, special.end, special.mask) == (0, 1, 2, 3)
    assert special.vocabulary == tokenizer.size
    assert special.suppress == tuple(sorted(tokenizer.control_ids - {2}))
    assert {0, 1, 3, tokenizer.tags["de"]} <= set(special.suppress)
    assert 2 not in special.suppress


def test_word_roles_are_not_compared() -> None:
    special = SpecialTokens(start=1, end=2)
    assert replace(special, source_roles=np.zeros(9), target_roles=np.ones(9)) == special
    assert hash(replace(special, source_roles=np.zeros(9))) == hash(special)
    assert special != SpecialTokens(start=1, end=3)
