"""`headway generate`: continue a prompt with a language model."""

from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option


@click.command(
    "generate",
    cls=Verb,
    examples=[
        ('headway generate --model my-lm "Once"', "continue a prompt"),
        (
            'headway generate --model my-lm --max-length 50 --temperature 0.7 --seed 1 "Once"',
            "shorter, less random, repeatable",
        ),
        ('headway generate --model my-lm --beam-size 4 "Once"', "beam search instead of sampling"),
    ],
)
@click.argument("prompt", default="")
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory or name.")
@options.adapter
@options.device
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
def generate(prompt: str, model: str, adapter: str | None, device: str, **settings: Any) -> None:
    """Continue a text with a language model. The text is printed as it is generated."""
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    loaded = load(model, device)
    if not isinstance(loaded, LanguageModel):
        raise HeadwayError(f"{model} is a translator. Try: headway translate --model {model}")
    loaded = loaded.with_adapter(adapter) if adapter else loaded
    if settings["beam_size"] and settings["beam_size"] > 1:
        click.echo(loaded(prompt, **settings))
        return
    pieces = loaded.stream(prompt, **settings)
    click.echo(prompt, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
    click.echo()
