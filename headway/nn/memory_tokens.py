"""Memory tokens: learned vectors that stand beside the text in every layer, for all its tokens to attend to.

    prefix      [memory, text]                                                   Memory Transformer (Burtsev 2020)
    recurrent   [memory, segment 1, memory], [memory', segment 2, memory'] …     RMT (Bulatov 2022)

In the second, what comes out at the memory tokens after a segment is the memory of the next, before and after it.

A stack with memory tokens runs its layers over one such sequence after another. Positions that rotate or change scores
count from the first memory token of a sequence. Those that are added count from the start of the segment, and memory
tokens have none.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope
from headway.nn.cache.kv import LayerCache
from headway.nn.cache.memory_state import MemoryState
from headway.nn.context import Context, ForwardReport, Trace
from headway.nn.masks.masks import Mask
from headway.nn.segments import SegmentLayout, lay_out_segments
from headway.nn.sequence import TokenPositions
from headway.nn.statistics import merge_statistics

NO_END = 1 << 40  # tokens of a segment, where the text is not cut

Caches = list[dict[str, LayerCache]]
RunLayers = Callable[[Tensor, Context, Caches | None], Tensor]


@dataclass(frozen=True, kw_only=True)
class MemoryTokensConfig(Part):
    """What both kinds have in common."""

    count: int = number(8, low=1)

    @property
    def length(self) -> int:
        """Tokens of a segment."""
        return NO_END

    def check(self, masks: list[Mask], costs: list[tuple[str, Cost]], scope: Scope) -> None:
        """Raise a ConfigError where they make no sense. `costs`: kind and cost of what all layers consist of."""
        for mask in masks:
            if mask.name not in ("causal", "full"):
                raise ConfigError(
                    f'all tokens attend to memory tokens, and the mask "{mask.name}" would hide them. Set mask = '
                    '"causal" or, in an encoder, "full"; or leave memory_tokens out.'
                )

    def sequence_lengths(self, tokens: int) -> list[int]:
        """Of the sequences that layers are run over, for a text of so many tokens."""
        return [self.count + tokens]

    def spread(self, cost: Cost, *, cross: bool = False) -> Cost:
        """The cost of a part that is run over memory tokens, too."""

        def flops(queries: int, keys: int) -> int:
            return sum(cost.flops(size, keys if cross else size) for size in self.sequence_lengths(queries))

        before = 0 if cross else self.count * cost.cached_per_token
        return Cost(
            parameters=cost.parameters,
            flops_by_length=(flops,),
            cached_per_token=cost.cached_per_token,
            cached_per_text=cost.cached_per_text + before,
        )

    def cost(self, scope: Scope) -> Cost:
        """Of the vectors themselves."""
        return Cost(parameters=self.count * scope.d_model)


class TokenSegment(NamedTuple):
    """The tokens of one segment, and in which rows memory tokens stand before and after them."""

    x: Tensor  # (B, T, d)
    slots: Tensor  # (B or 1, T) counted from the start of the segment
    valid: Tensor | None  # (B, T)
    before: "Rows"
    after: "Rows"


class Rows(NamedTuple):
    """Some rows of a batch."""

    some: bool
    mask: Tensor | None = None  # (B,); None: all of them, or none

    @staticmethod
    def where(mask: Tensor) -> "Rows":
        """Synchronises with the device."""
        found = set(mask.tolist())
        return Rows(True, mask) if len(found) == 2 else Rows(True in found)


class MemoryTokens(nn.Module):
    """Before a text"""

    @dataclass(frozen=True, kw_only=True)
    class Config(MemoryTokensConfig):
        kind: str = "prefix"

    def __init__(self, config: MemoryTokensConfig, scope: Scope) -> None:
        super().__init__()
        self.count, self.length = config.count, config.length
        # As large as scaled embeddings and as the outputs of a norm, which take their place in later segments.
        self.vectors = nn.Parameter(torch.randn(1, config.count, scope.d_model))

    def within_segment(self, tokens: TokenPositions) -> TokenPositions:
        """Of a text, for positions that are added to its tokens."""
        if tokens.end <= self.length:
            return tokens
        return TokenPositions(tokens.positions % self.length, tokens.valid, self.length)

    def forward(self, x: Tensor, ctx: Context, run_layers: RunLayers, state: MemoryState | None) -> Tensor:
        """x (B, T, d) -> (B, T, d), by the layers of the stack."""
        layout = lay_out_segments(ctx.queries, self.length, None if state is None else state.lengths)
        memory = self.vectors.to(x.dtype).expand(len(x), -1, -1)
        if state is not None and state.vectors is not None:
            memory = state.vectors.to(x.dtype)
        outputs: list[Tensor] = []
        traced: list[TracedSegment] = []
        for segment in self._segments(x, ctx, layout, keep=state is not None):
            report = ForwardReport(trace={} if ctx.traced else None, capture=ctx.report.capture)
            sequence, tokens = self._add_memory(segment, memory, ctx.queries.end, state)
            inside = replace(ctx, queries=tokens, report=report, memo={})
            hidden = run_layers(sequence, inside, None if state is None else state.segment.layers)
            start, size = self.count if segment.before.some else 0, segment.x.shape[1]
            outputs.append(hidden[:, start : start + size])
            if segment.after.some:
                ends = torch.ones(len(x), dtype=torch.bool, device=x.device)
                ends = ends if segment.after.mask is None else segment.after.mask
                memory = torch.where(ends[:, None, None], hidden[:, -self.count :], memory)
                if state is not None:
                    state.end_segment(ends)
            _merge_reports(ctx.report, report, layout.count)
            traced.append(TracedSegment(report.trace or {}, report.captured, start, size, sequence.shape[1]))
        if state is not None:
            state.advance(ctx.queries, memory if self.length < NO_END else None)
        if ctx.report.trace is not None:
            ctx.report.trace.update(join_traces(traced, [segment.trace for segment in traced]))
        ctx.report.captured.update(join_traces(traced, [segment.captured for segment in traced]))
        if layout.offset is None and layout.count > 1:
            return layout.ungroup(torch.stack(outputs, 1)[:, None])[:, 0]
        return torch.cat(outputs, 1)

    def _segments(self, x: Tensor, ctx: Context, layout: SegmentLayout, *, keep: bool) -> list[TokenSegment]:
        """`keep`: what the last segment leaves behind is wanted."""
        found = []
        for n in range(layout.count):
            first = n * layout.length  # its first slot
            slots, valid = layout.slots - first, layout.valid
            wanted = keep or n + 1 < layout.count
            if layout.offset is not None:  # all rows alike
                tokens = slice(max(first - layout.offset, 0), max(first - layout.offset + layout.length, 0))
                valid = None if ctx.queries.valid is None else ctx.queries.valid[:, tokens]
                before = Rows(n > 0 or layout.offset == 0)
                after = Rows(wanted and layout.offset + x.shape[1] >= first + self.length)
                found.append(TokenSegment(x[:, tokens], slots[:, tokens], valid, before, after))
                continue
            part = x
            if layout.count > 1:
                part, slots = layout.align(x[:, None])[:, 0, n], torch.arange(layout.length, device=x.device)[None]
                low = layout.begun[:, None] if n == 0 else 0
                valid = (slots >= low) & (slots < (layout.totals - first)[:, None])
            new = layout.totals > (layout.begun if n == 0 else first)
            before = Rows.where(new & (layout.begun == 0) if n == 0 else new)
            after = Rows.where(new & (layout.totals >= first + self.length)) if wanted else Rows(False)
            found.append(TokenSegment(part, slots, valid, before, after))
        return found

    def _add_memory(
        self, segment: TokenSegment, memory: Tensor, text_end: int, state: MemoryState | None
    ) -> tuple[Tensor, TokenPositions]:
        """[memory, tokens, memory], without those that no row has here, and the positions of all of them."""
        x, slots, valid, before, after = segment
        own = torch.arange(self.count, device=x.device)[None]
        parts = [(x, self.count + slots, valid)]
        if before.some:
            parts.insert(0, (memory, own, _columns(before.mask, self.count)))
        if after.some:
            parts.append((memory, own + self.count + self.length, _columns(after.mask, self.count)))
        rows = max(len(places) for _, places, _ in parts)
        positions = torch.cat([places.expand(rows, -1) for _, places, _ in parts], 1)
        shown: Tensor | None = None
        if any(real is not None for _, _, real in parts):
            everyone = torch.ones(1, 1, dtype=torch.bool, device=x.device)
            shown = torch.cat([(everyone if real is None else real).expand(y.shape[:2]) for y, _, real in parts], 1)
        end = self.count + (self.length + self.count if after.some else min(self.length, text_end))
        # Of a whole text; in a state, padding takes no position.
        in_order = before.some and rows == 1 and (shown is None or state is None)
        in_order = in_order and (not after.some or x.shape[1] == self.length)
        return torch.cat([y for y, _, _ in parts], 1), TokenPositions(positions, shown, end, in_order)


class RecurrentMemory(MemoryTokens):
    """Before and after each segment"""

    @dataclass(frozen=True, kw_only=True)
    class Config(MemoryTokensConfig):
        kind: str = "recurrent"
        segment: int = number(256, low=1)  # tokens

        @property
        def length(self) -> int:
            return self.segment

        def check(self, masks: list[Mask], costs: list[tuple[str, Cost]], scope: Scope) -> None:
            super().check(masks, costs, scope)
            if scope.side == "encoder":
                raise ConfigError(
                    "recurrent memory tokens go from segment to segment of a decoder, and an encoder sees the whole "
                    'text at once. Set memory_tokens = "prefix".'
                )
            for kind, cost in costs:
                if cost.cached_per_text:
                    raise ConfigError(
                        f"after each segment, layers keep nothing of it but the memory tokens, and {kind} has a state "
                        'that goes on. Choose a mixer that keeps all tokens, such as "attention", or set memory_tokens '
                        '= "prefix".'
                    )

        def sequence_lengths(self, tokens: int) -> list[int]:
            full = max(0, -(-tokens // self.segment) - 1)  # but the last, whose memory nobody reads
            return [self.segment + 2 * self.count] * full + [self.count + tokens - full * self.segment]

        def spread(self, cost: Cost, *, cross: bool = False) -> Cost:
            spread = super().spread(cost, cross=cross)
            if cross:
                return spread
            return replace(
                spread,
                cached_per_token=0,
                cached_per_text=cost.cached_per_text + cost.cached_per_token * (self.segment + 2 * self.count),
            )

        def cost(self, scope: Scope) -> Cost:
            return Cost(parameters=self.count * scope.d_model, cached_per_text=self.count * scope.d_model)


def _columns(mask: Tensor | None, count: int) -> Tensor | None:
    return None if mask is None else mask[:, None].expand(-1, count)


def _merge_reports(whole: ForwardReport, part: ForwardReport, count: int) -> None:
    """A loss of a layer is the mean over the segments."""
    whole.losses += [(name, loss / count) for name, loss in part.losses]
    merged = merge_statistics(whole.statistics, part.statistics)
    whole.statistics.update(merged)


class TracedSegment(NamedTuple):
    """What layers recorded of [memory, tokens, memory]."""

    trace: Trace
    captured: Trace
    start: int  # of the tokens
    size: int  # their number
    length: int  # of the sequence

    def cut(self, name: str, x: Tensor) -> Tensor:
        """Without memory tokens: (B, T, d), (B, H, T, D), or (B, H, T, S) of self-attention; others as they are."""
        own = slice(self.start, self.start + self.size)
        if x.dim() == 3 and x.shape[1] == self.length:
            return x[:, own]
        if x.dim() != 4 or x.shape[2] != self.length:
            return x
        return x[:, :, own, own] if _has_pairs(name) and x.shape[3] == self.length else x[:, :, own]


def join_traces(segments: list[TracedSegment], traces: list[Trace]) -> Trace:
    """One trace for all segments. Nothing is attended to between them; what has no tokens is that of the last."""
    joined: Trace = {}
    for name in traces[-1]:
        parts = [segment.cut(name, trace[name]) for segment, trace in zip(segments, traces) if name in trace]
        last, tokens = parts[-1], parts[-1].dim() - 2  # the axis of tokens
        if _has_pairs(name) and all(part.shape[2] == part.shape[3] for part in parts):
            joined[name] = _block_diagonal(parts, 0.0 if name.endswith("weights") else -torch.inf)
        elif last.dim() in (3, 4) and last.shape[tokens] == segments[-1].size:
            joined[name] = torch.cat(parts, tokens)
        else:
            joined[name] = last
    return joined


def _has_pairs(name: str) -> bool:
    return name.endswith((".self.weights", ".self.scores", ".self.score_bias"))


def _block_diagonal(parts: list[Tensor], elsewhere: float) -> Tensor:
    total = sum(part.shape[2] for part in parts)
    result = parts[0].new_full((*parts[0].shape[:2], total, total), elsewhere)
    start = 0
    for part in parts:
        end = start + part.shape[2]
        result[:, :, start:end, start:end] = part
        start = end
    return result
