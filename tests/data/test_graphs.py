"""Graphs of a file of problems: read as they are written, and refused where they cannot be meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.data.graphs import MAX_NODES, Edge, Graph, read_graph
from headway.data.labelled_files import collect_rows, read_labelled
from headway.errors import HeadwayError


def test_read_and_written() -> None:
    table = {"nodes": [["a", 0.5, 1], ["b", 0, -2]], "edges": [[0, 1, 3]], "pointers": [1, None], "marks": [0, 1]}
    graph = read_graph(table, "x")
    assert graph == Graph(("a", "b"), ((0.5, 1), (0, -2)), (Edge(0, 1, (3,)),), (1, None), (0, 1))
    assert graph.to_table() == table
    assert read_graph({"nodes": [["a"]]}, "x").to_table() == {"nodes": [["a"]]}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], 'an object with "nodes"'),
        ({"nodes": []}, 'an object with "nodes"'),
        ({"nodes": [["a"]], "weights": []}, 'has no "weights"'),
        ({"nodes": [["a"]] * (MAX_NODES + 1)}, f"at most {MAX_NODES} are allowed"),
        ({"nodes": [[1, 2]]}, r"a node is \[name, number, …\], not \[1, 2\]"),
        ({"nodes": [["a", 1], ["b"]]}, "all nodes need as many numbers"),
        ({"nodes": [["a", "1"]]}, "'1' is no number up to 1,000,000"),
        ({"nodes": [["a", float("nan")]]}, "nan is no number"),
        ({"nodes": [["a", 10**400]]}, "is no number up to"),
        ({"nodes": [["a", True]]}, "True is no number"),
        ({"nodes": [["a", *[0] * 33]]}, "at most 32 numbers, not 33"),
        ({"nodes": [["a"]], "edges": [[0]]}, r"an edge is \[from, to, number, …\]"),
        ({"nodes": [["a"]], "edges": [[0, 1]]}, "1 is no number from 0 to 0"),
        ({"nodes": [["a"]], "edges": [[0, 0], [0, 0, 1]]}, "all edges need as many numbers"),
        ({"nodes": [["a"]], "edges": {}, "marks": "x"}, '"marks" of a graph is a list'),
        ({"nodes": [["a"]], "pointers": [0, 0]}, "2 pointers for 1 nodes"),
        ({"nodes": [["a"]], "marks": [2]}, "2 is no number from 0 to 1"),
    ],
)
def test_graphs_that_cannot_be_meant(table: Any, message: str) -> None:
    with pytest.raises(HeadwayError, match=f"^line 3: .*{message}"):
        read_graph(table, "line 3")


def test_files_of_problems(tmp_path: Path) -> None:
    graph = {"nodes": [["7", 0.1]], "marks": [1]}
    lines: list[Any] = [
        {"task": "odd", "text": "which?", "answer": 7, "graph": graph},
        {"problem": "sort 3 1 =", "answer": "1 3"},
        {"prompt": "2 + 2", "answer": "4", "graph": None},
    ]
    (tmp_path / "p.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "p.tsv").write_text("sort 3 1 =\t1 3\n")
    odd, known, plain, again = read_labelled([str(tmp_path / name) for name in ("p.jsonl", "p.tsv")], "solve").examples
    assert odd.texts == ("which?", "7") and odd.labels == ("odd",) and odd.graph == read_graph(graph, "x")
    assert known.labels == ("sort",) and known.graph is not None and known.graph.names == ("3", "1")
    assert plain.labels == () and plain.graph is None and again == known
    one, other = collect_rows(lines[:1], "solve"), collect_rows([lines[0] | {"graph": None}], "solve")
    assert one.identity != other.identity
    with pytest.raises(HeadwayError, match=r"data\[0\]: 1 is no number from 0 to 0"):
        collect_rows([lines[0] | {"graph": {"nodes": [["7"]], "edges": [[0, 1]]}}], "solve")
