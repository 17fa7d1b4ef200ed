"""Who may look at whom.

A mask is a pure function of (batch, head, query position, key position), so one definition renders to a dense
tensor, to FlexAttention's blocks and to a picture. Laid over a batch it becomes a Pattern, which also hides padding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config.schema import Part, make_part, number, slots
from headway.nn.ops.varlen_attention import Spans
from headway.nn.sequence import Places

Rule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Span = Callable[[Tensor], tuple[Tensor, Tensor]]  # queries -> the first place that each sees, and that behind the last
FAR = 1 << 30  # behind every place


@dataclass(frozen=True)
class Mask:
    """A named rule. Two masks with one name are one mask. It is compiled into kernels, which take it number by number:
    a reduction inside it (any, sum) gives wrong answers there."""

    name: str
    allows: Rule
    reach: int | None = None  # how far back anyone looks; None: all the way
    sees: int | None = None  # keys that a query looks at, by blocks that a kernel cannot split; None: all of them
    hides_future: bool = False
    alike: bool = False  # the same for all rows and heads
    span: Span | None = None  # where a query sees one stretch of places and nothing else

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.allows(b, h, q, k)

    def widest(self, keys: int) -> int:
        """The most of so many places that one query looks at; all of them, unless it is known to look only so far."""
        if self.reach is None or not keys:
            return keys
        if self.hides_future:
            return min(keys, self.reach)
        if self.span is None:
            return keys
        first, last = self.span(torch.arange(keys, device="cpu"))
        return int((last.clamp(max=keys) - first.clamp(min=0)).max())

    def __deepcopy__(self, memo: object) -> "Mask":
        return self  # a copied model looks through the same masks: fast forms know them by what they are

    def __and__(self, other: "Mask") -> "Mask":
        return Mask(
            f"({self.name} & {other.name})",
            lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k),
            min((mask.reach for mask in (self, other) if mask.reach is not None), default=None),
            min((mask.sees for mask in (self, other) if mask.sees is not None), default=None),
            self.hides_future or other.hides_future,
            self.alike and other.alike,
            _overlap(self.span, other.span),
        )

    def __or__(self, other: "Mask") -> "Mask":
        reach = None if self.reach is None or other.reach is None else max(self.reach, other.reach)
        sees = None if self.sees is None or other.sees is None else self.sees + other.sees
        return Mask(
            f"({self.name} | {other.name})",
            lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k),
            reach,
            sees,
            self.hides_future and other.hides_future,
            self.alike and other.alike,
        )


def _overlap(one: Span | None, other: Span | None) -> Span | None:
    if one is None or other is None:
        return None

    def span(q: Tensor) -> tuple[Tensor, Tensor]:
        (first, last), (begin, end) = one(q), other(q)
        return torch.maximum(first, begin), torch.minimum(last, end)

    return span


FULL = Mask(
    "full",
    lambda b, h, q, k: (q == q) & (k == k),
    alike=True,
    span=lambda q: (torch.zeros_like(q), torch.full_like(q, FAR)),
)
CAUSAL = Mask(
    "causal", lambda b, h, q, k: k <= q, hides_future=True, alike=True, span=lambda q: (torch.zeros_like(q), q + 1)
)


def local(window: int) -> Mask:
    """The `window` nearest places on either side, oneself counted: local(1) sees only itself."""
    return Mask(
        f"local({window})",
        lambda b, h, q, k: (q - k).abs() < window,
        window,
        window,
        alike=True,
        span=lambda q: (q - window + 1, q + window),
    )


def documents(ids: Tensor) -> Mask:
    """Only one's own document. ids (B, T): the document of each position."""
    return Mask("document", lambda b, h, q, k: ids[b, q] == ids[b, k])


class Full:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "full"

        def mask(self) -> Mask:
            return FULL


class Causal:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "causal"

        def mask(self) -> Mask:
            return CAUSAL


class Local:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "local"
        window: int = number(256, low=1)

        def mask(self) -> Mask:
            return local(self.window)


class All:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "all"
        parts: tuple[Part, ...] = slots("mask")

        def mask(self) -> Mask:
            return _joined(self.parts, Mask.__and__)


class Any_:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "any"
        parts: tuple[Part, ...] = slots("mask")

        def mask(self) -> Mask:
            return _joined(self.parts, Mask.__or__)


def _joined(parts: tuple[Part, ...], join: Callable[[Mask, Mask], Mask]) -> Mask:
    mask = make_mask(parts[0])
    for part in parts[1:]:
        mask = join(mask, make_mask(part))
    return mask


