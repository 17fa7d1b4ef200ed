"""`headway answer`: answer questions from one's own documents, with quotes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.answering.answerer import AnswerOptions
    from headway.answering.passage_index import Embed, PassageIndex
    from headway.answering.results import CitedAnswer
    from headway.translate.language_model import LanguageModel


@click.command(
    "answer",
    cls=Verb,
    examples=[
        ('headway answer "How do I limit the memory?" --index docs-index', "the sentences that say it, with sources"),
        ('headway answer "How do I limit the memory?" --index docs-index --trace', "and how they were found"),
        ('headway answer "What is a shortlist?" --index docs-index --model my-chat', "written by a language model"),
        ("headway answer --index docs-index --input questions.txt --json", "an object for each line of a file"),
    ],
)
@click.argument("question", nargs=-1)
@option(
    "--index", required=True, type=click.Path(path_type=Path), metavar="DIR", group="Documents",
    help="The documents: a folder of headway index --kind passages.",
)  # fmt: skip
@option(
    "--input", "-i", "input_file", metavar="FILE", group="Documents", help="Read questions from this file, one a line."
)
@option(
    "--retrieval", type=click.Choice(["bm25", "dense", "hybrid"]), group="Search",
    help="Search by words (bm25), by meaning (dense), or by both. Default: both, if the index has vectors.",
)  # fmt: skip
@option("--passages", type=click.IntRange(1, 100), default=8, group="Search", help="Passages that are found.")
@option("--sentences", type=click.IntRange(1, 20), default=3, group="Search", help="Sentences that are quoted at most.")
@option(
    "--encoder", metavar="MODEL", group="Search",
    help="The model that made the vectors of the index. Default: as the index says.",
)  # fmt: skip
@option(
    "--model", "-m", metavar="MODEL", group="Model",
    help="A language model that writes the answer. Default: none, and the answer is made of quotes.",
)  # fmt: skip
@options.device
@option("--trace", is_flag=True, group="Result", help="Print every step: search, passages, quotes, answer.")
@option("--json", "as_json", is_flag=True, group="Result", help="Print a JSON object for each question.")
def answer(
    question: tuple[str, ...], index: Path, input_file: str | None, encoder: str | None, model: str | None, device: str,
    trace: bool, as_json: bool, **search: Any,
) -> None:  # fmt: skip
    """Answer a question from documents, and quote what the answer rests on.

    Passages are searched for the question; their best sentences are the answer, each with its source [1]. With --model
    a language model writes it from the passages, and [?] marks sentences that they do not support. Several QUESTIONs
    are answered one after another."""
    from headway.answering.answerer import AnswerOptions
    from headway.answering.passage_index import open_passage_index

    opened = open_passage_index(index)
    settings = AnswerOptions(
        passages=search["passages"], sentences=search["sentences"], method=search["retrieval"], model_name=model or ""
    )
    embed = load_encoder(opened, encoder, device, settings.method)
    writer = load_writer(model, device) if model else None
    several = len(question) > 1 or not question
    for group in read_line_groups(question, input_file):
        for text in group:
            if text.strip():
                print_answer(opened, text, settings, embed, writer, trace=trace, as_json=as_json, named=several)


def load_encoder(index: "PassageIndex", name: str | None, device: str, method: str | None) -> "Embed | None":
    """That of the index, if it has vectors and they are asked for. Words are searched without it, if it is gone."""
    from headway.errors import HeadwayError

    name = name or index.encoder
    if method == "bm25" or index.vectors is None or not name:
        return None
    from headway.translate.text_vectors import load_embedder

    try:
        return load_embedder(name, device)
    except HeadwayError as error:
        if method is not None:
            raise
        log(f"searching by words alone, because the encoder of the index cannot be loaded: {error}", "warning")
        return None


def load_writer(name: str, device: str) -> "LanguageModel":
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    loaded = load(name, device)
    if not isinstance(loaded, LanguageModel):
        raise HeadwayError(f"{name} is a translator, which writes no answers. Give a language model, or none.")
    loaded.make_prompt("x")  # refuses one that cannot continue a text
    return loaded


def print_answer(
    index: "PassageIndex", question: str, settings: "AnswerOptions", embed: "Embed | None",
    model: "LanguageModel | None", *, trace: bool, as_json: bool, named: bool,
) -> None:  # fmt: skip
    from headway.answering.answerer import answer_steps
    from headway.answering.results import CitedAnswer
    from headway.cli.answer_trace import format_answer, format_step

    steps: dict[str, Any] = {}
    if named and not as_json:
        click.echo(f"> {question}")
    for step in answer_steps(index, question, settings, embed, model):
        event = step.to_event()
        steps[event.pop("event")] = event
        if trace and not as_json and (lines := format_step(step)):
            click.echo(lines + "\n")
        if not isinstance(step, CitedAnswer):
            continue
        if as_json:
            table = steps["answer"]
            if trace:
                table |= {**steps["search"], **steps["passages"], **steps["quotes"]}
            click.echo(json.dumps(table, ensure_ascii=False))
        else:
            click.echo(format_answer(step))
        warn_of_answer(index, step)


def warn_of_answer(index: "PassageIndex", answer: "CitedAnswer") -> None:
    if not answer.sentences:
        log("no passage has to do with this question", "warning")
    unsupported = sum(not one.supported for one in answer.sentences)
    if unsupported:
        count = len(answer.sentences)
        log(f"{unsupported} of {count} sentences are not supported by the passages: [?] marks them", "warning")
    for name in index.find_changed(dict.fromkeys(one.source.file for one in answer.sources)):
        log(f"{name} has changed since it was indexed: run headway index again, with --overwrite", "warning")
