"""Guided alignment: one cross-attention head learns which source words each target word comes from (Chen 2016, Garg
2019)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from headway.config.schema import Part, number
from headway.errors import ConfigError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.train.objectives import Batch

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class NoAlignment:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def check(self, model: "Transformer.Config") -> None:
            """Any model will do."""


class GuidedAlignment:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "guided"
        weight: float = number(0.05, low=0)  # of the alignment loss, relative to the cross-entropy of a token
        layer: int = number(0, low=0)  # of the decoder, counted from 1; 0: the last but one, or the only one
        head: int = number(1, low=1)  # of its cross-attention, counted from 1

        def check(self, model: "Transformer.Config") -> None:
            layers = model.decoder.layers
            if not (layers and model.encoder.layers):
                raise ConfigError(
                    'guided alignment needs an encoder and a decoder. Set it to "none", or train a translator.',
                    "train.alignment",
                )
            if self.layer > layers:
                raise ConfigError(
                    f"there is no layer {self.layer}: the decoder has layers 1 to {layers}. 0 means the last but one.",
                    "train.alignment.layer",
                )
            cross = model.decoder.tiled("cross")[self.layer_index(model)]
            if cross.kind != "attention":
                raise ConfigError(
                    f'the cross mixer of that layer is "{cross.kind}", which has no attention weights. Choose a layer '
                    'with "attention", or set it to "none".',
                    "train.alignment.layer",
                )
            if self.head > cross.heads:
                raise ConfigError(
                    f"there is no head {self.head}: that layer has heads 1 to {cross.heads}.", "train.alignment.head"
                )

        def layer_index(self, model: "Transformer.Config") -> int:
            """The layer, counted from 0."""
            return (self.layer or max(model.decoder.layers - 1, 1)) - 1

        def weights_name(self, model: "Transformer.Config") -> str:
            """The name under which a ForwardReport has the attention weights of that layer, (B, H, T, S)."""
            return f"decoder.{self.layer_index(model)}.cross.weights"


def alignment_loss(weights: Tensor, batch: Batch) -> Tensor:
    """-Σ_t Σ_s g(t, s) log a(t, s), where a (B, T, S) are the head's attention weights, and g is uniform over the
    source tokens linked with target token t. Summed over tokens, like the cross-entropy; tokens without links add 0."""
    assert batch.alignment is not None
    linked = batch.alignment & (batch.labels != IGNORE_INDEX)[:, :, None]  # (B, T, S)
    expected = linked / linked.sum(-1, keepdim=True).clamp_min(1)
    return -(expected * (weights.float() + 1e-6).log()).sum()