def make_mask(part: Any) -> Mask:
    """The mask of a config, or of its shorthand: make_mask("causal & local(256)")."""
    mask = make_part("mask", part).mask()  # type: ignore[attr-defined]  # every kind in the slot has it
    assert isinstance(mask, Mask)
    return mask


class Pattern:
    """A mask laid over one batch: where its queries and keys stand is known, and padded keys are hidden."""

    def __init__(self, mask: Mask, queries: Places, keys: Places, heads: int) -> None:
        self.mask, self.queries, self.keys, self.heads = mask, queries, keys, heads
        self._dense: Tensor | None = None
        self._added: Tensor | None = None
        self._blocks: Any = None
        self._spans: Spans | None = None

    @property
    def name(self) -> str:
        return self.mask.name

    @property
    def allows_all(self) -> bool:
        return self.mask is FULL and self.keys.valid is None and self.keys.texts is None

    @property
    def plainly_causal(self) -> bool:
        """Whether it is a triangle and nothing else, which kernels know without being shown."""
        plain = self.queries.in_order and self.keys.in_order and self.queries.length == self.keys.length
        return self.mask is CAUSAL and plain and self.keys.valid is None

    def dense(self, batch: int) -> Tensor:
        """(B or 1, H or 1, T, S), true where looking is allowed."""
        if self._dense is None:
            q = self.queries.positions[:, None, :, None]
            k = self.keys.positions[:, None, None, :]
            # Positions may be one line for all rows; a rule may still tell the rows apart, as documents do.
            rows = torch.arange(batch, device=q.device)[:, None, None, None]
            heads = torch.arange(self.heads, device=q.device)[None, :, None, None]
            allowed = self.mask(rows, heads, q, k)
            valid = self.keys.valid
            allowed = allowed if valid is None else allowed & valid[:, None, None, :]
            if self.queries.texts is not None and self.keys.texts is not None:
                one, other = self.queries.texts.number, self.keys.texts.number
                allowed = allowed & (one[:, None, :, None] == other[:, None, None, :])
            self._dense = allowed
        return self._dense

    def added(self, batch: int, dtype: torch.dtype) -> Tensor | None:
        """The same to be added to scores, 0 or -inf; None where some query may look at nothing, and would get no number."""
        if self._added is None or self._added.dtype != dtype:
            allowed = self.dense(batch)
            if not bool(allowed.any(-1).all()):
                return None
            self._added = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(
                ~allowed, -torch.inf
            )
        return self._added

    def spans(self) -> Spans | None:
        """What each query of a line of texts sees, where that is one stretch of its text."""
        asks, told = self.queries.texts, self.keys.texts
        if self.mask.span is None or asks is None or told is None:
            return None
        if self._spans is None:
            number, other = asks.number[0], told.number[0]
            low, high = self.mask.span(self.queries.positions[0].int())
            begin, end = told.first[number], told.last[number]
            first, last = begin + low.clamp(min=0), torch.minimum(begin + high.clamp(max=FAR), end)
            earliest, latest = asks.first[other], asks.last[other]
            if self.mask.hides_future and asks is told:
                earliest = torch.arange(len(other), dtype=torch.int32, device=other.device)
            self._spans = Spans(first, last, earliest, latest)
        return self._spans

    def blocks(self, batch: int) -> Any:
        """FlexAttention's BlockMask."""
        if self._blocks is None:
            from torch.nn.attention.flex_attention import create_block_mask

            q, k, valid, mask = self.queries.positions, self.keys.positions, self.keys.valid, self.mask
            both = self.queries.texts, self.keys.texts
            texts = None if both[0] is None or both[1] is None else (both[0].number, both[1].number)
            plain = self.queries.in_order and self.keys.in_order  # a kernel need not look up where a place stands

            def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
                seen = mask(b, h, i, j) if plain else mask(b, h, q[b % q.shape[0], i], k[b % k.shape[0], j])
                seen = seen if texts is None else seen & (texts[0][b, i] == texts[1][b, j])
                return seen if valid is None else seen & valid[b, j]

            rows = None if plain and mask.alike and valid is None else batch
            heads = None if mask.alike else self.heads
            self._blocks = create_block_mask(allowed, rows, heads, q.shape[1], k.shape[1], device=str(q.device))
        return self._blocks


def dense_mask(mask: Mask, length: int, keys: int | None = None) -> Tensor:
    """The rule over positions 0 … length-1, as (T, S): what the pictures draw."""
    q, k = torch.arange(length)[:, None], torch.arange(keys or length)[None, :]
    zero = torch.zeros((), dtype=torch.long)
    return mask(zero, zero, q, k).expand(length, keys or length)
