"""What a step makes smaller."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.context import Report
from headway.nn.state import ModelState
from headway.nn.transformer import Transformer
from headway.train.alignment import alignment_loss
from headway.train.objectives import IGNORED, Batch


def batch_loss(
    model: Transformer, batch: Batch, smoothing: float, alignment: Any = None, state: ModelState | None = None
) -> Tensor:
    """Cross-entropy summed over the labels that count, with what layers add to it, and with that of a guided head
    where the batch knows which words are linked. With a state, the batch goes on where it stands."""
    place = "" if batch.alignment is None else alignment.place(model.config)
    report = Report(watch=frozenset([place])) if place else None
    output = model(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid, report, state)
    logits = model.logits(output.hidden).float()  # (B, T, V)
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum"
    )
    for _, extra in output.losses:
        loss = loss + extra * batch.labelled
    if report is not None:
        weights = report.seen[place][:, alignment.head - 1]  # (B, T, S)
        loss = loss + alignment.weight * alignment_loss(weights, batch)
    return loss


class Loss(nn.Module):
    """The same as a module, which is what processes that train together share."""

    def __init__(self, model: Transformer, smoothing: float, alignment: Any) -> None:
        super().__init__()
        self.model, self.smoothing, self.alignment = model, smoothing, alignment
        self.function = batch_loss

    def forward(self, batch: Batch, state: ModelState | None = None) -> Tensor:
        return self.function(self.model, batch, self.smoothing, self.alignment, state)
