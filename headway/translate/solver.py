"""Solver: a decoder that writes the answer to a problem, and may have a graph reasoner that it listens to.

Made by `headway.load` of a model that was trained with --task solve."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from headway.config.search import Search
from headway.data.graphs import read_graph
from headway.data.labelled_files import LabelledExample
from headway.data.toy.algorithms import parse_problem
from headway.decode import decode
from headway.decode.batching import batch_by_size
from headway.decode.padding import pad_rows
from headway.decode.reference.model import ModelStepper
from headway.decode.types import Hypothesis, Recorder
from headway.errors import HeadwayError
from headway.nn.cache.kv import DecoderState
from headway.nn.graphs import Graphs
from headway.nn.reasoner import Reasoning
from headway.storage.model_dir import LoadedModel
from headway.text.problems import encode_problem, normalise_answer
from headway.translate.graph_batches import EncodedGraph, collate_graphs, graph_encoder
from headway.translate.language_model import LanguageModel, Prompt

if TYPE_CHECKING:
    from headway.translate.backends import Engines

BATCH_TOKENS = 4096  # of problems that are solved together, padding included
MORE_TOKENS = 16  # that an answer may have than its problem

Given = str | dict[str, Any] | LabelledExample


class PosedProblem(NamedTuple):
    """A problem as the model reads it."""

    text: str
    ids: list[int]
    graph: EncodedGraph | None
    names: tuple[str, ...]  # of the nodes


@dataclass(frozen=True)
class Answer:
    text: str
    probability: float  # of this answer
    nodes: tuple[str, ...] = ()  # names, as many as pointers and marks
    pointers: tuple[int, ...] = ()  # the node that each points at, as the reasoner says
    marks: tuple[float, ...] = ()  # how likely each is marked
    nodes_right: bool | None = None  # all of them, where the targets are known


class GraphStepper(ModelStepper):
    """A decoder with the nodes of a graph for each row. A source is a row as long as the problem, which begins with the
    index of its graph."""

    def __init__(self, model: Any, compute: Any, graphs: Sequence[EncodedGraph | None] = ()) -> None:
        super().__init__(model, compute)
        self.graphs = graphs
        self.reasoned: dict[int, tuple[Reasoning, int]] = {}  # by index: of its batch, and its row there
        self.targets: dict[int, Graphs] = {}

    def with_graphs(self, graphs: Sequence[EncodedGraph | None]) -> "GraphStepper":
        """The same model for other graphs."""
        other = GraphStepper(self.model, self.compute, graphs)
        other._reference_model = self.reference_model
        return other

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> DecoderState:
        if source is None:
            return super().start(None, None, rows)
        model = self.reference_model
        numbers = source[:, 0].tolist()
        batch = collate_graphs([self.graphs[number] for number in numbers])
        if batch is None or model.reasoner is None:
            return model.new_state(rows)
        found = model.reasoner(batch.to(self.device))
        for row, number in enumerate(numbers):
            self.reasoned[number] = (found, row)
            self.targets[number] = batch
        return model.new_state(rows, nodes=found.memory)


class Solver(LanguageModel):
    """model.solve(["sort 31 7 52 ="]) gives answers."""

    def __init__(self, loaded: LoadedModel, engines: "Engines | None" = None) -> None:
        super().__init__(loaded, engines)
        self.stepper = self._model_stepper = GraphStepper(self.model, self._model_stepper.compute)
        self.encoder = graph_encoder(self.config, self.tokenizer)
        self.kinds: tuple[str, ...] = self.config.labels or ()

    def __repr__(self) -> str:
        reasoner = "" if self.encoder is None else " with a graph reasoner"
        return super().__repr__().replace("LanguageModel", "Solver").replace("solve", f"solve{reasoner}", 1)

    def make_prompt(self, text: str) -> Prompt:
        raise HeadwayError("this model was trained for the task solve: it continues no text. Try: headway predict")

    @torch.no_grad()
    def solve(self, problems: Sequence[Given], beam_size: int = 1) -> list[Answer]:
        """The answer to each problem, whatever others there are.

        problems: texts, whose graph is found if they are written as `headway toy` writes them; or tables with "text"
            and "graph", as in a file of problems"""
        if isinstance(problems, str):
            raise HeadwayError("solve takes a list of problems, not one: write solve([problem]).")
        self.stepper.check_process()
        posed = [self.pose(problem, f"problem {number}") for number, problem in enumerate(problems)]
        answers: list[Answer] = [Answer("", 0.0)] * len(posed)
        numbered = [(number, one) for number, one in enumerate(posed) if one.text]
        for batch in batch_by_size(numbered, lambda pair: len(pair[1].ids), BATCH_TOKENS):
            for (number, _), answer in zip(batch, self._solve_batch([one for _, one in batch], beam_size)):
                answers[number] = answer
        return answers

    def pose(self, given: Given, where: str = "problem") -> PosedProblem:
        """A problem as the model reads it. `where`: what errors call it."""
        kind, graph = "", None
        if isinstance(given, dict):
            text = given.get("text")
            kind = str(given.get("task") or "")
            graph = None if given.get("graph") is None else read_graph(given["graph"], where)
        elif isinstance(given, LabelledExample):
            text, graph = given.texts[0], given.graph
            kind = given.labels[0] if given.labels else ""
        else:
            text = given
        if not isinstance(text, str):
            raise HeadwayError(f'{where} is {given!r:.60}: give a text, or a table with "text" and perhaps "graph".')
        text = text.strip()
        if graph is None and (known := parse_problem(text)):
            kind, graph = kind or known[0], known[1]
        ids = encode_problem(text, self.tokenizer) if text else []
        if len(ids) > (limit := self.config.train.max_tokens):
            raise HeadwayError(f"{where} has {len(ids)} tokens, and this model reads at most {limit}. Shorten it.")
        task = self.kinds.index(kind) if kind in self.kinds else -1
        encoded = None if self.encoder is None or graph is None else self.encoder.encode(graph, task)
        return PosedProblem(text, ids, encoded, () if graph is None else graph.names)

    def graphs_of(self, ids: Sequence[int]) -> Graphs | None:
        """The graph of a problem, and perhaps its answer, that the decoder reads as these ids."""
        text, found, _ = self.tokenizer.decode(list(ids)).partition("=")
        return collate_graphs([self.pose(text + found).graph]) if found else None

    def _solve_batch(self, posed: Sequence[PosedProblem], beam_size: int) -> list[Answer]:
        stepper = self.stepper.with_graphs([one.graph for one in posed])
        found = self.search_answers(posed, beam_size, stepper=stepper)
        answers = []
        for number, (one, hypotheses) in enumerate(zip(posed, found)):
            best = hypotheses[0]
            text = normalise_answer(self.tokenizer.decode(best.ids[best.prefix :]))
            answers.append(Answer(text, float(torch.tensor(best.logp).exp()), *self._read_nodes(stepper, number, one)))
        return answers

    def search_answers(
        self,
        posed: Sequence[PosedProblem],
        beam_size: int = 1,
        record: Recorder | None = None,
        stepper: GraphStepper | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each problem, best first; `record`: see headway.decode."""
        stepper = stepper or self.stepper.with_graphs([one.graph for one in posed])
        search = Search(beam_size=beam_size, max_ratio=2.0, max_extra=MORE_TOKENS, alpha=0.0)
        rows = [[number, *one.ids[1:]] for number, one in enumerate(posed)]
        return decode(
            stepper,
            *pad_rows(rows, 0, stepper.device),
            special_tokens=self.special_tokens,
            search=search,
            prefixes=[one.ids[1:] for one in posed],
            record=record,
        )

    @staticmethod
    def _read_nodes(
        stepper: GraphStepper, number: int, posed: PosedProblem
    ) -> tuple[tuple[str, ...], tuple[int, ...], tuple[float, ...], bool | None]:
        if number not in stepper.reasoned or posed.graph is None:
            return (), (), (), None
        found, row = stepper.reasoned[number]
        count = len(posed.names)
        pointers = found.pointers[row, :count].argmax(-1).tolist()
        marks = found.marks[row, :count].sigmoid().tolist()
        right = bool(found.correct(stepper.targets[number].to(found.marks.device))[row])
        return posed.names, tuple(pointers), tuple(marks), right
