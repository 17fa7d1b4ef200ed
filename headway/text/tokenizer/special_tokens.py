"""Special tokens: the ids with a meaning for training and decoding. Nothing here imports torch.

special_tokens(tokenizer)  ->  SpecialTokens  ->  decode (start, end, suppress), training batches (pad, mask …)
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from headway.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special ids of a vocabulary. Their defaults are the ids that every tokenizer of Headway gives them."""

    start: int  # the first id that a decoder reads (BOS)
    end: int  # the id that ends an output (EOS)
    pad: int = 0
    mask: int = 3  # stands for a hidden token in masked language modelling
    sentinels: tuple[int, ...] = ()  # each stands for a missing span in span corruption
    suppress: tuple[int, ...] = ()  # ids that a search never produces
    vocabulary: int = 0  # how many ids there are; 0: not needed
    target_lead: int = 0  # ids that every output begins with, which count in its length; see direction_tokens
    # The role of each id in a word (see headway.text.align.words.token_roles), for guided alignment and for masking.
    source_roles: "np.ndarray | None" = field(default=None, compare=False)
    target_roles: "np.ndarray | None" = field(default=None, compare=False)


def special_tokens(tokenizer: "Tokenizer", *, writes_sentinels: bool = False) -> SpecialTokens:
    """Those of a tokenizer. `writes_sentinels`: a search may produce sentinels, as models of span corruption do."""
    allowed = frozenset(tokenizer.sentinels) if writes_sentinels else frozenset()
    return SpecialTokens(
        start=tokenizer.start,
        end=tokenizer.end,
        pad=tokenizer.pad,
        mask=tokenizer.mask,
        sentinels=tokenizer.sentinels,
        suppress=tuple(sorted(tokenizer.suppressed_ids - allowed)),
        vocabulary=tokenizer.size,
        target_lead=max(map(len, tokenizer.target_prefix.values()), default=0),
    )
