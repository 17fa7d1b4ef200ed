"""The objective of models that solve problems: the answer after the problem, and with a reasoner what is to be said of
the nodes of its graph (TransNAR).

    Example(source: problem, target: answer, graph) ─► collate() ─► loss(): answers, and nodes beside them
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from headway.config.schema import number
from headway.errors import ConfigError
from headway.nn.context import ForwardReport
from headway.nn.ops.cross_entropy import IGNORE_INDEX, linear_cross_entropy
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.objectives import Batch, Example, pad_sequences, refuse_predicted_length
from headway.train.task_objectives import TaskConfig
from headway.translate.graph_batches import collate_graphs

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer


class SolveObjective:
    """Predict each token of the answer, given the problem, its graph, and the tokens before."""

    @dataclass(frozen=True, kw_only=True)
    class Config(TaskConfig):
        kind: str = "solve"
        answers: float = number(1.0, low=0)  # weight of their loss; 0: the reasoner is trained alone
        nodes: float = number(1.0, low=0)  # weight of the loss of nodes, a mean like that of answers
        frozen: bool = False  # the reasoner stays as it is: for one that was trained before

        def check(self, model: "Transformer.Config") -> None:
            if model.encoder.layers or not model.decoder.layers:
                raise ConfigError(
                    '"solve" needs a decoder only, which reads the problem and writes the answer. Set encoder.layers = '
                    "0, or take the preset transnar.",
                    "model",
                )
            refuse_predicted_length(model, self.kind)
            if model.reasoner is None and (self.frozen or not self.answers):
                setting = "frozen = true" if self.frozen else "answers = 0"
                raise ConfigError(f"{setting} is for a model with a reasoner. Leave it out.", "train.objective")
            if self.frozen and not self.answers:
                raise ConfigError("with frozen = true and answers = 0 nothing is trained.", "train.objective")

        def prepare(self, model: "Transformer") -> None:
            """What is not trained needs no gradients."""
            for name, parameter in model.named_parameters():
                of_reasoner = name.startswith("reasoner.")
                if (of_reasoner and self.frozen) or (not of_reasoner and not self.answers):
                    parameter.requires_grad_(False)

        def collate(self, examples: Sequence[Example], special: SpecialTokens, random: np.random.Generator) -> Batch:
            whole = [np.concatenate([example.source, example.target]) for example in examples]
            asked = [np.full(len(example.source) - 1, IGNORE_INDEX, np.int64) for example in examples]
            inputs, valid = pad_sequences(whole, special.pad)
            spoken = [np.concatenate([before, example.target]) for before, example in zip(asked, examples)]
            labels, _ = pad_sequences(spoken, IGNORE_INDEX, tail=[special.end])
            count = sum(len(example.target) + 1 for example in examples)
            graphs = collate_graphs([example.graph for example in examples])
            return Batch(None, None, inputs, valid, labels, count, int(valid.sum()), graphs=graphs)

        def loss(self, model: "Transformer", batch: Batch, smoothing: float, report: ForwardReport | None) -> Tensor:
            assert batch.inputs is not None and isinstance(batch.inputs_valid, Tensor)
            nodes = None
            if model.reasoner is not None and batch.graphs is not None:
                found = model.reasoner(batch.graphs, report)
                nodes = found.memory
                if not self.answers:
                    nodes_loss: Tensor = found.loss(batch.graphs)
                    return nodes_loss * (batch.labels != IGNORE_INDEX).sum()
                if self.nodes and not self.frozen and report is not None:
                    report.losses.append(("nodes", self.nodes * found.loss(batch.graphs)))
            hidden = model.decode(batch.inputs, batch.inputs_valid, nodes=nodes, report=report)
            x, weight, bias = model.factors(hidden)
            losses = linear_cross_entropy(x.flatten(0, 1), weight, bias, batch.labels.flatten(), smoothing)
            return self.answers * losses
