"""What a step makes smaller."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.nn.cache.kv import ModelState
from headway.nn.context import Report
from headway.nn.ops.cross_entropy import IGNORED, linear_cross_entropy
from headway.nn.statistics import Statistics, kept
from headway.nn.transformer import Transformer
from headway.train.guided_alignment import alignment_loss
from headway.train.objectives import Batch


class Told(NamedTuple):
    """Of a batch, as sums over its labels, or of a step, as means."""

    loss: Tensor  # ()
    parts: dict[str, Tensor]  # what it is the sum of, by name; empty where it is all cross-entropy
    statistics: Statistics  # what layers tell of themselves


def cross_entropy(
    model: Transformer,
    batch: Batch,
    smoothing: float = 0.0,
    report: Report | None = None,
    state: ModelState | None = None,
) -> Tensor:
    """Summed over the labels that count. Without smoothing it is what models are measured and compared by: nothing
    that layers or settings add to it in training is in it. With a state, the batch goes on where it stands."""
    output = model(batch.source, batch.inputs, batch.source_valid, batch.inputs_valid, report, state)
    x, weight, bias = model.factors(output.hidden)
    return linear_cross_entropy(x.flatten(0, 1), weight, bias, batch.labels.flatten(), smoothing)


def batch_loss(
    model: Transformer, batch: Batch, smoothing: float, alignment: Any = None, state: ModelState | None = None
) -> Told:
    """Cross-entropy with what layers add to it for each label that counts, and with that of a guided head where the
    batch knows which words are linked."""
    place = "" if batch.alignment is None else alignment.place(model.config)
    report = Report(watch=frozenset([place] if place else []))
    terms = {"cross_entropy": cross_entropy(model, batch, smoothing, report, state)}
    labelled = (batch.labels != IGNORED).sum()  # not batch.labelled: compiled code is made anew for each whole number
    for name, extra in report.losses:
        terms[name] = terms.get(name, 0) + extra * labelled
    if alignment is not None and alignment.kind != "none":
        terms["alignment"] = terms["cross_entropy"].new_zeros(())
    if place:
        weights = report.seen[place][:, alignment.head - 1]  # (B, T, S)
        terms["alignment"] = alignment.weight * alignment_loss(weights, batch)
    loss = torch.stack(list(terms.values())).sum()
    parts = {name: term.detach() for name, term in terms.items()} if len(terms) > 1 else {}
    return Told(loss, parts, kept(report.statistics, labelled > 0))


class Loss(nn.Module):
    """The same as a module, which is what processes that train together share."""

    def __init__(self, model: Transformer, smoothing: float, alignment: Any) -> None:
        super().__init__()
        self.model, self.smoothing, self.alignment = model, smoothing, alignment
        self.function = batch_loss

    def forward(self, batch: Batch, state: ModelState | None = None) -> Told:
        return self.function(self.model, batch, self.smoothing, self.alignment, state)
