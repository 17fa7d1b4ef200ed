"""Patches against the embeddings of transformers' ViT, and their sinusoids against those of its masked autoencoder."""

from typing import Any

import pytest
import torch
from nn.frontends.inputs import front_end_config
from torch import Tensor
from transformers import ViTConfig
from transformers.models.vit.modeling_vit import ViTEmbeddings
from transformers.models.vit_mae.modeling_vit_mae import build_2d_sinusoidal_position_embedding

from headway.errors import ConfigError
from headway.nn.frontends.frontend import PatchBatch
from headway.nn.frontends.patches import sinusoids_2d
from headway.nn.transformer import Transformer


def cut(pixels: Tensor, patch: int) -> PatchBatch:
    """(B, C, H, W) -> patches, by torch's own unfold."""
    rows, columns = (side // patch for side in pixels.shape[2:])
    values = torch.nn.functional.unfold(pixels, patch, stride=patch).transpose(1, 2)
    return PatchBatch(values, torch.tensor([[rows, columns]] * len(pixels)))


def make_both(size: int = 12) -> tuple[Transformer, Any]:
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=16, image_size=size, patch_size=3, num_channels=1, hidden_dropout_prob=0.0)
    theirs = ViTEmbeddings(config).double().eval()
    torch.nn.init.normal_(theirs.position_embeddings)
    torch.nn.init.normal_(theirs.cls_token)
    ours = Transformer(front_end_config(f"patches(3, {size}, 1)")).double().eval()
    end: Any = ours.embeddings["encoder"]
    with torch.no_grad():
        end.positions.copy_(theirs.position_embeddings)
        end.class_token.copy_(theirs.cls_token)
        end.project.weight.copy_(theirs.patch_embeddings.projection.weight.flatten(1))
        end.project.bias.copy_(theirs.patch_embeddings.projection.bias)
    return ours, theirs


@torch.no_grad()
@pytest.mark.parametrize("shape", [(12, 12), (6, 12), (24, 18), (3, 3), (15, 9)])
def test_any_size_is_that_of_vit(shape: tuple[int, int]) -> None:
    """Interpolated, where it is not the size of the positions that were learned."""
    ours, theirs = make_both()
    pixels = torch.randn(2, 1, *shape, dtype=torch.float64)
    expected = theirs(pixels, interpolate_pos_encoding=shape != (12, 12))
    found = ours.embeddings["encoder"](cut(pixels, 3), ours.stacks["encoder"]).values
    # What interpolates positions computes in float32 there.
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_sizes_may_differ_in_a_batch() -> None:
    ours, theirs = make_both()
    pixels = [torch.randn(1, 1, *shape, dtype=torch.float64) for shape in ((9, 3), (12, 12), (6, 15))]
    parts = [cut(one, 3) for one in pixels]
    width = max(part.width for part in parts)
    values = torch.cat([torch.nn.functional.pad(p.values, (0, 0, 0, width - p.width), value=torch.nan) for p in parts])
    memory = ours.embeddings["encoder"](PatchBatch(values, torch.cat([p.grid for p in parts])), ours.stacks["encoder"])
    for row, one in enumerate(pixels):
        expected = theirs(one, interpolate_pos_encoding=True)[0]
        torch.testing.assert_close(memory.values[row, : len(expected)], expected, rtol=0, atol=1e-9)
        assert memory.positions.valid[row].sum() == len(expected)


@pytest.mark.parametrize(("rows", "columns"), [(5, 5), (2, 7), (1, 1)])
def test_sinusoids_are_those_of_masked_autoencoders(rows: int, columns: int) -> None:
    expected = build_2d_sinusoidal_position_embedding(rows, columns, 24, dtype=torch.float64)
    found = sinusoids_2d(rows, columns, 24, torch.device("cpu"))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("written", "where", "message"),
    [
        ("patches(5, 16)", "size", "pictures of 16 pixels cannot be cut into patches of 5"),
        ("patches(1, 2048)", "patch", "2048 patches on a side are more than 1024"),
        ("patches(4, 16, mean=[0.5, 0.4])", "mean", "2 values for 3 channels"),
        ("patches(4, 16, deviation=[0.5, 0.4, 0.0])", "deviation", "give positive numbers"),
    ],
)
def test_impossible_settings_are_refused(written: str, where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        front_end_config(written).resolved()
    assert caught.value.where == f"encoder.frontend.{where}"
