"""`headway trace`: save every intermediate result of one translation."""

import shlex
from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "trace",
    cls=Verb,
    examples=[
        ('headway trace --model my-model "A dog runs." --out traced', "every step of a translation"),
        (
            'headway trace --model my-model --beam-size 8 --prefix "Der" "A dog runs." --out traced',
            "with other search settings",
        ),
        ('headway trace --model my-lm "Once" --max-length 20 --out traced', "a language model"),
    ],
)
@click.argument("text")
@options.model
@options.direction
@options.device
@options.beam_size
@options.length_penalty
@option(
    "--max-length",
    type=click.IntRange(min=0),
    group="Search",
    help="Maximum number of new tokens. Default for a language model: 40.",
)
@options.no_repeat_ngram
@option(
    "--prefix",
    default="",
    show_default=False,
    metavar="TEXT",
    group="Search",
    help="Force the output to start with TEXT.",
)
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    group="Result",
    help="Output directory.",
)
def trace(
    text: str, model: str | None, source_language: str, to: str, device: str, max_length: int | None, prefix: str,
    out: Path, **search: Any,
) -> None:  # fmt: skip
    """Save every intermediate result of one translation.

    Tokens; queries, keys, values, scores and weights of every layer and head; residual streams and their norms; the
    distribution at every step; the whole beam. Writes trace.safetensors and trace.json; docs/looking-inside.md
    describes the format."""
    from headway.config.objective_kinds import continues_text
    from headway.errors import ConfigError
    from headway.storage.registry import choose_models
    from headway.translate.translator import Translator, load_single

    choice = choose_models([model] if model else [], source_language, to)
    loaded = load_single(choice.paths[0], device)
    if isinstance(loaded, Translator):
        result = loaded.trace(
            text, source=choice.source, target=choice.target, prefix=prefix, max_length=max_length, **search
        )
    else:
        if to or prefix:
            raise ConfigError(f"{model} is a language model: leave out --to and --prefix.")
        if search["beam_size"] is None and continues_text(loaded.config.train.objective.kind):
            search["beam_size"] = 1  # sampling could not be reproduced
        result = loaded.trace(text, length=40 if max_length is None else max_length, **search)
    result.save(out)
    for warning in result.warnings:
        log(warning, "warning")
    if result.target.ids:
        click.echo(result.output)
    log(f"wrote {len(result.tensors)} tensors to {out}")
    log(f"next: headway attend --trace {shlex.quote(str(out))}")
