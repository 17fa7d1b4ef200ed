"""`headway trace`: everything that a model computes for one text, saved to be looked at."""

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
        ('headway trace --model my-model "A dog runs." --out traced', "everything that happens in a translation"),
        (
            'headway trace --model my-model --beam-size 8 --prefix "Der" "A dog runs." --out traced',
            "otherwise searched",
        ),
        ('headway trace --model my-lm "Once" --max-length 20 --out traced', "of a language model"),
    ],
)
@click.argument("text")
@options.model
@options.direction
@options.device
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed; 1 is greedy. Default: the model's.")
@option(
    "--length-penalty", "alpha", type=float, group="Search", help="Above 0 prefers longer output. Default: the model's."
)
@option("--max-length", type=click.IntRange(min=0), group="Search", help="New tokens at most. Of a language model: 40.")
@option("--no-repeat-ngram", "no_repeat_ngram", type=int, group="Search", help="Never repeat so many tokens in a row.")
@option("--prefix", default="", show_default=False, metavar="TEXT", group="Search", help="The output starts with this.")
@option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", group="Result", help="Folder for it.")
def trace(
    text: str, model: str | None, source_language: str, to: str, device: str, max_length: int | None, prefix: str,
    out: Path, **search: Any,
) -> None:  # fmt: skip
    """Save everything that is computed for one sentence.

    Tokens, queries, keys, values, scores and weights of every layer and head, residual streams and their norms, the
    distribution of every step, the whole beam. The folder gets trace.safetensors and trace.json; the format is in
    docs/looking-inside.md."""
    from headway.errors import ConfigError
    from headway.storage.registry import choose
    from headway.translate.translator import Translator, load

    choice = choose([model] if model else [], source_language, to)
    loaded = load(choice.paths[0], device)
    if isinstance(loaded, Translator):
        made = loaded.trace(text, to=choice.target, prefix=prefix, max_length=max_length, **search)
    else:
        if to or prefix:
            raise ConfigError(f"{model} is a language model: --to and --prefix mean nothing there. Leave them out.")
        if search["beam_size"] is None and loaded.config.train.objective.kind == "causal":
            search["beam_size"] = 1  # what is drawn at random cannot be checked
        made = loaded.trace(text, length=40 if max_length is None else max_length, **search)
    made.save(out)
    for warning in made.warnings:
        log(warning, "warning")
    if made.kind != "masked":
        click.echo(made.output)
    log(f"wrote {len(made.tensors)} tensors to {out}")
    log(f"next: headway attend --trace {shlex.quote(str(out))}")
