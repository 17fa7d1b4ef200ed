"""The training loss: label-smoothed cross-entropy, auxiliary losses of layers, guided alignment."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.cache.kv import DecoderState
from headway.nn.context import ForwardReport
from headway.nn.ops.cross_entropy import IGNORE_INDEX, linear_cross_entropy
from headway.nn.statistics import LayerStatistics, PartialMean, zero_unless
from headway.nn.transformer import ModelOutput, Transformer
from headway.train.guided_alignment import alignment_loss
from headway.train.objectives import Batch
from headway.train.task_objectives import TaskConfig


class LossOutput(NamedTuple):
    """Of a batch: sums over its labels. Of a step: means."""

    loss: Tensor  # ()
    parts: dict[str, Tensor]  # the terms of the loss by name; empty if cross-entropy is the only one
    statistics: LayerStatistics  # reported by layers


def cross_entropy(
    model: Transformer,
    batch: Batch,
    smoothing: float = 0.0,
    report: ForwardReport | None = None,
    state: DecoderState | None = None,
) -> Tensor:
    """Summed over the labels that count. Without smoothing this is the validation loss: it contains nothing that layers
    or settings add in training. With a state, the batch continues where the state ends."""
    return token_loss(model, compute_hidden(model, batch, report, state), batch, smoothing)


def compute_hidden(
    model: Transformer, batch: Batch, report: ForwardReport | None = None, state: DecoderState | None = None
) -> Tensor:
    """(B, T, d) the input of the output head."""
    sides = (batch.source, batch.inputs, batch.source_valid, batch.inputs_valid)
    output: ModelOutput = model(*sides, report, state, batch.segments, batch.neighbours)
    return output.hidden


def token_loss(model: Transformer, hidden: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy, summed over the labels that count."""
    x, weight, bias = model.factors(hidden)
    return linear_cross_entropy(x.flatten(0, 1), weight, bias, batch.labels.flatten(), smoothing)


def objective_loss(
    model: Transformer,
    batch: Batch,
    objective: Any,
    smoothing: float = 0.0,
    report: ForwardReport | None = None,
    state: DecoderState | None = None,
) -> Tensor:
    """The loss of an objective that has its own (see headway.train.task_objectives), else cross-entropy; summed over
    the labels that count."""
    if isinstance(objective, TaskConfig):
        loss: Tensor = objective.loss(model, batch, smoothing, report)
        return loss
    return cross_entropy(model, batch, smoothing, report, state)


class PairScore(NamedTuple):
    """How well next sentences were told: sums over pairs."""

    loss: Tensor  # ()
    correct: Tensor  # ()
    pairs: Tensor  # ()


def score_pairs(model: Transformer, hidden: Tensor, follows: Tensor) -> PairScore:
    """follows (B,): the labels of the pairs, as in a Batch."""
    logits = model.head.next_sentence(hidden)  # (B, 2)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    loss = F.cross_entropy(logits, follows, ignore_index=IGNORE_INDEX, reduction="sum")
    return PairScore(loss, (logits.argmax(1) == follows).sum(), (follows != IGNORE_INDEX).sum())


def batch_loss(
    model: Transformer,
    batch: Batch,
    smoothing: float,
    alignment: Any = None,
    state: DecoderState | None = None,
    objective: Any = None,
) -> LossOutput:
    """That of the objective, by default cross-entropy; plus the auxiliary losses of layers for each label that counts,
    plus the guided alignment loss if the batch has an alignment, plus the mean loss of next sentences, as large as that
    of words, if it has pairs."""
    name = "" if batch.alignment is None else alignment.weights_name(model.config)
    report = ForwardReport(capture=frozenset([name] if name else []))
    if isinstance(objective, TaskConfig):
        hidden = None
        terms = {"cross_entropy": objective_loss(model, batch, objective, smoothing, report)}
    else:
        hidden = compute_hidden(model, batch, report, state)
        terms = {"cross_entropy": token_loss(model, hidden, batch, smoothing)}
    # Not batch.label_count: compiled code is specialised, and recompiled, for each int.
    label_count = (batch.labels != IGNORE_INDEX).sum()
    if batch.follows is not None and hidden is not None:
        found = score_pairs(model, hidden, batch.follows)
        terms["next_sentence"] = found.loss / found.pairs.clamp(min=1) * label_count
        report.statistics["next_sentence_accuracy"] = PartialMean(found.correct.detach().float(), found.pairs.float())
    for term, extra in report.losses:
        terms[term] = terms.get(term, 0) + extra * label_count
    if alignment is not None and alignment.kind != "none":
        terms["alignment"] = terms["cross_entropy"].new_zeros(())
    if name:
        weights = report.captured[name][:, alignment.head - 1]  # (B, T, S)
        terms["alignment"] = alignment.weight * alignment_loss(weights, batch)
    loss = torch.stack(list(terms.values())).sum()
    parts = {term: value.detach() for term, value in terms.items()} if len(terms) > 1 else {}
    return LossOutput(loss, parts, zero_unless(report.statistics, label_count > 0))


class LossModule(nn.Module):
    """`batch_loss` as a module, which DistributedDataParallel and torch.compile can wrap."""

    def __init__(self, model: Transformer, smoothing: float, alignment: Any, objective: Any = None) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.alignment = alignment
        self.objective = objective
        self.function = batch_loss

    def forward(self, batch: Batch, state: DecoderState | None = None) -> LossOutput:
        return self.function(self.model, batch, self.smoothing, self.alignment, state, self.objective)
