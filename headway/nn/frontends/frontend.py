"""The contract of a front end, and what front ends read: pictures as patches, sound as frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part
from headway.errors import ConfigError, HeadwayError
from headway.nn.build import Cost, Scope, make_stream_norm
from headway.nn.ops.dropout import Dropout
from headway.nn.sequence import InsertedVectors, Memory

if TYPE_CHECKING:
    from headway.nn.stack import Stack


class PatchBatch(NamedTuple):
    """Pictures as patches, row by row from the top left. Pictures of different sizes are padded at the end."""

    values: Tensor  # (B, S, C·P·P) channels, rows and columns of each patch; what stands in padding is never read
    grid: Tensor  # (B, 2) rows and columns of patches of each picture

    @property
    def valid(self) -> Tensor:
        """(B, S) false on padding."""
        return torch.arange(self.values.shape[1], device=self.grid.device) < self.grid.prod(1, keepdim=True)

    @property
    def width(self) -> int:
        return self.values.shape[1]

    def pad_to(self, rows: int, pad_multiple: int) -> "PatchBatch":
        """More rows, whose pictures have no patches, and a length that is a multiple."""
        return PatchBatch(_pad(self.values, rows, pad_multiple), _pad(self.grid, rows, 1))


class FrameBatch(NamedTuple):
    """Sound as frames of equal distance, padded at the end."""

    values: Tensor  # (B, F, bins); what stands in padding is never read
    lengths: Tensor  # (B,) frames of each

    @property
    def valid(self) -> Tensor:
        """(B, F) false on padding."""
        return torch.arange(self.values.shape[1], device=self.lengths.device) < self.lengths[:, None]

    @property
    def width(self) -> int:
        return self.values.shape[1]

    def pad_to(self, rows: int, pad_multiple: int) -> "FrameBatch":
        return FrameBatch(_pad(self.values, rows, pad_multiple), _pad(self.lengths, rows, 1))


MediaBatch = PatchBatch | FrameBatch


def _pad(x: Tensor, rows: int, multiple: int) -> Tensor:
    """With zeros: more rows, and a second axis that is a multiple."""
    padding = [0, max(rows - x.shape[0], 0)]
    if x.dim() > 1:
        padding = [0, -x.shape[1] % multiple, *padding]
    return F.pad(x, [0] * (2 * x.dim() - len(padding)) + padding)


class FrontEnd(nn.Module):
    """What stands in the place of the embedding: forward(given, stack) -> Memory, whose vectors (B, S, d) the stack
    reads. Padding changes nothing; a front end that has positions of its own adds them here."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        reads: ClassVar[Literal["text", "pictures", "sound"]] = "text"

        @property
        def has_positions(self) -> bool:
            """Whether it adds positions, so that the stack must not."""
            return False

        @property
        def has_class_token(self) -> bool:
            """Whether the first vector is a learned one, which can stand for the whole."""
            return False

        def resolved(self, scope: Scope) -> "FrontEnd.Config":
            """Derived values filled in, impossible combinations refused."""
            return self

        def cost(self, scope: Scope) -> Cost:
            return Cost()

        def example(self) -> Any:
            """Something small to read, all of it zeros: to try a model with."""
            raise NotImplementedError

    config: Config

    def forward(self, given: Any, stack: "Stack") -> Memory:
        raise NotImplementedError

    def refuse_others(self, given: Any, wanted: type) -> None:
        if not isinstance(given, wanted):
            raise HeadwayError(
                f"this model reads {self.config.reads}: give a {wanted.__name__} of headway.nn.frontends.frontend, not "
                f"a {type(given).__name__}."
            )


class TokenFrontEnd:
    """Ids, each of which has a vector: headway.nn.layers.embedding."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FrontEnd.Config):
        kind: str = "tokens"


def resolve_front_end(part: Any, scope: Scope, positions: Sequence[Any]) -> Any:
    """The front end of a stack with these positions, with derived values filled in; None for tokens."""
    if part is None or part.reads == "text":
        return None
    if scope.side == "decoder":
        raise ConfigError(
            f"a decoder reads the tokens that it writes, and {part.kind} reads {part.reads}. Give it to the encoder."
        )
    added = [position.kind for position in positions if position.applies_to == "input"]
    if part.has_positions and added:
        raise ConfigError(
            f'{part.kind} adds positions of its own, and {added[0]} ones would be added to them. Set position = "none" '
            f"beside it, or {part.kind}(position='none')."
        )
    return part.resolved(scope)


def check_head(part: Any, head: Any, writes_text: bool) -> None:
    """Raise ConfigError for a head that cannot read what this front end makes."""
    if not writes_text and head.kind in ("logits", "masked"):
        raise ConfigError(
            f'the head "{head.kind}" scores tokens, and this model reads {part.reads} alone. Choose "pooled" or '
            '"embedding", or give it a decoder.',
            "head",
        )
    if getattr(head, "pooling", "") == "first" and not part.has_class_token:
        raise ConfigError(
            f"the head takes the first vector for the whole, and {part.kind} has no class token there. Set pooling = "
            '"mean".',
            "head.pooling",
        )


class InputEnd(nn.Module):
    """dropout(norm(x + positions of the stack)): how each front end ends."""

    def __init__(self, scope: Scope, norm: bool) -> None:
        super().__init__()
        self.norm = make_stream_norm(scope) if norm else None
        self.dropout = Dropout(scope.dropout)

    def forward(self, memory: Memory, stack: "Stack") -> Memory:
        x = stack.add_positions(memory.values, memory.positions)
        if torch.is_autocast_enabled(x.device.type):  # the residual stream has the dtype of what layers add to it
            x = x.to(torch.get_autocast_dtype(x.device.type))
        if self.norm is not None:
            x = self.norm(x, memory.positions)
        return Memory(self.dropout(x), memory.positions)


def place_vectors(memory: Memory, rows: Sequence[int], firsts: Sequence[int]) -> InsertedVectors:
    """The vectors of each entry of a memory in a stream of tokens: those of entry i in row rows[i], one after another
    from column firsts[i] on."""
    device = memory.values.device
    length = memory.values.shape[1]
    valid = memory.positions.valid
    if valid is None:
        valid = torch.ones(len(memory.values), length, dtype=torch.bool, device=device)
    columns = torch.tensor(firsts, device=device)[:, None] + torch.arange(length, device=device)  # (N, S)
    own = torch.tensor(rows, device=device)[:, None].expand_as(columns)
    return InsertedVectors(memory.values[valid], own[valid], columns[valid])
