"""`headway predict`: labels, tags or scores of texts or pictures, by a model that was trained for a task."""

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.solver import Solver
    from headway.translate.task_model import Prediction, TaskModel


@click.command(
    "predict",
    cls=Verb,
    examples=[
        ('headway predict --model my-classifier "Wo ist der Bahnhof?"', "the label of a text, and its probability"),
        ("headway predict --model my-classifier --input mails.txt --top-k 3", "a file, line by line"),
        ('headway predict --model my-tagger --json "Ada lives in Paris ."', "each word with its tag"),
        ("headway predict --model my-vit cat.png holidays/", "the labels of a picture, and of all in a folder"),
        ('headway predict --model my-matcher "A dog runs." "An animal moves."', "two texts that are compared"),
        ('headway predict --model my-solver "sort 31 7 52 ="', "the answer to a problem"),
        ("headway predict --model my-solver --input problems.jsonl", "problems with their graphs"),
    ],
)
@click.argument("text", nargs=-1)
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory or name.")
@options.device
@options.compute
@option(
    "--input", "-i", "input_file", metavar="FILE", group="Text",
    help="Read texts, or paths of pictures, from this file, one a line; pairs separated by a tab. Default: standard "
    "input.",
)  # fmt: skip
@option("--top-k", type=click.IntRange(min=1), default=1, group="Result", help="Number of labels to print for a text.")
@option("--json", "as_json", is_flag=True, group="Result", help="Print a JSON object a line.")
def predict(
    text: tuple[str, ...],
    model: str,
    device: str,
    compute: "Compute",
    input_file: str | None,
    top_k: int,
    as_json: bool,
) -> None:
    """Label texts with a model that was trained with headway train --task, or pictures with one of --images.

    Prints label and probability of each text, separated by tabs; an empty line for an empty one. Of a tagger it prints
    the words as word/TAG; of a model that compares texts, the label or the score of each pair; of one that solves
    problems, the answer and its probability. A problem is a text, or a JSON object with "text" and "graph". Of pictures
    it prints the path, too."""
    from headway.cli.picture_input import list_paths, print_predictions
    from headway.errors import HeadwayError
    from headway.translate.picture_model import PictureModel
    from headway.translate.solver import Solver
    from headway.translate.task_model import TaskModel
    from headway.translate.translator import load

    loaded = load(model, device, compute=compute)
    if isinstance(loaded, Solver):
        if top_k != 1:
            raise click.UsageError(
                "--top-k counts labels, and a problem has one answer: leave it out.", click.get_current_context()
            )
        print_answers(loaded, text, input_file, as_json)
        return
    if not isinstance(loaded, TaskModel):
        raise HeadwayError(f"{model} was not trained for a task. Train one: headway train --task classify --data FILE")
    if text and input_file:
        raise click.UsageError("give texts or --input, not both.", click.get_current_context())
    if isinstance(loaded, PictureModel):
        return print_predictions(loaded, list_paths(text, input_file), top_k, as_json)
    if loaded.task == "match" and text and len(text) != 2:
        raise click.UsageError("give two texts to compare.", click.get_current_context())
    for group in _read_texts(loaded, text, input_file):
        for given, found in zip(group, loaded.predict(group, top_k)):
            click.echo(json.dumps(to_table(given, found), ensure_ascii=False) if as_json else format_line(found))


def print_answers(solver: "Solver", text: tuple[str, ...], input_file: str | None, as_json: bool) -> None:
    """Of problems, each a line: a text, or an object as in a file of problems."""
    if text and input_file:
        raise click.UsageError("give texts or --input, not both.", click.get_current_context())
    lines = itertools.count(1)
    for group in read_line_groups(text, input_file):
        problems = [read_problem(line, next(lines)) for line in group]
        for problem, answer in zip(problems, solver.solve(problems)):
            given = problem if isinstance(problem, str) else str(problem["text"])
            if as_json:
                nodes = [
                    {"name": name, "points_at": answer.nodes[pointer], "marked": round(mark, 4)}
                    for name, pointer, mark in zip(answer.nodes, answer.pointers, answer.marks)
                ]
                table: dict[str, Any] = {"text": given, "answer": answer.text, "probability": answer.probability}
                click.echo(json.dumps(table | ({"nodes": nodes} if nodes else {}), ensure_ascii=False))
            else:
                click.echo(f"{answer.text}\t{answer.probability:.4f}" if answer.probability else "")


def read_problem(line: str, number: int) -> str | dict[str, Any]:
    """A line that begins with a brace is an object."""
    if not line.lstrip().startswith("{"):
        return line
    from headway.errors import HeadwayError

    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or not isinstance(table.get("text"), str):
        raise HeadwayError(f'line {number} is no problem: write a JSON object with "text", and perhaps "graph".')
    return table


def _read_texts(model: "TaskModel", text: tuple[str, ...], input_file: str | None) -> Iterator[list[Any]]:
    if model.task != "match":
        yield from read_line_groups(text, input_file)
        return
    if text:
        yield [text]
        return
    from headway.errors import HeadwayError

    number = 0
    for group in read_line_groups((), input_file):
        pairs = []
        for line in group:
            number += 1
            pair = line.split("\t")
            if len(pair) != 2:
                raise HeadwayError(f"line {number} has {len(pair)} columns: give two texts, separated by a tab.")
            pairs.append(pair)
        yield pairs


def format_line(found: "Prediction") -> str:
    """A prediction as one line: tabs between label and probability, or word/TAG, or the score."""
    if found.score is not None:
        return f"{found.score:.4f}"
    if found.words:
        return " ".join(f"{word.word}/{word.tag}" for word in found.words)
    return "\t".join(f"{label}\t{probability:.4f}" for label, probability in found.labels)


def to_table(given: Any, found: "Prediction") -> dict[str, Any]:
    table: dict[str, Any] = {"text": given if isinstance(given, str) else [*given]}
    if found.score is not None:
        return {**table, "score": found.score}
    if found.words:
        return {**table, "words": [word._asdict() for word in found.words]}
    return {**table, "labels": [label._asdict() for label in found.labels]}
