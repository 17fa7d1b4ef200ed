"""Algorithmic problems: every answer is right, by another algorithm; graph and text say the same; tests are not trained
on, and the same seed gives the same files."""

import json
import random
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from headway.data.graphs import read_graph
from headway.data.toy.algorithms import (
    ALGORITHMS,
    LETTERS,
    TEST_LINES,
    VALID_LINES,
    Problem,
    draw_problems,
    find_algorithms,
    parse_problem,
    write_problems,
)
from headway.errors import HeadwayError


def draw(name: str, size: int, count: int = 30) -> list[Problem]:
    return draw_problems(find_algorithms(name), random.Random(1), size, size, count, set())


def follow(problem: Problem, start: int) -> str:
    """The names that pointers lead to, until one points at itself."""
    graph, path = problem.graph, [start]
    while (following := graph.pointers[path[-1]]) != path[-1]:
        assert following is not None and len(path) < 99
        path.append(following)
    return " ".join(graph.names[node] for node in path)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_text_and_graph_say_the_same(name: str) -> None:
    for size in (2, 3, 4, 9, 26):
        for problem in draw(name, size, 5):
            assert problem.task == name and problem.text.endswith(" =")
            found = parse_problem(problem.text)
            assert found is not None and found == (name, problem.graph._replace(pointers=(), marks=()))
            assert (
                len(problem.graph.names)
                == size + (name == "search")
                == len(set(problem.graph.names))
                + (name == "search" and problem.graph.names[0] in problem.graph.names[1:])
            )
            table = json.loads(problem.to_line())
            assert (table["task"], table["text"], table["answer"]) == problem[:3]
            assert read_graph(table["graph"], "x") == problem.graph


def test_numbers() -> None:
    for problem in draw("minimum", 7):
        values = [int(word) for word in problem.text.split()[1:-1]]
        assert int(problem.answer) == min(values) and len(values) == 7
        assert [name for name, mark in zip(problem.graph.names, problem.graph.marks) if mark] == [problem.answer]
    for problem in draw("search", 7):
        wanted, *values = [int(word) for word in problem.text.replace(":", "").split()[1:-1]]
        assert values == sorted(values) and int(problem.answer) == min(value for value in values if value >= wanted)
        assert problem.graph.numbers[0] == (wanted / 100, 1, 0) and problem.graph.marks[0] == 0
    for problem in draw("sort", 7):
        values = [int(word) for word in problem.text.split()[1:-1]]
        assert [int(word) for word in problem.answer.split()] == sorted(values)
        assert follow(problem, problem.graph.marks.index(1)) == problem.answer


def read_weights(problem: Problem) -> dict[tuple[str, str], float]:
    names = problem.graph.names
    return {(names[edge.start], names[edge.end]): edge.numbers[0] for edge in problem.graph.edges}


@pytest.mark.parametrize("name", ["bfs", "shortest_path"])
def test_paths_are_the_only_shortest_ones(name: str) -> None:
    """Against all paths there are."""
    longest = 0
    for problem in draw(name, 6, 40):
        weights, (start, end) = read_weights(problem), problem.text.split()[1:3]
        assert (set(weights.values()) == {0.1}) == (name == "bfs") or len(weights) < 14
        others = [node for node in problem.graph.names if node not in (start, end)]
        paths = [(start, *middle, end) for count in range(5) for middle in permutations(others, count)]
        lengths = {
            path: round(sum(weights[step] for step in pairwise(path)), 6)
            for path in paths
            if all(step in weights for step in pairwise(path))
        }
        best = min(lengths.values())
        assert [" ".join(path) for path, length in lengths.items() if length == best] == [problem.answer]
        assert follow(problem, problem.graph.names.index(start)) == problem.answer
        longest = max(longest, len(problem.answer.split()))
    assert longest >= 4


def test_components() -> None:
    sizes = set()
    for problem in draw("components", 8, 60):
        start, links = problem.text.split()[1], [word.split("-") for word in problem.text.split()[3:-1]]
        members = {start}
        for _ in links:
            members |= {name for link in links for name in link if members.intersection(link)}
        assert problem.answer == " ".join(sorted(members))
        assert follow(problem, problem.graph.names.index(min(members))) == problem.answer
        assert {name for name, mark in zip(problem.graph.names, problem.graph.marks) if mark} == members
        sizes.add(len(members))
    assert min(sizes) == 2 and max(sizes) == 8


@pytest.mark.parametrize(
    "text",
    ["", "sort", "sort 3 1", "sort 3 100 =", "search 3 1 =", "sort 3 : 1 2 =", "bfs a : a-b =", "component a b : a-b =",
     "minimum " + "1 " * 65 + "=", "sort ١ =", "bfs a b : " + "a-b " * 2000 + "=", "hello"],
)  # fmt: skip
def test_other_text_is_no_problem(text: str) -> None:
    assert parse_problem(text) is None


def test_files(tmp_path: Path) -> None:
    files = write_problems(tmp_path / "a", "algorithms", 6, lines=300, test_sizes=(6, 12), seed=3)
    assert [file.name for file in files] == ["train.jsonl", "valid.jsonl", "test-6.jsonl", "test-12.jsonl"]
    tables: dict[str, list[Any]] = {
        file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in files
    }
    assert [len(own) for own in tables.values()] == [300, VALID_LINES, TEST_LINES, TEST_LINES]
    tested = {table["text"] for name in ("test-6", "test-12") for table in tables[name]}
    assert len(tested) == 2 * TEST_LINES and not tested & {table["text"] for table in tables["train"]}
    assert {table["task"] for table in tables["test-12"]} == set(ALGORITHMS)
    assert {len(table["graph"]["nodes"]) for table in tables["test-12"]} == {12, 13}
    assert {len(table["graph"]["nodes"]) for table in tables["train"] if table["task"] == "sort"} == {2, 3, 4, 5, 6}
    again = write_problems(tmp_path / "b", "algorithms", 5, lines=30, test_sizes=(12,), seed=3)
    assert again[-1].read_bytes() == files[-1].read_bytes()  # whatever is trained on


@pytest.mark.parametrize(
    ("name", "size", "settings", "message"),
    [
        ("sorted", 4, {}, 'Did you mean "sort"'),
        ("bfs", len(LETTERS) + 1, {}, "must be from 2 to 26, not 27"),
        ("sort", 4, {"test_sizes": (1,)}, "must be from 2 to 64, not 1"),
        ("sort", 4, {"lines": 10**7}, "lines must be from 1 to 1,000,000"),
        ("bfs", 2, {"test_lines": 2000}, "bfs of size 2 has too few different problems for 2000 lines"),
    ],
)
def test_impossible_files(name: str, size: int, settings: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=message):
        write_problems(tmp_path / "x", name, size, **settings)
    assert not (tmp_path / "x").exists()
