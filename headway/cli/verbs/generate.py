"""`headway generate`: continue a prompt with a language model."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import read_line_groups
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.decode.types import Compute
    from headway.translate.language_model import LanguageModel


@click.command(
    "generate",
    cls=Verb,
    examples=[
        ('headway generate --model my-lm "Once"', "continue a prompt"),
        (
            'headway generate --model my-lm --max-length 50 --temperature 0.7 --seed 1 "Once"',
            "shorter, less random, repeatable",
        ),
        ('headway generate --model my-lm --top-k 40 "Once" "The dog"', "two prompts, of the 40 likeliest tokens each"),
        ("headway generate --model my-lm -", "prompts from standard input, one a line"),
        ('headway generate --model my-lm --beam-size 4 "Once"', "beam search instead of sampling"),
    ],
)
@click.argument("prompts", metavar="[PROMPT]...", nargs=-1)
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory or name.")
@options.adapter
@options.index
@options.device
@options.compute
@option(
    "--max-length",
    "length",
    aliases=["--length"],
    type=click.IntRange(min=1),
    default=200,
    group="Search",
    help="Maximum number of new tokens.",
)
@option("--temperature", type=float, group="Search", help="Sampling temperature; lower is less random.")
@option("--top-k", type=int, group="Search", help="Sample only from the K most likely tokens.")
@option("--top-p", type=float, group="Search", help="Nucleus sampling with this probability mass.")
@option("--seed", type=int, group="Search", help="Random seed.")
@option("--beam-size", "-b", type=int, group="Search", help="Beam search instead of sampling; 1 is greedy search.")
@options.no_repeat_ngram
def generate(
    prompts: tuple[str, ...],
    model: str,
    adapter: str | None,
    index: str | None,
    device: str,
    compute: "Compute",
    **settings: Any,
) -> None:
    """Continue a text with a language model. The text is printed as it is generated.

    Several prompts are continued one after another, each by itself, with an empty line between them. PROMPT - reads
    them from standard input, line by line. Without a prompt, a text is begun."""
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    loaded = load(model, device, compute=compute)
    if not isinstance(loaded, LanguageModel):
        raise HeadwayError(f"{model} is a translator. Try: headway translate --model {model}")
    loaded = loaded.with_adapter(adapter) if adapter else loaded
    loaded = loaded.with_index(index) if index else loaded
    if prompts == ("-",) and sys.stdin.isatty():
        log("type a prompt and Enter; end with Ctrl-D")
    for number, prompt in enumerate(read_prompts(prompts)):
        pieces = continue_prompt(loaded, prompt, settings)
        first = next(pieces)  # errors come before anything is printed
        click.echo("\n" * bool(number) + first, nl=False)
        try:
            for piece in pieces:
                click.echo(piece, nl=False)
        finally:  # Ctrl-C ends the line, too
            click.echo()


def read_prompts(prompts: tuple[str, ...]) -> Iterator[str]:
    """Those of the command line, or each line of standard input as soon as it is there."""
    if prompts == ("-",):
        for group in read_line_groups((), None):
            yield from group
        return
    yield from prompts or ("",)


def continue_prompt(model: "LanguageModel", prompt: str, settings: dict[str, Any]) -> Iterator[str]:
    """The prompt and what follows it, in pieces; in one, if several hypotheses are compared."""
    if settings["beam_size"] and settings["beam_size"] > 1:
        yield model(prompt, **settings)
        return
    pieces = model.stream(prompt, **settings)
    yield prompt
    yield from pieces
