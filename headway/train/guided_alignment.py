"""Guided alignment: one head of the decoder learns which source words say each target word (Chen 2016, Garg 2019)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORED
from headway.train.objectives import Batch

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class NoAlignment:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def refuse(self, model: "Transformer.Config") -> None:
            """Nothing is asked of the model."""


class Guided:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "guided"
        weight: float = number(0.05, low=0)  # of a target word's alignment, where guessing the word weighs 1
        layer: int = number(0, low=0)  # of the decoder, counted from 1; 0: the last but one, or the only one
        head: int = number(1, low=1)  # of its attention to the source, counted from 1

        def refuse(self, model: "Transformer.Config") -> None:
            layers = model.decoder.layers
            if not (layers and model.encoder.layers):
                raise ConfigError(
                    'an alignment joins words of two sides, and this model has one. Set it to "none", or train a '
                    "translator.",
                    "train.alignment",
                )
            if self.layer > layers:
                raise ConfigError(
                    f"there is no layer {self.layer}: the decoder has 1 to {layers}. 0 takes the last but one.",
                    "train.alignment.layer",
                )
            cross = model.decoder.tiled("cross")[self.index(model)]
            if cross.kind != "attention":
                raise ConfigError(
                    f'the decoder listens to the source by "{cross.kind}" there, which has no weights to read an '
                    'alignment from. Choose a layer with "attention", or set it to "none".',
                    "train.alignment.layer",
                )
            if self.head > cross.heads:
                raise ConfigError(
                    f"there is no head {self.head}: that layer has 1 to {cross.heads}.", "train.alignment.head"
                )

        def index(self, model: "Transformer.Config") -> int:
            """The layer, counted from 0."""
            return (self.layer or max(model.decoder.layers - 1, 1)) - 1

        def place(self, model: "Transformer.Config") -> str:
            """Where a Report has the weights of all heads of that layer, (B, H, T, S)."""
            return f"decoder.{self.index(model)}.cross.weights"


def alignment_loss(weights: Tensor, batch: Batch) -> Tensor:
    """-Σ_t Σ_s g(t, s) log a(t, s), where a (B, T, S) are the head's weights and g is even over the source tokens that
    are linked with target token t. A sum over tokens, as the loss of the words is; what has no link adds nothing."""
    assert batch.alignment is not None
    linked = batch.alignment & (batch.labels != IGNORED)[:, :, None]  # (B, T, S)
    wanted = linked / linked.sum(-1, keepdim=True).clamp_min(1)
    return -(wanted * (weights.float() + 1e-6).log()).sum()
