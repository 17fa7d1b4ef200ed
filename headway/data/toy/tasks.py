"""Tasks with known answers, for language models: copying, recall over a long context, and algorithms on lengths that
were not trained.

A line of training text is a prompt and its answer, which follow each other without a space:

    copy      kdqa=kdqa                     letters, and the same again
    reverse   kdqa=aqdk                     letters, and the same from the last to the first
    needle    so la K7 mi do la so ?K=7     one key and its value among filler words, then the key
    recall    Q4d0B8=d0Q4B8                 keys with values, then all again in another order; answer: the last value
    addition  91+63=550                     19 + 36 = 055, last digits first: a carry is known where it is needed
    parity    01101=01001                   bits, and for each the parity of all bits up to it

Every task has a length. Training lines have all lengths up to it, but haystacks, which are all as long as each other;
a test has one length, which may be another one."""

import random
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import xor
from pathlib import Path
from typing import NamedTuple

from headway.data.toy.output import write_texts
from headway.errors import HeadwayError, did_you_mean

FILLER_WORDS = ("do", "la", "mi", "so")  # each as long as a key with its value
LETTERS = string.ascii_lowercase
KEYS = string.ascii_letters
VALID_LINES = 500
TEST_LINES = 200
MAX_SIZE = 10**8  # lines times their length
DRAWS_PER_LINE = 20  # before a task is said to have too few prompts


class TaskLine(NamedTuple):
    prompt: str  # all that precedes the answer
    answer: str


@dataclass(frozen=True)
class Task:
    """What a length counts is `unit`. `draw` makes a line of exactly this length."""

    name: str
    summary: str
    unit: str
    draw: Callable[[random.Random, int], TaskLine]
    length: int  # the default
    min_length: int = 1
    max_length: int | None = None
    shorter_lines: bool = True  # in training

    def draw_training_line(self, dice: random.Random, length: int) -> TaskLine:
        return self.draw(dice, dice.randint(self.min_length, length) if self.shorter_lines else length)

    def check_length(self, length: int) -> None:
        if length < self.min_length or length > (self.max_length or length):
            limits = f"at least {self.min_length}" + (f" and at most {self.max_length}" if self.max_length else "")
            raise HeadwayError(f"the length of {self.name} counts {self.unit}: it must be {limits}, not {length}.")


def draw_letters(dice: random.Random, length: int) -> str:
    """None comes again before all others were there."""
    letters = ""
    while len(letters) < length:
        letters += "".join(dice.sample(LETTERS, len(LETTERS)))
    return letters[:length]


def draw_copy(dice: random.Random, length: int) -> TaskLine:
    letters = draw_letters(dice, length)
    return TaskLine(f"{letters}=", letters)


def draw_reverse(dice: random.Random, length: int) -> TaskLine:
    letters = draw_letters(dice, length)
    return TaskLine(f"{letters}=", letters[::-1])


