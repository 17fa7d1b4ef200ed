"""Attention masks as composable rules: full, causal, local (sliding window), and their combinations with & and |.

A mask is a pure function of (batch, head, query position, key position), so that one definition yields a dense tensor,
FlexAttention's BlockMask and a picture. Applied to a batch it becomes a BoundMask, which also hides padding.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from headway.config.schema import ObjectPart, Part, make_part, number, slots
from headway.files.notebook_html import render_grid
from headway.nn.masks.block_plan import BlockPlan, Ranges, intersect_ranges, merge_ranges, plan_blocks
from headway.nn.ops.varlen_attention import KeyIntervals
from headway.nn.sequence import TokenPositions

MaskRule = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Interval = Callable[[Tensor], tuple[Tensor, Tensor]]  # queries -> the first key that each sees, and that after the last
# The first query, that after the last, and the number of keys -> ranges that hold all keys which those queries see.
KeyRanges = Callable[[int, int, int], list[tuple[int, int]]]
MAX_POSITION = 1 << 30  # beyond every position
PICTURE_LENGTH = 32  # positions, in a notebook
MAX_BLOCK_MASKS = 16  # that a mask keeps, one for each size


@dataclass(frozen=True)
class Mask:
    """A named rule. Two masks of the same name are the same mask. Kernels compile the rule and evaluate it one pair at
    a time: a reduction inside it (any, sum) gives wrong results there."""

    name: str
    allows: MaskRule
    lookback: int | None = None  # how far back any query sees, itself included; None: all the way
    keys_per_query: int | None = None  # keys that a query sees, in blocks that a kernel cannot split; None: all
    hides_future: bool = False
    broadcasts: bool = False  # the same for all rows and heads
    interval: Interval | None = None  # the keys of a query, where they are contiguous
    key_ranges: KeyRanges | None = None  # where they are not: what hides all but a few ranges of keys says which
    stride: int = 1  # a query sees only keys whose distance is a multiple of it
    global_tokens: tuple[int, ...] = ()  # positions that see every other one and are seen by it
    splits_texts: bool = False  # it says which texts of a row see each other: running text has none
    block_masks: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return self.allows(b, h, q, k)

    def max_keys(self, keys: int) -> int:
        """The most of `keys` keys that any one query sees: all of them, unless its lookback is limited."""
        if self.lookback is None or not keys:
            return keys
        if self.hides_future:
            return min(keys, self.lookback)
        if self.interval is None:
            return keys
        first, last = self.interval(torch.arange(keys, device="cpu"))
        return int((last.clamp(max=keys) - first.clamp(min=0)).max())

    def visible_ranges(self, first: int, last: int, keys: int) -> Ranges:
        """Ranges that hold every key, of `keys` ones, that the queries first … last - 1 see; all keys, if it is not
        known better."""
        if self.key_ranges is not None:
            return intersect_ranges(merge_ranges(self.key_ranges(first, last, keys)), [(0, keys)])
        if self.interval is None:
            return [(0, keys)]
        begin, end = self.interval(torch.arange(first, last, device="cpu"))
        return intersect_ranges([(int(begin.min()), int(end.max()))], [(0, keys)])

    def block_plan(self, length: int) -> BlockPlan:
        """Which blocks self-attention over this many positions needs, kept for later calls."""
        key = ("plan", length)
        if key not in self.block_masks:
            self._keep(key, plan_blocks(self, length))
        plan: BlockPlan = self.block_masks[key]
        return plan

    def _keep(self, key: Any, value: Any) -> None:
        while len(self.block_masks) >= MAX_BLOCK_MASKS:
            self.block_masks.pop(next(iter(self.block_masks), None), None)  # the oldest
        self.block_masks[key] = value

    def as_part(self) -> "MaskPart":
        """For a mask slot of a config, as in Stack.Config(mask=my_mask)."""
        return MaskPart(value=self)

    def _repr_html_(self) -> str:
        """Notebooks show which keys (columns) each query (row) sees, over a short text."""
        return render_grid(dense_mask(self, PICTURE_LENGTH).double().tolist(), title=self.name)

    def __deepcopy__(self, memo: object) -> "Mask":
        return self  # a copied model keeps the same masks: fast paths recognise them by identity

    def __and__(self, other: "Mask") -> "Mask":
        both = (self, other)
        return Mask(
            f"({self.name} & {other.name})",
            lambda b, h, q, k: self(b, h, q, k) & other(b, h, q, k),
            lookback=min((mask.lookback for mask in both if mask.lookback is not None), default=None),
            keys_per_query=min((mask.keys_per_query for mask in both if mask.keys_per_query is not None), default=None),
            hides_future=self.hides_future or other.hides_future,
            broadcasts=self.broadcasts and other.broadcasts,
            interval=_intersect_intervals(self.interval, other.interval),
            key_ranges=lambda first, last, keys: intersect_ranges(
                self.visible_ranges(first, last, keys), other.visible_ranges(first, last, keys)
            ),
            stride=math.lcm(self.stride, other.stride),
            global_tokens=self.global_tokens or other.global_tokens,
            splits_texts=self.splits_texts or other.splits_texts,
        )

    def __or__(self, other: "Mask") -> "Mask":
        lookback = keys_per_query = None
        if self.lookback is not None and other.lookback is not None:
            lookback = max(self.lookback, other.lookback)
        if self.keys_per_query is not None and other.keys_per_query is not None:
            keys_per_query = self.keys_per_query + other.keys_per_query
        return Mask(
            f"({self.name} | {other.name})",
            lambda b, h, q, k: self(b, h, q, k) | other(b, h, q, k),
            lookback=lookback,
            keys_per_query=keys_per_query,
            hides_future=self.hides_future and other.hides_future,
            broadcasts=self.broadcasts and other.broadcasts,
            key_ranges=lambda first, last, keys: (
                self.visible_ranges(first, last, keys) + other.visible_ranges(first, last, keys)
            ),
            stride=math.gcd(self.stride, other.stride),
            global_tokens=tuple(sorted({*self.global_tokens, *other.global_tokens})),
            splits_texts=self.splits_texts or other.splits_texts,
        )


def _intersect_intervals(one: Interval | None, other: Interval | None) -> Interval | None:
    if one is None or other is None:
        return None

    def interval(q: Tensor) -> tuple[Tensor, Tensor]:
        (first, last), (begin, end) = one(q), other(q)
        return torch.maximum(first, begin), torch.minimum(last, end)

    return interval


FULL = Mask(
    "full",
    lambda b, h, q, k: (q == q) & (k == k),
    broadcasts=True,
    interval=lambda q: (torch.zeros_like(q), torch.full_like(q, MAX_POSITION)),
)
CAUSAL = Mask(
    "causal",
    lambda b, h, q, k: k <= q,
    hides_future=True,
    broadcasts=True,
    interval=lambda q: (torch.zeros_like(q), q + 1),
)


OTHERS = Mask("others", lambda b, h, q, k: q != k, broadcasts=True)


def in_any_order(mask: Mask) -> Mask:
    """The same rule over ranks in a factorisation order: a key of lower rank may be of any position."""
    return Mask(f"permuted({mask.name})", mask.allows, mask.lookback, broadcasts=mask.broadcasts)


def local(window: int) -> Mask:
    """Sliding window: positions less than `window` away on either side, so local(1) sees only itself."""
    return Mask(
        f"local({window})",
        lambda b, h, q, k: (q - k).abs() < window,
        lookback=window,
        keys_per_query=window,
        broadcasts=True,
        interval=lambda q: (q - window + 1, q + window),
    )


class FullMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "full"

        def mask(self) -> Mask:
            return FULL


class CausalMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "causal"

        def mask(self) -> Mask:
            return CAUSAL


class LocalMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "local"
        window: int = number(256, low=1)

        def mask(self) -> Mask:
            return local(self.window)


class AllMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "all"
        parts: tuple[Part, ...] = slots("mask")

        def mask(self) -> Mask:
            return _combine_masks(self.parts, Mask.__and__)


class AnyMask:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "any"
        parts: tuple[Part, ...] = slots("mask")

        def mask(self) -> Mask:
            return _combine_masks(self.parts, Mask.__or__)


def _combine_masks(parts: tuple[Part, ...], combine: Callable[[Mask, Mask], Mask]) -> Mask:
    mask = make_mask(parts[0])
    for part in parts[1:]:
        mask = combine(mask, make_mask(part))
    return mask


@dataclass(frozen=True, kw_only=True)
class MaskPart(ObjectPart):
    """A mask that was given as an object in Python."""

    slot: ClassVar[str] = "mask"

    def mask(self) -> Mask:
        assert isinstance(self.value, Mask)
        return self.value


def make_mask(part: Any) -> Mask:
    """The mask of a config, or of its shorthand: make_mask("causal & local(256)")."""
    mask = make_part("mask", part).mask()  # type: ignore[attr-defined]  # every kind in the slot has it
    assert isinstance(mask, Mask)
    return mask


class BoundMask:
    """A mask applied to the query and key positions of one batch; padded keys are hidden."""

    def __init__(self, mask: Mask, queries: TokenPositions, keys: TokenPositions, heads: int) -> None:
        self.mask, self.queries, self.keys, self.heads = mask, queries, keys, heads
        self._dense: Tensor | None = None
        self._bias: Tensor | None = None
        self._block_mask: Any = None
        self._intervals: KeyIntervals | None = None

    @property
    def name(self) -> str:
        return self.mask.name

    @property
    def allows_all(self) -> bool:
        return self.mask is FULL and self.keys.valid is None and self.keys.texts is None

    @property
    def is_plain_causal(self) -> bool:
        """Whether it is a lower triangle and nothing else, for which kernels have a flag."""
        aligned = self.queries.in_order and self.keys.in_order and self.queries.length == self.keys.length
        return self.mask is CAUSAL and aligned and self.keys.valid is None

    def dense(self, batch: int) -> Tensor:
        """(B or 1, H or 1, T, S), true where attention is allowed."""
        if self._dense is None:
            q = self.queries.mask_positions[:, None, :, None]
            k = self.keys.mask_positions[:, None, None, :]
            # Positions may be a single row for the whole batch; a rule may still depend on the row, as documents do.
            rows = torch.arange(batch, device=q.device)[:, None, None, None]
            heads = torch.arange(self.heads, device=q.device)[None, :, None, None]
            allowed = self.mask(rows, heads, q, k)
            valid = self.keys.valid
            allowed = allowed if valid is None else allowed & valid[:, None, None, :]
            if self.queries.texts is not None and self.keys.texts is not None:
                query_text, key_text = self.queries.texts.text_index, self.keys.texts.text_index
                allowed = allowed & (query_text[:, None, :, None] == key_text[:, None, None, :])
            self._dense = allowed
        return self._dense

    def bias(self, batch: int, dtype: torch.dtype) -> Tensor | None:
        """The mask as an additive bias, 0 or -inf; None if some query sees no key, since softmax would give NaN."""
        if self._bias is None or self._bias.dtype != dtype:
            allowed = self.dense(batch)
            if not bool(allowed.any(-1).all()):
                return None
            self._bias = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(
                ~allowed, -torch.inf
            )
        return self._bias

    def intervals(self) -> KeyIntervals | None:
        """The keys of each query in a packed row; None unless they are one interval of its text."""
        queries, keys = self.queries.texts, self.keys.texts
        if self.mask.interval is None or queries is None or keys is None:
            return None
        if self._intervals is None:
            query_text, key_text = queries.text_index[0], keys.text_index[0]
            low, high = self.mask.interval(self.queries.positions[0].int())
            start, end = keys.starts[query_text], keys.ends[query_text]
            first = start + low.clamp(min=0)
            last = torch.minimum(start + high.clamp(max=MAX_POSITION), end)
            earliest, latest = queries.starts[key_text], queries.ends[key_text]
            if self.mask.hides_future and queries is keys:
                earliest = torch.arange(len(key_text), dtype=torch.int32, device=key_text.device)
            self._intervals = KeyIntervals(first, last, earliest, latest)
        return self._intervals

    def block_plan(self) -> BlockPlan | None:
        """Which blocks of keys each block of queries needs; None unless this is self-attention of rows in order."""
        in_order = self.queries.in_order and self.keys.in_order and self.keys.texts is None
        return self.mask.block_plan(self.keys.length) if in_order and self.queries.length == self.keys.length else None

    def block_mask(self, batch: int) -> Any:
        """FlexAttention's BlockMask. Building one takes time O(T·S), far more than attention with a sliding window
        does, so what depends on nothing but sizes is cached in the mask, for the next forward passes; padding is
        hidden by the rule inside the blocks."""
        if self._block_mask is None:
            plain = self.queries.in_order and self.keys.in_order and self.keys.texts is None
            self._block_mask = self._cached_block_mask(batch) if plain else self._build_block_mask(batch)
            if plain and self.keys.valid is not None:
                self._block_mask = self._hide_padding(self._block_mask, self.keys.valid)
        return self._block_mask

    def _hide_padding(self, block_mask: Any, valid: Tensor) -> Any:
        """The same blocks without those of padding alone, all of them with a rule inside."""
        from torch.nn.attention.flex_attention import BlockMask

        mask, size = self.mask, block_mask.BLOCK_SIZE[1]
        real = torch.nn.functional.pad(valid, (0, -valid.shape[1] % size)).unflatten(1, (-1, size)).any(-1)
        seen = block_mask.to_dense().bool() & real[:, None, None]  # (B, H or 1, blocks, blocks)
        return BlockMask.from_kv_blocks(
            seen.sum(-1, dtype=torch.int32),
            seen.byte().argsort(dim=-1, descending=True, stable=True).int(),
            BLOCK_SIZE=block_mask.BLOCK_SIZE,
            mask_mod=lambda b, h, q, k: mask(b, h, q, k) & valid[b, k],
            seq_lengths=(self.queries.length, self.keys.length),
        )

    def _cached_block_mask(self, batch: int) -> Any:
        mask, device = self.mask, self.queries.positions.device
        rows, heads = (None, None) if mask.broadcasts else (batch, self.heads)
        key = (rows, heads, self.queries.length, self.keys.length, device)
        if torch.compiler.is_compiling() or (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
            return _create_block_mask(mask.allows, *key)  # its tensors belong to the graph
        found = mask.block_masks.get(key)
        if found is None:
            with torch.inference_mode(False), torch.no_grad():  # a training step may be the next to read it
                found = _create_block_mask(mask.allows, *key)
            mask._keep(key, found)
        return found

    def _build_block_mask(self, batch: int) -> Any:
        q, k = self.queries.mask_positions, self.keys.mask_positions
        valid, mask = self.keys.valid, self.mask
        query_texts, key_texts = self.queries.texts, self.keys.texts
        texts = None if query_texts is None or key_texts is None else (query_texts.text_index, key_texts.text_index)
        in_order = self.queries.in_order and self.keys.in_order  # then a kernel need not look positions up

        def allows(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            seen = mask(b, h, i, j) if in_order else mask(b, h, q[b % q.shape[0], i], k[b % k.shape[0], j])
            seen = seen if texts is None else seen & (texts[0][b, i] == texts[1][b, j])
            return seen if valid is None else seen & valid[b, j]

        heads = None if mask.broadcasts else self.heads
        return _create_block_mask(allows, batch, heads, q.shape[1], k.shape[1], q.device)


def _create_block_mask(
    rule: MaskRule, batch: int | None, heads: int | None, queries: int, keys: int, device: torch.device
) -> Any:
    from torch.nn.attention import flex_attention

    return flex_attention.create_block_mask(rule, batch, heads, queries, keys, device=str(device))


def dense_mask(mask: Mask, length: int, keys: int | None = None) -> Tensor:
    """The rule over positions 0 … length-1, as (T, S): for pictures."""
    q, k = torch.arange(length)[:, None], torch.arange(keys or length)[None, :]
    zero = torch.zeros((), dtype=torch.long)
    return mask(zero, zero, q, k).expand(length, keys or length)
