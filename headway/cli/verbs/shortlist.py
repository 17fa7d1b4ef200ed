"""`headway shortlist`: the words that a source may need, for a model that is there already."""

import shlex
import time
from pathlib import Path

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "shortlist",
    cls=Verb,
    examples=[
        ("headway shortlist --model my-model --source train.en --target train.de", "from the text it was trained on"),
        ('headway translate --model my-model --shortlist "A dog runs."', "use it"),
        (
            "headway shortlist --model my-model --source train.en --target train.de --keep-outputs 4000",
            "prune the output layer: the same 4,000 words for every sentence",
        ),
    ],
)
@option(
    "--model",
    "-m",
    required=True,
    metavar="MODEL",
    group="Model",
    help="Model directory, or name; the shortlist goes there.",
)
@option("--source", "-s", multiple=True, metavar="FILE", group="Text", help="Parallel text; may be repeated.")
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--pairs", multiple=True, metavar="FILE", group="Text", help="Both in one file: .tsv or .jsonl.")
@options.columns
@option("--to", multiple=True, metavar="LANG", group="Text", help="Target language of each, where a model has several.")
@option("--best", type=click.IntRange(min=1), default=50, group="Words", help="Target tokens for each source token.")
@option("--frequent", type=click.IntRange(min=0), default=100, group="Words", help="Frequent ones for any sentence.")
@option(
    "--keep-outputs",
    type=click.IntRange(min=1),
    metavar="N",
    group="Words",
    help="Instead: only the N most frequent target tokens, for every sentence.",
)
@option("--at-most", type=click.IntRange(min=1), default=200_000, metavar="N", group="Words", help="Pairs to count in.")
def shortlist(
    model: str, source: tuple[str, ...], target: tuple[str, ...], pairs: tuple[str, ...],
    columns: tuple[str, str] | None, to: tuple[str, ...], best: int, frequent: int, keep_outputs: int | None,
    at_most: int,
) -> None:  # fmt: skip
    """Make a model's shortlist: the words that a source may need.

    Give the text that the model was trained on, or text like it. Pairs are taken from all parts of it. The model's
    weights stay as they are; what it had for a shortlist is written over."""
    from headway.config.config import Config
    from headway.errors import HeadwayError
    from headway.storage.registry import own_directory
    from headway.text import Tokenizers
    from headway.text.shortlist import SHORTLIST
    from headway.train.shortlist import Frequent, Lexical, made
    from headway.train.sources import Files, read_corpora

    given = click.get_current_context().get_parameter_source
    by_hand = [name for name in ("best", "frequent") if given(name) is click.core.ParameterSource.COMMANDLINE]
    if keep_outputs and by_hand:
        told = f"--keep-outputs names the same words for every sentence: leave out --{by_hand[0]}."
        raise click.UsageError(told, click.get_current_context())
    folder = Path(own_directory(model))
    if not (folder / "config.json").exists():
        raise HeadwayError(f"{folder} is not a model directory: it has no config.json.")
    config = Config.load(folder / "config.json")
    if config.train.objective.kind != "translation":
        raise HeadwayError(f"{folder} is a language model: it reads no source that could name words.")
    files = Files(source=source, target=target, pairs=pairs, columns=columns, target_languages=to)
    files.refuse()
    tokenizers = Tokenizers.load(folder / "tokenizer.json")
    lexical = Lexical.Config(best=best, frequent=frequent, pairs=at_most)
    part = Frequent.Config(frequent=keep_outputs, pairs=at_most) if keep_outputs else lexical
    began = time.perf_counter()
    found = made(part, read_corpora(files), tokenizers, config.tags)
    found.save(folder)
    counted, spent = int(found.about["pairs"]), time.perf_counter() - began
    log(f"{folder / SHORTLIST}: {len(found.targets):,} tokens in its lists, from {counted:,} pairs, in {spent:.0f} s")
    log(f"next: headway evaluate --model {shlex.quote(model)} --shortlist --source FILE --target FILE")
