"""Segments of a fixed length: where the tokens of a chunk stand in them.

Mixers that go through a text segment by segment (Infini-attention, TTT) must cut it at the same places however it
arrives: all at once, or in chunks that begin anywhere in a segment, in each row elsewhere. A SegmentLayout moves tokens
into their slots, and outputs back.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.sequence import TokenPositions, positions_from_start


@dataclass(frozen=True)
class SegmentLayout:
    """`count` segments of `length` slots; earlier tokens may have taken slots of the first."""

    count: int
    length: int  # of a segment; if there is only one, no longer than needed
    slots: Tensor  # (B or 1, T) of each token, counted from the start of the first segment; padding has any of them
    offset: int | None  # the slot of the first token, where rows are alike and have no padding
    begun: Tensor  # (B or 1,) slots that earlier tokens have taken
    totals: Tensor  # (B or 1,) slots taken after these tokens
    first: Tensor  # (B or 1,) the number of the first segment in its text
    valid: Tensor | None  # (B, T) false on padding that takes no slot

    @property
    def within(self) -> TokenPositions:
        """The position of each token in its segment."""
        in_order = self.offset == 0 and self.count == 1
        return TokenPositions(self.slots % max(self.length, 1), None, self.length, in_order=in_order)

    @property
    def numbers(self) -> Tensor:
        """(B or 1, T) in which segment of its text each token stands, counted from 0."""
        return self.first[:, None] + self.slots // max(self.length, 1)

    @property
    def keys(self) -> TokenPositions:
        """Positions of aligned tokens. Empty slots come last, where a causal mask hides them."""
        return positions_from_start(self.length, None, self.slots.device)

    @property
    def queries(self) -> TokenPositions:
        """Positions of grouped tokens."""
        return self.keys if self.count > 1 else self.within

    def align(self, x: Tensor) -> Tensor:
        """Into their slots: (B, H, T, D) -> (B, H, N, L, D), 0 in those that none of these tokens takes."""
        size = self.count * self.length
        if self.offset is not None:
            aligned = F.pad(x, (0, 0, self.offset, size - self.offset - x.shape[2]))
        else:
            slots = self.slots if self.valid is None else self.slots.masked_fill(~self.valid, size)
            empty = x.new_zeros(*x.shape[:2], size + 1, x.shape[3])  # one slot more, for padding
            aligned = empty.scatter(2, slots[:, None, :, None].expand_as(x), x)[:, :, :size]
        return aligned.view(*x.shape[:2], self.count, self.length, x.shape[3])

    def group(self, x: Tensor) -> Tensor:
        """By segment, for what needs no slots: (B, H, T, D) -> (B, H, N, L, D), or (B, H, 1, T, D) if there is only one
        segment; 0 where there is no token."""
        if self.count > 1:
            return self.align(x)
        return (x if self.valid is None else x.masked_fill(~self.valid[:, None, :, None], 0.0))[:, :, None]

    def ungroup(self, x: Tensor) -> Tensor:
        """(B, H, N, L, D), or (B, H, 1, T, D) if there is only one segment -> (B, H, T, D)"""
        flat, tokens = x.flatten(2, 3), self.slots.shape[1]
        if self.count == 1:
            return flat
        if self.offset is not None:
            return flat[:, :, self.offset : self.offset + tokens]
        return flat.gather(2, self.slots[:, None, :, None].expand(*x.shape[:2], tokens, x.shape[4]))

    def continue_segment(self, x: Tensor, cached: Tensor) -> Tensor:
        """Aligned (B, H, N, L, D), with what is cached of the first segment (B, H, ≥ L, D) in the slots of earlier
        tokens."""
        taken = torch.arange(self.length, device=x.device) < self.begun[:, None]
        first = torch.where(taken[:, None, :, None], cached[:, :, : self.length].to(x.dtype), x[:, :, 0])
        return torch.cat([first[:, :, None], x[:, :, 1:]], 2)

    def last_segment(self, x: Tensor, length: int) -> Tensor:
        """Of each row, to be cached: aligned (B, H, N, L, D) -> (B, H, length, D). If it is complete, of no use."""
        if self.count == 1:
            return F.pad(x[:, :, 0], (0, 0, 0, length - self.length))
        rows = torch.arange(len(x), device=x.device)
        return x[rows, :, (self.totals // length).clamp(max=self.count - 1).expand(len(x))]

    def complete(self, length: int) -> Tensor:
        """(B or 1, N) whether each segment of `length` slots ends among these tokens."""
        ends = torch.arange(1, self.count + 1, device=self.totals.device) * length
        return self.totals[:, None] >= ends


def lay_out_segments(tokens: TokenPositions, length: int, before: Tensor | None) -> SegmentLayout:
    """Segments of `length` tokens. `before` (B,): how many tokens each row has had earlier; None: this is the whole
    text, and padding at its end takes slots. Synchronises with the device where several tokens follow earlier ones."""
    start = torch.zeros(1, dtype=torch.long, device=tokens.positions.device) if before is None else before
    begun, valid = start % length, None if before is None else tokens.valid
    offset: int | None = None
    if before is None:
        offset = 0
    elif tokens.length > 1 and valid is None and len(places := set(begun.tolist())) == 1:
        offset = places.pop()
    if offset is not None:
        end = offset + tokens.length
        slots = torch.arange(offset, end, device=start.device)[None]
    else:
        # One token never crosses a boundary.
        end = min(length, tokens.end) if tokens.length == 1 else max(begun.tolist(), default=0) + tokens.length
        slots = tokens.positions.expand(len(start), -1) - (start - begun)[:, None]
    count = max(1, -(-end // length))
    return SegmentLayout(
        count=count,
        length=end if count == 1 else length,
        slots=slots,
        offset=offset,
        begun=begun,
        totals=begun + (tokens.length if valid is None else valid.sum(1)),
        first=start // length,
        valid=valid,
    )
