"""Tasks for language models: every answer is right, tests are not trained on, and the same seed gives the same text."""

import hashlib
import random
from pathlib import Path

import pytest

from headway.data.toy.tasks import (
    FILLER_WORDS,
    LETTERS,
    TASKS,
    TEST_LINES,
    VALID_LINES,
    TaskLine,
    find_task,
    write_task,
)
from headway.errors import HeadwayError


def draw(task: str, length: int, count: int = 50) -> list[TaskLine]:
    dice = random.Random(1)
    return [TASKS[task].draw(dice, length) for _ in range(count)]


def test_copies_and_reverses() -> None:
    for length in (1, 5, len(LETTERS)):
        for prompt, answer in draw("copy", length):
            assert prompt == f"{answer}=" and len(set(answer)) == len(answer) == length
        for prompt, answer in draw("reverse", length):
            assert prompt == f"{answer[::-1]}=" and len(answer) == length
    for _, answer in draw("copy", len(LETTERS) + 1):
        assert set(answer[:-1]) == set(LETTERS)


def test_a_needle_is_in_its_haystack_once_at_any_depth() -> None:
    depths = set()
    for prompt, answer in draw("needle", 31, 300):
        haystack, question = prompt[:30], prompt[30:]
        words = haystack.split()
        assert question == f"?{question[1]}=" and haystack == "".join(f"{word} " for word in words)
        assert words.count(question[1] + answer) == 1
        depths.add(words.index(question[1] + answer))
        assert sum(word in FILLER_WORDS for word in words) == 9
    assert depths == set(range(10))


def test_recall_asks_for_all_pairs_in_another_order() -> None:
    asked = set()
    for prompt, answer in draw("recall", 5, 200):
        told, questions = (
            [side[index : index + 2] for index in range(0, 10, 2)] for side in f"{prompt}{answer}".split("=")
        )
        assert sorted(told) == sorted(questions) and len({pair[0] for pair in told}) == 5 and len(answer) == 1
        asked.add(told.index(questions[-1]))
    assert asked == set(range(5))
    assert len(draw("recall", 52, 1)[0].prompt) == 4 * 52


def test_sums_begin_with_the_last_digit() -> None:
    for length in (1, 3, 30):
        for prompt, answer in draw("addition", length):
            one, other = prompt[:-1].split("+")
            assert len(one) == len(other) == length == len(answer) - 1
            assert int(one[::-1]) + int(other[::-1]) == int(answer[::-1])


def test_parities() -> None:
    for prompt, answer in draw("parity", 9):
        assert [int(bit) for bit in answer] == [prompt[: index + 1].count("1") % 2 for index in range(9)]


@pytest.mark.parametrize("name", TASKS)
def test_the_files(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    length = {"needle": 30, "parity": 12}.get(name, 5)
    files = write_task(tmp_path / "a", name, length, lines=400, seed=3, test_lengths=[length, 20, length])
    assert [path.name for path in files] == ["train.txt", "valid.txt", f"test-{length}.tsv", "test-20.tsv"]
    train, valid, *tests = [path.read_text(encoding="utf-8").split("\n")[:-1] for path in files]
    assert (len(train), len(valid), *map(len, tests)) == (400, VALID_LINES, TEST_LINES, TEST_LINES)
    prompts = [line.split("\t")[0] for test in tests for line in test]
    assert len(set(prompts)) == len(prompts)
    assert not [line for line in train + valid if line.startswith(tuple(prompts))]
    assert {len(line) for line in train} == {len(line) for line in valid}
    assert len({len(line) for line in train}) == (length if task.shorter_lines else 1)
    assert set("".join(train)) >= set("".join(line.replace("\t", "") for line in tests[1]))


def test_a_test_depends_on_its_length_and_the_seed_alone(tmp_path: Path) -> None:
    write_task(tmp_path / "a", "copy", 4, lines=10, test_lengths=(6,))
    write_task(tmp_path / "b", "copy", 8, lines=20, test_lengths=(8, 6))
    write_task(tmp_path / "c", "copy", 4, lines=10, test_lengths=(6,), seed=1)
    a, b, c = ((tmp_path / name / "test-6.tsv").read_bytes() for name in "abc")
    assert a == b != c
    assert hashlib.sha256(a).hexdigest()[:16] == "0a56c82660c16f7d"


def test_defaults(tmp_path: Path) -> None:
    files = write_task(tmp_path, TASKS["recall"], lines=5)
    assert [path.name for path in files] == ["train.txt", "valid.txt", "test-8.tsv"]
    write_task(tmp_path, "recall", lines=5)  # the same again
    (tmp_path / "test-8.tsv").write_text("my own\n")
    with pytest.raises(HeadwayError, match="already has test-8.tsv with other text, which is never overwritten"):
        write_task(tmp_path, "recall", lines=5)


def test_impossible_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match='no task "neddle". Did you mean "needle"'):
        find_task("neddle")
    with pytest.raises(HeadwayError, match="recall counts pairs .*: it must be at least 1 and at most 52, not 53"):
        write_task(tmp_path, "recall", 8, test_lengths=(53,))
    with pytest.raises(HeadwayError, match="needle counts characters .*: it must be at least 6, not 5"):
        write_task(tmp_path, "needle", 5)
    with pytest.raises(HeadwayError, match=r"20,000 lines of length 1,000,000, .* are too much text"):
        write_task(tmp_path, "needle", 1_000_000)
    with pytest.raises(HeadwayError, match="lines must be at least 1, not 0"):
        write_task(tmp_path, "copy", lines=0)
    with pytest.raises(HeadwayError, match="test_lines must be at least 1, not 0"):
        write_task(tmp_path, "copy", test_lines=0)
    with pytest.raises(HeadwayError, match="parity of length 4 has too few prompts for a test of 200"):
        write_task(tmp_path, "parity", 4)
    with pytest.raises(HeadwayError, match="nearly all prompts of parity of length 1 are tested"):
        write_task(tmp_path, "parity", 1, test_lines=2)
    assert not list(tmp_path.iterdir())