def draw_needle(dice: random.Random, length: int) -> TaskLine:
    """Filler words have small letters and keys have capital ones, so that the needle is there once."""
    key, value = dice.choice(string.ascii_uppercase), dice.choice(string.digits)
    words = dice.choices(FILLER_WORDS, k=length // 3)
    words[dice.randrange(len(words))] = key + value
    return TaskLine(f"{' '.join(words)} ?{key}=", value)


def draw_recall(dice: random.Random, length: int) -> TaskLine:
    """Every pair is asked for, so that a line trains as many answers as it has pairs; the answer is the last."""
    pairs = [key + value for key, value in zip(dice.sample(KEYS, length), dice.choices(string.digits, k=length))]
    line = f"{''.join(pairs)}={''.join(dice.sample(pairs, length))}"
    return TaskLine(line[:-1], line[-1])


def draw_addition(dice: random.Random, length: int) -> TaskLine:
    one, other = (dice.randrange(10**length) for _ in range(2))
    first, second = (f"{number:0{length}}"[::-1] for number in (one, other))
    return TaskLine(f"{first}+{second}=", f"{one + other:0{length + 1}}"[::-1])


def draw_parity(dice: random.Random, length: int) -> TaskLine:
    bits = dice.choices((0, 1), k=length)
    return TaskLine("".join(map(str, bits)) + "=", "".join(map(str, accumulate(bits, xor))))


TASKS = {
    task.name: task
    for task in (
        Task("copy", "letters, and the same again", "letters", draw_copy, 16),
        Task("reverse", "letters, and the same backwards", "letters", draw_reverse, 16),
        Task(
            "needle", "one value somewhere in filler words", "characters of the haystack", draw_needle, 128,
            min_length=6, shorter_lines=False,
        ),
        Task(
            "recall", "the value of one of many keys", "pairs of a key and its value", draw_recall, 8,
            max_length=len(KEYS),
        ),
        Task("addition", "the sum of two numbers", "digits of each number", draw_addition, 4),
        Task("parity", "for each bit, the parity of all bits up to it", "bits", draw_parity, 16),
    )
}  # fmt: skip


def find_task(name: str) -> Task:
    if name not in TASKS:
        raise HeadwayError(f'there is no task "{name}".{did_you_mean(name, list(TASKS))} Known: {", ".join(TASKS)}.')
    return TASKS[name]


def write_task(
    folder: str | Path,
    task: str | Task,
    length: int | None = None,
    *,
    lines: int = 20_000,
    seed: int = 0,
    test_lengths: Sequence[int] = (),
    test_lines: int = TEST_LINES,
) -> list[Path]:
    """Write train.txt, valid.txt and test-N.tsv for each test length N; return the files.

    Prompts of tests are in no other file. A test depends on its length and the seed alone, so that models that were
    trained on other lengths or more text can be compared.

    length: of the training lines, see `Task.unit`; None: the task's default
    test_lengths: none: the length of the training lines"""
    task = find_task(task) if isinstance(task, str) else task
    length = task.length if length is None else length
    test_lengths = tuple(dict.fromkeys(test_lengths)) or (length,)
    for each in (length, *test_lengths):
        task.check_length(each)
    for name, value in [("lines", lines), ("test_lines", test_lines)]:
        if value < 1:
            raise HeadwayError(f"{name} must be at least 1, not {value}.")
    size = (lines + VALID_LINES) * length + test_lines * sum(test_lengths)
    if size > MAX_SIZE:
        raise HeadwayError(
            f"{lines:,} lines of length {length:,}, and tests of {max(test_lengths):,}, are too much text to be held "
            f"in memory: {size:,}, and {MAX_SIZE:,} are allowed. Write fewer lines, or shorter ones."
        )
    tests = {}
    for test_length in test_lengths:
        dice = random.Random(f"{task.name} {seed} test {test_length}")
        tests[test_length] = draw_different_lines(task, dice, test_length, test_lines)
    tested = {line.prompt for test in tests.values() for line in test}
    texts = {}
    for name, count in (("train", lines), ("valid", VALID_LINES)):
        dice = random.Random(f"{task.name} {seed} {name}")
        texts[f"{name}.txt"] = ["".join(line) for line in draw_training_lines(task, dice, length, count, tested)]
    for test_length, test in tests.items():
        texts[f"test-{test_length}.tsv"] = ["\t".join(line) for line in test]
    return write_texts(folder, texts)


def draw_different_lines(task: Task, dice: random.Random, length: int, count: int) -> list[TaskLine]:
    """Of exactly this length; no prompt twice."""
    found: dict[str, TaskLine] = {}
    for _ in range(count * DRAWS_PER_LINE):
        if len(found) == count:
            break
        line = task.draw(dice, length)
        found.setdefault(line.prompt, line)
    if len(found) < count:
        raise HeadwayError(
            f"{task.name} of length {length} has too few prompts for a test of {count}. Test a longer one."
        )
    return list(found.values())


def draw_training_lines(
    task: Task, dice: random.Random, length: int, count: int, tested: Collection[str]
) -> list[TaskLine]:
    """Prompts may come again, but none that is `tested`."""
    found: list[TaskLine] = []
    for _ in range(count * DRAWS_PER_LINE):
        if len(found) == count:
            break
        line = task.draw_training_line(dice, length)
        if line.prompt not in tested:
            found.append(line)
    if len(found) < count:
        raise HeadwayError(f"nearly all prompts of {task.name} of length {length} are tested. Give a longer one.")
    return found
