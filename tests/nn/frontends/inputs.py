"""Small models with each front end of the catalogue, and random things for them to read."""

from typing import Any

import torch

from headway.config.schema import from_dict
from headway.nn.frontends.frontend import FrameBatch, MediaBatch, PatchBatch
from headway.nn.transformer import Transformer

SMALL = {"patches": "patches(2, 8)", "mel": "mel(5, 0.4)"}  # 16 patches of 12 values; 40 frames of 5 bins
POSITIONS = {"patches": ("learned", "sinusoidal", "none"), "mel": ("sinusoidal", "learned", "none")}


def front_end_config(frontend: Any, *, encoder: Any = None, decoder: Any = None, **changes: Any) -> Transformer.Config:
    """An encoder of two layers behind this front end; with a decoder if one is given."""
    both = {"layers": 2, "mixer": "attention(4)", "feedforward": "gelu(24)", "residual": "pre"}
    table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "head": "logits" if decoder else "pooled(3, 'mean')"}
    table |= changes
    table["encoder"] = {**both, "position": "none", "frontend": frontend, **(encoder or {})}
    table["decoder"] = {**both, **decoder} if decoder else {"layers": 0}
    return from_dict(Transformer.Config, table)


def small_model(frontend: Any, **changes: Any) -> Transformer:
    torch.manual_seed(0)
    return Transformer(front_end_config(frontend, **changes)).double().eval()


def random_media(kind: str, sizes: Any = None) -> MediaBatch:
    """A batch whose entries have these sizes: grids of patches, or numbers of frames. Padding is full of NaN."""
    generator = torch.Generator().manual_seed(3)
    if kind == "mel":
        lengths = torch.tensor(sizes or [7, 2, 12])
        values = torch.randn(len(lengths), int(lengths.max()), 5, generator=generator, dtype=torch.float64)
        frames = FrameBatch(values, lengths)
        return FrameBatch(values.masked_fill(~frames.valid[..., None], torch.nan), lengths)
    grid = torch.tensor(sizes or [[2, 3], [4, 4], [1, 2]])
    values = torch.randn(len(grid), int(grid.prod(1).max()), 12, generator=generator, dtype=torch.float64)
    patches = PatchBatch(values, grid)
    return PatchBatch(values.masked_fill(~patches.valid[..., None], torch.nan), grid)


def single(batch: MediaBatch, row: int) -> MediaBatch:
    """One entry without padding."""
    width = int(batch.valid[row].sum())
    return type(batch)(batch.values[row : row + 1, :width], batch[1][row : row + 1])
