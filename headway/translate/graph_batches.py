"""Graphs of examples ─► EncodedGraph ─► one padded batch of Graphs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from headway.config.config import Config
from headway.data.graphs import Graph
from headway.nn.graphs import NO_NAME, Graphs
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.text.problems import encode_names
from headway.text.tokenizer.tokenizer import Tokenizer


class EncodedGraph(NamedTuple):
    """One graph as a model with these settings reads it."""

    numbers: np.ndarray  # (N, F) float32
    names: np.ndarray  # (N, P)
    edges: np.ndarray  # (M, 2) from, to
    edge_numbers: np.ndarray  # (M, E) float32
    task: int
    pointers: np.ndarray  # (N,)
    marks: np.ndarray  # (N,)


class GraphEncoder:
    """Graphs for a reasoner with so many numbers of a node and of an edge: what a graph has more is left out, and what
    it lacks is 0."""

    def __init__(self, numbers: int, edge_numbers: int, name_tokens: int, tokenizer: Tokenizer) -> None:
        self.numbers, self.edge_numbers, self.name_tokens = numbers, edge_numbers, name_tokens
        self.tokenizer = tokenizer
        self._names: dict[str, list[int]] = {}

    def encode(self, graph: Graph, task: int) -> EncodedGraph:
        names = np.full((len(graph.names), self.name_tokens), NO_NAME, np.int64)
        for row, ids in zip(names, encode_names(graph.names, self.tokenizer, self.name_tokens, self._names)):
            row[: len(ids)] = ids
        return EncodedGraph(
            _fit([list(own) for own in graph.numbers], self.numbers),
            names,
            np.array([edge[:2] for edge in graph.edges], np.int64).reshape(-1, 2),
            _fit([list(edge.numbers) for edge in graph.edges], self.edge_numbers),
            task,
            _targets(graph.pointers, len(graph.names)),
            _targets(graph.marks, len(graph.names)),
        )


def graph_encoder(config: Config, tokenizer: Tokenizer) -> GraphEncoder | None:
    """For the reasoner of this config; None if it has none."""
    part = config.model.reasoner
    return None if part is None else GraphEncoder(part.numbers, part.edge_numbers, part.name_tokens, tokenizer)


def _fit(rows: list[list[float]], width: int) -> np.ndarray:
    fitted = np.zeros((len(rows), width), np.float32)
    for row, own in zip(fitted, rows):
        row[: len(own)] = own[:width]
    return fitted


def _targets(values: Sequence[int | None], count: int) -> np.ndarray:
    given = values or [None] * count
    return np.array([IGNORE_INDEX if value is None else value for value in given], np.int64)


def collate_graphs(graphs: Sequence[EncodedGraph | None]) -> Graphs | None:
    """One padded batch; None if no row has a graph."""
    known = [graph for graph in graphs if graph is not None]
    if not known:
        return None
    rows, seats, first = len(graphs), max(len(graph.names) for graph in known), known[0]
    numbers = np.zeros((rows, seats, first.numbers.shape[1]), np.float32)
    names = np.full((rows, seats, first.names.shape[1]), NO_NAME, np.int64)
    valid = np.zeros((rows, seats), bool)
    edges = np.zeros((rows, seats, seats, first.edge_numbers.shape[1]), np.float32)
    adjacent = np.zeros((rows, seats, seats), bool)
    task = np.full(rows, -1, np.int64)
    pointers, marks = (np.full((rows, seats), IGNORE_INDEX, np.int64) for _ in range(2))
    for row, graph in enumerate(graphs):
        if graph is not None:
            count = len(graph.names)
            numbers[row, :count], names[row, :count], valid[row, :count] = graph.numbers, graph.names, True
            start, end = graph.edges.T
            edges[row, start, end], adjacent[row, start, end] = graph.edge_numbers, True
            task[row], pointers[row, :count], marks[row, :count] = graph.task, graph.pointers, graph.marks
    return Graphs(*map(torch.from_numpy, (numbers, names, valid, edges, adjacent, task, pointers, marks)))
