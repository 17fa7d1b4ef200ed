"""Token embedding: ids to vectors, with positions, and segments (BERT)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headway.config.schema import Node, number
from headway.nn.build import Cost, Scope, make_stream_norm
from headway.nn.ops.dropout import Dropout
from headway.nn.sequence import InsertedVectors, TokenPositions
from headway.nn.stack import Stack


class Embedding(nn.Module):
    """dropout(norm(√d · E[id] + segment + position)); the norm and the segments are BERT's, off in the paper."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Node):
        # all: source = target = output; inputs: source = target; target: target = output; none: three matrices
        tied: Literal["all", "inputs", "target", "none"] = "all"
        scale: bool = True
        norm: bool = False
        segments: int = number(0, low=0)

        @property
        def ties_sides(self) -> bool:
            """Whether source and target have one matrix."""
            return self.tied in ("all", "inputs")

        @property
        def ties_output(self) -> bool:
            """Whether the output matrix is that of the last side."""
            return self.tied in ("all", "target")

        def cost(self, scope: Scope, vocabulary: int) -> Cost:
            weights = (vocabulary + self.segments) * scope.d_model
            return Cost(parameters=weights + self.norm * scope.norm_parameters())

    def __init__(self, config: Config, scope: Scope, vocabulary: int, tied_table: nn.Embedding | None = None) -> None:
        super().__init__()
        # A tied table is registered by the other side, which owns it; a list hides it from this module.
        self.tied = [] if tied_table is None else [tied_table]
        self.words = nn.Embedding(vocabulary, scope.d_model) if tied_table is None else None
        self.scale = scope.d_model**0.5 if config.scale else 1.0
        self.segments = nn.Embedding(config.segments, scope.d_model) if config.segments else None
        self.norm = make_stream_norm(scope) if config.norm else nn.Identity()
        self.dropout = Dropout(scope.dropout)

    @property
    def table(self) -> nn.Embedding:
        return self.tied[0] if self.words is None else self.words

    def forward(
        self,
        ids: Tensor,
        tokens: TokenPositions,
        stack: Stack,
        segments: Tensor | None = None,
        inserted: InsertedVectors | None = None,
    ) -> Tensor:
        x = self.table(ids) * self.scale  # (B, T, d)
        if inserted is not None:
            x = x.index_put((inserted.rows, inserted.columns), inserted.values.to(x.dtype))
        if self.segments is not None:
            x = x + self.segments(ids.new_zeros(()) if segments is None else segments)
        x = stack.add_positions(x, tokens)
        device = x.device.type
        if torch.is_autocast_enabled(device):  # the residual stream has the dtype of what layers add to it
            x = x.to(torch.get_autocast_dtype(device))
        x = x if isinstance(self.norm, nn.Identity) else self.norm(x, tokens)
        result: Tensor = self.dropout(x)
        return result
