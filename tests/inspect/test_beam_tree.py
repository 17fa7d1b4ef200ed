"""The tree of a search, from what it told step by step."""

from headway.decode.types import BeamStep
from headway.inspect.beam_tree import BeamNode, build_tree, find_search

END = 2
BEAM = [
    BeamStep(0, 0, [0, 0, 0], [5, 6, 7], [-1.0, -2.0, -3.0], ["runs", "runs", "pruned"]),
    BeamStep(0, 1, [1, 0, 0], [8, END, 9], [-2.5, -2.75, -4.0], ["runs", "ends", "runs"]),
    BeamStep(0, 2, [1, 0], [END, 8], [-4.5, -5.0], ["ends", "pruned"]),
]


def test_every_hypothesis_and_where_it_comes_from() -> None:
    assert build_tree(BEAM) == [
        BeamNode(0, None, [5], -1.0, "runs"),
        BeamNode(0, None, [6], -2.0, "runs"),
        BeamNode(0, None, [7], -3.0, "pruned"),
        BeamNode(1, 1, [6, 8], -2.5, "runs"),
        BeamNode(1, 0, [5, END], -2.75, "ends"),
        BeamNode(1, 0, [5, 9], -4.0, "runs"),
        BeamNode(2, 5, [5, 9, END], -4.5, "ends"),
        BeamNode(2, 3, [6, 8, 8], -5.0, "pruned"),
    ]
    assert build_tree([]) == []


def test_draws_do_not_mix() -> None:
    draws = [
        BeamStep(0, step, [0], [10 * copy + step], [-1.0 - step], ["runs" if step == 0 else "ends"], copy)
        for step in (0, 1)
        for copy in (0, 1)
    ]
    assert [(node.copy, node.ids) for node in build_tree(draws)] == [(0, [0]), (1, [10]), (0, [0, 1]), (1, [10, 11])]


def test_of_two_searches_the_one_that_found_it() -> None:
    other = [BeamStep(0, 0, [0], [END], [-1.0], ["ends"])]
    assert find_search([*other, *BEAM], [5, END]) == BEAM
    assert find_search([*other, *BEAM], [END]) == other
    assert find_search([*other, *BEAM], [9]) == BEAM  # nothing was found by ending: the last
    assert find_search([], [5]) == []
