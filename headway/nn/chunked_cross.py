"""Chunked cross-attention (RETRO): each token attends to the neighbours of the last chunk that is complete with it.

    chunk u of m tokens          t₀ … tₘ₋₁      its neighbours are known with its last token:
    attend to its neighbours     tₘ₋₁ … t₂ₘ₋₂   the last token of chunk u, and all but the last of chunk u + 1

The tokens before the last of the first chunk have no neighbours, and their output is 0.

Tokens are grouped by the chunk whose neighbours they attend to, and each group is a row of ordinary attention with a
source. `NeighbourGroups` says how; headway.nn.retro makes it once for all layers.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part
from headway.nn.build import Scope, make
from headway.nn.cache.retrieval_state import NeighbourKVCache
from headway.nn.context import Context, ForwardReport
from headway.nn.segments import SegmentLayout
from headway.nn.sequence import Memory, TokenPositions

GROUPS = ("neighbour groups",)  # key in the memo of a pass
PAIRS = ("scores", "weights", "score_bias")  # recorded for queries and keys


@dataclass
class NeighbourGroups:
    """The tokens of a pass, grouped by the chunk whose neighbours they attend to."""

    chunk: int
    count: int  # of groups in each row
    memory: Memory  # (B · groups, S, d) the neighbours of each
    context: Context  # of attention in all groups: positions of a group's tokens, counted from the start of its chunk
    layout: SegmentLayout | None = None  # with a state; without one, groups begin at token chunk - 1
    version: int = 0  # of the neighbours in the state

    @property
    def offset(self) -> int:
        """Tokens before the first group, without a state."""
        return self.chunk - 1

    def group(self, x: Tensor) -> Tensor:
        """(B, T, d) -> (B · groups, L, d)"""
        if self.layout is not None:
            grouped = self.layout.align(x[:, None])[:, 0] if self.count > 1 else x[:, None]
            return grouped.flatten(0, 1)
        rest = x[:, self.offset :]
        return F.pad(rest, (0, 0, 0, self.count * self.chunk - rest.shape[1])).view(-1, self.chunk, x.shape[2])

    def ungroup(self, x: Tensor, length: int) -> Tensor:
        """(B · groups, H, L, D) -> (B, H, T, D), 0 for tokens that are in no group"""
        x = x.unflatten(0, (-1, self.count)).transpose(1, 2)  # (B, H, groups, L, D)
        if self.layout is not None:
            return self.layout.ungroup(x) if self.count > 1 else x[:, :, 0]
        return F.pad(x.flatten(2, 3)[:, :, : length - self.offset], (0, 0, self.offset, 0))


class ChunkedCross(nn.Module):
    """attend(x, neighbours of the last complete chunk); 0 where there are none"""

    residual_outputs: tuple[str, ...]

    def __init__(self, attention: Part, scope: Scope) -> None:
        super().__init__()
        self.attention = make("mixer", attention, scope)
        self.residual_outputs = tuple(f"attention.{name}" for name in self.attention.residual_outputs)

    def forward(self, x: Tensor, ctx: Context, *, cache: NeighbourKVCache | None = None) -> Tensor:
        groups: NeighbourGroups | None = ctx.memo.get(GROUPS)
        if groups is None:
            return torch.zeros_like(x)
        if cache is not None:
            cache.refresh(groups.version)
        report = ForwardReport(trace={} if ctx.traced else None)
        inside = replace(groups.context, path=ctx.path, report=report)
        own = cache if groups.count == 1 and groups.layout is not None else None
        output = self.attention(groups.group(x), inside, source=groups.memory, cache=own)
        output = groups.ungroup(output[:, None], x.shape[1])[:, 0]
        valid = groups.memory.positions.valid
        assert valid is not None
        some = valid.any(1)[:, None, None, None].expand(-1, 1, inside.queries.length, 1)
        output = output.masked_fill(~groups.ungroup(some, x.shape[1])[:, 0], 0.0)  # W_o may have a bias
        if ctx.traced:
            self._record(report.trace or {}, groups, ctx, x.shape[1])
        return output

    def new_cache(self, batch: int, device: torch.device) -> NeighbourKVCache:
        return NeighbourKVCache(batch, device)

    def _record(self, trace: dict[str, Tensor], groups: NeighbourGroups, ctx: Context, length: int) -> None:
        """As that of attention to all neighbours of the row, most of which a token does not see."""
        for path, value in trace.items():
            name = path.rpartition(".")[2]
            if name in ("k", "v", "unrotated_k"):
                value = value.unflatten(0, (-1, groups.count)).transpose(1, 2).flatten(2, 3)  # (B, G, groups · S, D)
            elif name in PAIRS:
                value = self._spread(value, groups, length, -torch.inf if name == "scores" else 0.0)
            elif value.dim() == 4:
                value = groups.ungroup(value, length)
            ctx.record(name, value)

    @staticmethod
    def _spread(x: Tensor, groups: NeighbourGroups, length: int, elsewhere: float) -> Tensor:
        """(B · groups, H, L, S) -> (B, H, T, groups · S)"""
        number = torch.arange(len(x), device=x.device) % groups.count
        seen = F.one_hot(number, groups.count).bool()[:, None, None, :, None]  # (B · g, 1, 1, g, 1)
        wide = torch.where(seen, x[:, :, :, None], torch.as_tensor(elsewhere, dtype=x.dtype, device=x.device))
        spread = groups.ungroup(wide.flatten(3), length)
        if groups.layout is None and elsewhere:
            spread[:, :, : groups.offset] = elsewhere
        return spread


def group_positions(slots: Tensor, chunk: int) -> TokenPositions:
    """Of tokens in a group, by their slots from 0: counted from the start of the chunk, as its neighbours are."""
    return TokenPositions(slots + chunk - 1, None, 2 * chunk)
