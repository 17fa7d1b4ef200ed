"""Algorithmic problems as text and as a graph, with the answer: for models that reason over graphs.

    minimum         minimum 31 7 52 =                     7
    search          search 40 : 7 31 52 =                 52        the first that is not smaller
    sort            sort 31 7 52 =                        7 31 52
    bfs             bfs a c : a-d d-c a-e =               a d c     the path with the fewest edges
    shortest_path   shortest_path a c : a-c 9 a-d 2 d-c 3 =   a d c     the one with the smallest sum
    components      component a : a-d e-f =               a d       all that can be reached, by name

Nodes of the graph are the numbers, or the named nodes; each has three numbers: its value from 0 to 1 (of a letter, its
place in the alphabet), whether the problem begins at it, and whether it ends there. Edges are given in both directions,
with their weight. Targets are pointers (the next number, the next node on the way to the end, the next name of the
component) and marks (the answer, or where it begins, or who belongs to it).

Names and numbers are drawn anew for each problem from those that all sizes share: a longer problem has no unseen word.
"""

import json
import random
import re
import string
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

from headway.data.graphs import Edge, Graph
from headway.data.toy.output import write_texts
from headway.errors import HeadwayError, did_you_mean

HIGHEST = 99  # number
LONGEST_WEIGHT = 9  # of an edge
LETTERS = string.ascii_lowercase
MIN_SIZE = 2  # numbers or nodes
DEFAULT_SIZE = 8
MIXTURE = "algorithms"  # all of them, in turn
VALID_LINES = 500
TEST_LINES = 200
MAX_LINES = 10**6
MAX_MISSES = 500  # draws of known problems in a row, before an algorithm is said to have too few

Links = dict[tuple[str, str], int]  # undirected edges, as written, with their weights


class Problem(NamedTuple):
    task: str
    text: str  # ends with =
    answer: str
    graph: Graph

    def to_line(self) -> str:
        table = {"task": self.task, "text": self.text, "answer": self.answer, "graph": self.graph.to_table()}
        return json.dumps(table, separators=(",", ":"))


@dataclass(frozen=True)
class Algorithm:
    """`draw` makes a problem of exactly this size: so many numbers, or nodes."""

    name: str
    summary: str
    draw: Callable[[random.Random, int], Problem]
    max_size: int = 64

    def check_size(self, size: int) -> None:
        if not MIN_SIZE <= size <= self.max_size:
            raise HeadwayError(
                f"the length of {self.name} counts its numbers or nodes: it must be from {MIN_SIZE} to "
                f"{self.max_size}, not {size}."
            )


def draw_minimum(dice: random.Random, size: int) -> Problem:
    values = dice.sample(range(HIGHEST + 1), size)
    smallest = min(values)
    graph = number_graph(values)._replace(marks=tuple(int(value == smallest) for value in values))
    return Problem("minimum", f"minimum {_join(values)} =", str(smallest), graph)


def draw_search(dice: random.Random, size: int) -> Problem:
    values = sorted(dice.sample(range(HIGHEST + 1), size))
    wanted = dice.randint(0, values[-1])
    found = next(value for value in values if value >= wanted)
    graph = number_graph(values, wanted)._replace(marks=(0, *(int(value == found) for value in values)))
    return Problem("search", f"search {wanted} : {_join(values)} =", str(found), graph)


def draw_sort(dice: random.Random, size: int) -> Problem:
    values = dice.sample(range(HIGHEST + 1), size)
    ordered = sorted(values)
    following = dict(zip(ordered, [*ordered[1:], ordered[-1]]))
    graph = number_graph(values)._replace(
        pointers=tuple(values.index(following[value]) for value in values),
        marks=tuple(int(value == ordered[0]) for value in values),
    )
    return Problem("sort", f"sort {_join(values)} =", _join(ordered), graph)


def draw_bfs(dice: random.Random, size: int) -> Problem:
    return _draw_path(dice, size, "bfs", weighted=False)


def draw_shortest_path(dice: random.Random, size: int) -> Problem:
    return _draw_path(dice, size, "shortest_path", weighted=True)


