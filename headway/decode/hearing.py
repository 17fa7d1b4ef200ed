"""How a static search takes in its source: by the encoder, and then as keys and values of all layers that listen."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.layers.feedforward import FeedForward, SwiGLU
from headway.nn.layers.linear import Dense
from headway.nn.mixers.attention import Attention
from headway.nn.sequence import Memory
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer

RECORDED = 1 << 14  # tokens: with more, the device takes longer than the host does
ENCODER_POSITIONS = ("none", "sinusoidal", "learned", "rope", "t5")  # that ask the host nothing


def can_read(model: Transformer, rows: int, width: int) -> bool:
    """Whether encoding so many rows and tokens, whatever they hold, can be recorded, and is worth it."""
    if "encoder" not in model.stacks or not 0 < rows * width <= RECORDED:
        return False
    stack: Stack = model.stacks["encoder"]  # type: ignore[assignment]
    positions: Any = model.config.encoder.position
    if any(
        part.kind not in ENCODER_POSITIONS or (part.kind == "learned" and width > part.longest) for part in positions
    ):
        return False
    blocks: list[Any] = list(stack.blocks)
    modules = [module for block in blocks for module in block.sublayers.values()]
    dense = all(isinstance(m.query, Dense) and m.config.kernel != "flex" for m in modules if type(m) is Attention)
    plain = all(mask.span is not None for mask in stack.masks)
    return dense and plain and all(type(m) in (Attention, FeedForward, SwiGLU) for m in modules)


class Ears:
    """The keys and values of all layers, in one product."""

    def __init__(self, layers: list[Attention]) -> None:
        parts: list[Any] = [part for layer in layers for part in (layer.key, layer.value)]
        self.parts, self.sizes = parts, [2 * len(part.weight) for part in parts[::2]]
        self.weight = torch.cat([part.weight for part in parts]).detach() if parts else None
        self.bias = torch.cat(self._biases()).detach() if any(part.bias is not None for part in parts) else None

    def _biases(self) -> list[Tensor]:
        return [torch.zeros_like(part.weight[:, 0]) if part.bias is None else part.bias for part in self.parts]

    def refresh(self) -> None:
        """Copy the weights again, to where they were: somebody may have trained them."""
        if self.weight is not None:
            torch.cat([part.weight for part in self.parts], out=self.weight)
        if self.bias is not None:
            torch.cat(self._biases(), out=self.bias)

    def hear(self, memory: Memory, kept: list[Tensor], heard: Tensor) -> None:
        """Into the first rows of kept, (2, B, G, S, D) each, and heard (B, 1, 1, S); the other rows hear something."""
        rows, size = memory.values.shape[:2]
        heard.fill_(-torch.inf)
        heard[rows:, :, :, 0].zero_()  # whoever hears nothing would be no number
        real = memory.places.valid
        if real is None:
            heard[:rows, :, :, :size].zero_()
        else:
            heard[:rows, 0, 0, :size].masked_fill_(real, 0.0)
        if self.weight is None:
            return
        said = torch.split(F.linear(memory.values, self.weight, self.bias), self.sizes, dim=-1)
        for part, to in zip(said, kept):
            apart = part.view(rows, size, 2, to.shape[2], -1)  # (B, S, 2, G, D)
            to[:, :rows, :, :size] = apart.permute(2, 0, 3, 1, 4)
