"""`headway generate`: a language model goes on from a prompt."""

from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option


@click.command(
    "generate",
    cls=Verb,
    examples=[
        ('headway generate --model my-lm "Once"', "go on from here"),
        ('headway generate --model my-lm --length 50 --temperature 0.7 --seed 1 "Once"', "shorter, safer, repeatable"),
        ('headway generate --model my-lm --beam-size 4 "Once"', "search instead of drawing"),
    ],
)
@click.argument("prompt", default="")
@option("--model", "-m", required=True, metavar="MODEL", group="Model", help="Model directory, or name.")
@options.device
@option("--length", type=click.IntRange(min=1), default=200, group="Search", help="New tokens at most.")
@option("--temperature", type=float, group="Search", help="Below 1 plays safe, above 1 dares.")
@option("--top-k", type=int, group="Search", help="Draw from the k likeliest only.")
@option("--top-p", type=float, group="Search", help="Draw from the likeliest with this share only.")
@option("--seed", type=int, group="Search", help="The same seed, the same text.")
@option("--beam-size", "-b", type=int, group="Search", help="Search instead of drawing; 1 is greedy.")
@option("--no-repeat-ngram", "no_repeat_ngram", type=int, group="Search", help="Never repeat so many tokens in a row.")
def generate(prompt: str, model: str, device: str, **settings: Any) -> None:
    """Continue a text with a language model. The text appears as it is written."""
    from headway.errors import HeadwayError
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    loaded = load(model, device)
    if not isinstance(loaded, LanguageModel):
        raise HeadwayError(f"{model} is a translator. Try: headway translate --model {model}")
    if settings["beam_size"] and settings["beam_size"] > 1:
        click.echo(loaded(prompt, **settings))
        return
    pieces = loaded.stream(prompt, **settings)
    click.echo(prompt, nl=False)
    for piece in pieces:
        click.echo(piece, nl=False)
    click.echo()
