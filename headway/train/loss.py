"""What a step makes smaller."""

import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.transformer import Transformer
from headway.train.objectives import IGNORED, Batch


def batch_loss(model: Transformer, batch: Batch, smoothing: float) -> Tensor:
    """Cross-entropy summed over the labels that count, with what layers add to it."""
    output = model(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid)
    logits = model.logits(output.hidden).float()  # (B, T, V)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum"
    )
    for _, extra in output.losses:
        loss = loss + extra * batch.labelled
    return loss


class Loss(nn.Module):
    """The same as a module, which is what processes that train together share."""

    def __init__(self, model: Transformer, smoothing: float) -> None:
        super().__init__()
        self.model, self.smoothing = model, smoothing
        self.function = batch_loss

    def forward(self, batch: Batch) -> Tensor:
        return self.function(self.model, batch, self.smoothing)
