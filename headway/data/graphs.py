"""Graphs beside texts: nodes with a name and numbers, directed edges with numbers, and what shall be said of each node.

    {"nodes": [["7", 0.07], ["31", 0.31]],     name, numbers
     "edges": [[0, 1, 0.5]],                   from, to, numbers
     "pointers": [1, 1],                       the node that each shall point at; null: any
     "marks": [1, 0]}                          which shall be marked; null: either

Edges, pointers and marks may be left out. Needs no torch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from headway.errors import HeadwayError

MAX_NODES = 128  # of a graph: messages go between all pairs, so that memory grows with the square
MAX_NUMBERS = 32  # of a node or an edge
LARGEST_NUMBER = 1e6  # what is larger would drown all others


class Edge(NamedTuple):
    start: int
    end: int
    numbers: tuple[float, ...] = ()


class Graph(NamedTuple):
    names: tuple[str, ...]
    numbers: tuple[tuple[float, ...], ...]  # of each node, as many
    edges: tuple[Edge, ...] = ()
    pointers: tuple[int | None, ...] = ()  # none, or one for each node
    marks: tuple[int | None, ...] = ()  # likewise

    def to_table(self) -> dict[str, Any]:
        """As JSON has it; integers stay integers."""
        table: dict[str, Any] = {"nodes": [[name, *own] for name, own in zip(self.names, self.numbers)]}
        if self.edges:
            table["edges"] = [[edge.start, edge.end, *edge.numbers] for edge in self.edges]
        for name, values in (("pointers", self.pointers), ("marks", self.marks)):
            if values:
                table[name] = list(values)
        return table


def read_graph(table: Any, where: str) -> Graph:
    """The graph of a table. Raises HeadwayError, which begins with `where`."""
    if not isinstance(table, dict) or not isinstance(table.get("nodes"), list) or not table["nodes"]:
        raise HeadwayError(f'{where}: a graph is an object with "nodes", a list of [name, number, …].')
    if unknown := sorted(table.keys() - {"nodes", "edges", "pointers", "marks"}):
        raise HeadwayError(f'{where}: a graph has no "{unknown[0]}". Known: nodes, edges, pointers, marks.')
    count = len(table["nodes"])
    if count > MAX_NODES:
        raise HeadwayError(f"{where}: the graph has {count:,} nodes, and at most {MAX_NODES} are allowed.")
    names, numbers = [], []
    for node in table["nodes"]:
        if not isinstance(node, list) or not node or not isinstance(node[0], str):
            raise HeadwayError(f"{where}: a node is [name, number, …], not {node!r:.60}.")
        names.append(node[0])
        numbers.append(_read_numbers(node[1:], where))
    if len({len(own) for own in numbers}) > 1:
        raise HeadwayError(f"{where}: all nodes need as many numbers as each other.")
    edges = []
    for edge in _read_list(table, "edges", where):
        if not isinstance(edge, list) or len(edge) < 2:
            raise HeadwayError(f"{where}: an edge is [from, to, number, …], not {edge!r:.60}.")
        start, end = (_read_node(value, count, where) for value in edge[:2])
        edges.append(Edge(start, end, _read_numbers(edge[2:], where)))
    if len({len(edge.numbers) for edge in edges}) > 1:
        raise HeadwayError(f"{where}: all edges need as many numbers as each other.")
    targets = {}
    for name, limit in (("pointers", count), ("marks", 2)):
        values = _read_list(table, name, where)
        if values and len(values) != count:
            raise HeadwayError(f"{where}: {len(values)} {name} for {count} nodes. Give one for each, or null.")
        targets[name] = tuple(None if value is None else _read_node(value, limit, where) for value in values)
    return Graph(tuple(names), tuple(numbers), tuple(edges), targets["pointers"], targets["marks"])


def _read_list(table: dict[str, Any], name: str, where: str) -> Sequence[Any]:
    values = table.get(name) or []
    if not isinstance(values, list):
        raise HeadwayError(f'{where}: "{name}" of a graph is a list, not {values!r:.60}.')
    return values


def _read_node(value: Any, count: int, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise HeadwayError(f"{where}: {value!r:.20} is no number from 0 to {count - 1}.")
    return value


def _read_numbers(values: list[Any], where: str) -> tuple[float, ...]:
    if len(values) > MAX_NUMBERS:
        raise HeadwayError(f"{where}: a node or an edge has at most {MAX_NUMBERS} numbers, not {len(values)}.")
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
            raise HeadwayError(
                f"{where}: {value!r:.20} is no number up to {LARGEST_NUMBER:,.0f}. Scale all numbers to about 1."
            )
    return tuple(values)
