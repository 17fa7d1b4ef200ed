"""Pictures as sequences of patches (ViT): each patch is a token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import number
from headway.data.pictures.transforms import PatchArray
from headway.errors import ConfigError
from headway.nn.build import Cost, Scope, make_linear
from headway.nn.frontends.frontend import FrontEnd, InputEnd, PatchBatch
from headway.nn.positions.positions import sinusoids
from headway.nn.sequence import Memory, positions_from_start

if TYPE_CHECKING:
    from headway.nn.stack import Stack

MAX_GRID = 1024  # patches on a side


class Patches(FrontEnd):
    """[class; E·patch₁ + b; E·patch₂ + b; …] + positions. A convolution whose stride is its width is this linear layer.

    Learned positions are those of a square picture of `size` pixels; for any other size they are interpolated."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FrontEnd.Config):
        reads: ClassVar[Literal["text", "pictures", "sound"]] = "pictures"
        kind: str = "patches"
        patch: int = number(16, low=1, high=1024)  # pixels on a side
        size: int = number(224, low=1, high=16_384)  # pixels on a side of a picture
        channels: Literal[1, 3] = 3  # RGB, or 1: grey
        position: Literal["learned", "sinusoidal", "none"] = "learned"
        class_token: bool = True
        bias: bool = True
        norm: bool = False  # of what goes into the stack, as CLIP
        # Pictures of other sizes are made `size` pixels wide and high: stretched, or cut at the middle. "keep": they
        # keep their shape, with no more patches than a square picture has.
        fit: Literal["stretch", "crop", "keep"] = "stretch"
        resample: Literal["bilinear", "bicubic"] = "bilinear"
        mean: tuple[float, ...] = (0.5,)  # of each channel, subtracted; one value: the same for all
        deviation: tuple[float, ...] = (0.5,)  # divided by

        @property
        def has_positions(self) -> bool:
            return self.position != "none"

        @property
        def has_class_token(self) -> bool:
            return self.class_token

        @property
        def grid(self) -> int:
            """Patches on a side of a square picture."""
            return self.size // self.patch

        @property
        def patch_values(self) -> int:
            return self.channels * self.patch**2

        @property
        def max_patches(self) -> int:
            return self.grid**2

        def resolved(self, scope: Scope) -> "Patches.Config":
            if self.size % self.patch:
                raise ConfigError(
                    f"pictures of {self.size} pixels cannot be cut into patches of {self.patch}. Choose a size that "
                    "is a multiple of it.",
                    "size",
                )
            if self.grid > MAX_GRID:
                raise ConfigError(
                    f"{self.grid} patches on a side are more than {MAX_GRID}. Choose larger patches or a smaller size.",
                    "patch",
                )
            if self.position == "sinusoidal" and scope.d_model % 4:
                raise ConfigError(
                    "sinusoidal positions of rows and columns need a d_model that is a multiple of 4, and it is "
                    f"{scope.d_model}.",
                    "position",
                )
            for name in ("mean", "deviation"):
                values: tuple[float, ...] = getattr(self, name)
                if len(values) not in (1, self.channels):
                    raise ConfigError(
                        f"{len(values)} values for {self.channels} channels: give one for all, or one for each.", name
                    )
            if min(self.deviation) <= 0:
                raise ConfigError("pixels are divided by it: give positive numbers.", "deviation")
            return self

        def cost(self, scope: Scope) -> Cost:
            parameters = scope.linear_parameters(self.patch_values, scope.d_model, self.bias)
            if self.position == "learned":
                parameters += (self.max_patches + self.class_token) * scope.d_model
            parameters += self.class_token * scope.d_model + self.norm * scope.norm_parameters()
            flops = 2 * self.patch_values * scope.d_model
            patches = (lambda queries, keys: flops * (queries - self.class_token),)
            return Cost(parameters=parameters, flops_by_length=patches)

        def example(self) -> PatchBatch:
            rows = min(self.grid, 4)
            return PatchBatch(torch.zeros(1, rows * rows, self.patch_values), torch.tensor([[rows, rows]]))

    def __init__(self, config: Config, scope: Scope) -> None:
        super().__init__()
        self.config: Patches.Config = config
        self.width = scope.d_model
        self.project = make_linear(config.patch_values, scope.d_model, scope, bias=config.bias)
        learned = config.position == "learned"
        count = config.max_patches + config.class_token
        # A third axis each: they are no matrices, which Muon would orthogonalise.
        self.positions = nn.Parameter(0.02 * torch.randn(1, count, scope.d_model)) if learned else None
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, scope.d_model)) if config.class_token else None
        self.end = InputEnd(scope, config.norm)

    def forward(self, given: PatchBatch, stack: "Stack") -> Memory:
        """PatchBatch -> Memory (B, S + class token, d)"""
        self.refuse_others(given, PatchBatch)
        valid = given.valid
        values = given.values.masked_fill(~valid[..., None], 0.0)
        x = self.project(values.to(self.dtype))  # (B, S, d)
        added = self.position_vectors(given.grid, given.width)
        if added is not None:
            x = x + added.to(x.dtype)
        if self.class_token is not None:
            first = self.class_token if self.positions is None else self.class_token + self.positions[:, :1]
            x = torch.cat([first.to(x.dtype).expand(len(x), -1, -1), x], 1)
            valid = F.pad(valid, (1, 0), value=True)
        tokens = positions_from_start(x.shape[1], valid, x.device)
        memory: Memory = self.end(Memory(x, tokens), stack)
        return memory

    @property
    def dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def position_vectors(self, grid: Tensor, length: int) -> Tensor | None:
        """What is added to each patch, without the class token: (1 or B, S, d) for grids (B, 2); None: nothing."""
        if self.config.position == "none":
            return None
        sizes = [(int(rows), int(columns)) for rows, columns in grid.tolist()]
        tables = {size: self._table(*size) for size in dict.fromkeys(sizes)}
        padded = {size: F.pad(table, (0, 0, 0, length - len(table))) for size, table in tables.items()}
        if len(padded) == 1:
            return padded[sizes[0]][None]
        return torch.stack([padded[size] for size in sizes])

    def _table(self, rows: int, columns: int) -> Tensor:
        """(rows · columns, d), row by row."""
        if self.positions is None:
            return sinusoids_2d(rows, columns, self.width, self.device)
        own = self.positions[0, int(self.config.class_token) :]  # (N, d)
        side = self.config.grid
        if (rows, columns) == (side, side) or not rows * columns:
            return own[: rows * columns]
        square = own.T.reshape(1, self.width, side, side).to(torch.promote_types(own.dtype, torch.float32))
        resized = F.interpolate(square, (rows, columns), mode="bicubic", align_corners=False)
        return resized[0].flatten(1).T.to(own.dtype)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


def sinusoids_2d(rows: int, columns: int, width: int, device: torch.device) -> Tensor:
    """(rows · columns, width) in float64: sines and cosines of the row in the first half of the channels, of the column
    in the second, as in masked autoencoders."""
    row, column = torch.meshgrid(torch.arange(rows, device=device), torch.arange(columns, device=device), indexing="ij")
    halves = [sinusoids(index.flatten(), width // 2, layout="halves") for index in (row, column)]
    return torch.cat(halves, -1)


def stack_patches(pictures: Sequence[PatchArray]) -> PatchBatch:
    """Pictures of any sizes, padded with zeros."""
    width = max(len(picture.values) for picture in pictures)
    values = np.zeros((len(pictures), width, pictures[0].values.shape[1]), np.float32)
    for row, picture in zip(values, pictures):
        row[: len(picture.values)] = picture.values
    return PatchBatch(torch.from_numpy(values), torch.tensor([picture.grid for picture in pictures]))
