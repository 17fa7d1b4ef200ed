"""Where two files come apart: found by the lengths of their lines, to within a few lines."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headway.data.check import first_pass as module
from headway.data.check.first_pass import LineCountError, describe_shift, read_first_pass
from headway.data.check.length_model import Lengths, LineShift, find_line_shift
from headway.data.parallel_files import ParallelFiles

Row = tuple[str, str]
Put = Callable[..., ParallelFiles]


def lengths(count: int, seed: int) -> tuple[Lengths, Lengths]:
    """Like those of real sentences and their translations."""
    chance = np.random.default_rng(seed)
    source = np.exp(chance.normal(4.6, 0.6, count))
    target = source * np.exp(chance.normal(0.1, 0.18, count)) + 3
    return source.astype(np.uint32), target.astype(np.uint32)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("source_change", "target_change", "offset"), [(0, -1, -1), (0, 1, 1), (-1, 0, 1), (0, -3, -3), (2, 0, -2)]
)
def test_missing_and_additional_lines(seed: int, source_change: int, target_change: int, offset: int) -> None:
    sides = list(lengths(400, seed))
    place = 100 + 25 * seed
    for side, change in enumerate((source_change, target_change)):
        if change < 0:
            sides[side] = np.delete(sides[side], np.arange(place, place - change))
        if change > 0:
            sides[side] = np.insert(sides[side], place, lengths(change, seed + 100)[side])
    slip = find_line_shift(*sides)
    assert slip is not None
    assert abs(slip.line - place) <= 5
    assert slip.offset == offset


def test_the_first_of_several_places_is_named() -> None:
    source, target = lengths(3000, 1)
    target = np.insert(np.delete(target, 700), 2000, 50)  # together again later
    slip = find_line_shift(source, target)
    assert slip is not None
    assert abs(slip.line - 700) <= 5
    assert slip.offset == -1


def test_lines_that_fit_have_no_such_place() -> None:
    source, target = lengths(5000, 2)
    chance = np.random.default_rng(0)
    target[chance.choice(5000, 100, replace=False)] = 30  # some odd lines prove nothing
    assert find_line_shift(source, target) is None
    assert find_line_shift(source, target[:4900]) is None  # what lacks, lacks at the end


def test_files_that_never_fitted_come_apart_at_once() -> None:
    assert find_line_shift(lengths(500, 3)[0], lengths(400, 4)[1]) == LineShift(0, 0)


def test_few_lines_prove_nothing() -> None:
    source, target = lengths(29, 5)
    assert find_line_shift(source, target[3:]) is None
    assert find_line_shift(source[:0], target) is None


def test_unequal_files_are_refused_with_their_numbers_and_the_place(put: Put, rows: list[Row], tmp_path: Path) -> None:
    files = put(rows)
    lines = (tmp_path / "a.de").read_text().splitlines(keepends=True)
    (tmp_path / "a.de").write_text("".join(lines[:800] + lines[801:]))
    with pytest.raises(LineCountError) as caught:
        read_first_pass([files])
    assert caught.value.counts == (1500, 1499)
    assert caught.value.shift is not None
    place = caught.value.shift.line + 1
    assert abs(place - 801) <= 5
    assert str(caught.value) == (
        f"{files.source} has 1,500 lines and {files.target} has 1,499: line n of one must be the translation of line "
        f"n of the other. The line lengths stop matching at about line {place}: from there on the target is 1 line "
        "early."
    )


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (None, "The line lengths show no gap: look after line 1,200, where the shorter file ends."),
        (
            LineShift(0, 0),
            "The line lengths stop matching at about line 1, and no shift of a few lines makes them match again.",
        ),
        (
            LineShift(9, 3),
            "The line lengths stop matching at about line 10: from there on the target is 3 lines late.",
        ),
    ],
)
def test_what_is_said_of_the_place(slip: LineShift | None, words: str) -> None:
    assert describe_shift(slip, 1200) == words


def test_an_empty_file_beside_a_full_one(put: Put, rows: list[Row], tmp_path: Path) -> None:
    files = put(rows[:50])
    (tmp_path / "a.de").write_bytes(b"")
    with pytest.raises(
        LineCountError, match=r"has 50 lines and .*a.de has 0: .* look after line 0, where the shorter file ends"
    ):
        read_first_pass([files])


def test_a_sample_is_the_same_every_time_comes_from_everywhere_and_is_bounded(
    put: Put, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora = [put(rows), put(rows[:100], "b", table=True)]
    whole = read_first_pass(corpora)
    assert whole.lines == [1500, 100]
    assert [(g.corpus, g.first, len(g.lines)) for g in whole.sample][-4:] == [
        (0, 1408, 64), (0, 1472, 28), (1, 0, 64), (1, 64, 36),
    ]  # fmt: skip
    assert sum(len(group.lines) for group in whole.sample) == 1600
    assert whole.sample[1].lines[0] == tuple(f"{side}\n".encode() for side in rows[64])
    monkeypatch.setattr(module, "MAX_SAMPLED_BLOCKS", 6)
    some = read_first_pass(corpora)
    assert some == read_first_pass(corpora)
    assert some.lines == [1500, 100]
    assert len(some.sample) == 6
    assert max(group.first for group in some.sample) > 384  # not only the beginning