def draw_components(dice: random.Random, size: int) -> Problem:
    names = dice.sample(LETTERS, size)
    links: Links = {}
    first = 0
    while first < size:  # components of two nodes or more
        left = size - first
        count = dice.randint(2, left - 2) if left >= 4 and dice.random() < 0.75 else left
        links |= _draw_links(dice, names[first : first + count], count // 4)
        first += count
    links = dict(dice.sample(list(links.items()), len(links)))
    start = dice.choice(names)
    distances, _ = find_distances(links, start)
    members = sorted(distances)
    graph = named_graph(links, start)
    following = dict(zip(members, [*members[1:], members[-1]]))
    graph = graph._replace(
        pointers=tuple(graph.names.index(following[name]) if name in following else None for name in graph.names),
        marks=tuple(int(name in following) for name in graph.names),
    )
    return Problem("components", f"component {start} : {_write_links(links, False)} =", _join(members), graph)


def _draw_path(dice: random.Random, size: int, task: str, weighted: bool) -> Problem:
    """Only one path must be the shortest. Nodes with several next ones on their way have no pointer."""
    while True:
        names = dice.sample(LETTERS, size)
        links = _draw_links(dice, names, size // 3, weighted)
        start, end = dice.sample(names, 2)
        _, following = find_distances(links, end)
        path = [start]
        while path[-1] != end and len(following[path[-1]]) == 1:
            path += following[path[-1]]
        if path[-1] == end:
            break
    graph = named_graph(links, start, end)
    targets = {name: own[0] if len(own) == 1 else None for name, own in following.items()} | {end: end}
    found = [targets[name] for name in graph.names]
    graph = graph._replace(
        pointers=tuple(None if name is None else graph.names.index(name) for name in found),
        marks=tuple(int(name in path) for name in graph.names),
    )
    return Problem(task, f"{task} {start} {end} : {_write_links(links, weighted)} =", _join(path), graph)


def _draw_links(dice: random.Random, names: Sequence[str], more: int, weighted: bool = False) -> Links:
    """A random tree over the names, with some more edges, in any order and direction."""
    pairs = {tuple(sorted((name, dice.choice(names[:number])))) for number, name in enumerate(names) if number}
    for _ in range(more):
        pairs.add(tuple(sorted(dice.sample(names, 2))))
    links: Links = {}
    for pair in dice.sample(sorted(pairs), len(pairs)):
        first, second = dice.sample(pair, 2)
        links[first, second] = dice.randint(1, LONGEST_WEIGHT) if weighted else 1
    return links


def find_distances(links: Links, end: str) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Of every node that can reach `end`: its distance, and what comes next on its shortest paths (Dijkstra)."""
    neighbours: dict[str, list[tuple[str, int]]] = {end: []}
    for (first, second), weight in links.items():
        neighbours.setdefault(first, []).append((second, weight))
        neighbours.setdefault(second, []).append((first, weight))
    distances: dict[str, int] = {}
    waiting = [(0, end)]
    while waiting:
        distance, name = heappop(waiting)
        if name not in distances:
            distances[name] = distance
            for other, weight in neighbours[name]:
                heappush(waiting, (distance + weight, other))
    following = {
        name: [other for other, weight in neighbours[name] if distances[other] + weight == distances[name]]
        for name in distances
    }
    return distances, following


def number_graph(values: Sequence[int], wanted: int | None = None) -> Graph:
    """Numbers without edges; one that is searched for stands first."""
    nodes = [(str(value), (value / (HIGHEST + 1), 0, 0)) for value in values]
    if wanted is not None:
        nodes.insert(0, (str(wanted), (wanted / (HIGHEST + 1), 1, 0)))
    return Graph(*zip(*nodes))


def named_graph(links: Links, start: str, end: str = "") -> Graph:
    """Nodes in the order in which the problem names them."""
    names = tuple(dict.fromkeys(name for name in (start, end, *(name for link in links for name in link)) if name))
    places = {name: number for number, name in enumerate(names)}
    values = [LETTERS.index(name) * 4 / 100 for name in names]
    numbers = tuple((value, int(name == start), int(name == end)) for name, value in zip(names, values))
    pairs = [(pair, weight / 10) for link, weight in links.items() for pair in (link, link[::-1])]
    return Graph(names, numbers, tuple(Edge(places[one], places[other], (weight,)) for (one, other), weight in pairs))


def _write_links(links: Links, weighted: bool) -> str:
    return " ".join(f"{first}-{second}{f' {weight}' * weighted}" for (first, second), weight in links.items())


def _join(values: Iterable[object]) -> str:
    return " ".join(map(str, values))


NUMBERS = re.compile(r"(minimum|sort|search) (?:(\d{1,2}) : )?(\d{1,2}(?: \d{1,2})*) =", re.ASCII)
LINKED = re.compile(r"(bfs|shortest_path|component) ([a-z])(?: ([a-z]))? : ([a-z]-[a-z](?: (?:[a-z]-[a-z]|[1-9]))*) =")
LINK = re.compile(r"([a-z])-([a-z])(?: ([1-9]))?")
MAX_PARSED_CHARACTERS = 4096


def parse_problem(text: str) -> tuple[str, Graph] | None:
    """The name of the algorithm and the graph that a text describes, without targets; None of any other text."""
    if len(text) > MAX_PARSED_CHARACTERS:
        return None
    # Tokenizers that do not keep spacing give it back with other spaces.
    text = " ".join(re.sub("([:=])", r" \1 ", text).split()).replace(" - ", "-")
    if found := NUMBERS.fullmatch(text):
        task, wanted, values = found.groups()
        numbers = [int(value) for value in values.split()]
        if (wanted is None) == (task == "search") or len(numbers) > ALGORITHMS[task].max_size:
            return None
        return task, number_graph(numbers, None if wanted is None else int(wanted))
    if found := LINKED.fullmatch(text):
        task, start, end, rest = found.groups()
        if (end is None) == (task != "component"):
            return None
        links = {(one, other): int(weight or 1) for one, other, weight in LINK.findall(rest)}
        return ("components" if task == "component" else task), named_graph(links, start, end or "")
    return None


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("minimum", "the smallest of numbers", draw_minimum),
        Algorithm("search", "the first of sorted numbers that is not smaller than another", draw_search),
        Algorithm("sort", "numbers in order", draw_sort),
        Algorithm("bfs", "the path with the fewest edges", draw_bfs, max_size=len(LETTERS)),
        Algorithm("shortest_path", "the path with the smallest sum", draw_shortest_path, max_size=len(LETTERS)),
        Algorithm("components", "all nodes that can be reached", draw_components, max_size=len(LETTERS)),
    )
}


def find_algorithms(name: str) -> list[Algorithm]:
    """That of this name; or all of them."""
    if name == MIXTURE:
        return list(ALGORITHMS.values())
    if name not in ALGORITHMS:
        names = [*ALGORITHMS, MIXTURE]
        raise HeadwayError(f'there is no algorithm "{name}".{did_you_mean(name, names)} Known: {", ".join(names)}.')
    return [ALGORITHMS[name]]


def write_problems(
    folder: str | Path,
    name: str,
    size: int | None = None,
    *,
    lines: int = 20_000,
    seed: int = 0,
    test_sizes: Sequence[int] = (),
    test_lines: int = TEST_LINES,
) -> list[Path]:
    """Write train.jsonl, valid.jsonl and test-N.jsonl for each test size N; return the files.

    Problems to train on have all sizes up to `size`, and no test problem is among them. A test depends on its size and
    the seed alone, and has as many problems of each algorithm as of any other."""
    algorithms = find_algorithms(name)
    size = DEFAULT_SIZE if size is None else size
    test_sizes = tuple(dict.fromkeys(test_sizes)) or (size,)
    for algorithm in algorithms:
        for each in (size, *test_sizes):
            algorithm.check_size(each)
    for what, value in [("lines", lines), ("test_lines", test_lines)]:
        if not 1 <= value <= MAX_LINES:
            raise HeadwayError(f"{what} must be from 1 to {MAX_LINES:,}, not {value}.")
    texts: dict[str, list[str]] = {}
    tested: set[str] = set()
    for test_size in test_sizes:
        dice = random.Random(f"{name} {seed} test {test_size}")
        found = draw_problems(algorithms, dice, test_size, test_size, test_lines, tested)
        tested |= {problem.text for problem in found}
        texts[f"test-{test_size}.jsonl"] = [problem.to_line() for problem in found]
    written = {}
    for part, count in (("train", lines), ("valid", VALID_LINES)):
        dice = random.Random(f"{name} {seed} {part}")
        found = draw_problems(algorithms, dice, MIN_SIZE, size, count, tested, repeated=True)
        written[f"{part}.jsonl"] = [problem.to_line() for problem in found]
    return write_texts(folder, written | texts)


def draw_problems(
    algorithms: Sequence[Algorithm],
    dice: random.Random,
    smallest: int,
    largest: int,
    count: int,
    excluded: Collection[str],
    repeated: bool = False,
) -> list[Problem]:
    """Of each algorithm in turn, none of whose texts is excluded; `repeated`: texts may come again."""
    found: list[Problem] = []
    seen = set(excluded)
    missed = 0  # draws in a row
    while len(found) < count:
        algorithm = algorithms[len(found) % len(algorithms)]
        problem = algorithm.draw(dice, dice.randint(smallest, largest))
        if problem.text not in seen:
            found.append(problem)
            seen |= set() if repeated else {problem.text}
            missed = 0
        elif (missed := missed + 1) > MAX_MISSES:
            raise HeadwayError(
                f"{algorithm.name} of size {largest} has too few different problems for {count} lines. Give fewer "
                "lines, or a larger size."
            )
    return found
