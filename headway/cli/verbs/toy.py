"""`headway toy`: a synthetic corpus, or a task with known answers."""

import shlex
from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log
from headway.data.toy import write_toy
from headway.data.toy.algorithms import ALGORITHMS, MIXTURE, write_problems
from headway.data.toy.tasks import TASKS, write_task

TRAIN_FILES = {
    "source": "train.en",
    "target": "train.qtx",
    "valid-source": "valid.en",
    "valid-target": "valid.qtx",
}
TASK_GROUP = "Task"
SUMMARIES = {task.name: task.summary for task in TASKS.values()}
SUMMARIES |= {algorithm.name: algorithm.summary for algorithm in ALGORITHMS.values()}
SUMMARIES[MIXTURE] = f"problems of the last {len(ALGORITHMS)}, in turn"


@click.command(
    "toy",
    cls=Verb,
    examples=[
        ("headway toy --out toy", "8,000 training pairs, 500 for validation, 500 for test"),
        ("headway toy --out more --pairs 20000 --seed 1", "more pairs, and other sentences"),
        (
            "headway toy --task needle --length 128 --test-length 128 --test-length 512 --out needle",
            "a task for a language model, with tests of two lengths",
        ),
        (
            "headway toy --task algorithms --length 8 --test-length 8 --test-length 16 --out problems",
            "problems as text and as graphs, for a model with a graph reasoner",
        ),
    ],
)
@option("--out", "-o", aliases=["--output"], type=click.Path(path_type=Path), required=True, help="Output directory.")
@option("--pairs", type=click.IntRange(min=1), default=8000, help="Number of training pairs.")
@option("--seed", type=int, default=0, help="Random seed.")
@option(
    "--task",
    type=click.Choice(list(SUMMARIES)),
    metavar="NAME",
    group=TASK_GROUP,
    help="; ".join(f"{name}: {summary}" for name, summary in SUMMARIES.items()) + ".",
)
@option(
    "--length",
    type=click.IntRange(min=1),
    group=TASK_GROUP,
    help="Longest training line: letters, characters of a haystack, pairs, digits, bits, numbers or nodes. Default: by "
    "task.",
)
@option(
    "--test-length",
    "test_lengths",
    type=click.IntRange(min=1),
    multiple=True,
    group=TASK_GROUP,
    help="Length of a test; repeat for more. Default: --length.",
)
@option("--lines", type=click.IntRange(min=1), default=20_000, group=TASK_GROUP, help="Number of training lines.")
def toy(
    out: Path,
    pairs: int,
    seed: int,
    task: str | None,
    length: int | None,
    test_lengths: tuple[int, ...],
    lines: int,
) -> None:
    """Write a small synthetic corpus to experiment with.

    English (.en) and an invented language (.qtx) with its own word order, case endings and numbers. Writes train, valid
    and test, which share no sentence, and test.align with the true word alignments.

    With --task, lines of a prompt and its answer for a language model: train.txt, valid.txt, and for each test length N
    test-N.tsv with 200 prompts that are in neither, a tab, and the answer. Of minimum, search, sort, bfs,
    shortest_path, components and algorithms, a line is a problem, its answer and its graph (.jsonl): see
    docs/transnar.md."""
    context = click.get_current_context()
    flags = {"pairs": "--pairs", "length": "--length", "test_lengths": "--test-length", "lines": "--lines"}
    given = [name for name in flags if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    if task is None:
        if unusable := [flags[name] for name in given if name != "pairs"]:
            raise click.UsageError(f"{unusable[0]} needs --task.", context)
        write_corpus(out, pairs, seed)
    else:
        if "pairs" in given:
            raise click.UsageError("--pairs is for the corpus of two languages: with --task, give --lines.", context)
        write_task_files(out, task, length, lines, seed, test_lengths)


def write_corpus(out: Path, pairs: int, seed: int) -> None:
    files = write_toy(out, pairs, seed)
    log(f"wrote {', '.join(file.name for file in files)} to {out}")
    flags = {name: shlex.quote(str(out / file)) for name, file in TRAIN_FILES.items()}
    log("next: headway train " + " ".join(f"--{name} {file}" for name, file in flags.items()) + " --out my-model")


def write_task_files(
    out: Path, task: str, length: int | None, lines: int, seed: int, test_lengths: tuple[int, ...]
) -> None:
    if task in TASKS:
        files = write_task(out, task, length, lines=lines, seed=seed, test_lengths=test_lengths)
    else:
        files = write_problems(out, task, length, lines=lines, seed=seed, test_sizes=test_lengths)
    log(f"wrote {', '.join(file.name for file in files)} to {out}")
    text, valid = (shlex.quote(str(file)) for file in files[:2])
    if task in TASKS:
        log(f"next: headway train --text {text} --valid-text {valid} --set tokenizer=characters --out my-model")
    else:
        log(f"next: headway train --task solve --data {text} --valid-data {valid} --out my-model")
