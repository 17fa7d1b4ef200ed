"""`headway shortlist`: build a lexical shortlist for a trained model."""

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
        (
            "headway shortlist --model my-model --source train.en --target train.de",
            "from the text that it was trained on",
        ),
        ('headway translate --model my-model --shortlist "A dog runs."', "use it"),
        (
            "headway shortlist --model my-model --source train.en --target train.de --keep-outputs 4000",
            "prune the output layer: the same 4,000 tokens for every sentence",
        ),
    ],
)
@option(
    "--model",
    "-m",
    required=True,
    metavar="MODEL",
    group="Model",
    help="Model directory or name; the shortlist is saved there.",
)
@option("--source", "-s", multiple=True, metavar="FILE", group="Text", help="Source text; may be repeated.")
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--pairs", multiple=True, metavar="FILE", group="Text", help=f"Both in one file: {options.PAIR_FORMATS}.")
@options.columns
@option(
    "--to",
    multiple=True,
    metavar="LANG",
    group="Text",
    help="Target language of each corpus, if the model has several.",
)
@option("--best", type=click.IntRange(min=1), default=50, group="Shortlist", help="Target tokens per source token.")
@option(
    "--frequent",
    type=click.IntRange(min=0),
    default=100,
    group="Shortlist",
    help="Frequent target tokens added for every sentence.",
)
@option(
    "--keep-outputs",
    type=click.IntRange(min=1),
    metavar="N",
    group="Shortlist",
    help="Instead, keep only the N most frequent target tokens for every sentence.",
)
@option(
    "--max-pairs",
    aliases=["--at-most"],
    type=click.IntRange(min=1),
    default=200_000,
    metavar="N",
    group="Shortlist",
    help="Count in at most N pairs.",
)
def shortlist(
    model: str, source: tuple[str, ...], target: tuple[str, ...], pairs: tuple[str, ...],
    columns: tuple[str, str] | None, to: tuple[str, ...], best: int, frequent: int, keep_outputs: int | None,
    max_pairs: int,
) -> None:  # fmt: skip
    """Build a lexical shortlist, to restrict the output vocabulary.

    Give the text that the model was trained on, or similar text; pairs are sampled from all of it. The model's weights
    do not change; an existing shortlist is replaced."""
    from headway.config.config import Config
    from headway.config.objective_kinds import reads_pairs
    from headway.errors import HeadwayError
    from headway.storage.registry import writable_directory
    from headway.text.shortlist import SHORTLIST_FILE
    from headway.text.tokenizer.pair import Tokenizers
    from headway.train.shortlist import FrequentShortlist, LexicalShortlist, build_shortlist
    from headway.train.sources import TrainingFiles, read_corpora

    given = click.get_current_context().get_parameter_source
    conflicting = [name for name in ("best", "frequent") if given(name) is click.core.ParameterSource.COMMANDLINE]
    if keep_outputs and conflicting:
        message = f"--keep-outputs uses the same tokens for every sentence: leave out --{conflicting[0]}."
        raise click.UsageError(message, click.get_current_context())
    folder = Path(writable_directory(model))
    if not (folder / "config.json").exists():
        raise HeadwayError(f"{folder} is not a model directory: it has no config.json.")
    config = Config.load(folder / "config.json")
    if not reads_pairs(config.train.objective.kind):
        raise HeadwayError(f"{folder} is a language model: shortlists are for translators.")
    files = TrainingFiles(source=source, target=target, pairs=pairs, columns=columns, target_languages=to)
    files.check()
    tokenizers = Tokenizers.load(folder / "tokenizer.json")
    lexical = LexicalShortlist.Config(best=best, frequent=frequent, pairs=max_pairs)
    part = FrequentShortlist.Config(frequent=keep_outputs, pairs=max_pairs) if keep_outputs else lexical
    started = time.perf_counter()
    result = build_shortlist(part, read_corpora(files), tokenizers, config.tags)
    result.save(folder)
    seconds = time.perf_counter() - started
    pair_count = int(result.about["pairs"])
    log(
        f"{folder / SHORTLIST_FILE}: {len(result.targets):,} tokens in its lists, from {pair_count:,} pairs, "
        f"in {seconds:.0f} s"
    )
    log(f"next: headway evaluate --model {shlex.quote(model)} --shortlist --source FILE --target FILE")
