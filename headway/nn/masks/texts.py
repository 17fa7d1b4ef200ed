"""Masks of the parts of a row: a prefix that is known from the start, and documents that do not see each other."""

from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config.schema import Part, number
from headway.nn.masks.masks import FULL, Mask


def prefix(length: int) -> Mask:
    """Prefix LM: the first `length` positions, and all earlier ones."""
    return Mask(
        f"prefix({length})",
        lambda b, h, q, k: (k < length) | (k <= q),
        broadcasts=True,
        interval=lambda q: (torch.zeros_like(q), (q + 1).clamp(min=length)),
    )


# A row is a text, unless texts are packed, and packed texts never see each other: BoundMask sees to that.
DOCUMENT = Mask("document", FULL.allows, broadcasts=True, interval=FULL.interval, splits_texts=True)


def documents(ids: Tensor) -> Mask:
    """Only the query's own document. ids (B, T): the document of each position."""
    return Mask("documents", lambda b, h, q, k: ids[b, q] == ids[b, k])


class PrefixMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "prefix"
        length: int = number(64, low=0)

        def mask(self) -> Mask:
            return prefix(self.length)


class DocumentMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "document"

        def mask(self) -> Mask:
            return DOCUMENT
