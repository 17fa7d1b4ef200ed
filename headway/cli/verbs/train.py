"""`headway train`: from text to a model."""

from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, settings
from headway.cli.train_setup import prepare, run, upper_layers


@click.command(
    "train",
    cls=Verb,
    examples=[
        (
            "headway train --source train.en --target train.de --out my-model",
            "a translator; everything is chosen for you",
        ),
        (
            "headway train --source train.en --target train.de --valid-source val.en --valid-target val.de "
            "--out my-model --for 20m",
            "with your own validation text, for twenty minutes",
        ),
        ("headway train --text corpus.txt --out my-lm", "a language model"),
        (
            "headway train --pairs big.en-de.tsv.xz --pairs mine.en-de.tsv --weight 1 --weight 5 --out my-model",
            "two corpora, the second seen five times as often",
        ),
        (
            "headway train --from-model my-model --source law.en --target law.de --out my-lawyer --for 10m",
            "a model fine-tuned on other text",
        ),
        (
            "headway train --source train.en --target train.de --out my-model --config my.toml --set train.seed=2",
            "your own settings",
        ),
    ],
)
@option(
    "--source",
    "-s",
    multiple=True,
    metavar="FILE",
    group="Text",
    help="Text to translate from; more than once for more corpora.",
)
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option(
    "--valid-source", multiple=True, metavar="FILE", group="Text", help="Text to validate on; else some is held out."
)
@option("--valid-target", multiple=True, metavar="FILE", group="Text", help="Its translation.")
@option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    group="Text",
    help="Both sides in one file, .tsv or .jsonl, plain or .gz, .xz, .zst; more than once for more corpora.",
)
@option("--valid-pairs", multiple=True, metavar="FILE", group="Text", help="The same to validate on.")
@option(
    "--columns",
    type=options.Columns(),
    metavar="A,B",
    group="Text",
    help="Which columns (or keys) of --pairs are source and target. Default: 1,2, or the languages.",
)
@option(
    "--weight",
    "weights",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    metavar="W",
    group="Text",
    help="How often each pair of a corpus is seen in an epoch; once for all, or once for each corpus.",
)
@option(
    "--both-ways",
    is_flag=True,
    group="Text",
    help="Learn the other direction too, from the same pairs: one model for both.",
)
@option(
    "--vary",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    group="Text",
    help="See this share of the pairs once more as people type: small letters, CAPITALS, no full stop, emoji …",
)
@option("--text", multiple=True, metavar="FILE", group="Text", help="Text for a language model, instead of pairs.")
@option("--valid-text", multiple=True, metavar="FILE", group="Text", help="Text to validate it on.")
@option(
    "--from",
    "source_languages",
    multiple=True,
    metavar="LANG",
    group="Text",
    help="Language of --source; else from the file's name.",
)
@option(
    "--to",
    "target_languages",
    multiple=True,
    metavar="LANG",
    group="Text",
    help="Language of --target; else from the file's name.",
)
@option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIR",
    group="Result",
    help="Model directory. The same command goes on where it stopped.",
)
@option(
    "--from-model",
    metavar="MODEL",
    group="Result",
    help="Fine-tune: start from this model, a directory or a name, with its tokenizer, architecture and languages.",
)
@option(
    "--tokenizer",
    "tokenizer_of",
    type=click.Path(path_type=Path),
    metavar="PATH",
    group="Settings",
    help="Do not learn a vocabulary: take this tokenizer.json, or that of this model, a directory or a name.",
)
@option(
    "--allow-changes",
    is_flag=True,
    group="Result",
    help="Go on in DIR though the text or the settings have changed since.",
)
@option("--tensorboard", is_flag=True, group="Result", help="Also write curves for TensorBoard to DIR/tensorboard.")
@option("--steps", type=click.IntRange(min=1), group="Budget (the first reached)", help="Updates of the weights.")
@option("--epochs", type=click.IntRange(min=1), group="Budget (the first reached)", help="Passes over the text.")
@option("--for", "seconds", type=options.Duration(), group="Budget (the first reached)", help="Time: 90s, 20m, 1.5h.")
@option(
    "--preset",
    default="auto",
    metavar="NAME",
    group="Settings",
    help="auto, tiny, small, medium, base, big, gpt2, bert …",
)
@option(
    "--objective",
    type=click.Choice(["translation", "causal", "masked"]),
    group="Settings",
    help="What is learned; by default translation, or causal with --text.",
)
@option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Settings",
    help="Settings in TOML.",
)
@option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    group="Settings",
    help="One setting, as in model.d_model=256.",
)
@option("--seed", type=int, group="Settings", help="The same as --set train.seed=N.")
@option("--device", default="auto", metavar="NAME", group="Settings", help="auto, cpu, cuda, cuda:1 …")
@option("--print-config", is_flag=True, group="Settings", help="Show every setting and where it comes from, and stop.")
def train(
    out: Path | None, from_model: str | None, tokenizer_of: Path | None, allow_changes: bool, tensorboard: bool,
    preset: str, objective: str | None, config_file: Path | None, assignments: tuple[str, ...], device: str, print_config: bool,
    **given: Any,
) -> None:  # fmt: skip
    """Train a translator from two text files, or a language model from one.

    Settings are taken from flags, then HEADWAY_CONFIG__SECTION__KEY in the environment, then --config, then the
    preset. --preset auto chooses by the size of your text and says what and why. Several GPUs: torchrun
    --nproc-per-node 4 -m headway train ..."""
    flags = {"objective": objective, **{name: given.pop(name) for name in ("steps", "epochs", "seconds", "seed")}}
    upper = upper_layers(config_file, assignments, flags)
    if out is None and not print_config:
        raise click.UsageError("--out is missing: where should the model go?", click.get_current_context())
    if from_model and preset != "auto":
        raise click.UsageError(
            "--from-model and --preset were both given: the model brings its settings along.",
            click.get_current_context(),
        )
    if from_model and tokenizer_of:
        raise click.UsageError(
            "--from-model and --tokenizer were both given: the model brings its tokenizer along.",
            click.get_current_context(),
        )
    from headway.config.sources import compose, described
    from headway.storage.registry import directory
    from headway.train.setup import Start, layers_for
    from headway.train.sources import Files, read_texts

    start = Start.read(directory(from_model)) if from_model else None
    files = Files(**given)
    if print_config:
        texts = read_texts(files)
        layers, _ = layers_for(texts, files, preset, upper, start)
        click.echo(described(*compose(layers)), nl=False)
        return
    assert out is not None
    from headway.train.checkpoints import refuse_strange
    from headway.train.distributed import join_team, leave_team

    refuse_strange(out)
    team, where = join_team(device)
    settings.verbosity = settings.verbosity if team.first else -1
    try:
        with team.first_alone():
            texts = read_texts(files)
            for note in texts.notes:
                log(note)
            layers, reason = layers_for(texts, files, preset, upper, start)
            log(reason)
            prepared = prepare(out, layers, texts, start, where, tokenizer_of)
        run(prepared, out, where, team, tensorboard, allow_changes)
    finally:
        leave_team()
