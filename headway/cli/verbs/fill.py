"""`headway fill`: guess masked words with a masked language model (BERT)."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups
from headway.cli.terminal import log, open_output

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.masked_words import MaskedWord


@click.command(
    "fill",
    cls=Verb,
    examples=[
        ('headway fill --model my-bert "Paris is the [MASK] of France."', "the five likeliest words"),
        ('headway fill --model my-bert --candidates 3 "The [MASK] sees a red [MASK]."', "each mask by itself"),
        ("headway fill --model my-bert --json < lines.txt", "a JSON object for each line"),
    ],
)
@click.argument("text", nargs=-1)
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory or name.")
@options.adapter
@options.device
@options.compute
@option("--input", "-i", "input_file", metavar="FILE", group="Text", help="Read lines from this file.")
@option(
    "--candidates",
    "-k",
    type=click.IntRange(min=1),
    default=5,
    group="Output",
    help="How many words to show for each mask.",
)
@option("--json", "as_json", is_flag=True, group="Output", help="A JSON object for each text.")
def fill(
    text: tuple[str, ...], model: str, adapter: str | None, device: str, compute: "Compute", input_file: str | None,
    candidates: int, as_json: bool,
) -> None:  # fmt: skip
    """Guess the words that stand behind [MASK], the likeliest first.

    A mask stands for one token of the vocabulary: a word, or a part of one. Without TEXT, lines are read from standard
    input, and answered one by one."""
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    if text and input_file:
        raise click.UsageError("give TEXT or --input, not both.", click.get_current_context())
    loaded = load(model, device, compute=compute)
    if not isinstance(loaded, LanguageModel):
        raise HeadwayError(f"{model} is a translator, which guesses no masked words. Give a masked language model.")
    loaded = loaded.with_adapter(adapter) if adapter else loaded
    if not text and not input_file and sys.stdin.isatty():
        log("type a text with [MASK] in it, and Enter; end with Ctrl-D")
    number = 0
    with open_output(None) as sink:
        for group in read_line_groups(text, input_file):
            for line in group:
                number += 1
                try:
                    found = loaded.fill(line, candidates)
                except HeadwayError as error:
                    raise HeadwayError(f"line {number}: {error}") if number > 1 else error from None
                sink.write(format_json(line, found) if as_json else format_plain(line, found, number))
                sink.flush()


def format_json(text: str, found: "Iterable[Iterable[MaskedWord]]") -> str:
    """One line: the text, and for each of its masks the candidates, the best first."""
    masks: list[list[dict[str, Any]]] = [
        [{"text": word.text, "probability": round(word.probability, 6)} for word in words] for words in found
    ]
    return json.dumps({"text": text, "masks": masks}, ensure_ascii=False) + "\n"


def format_plain(text: str, found: "list[list[MaskedWord]]", number: int) -> str:
    lines = [*[""] * (number > 1), text]
    for mask, words in enumerate(found, 1):
        lines += [f"mask {mask}:"] * (len(found) > 1)
        lines += [f"{word.probability:8.2%}  {word.text.strip()}" for word in words]
    return "".join(f"{line}\n" for line in lines)
