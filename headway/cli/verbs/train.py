"""`headway train`: train a translator or a language model."""

from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, settings
from headway.cli.train_setup import override_layers, prepare_training, run_training


@click.command(
    "train",
    cls=Verb,
    examples=[
        (
            "headway train --source train.en --target train.de --out my-model",
            "a translator, with automatic settings",
        ),
        (
            "headway train --source train.en --target train.de --valid-source val.en --valid-target val.de "
            "--out my-model --for 20m",
            "with your own validation text, for twenty minutes",
        ),
        ("headway train --text corpus.txt --out my-lm", "a language model"),
        (
            "headway train --pairs big.en-de.tsv.xz --pairs mine.en-de.tsv --weight 1 --weight 5 --out my-model",
            "two corpora, the second sampled five times as often",
        ),
        (
            "headway train --from-model my-model --source law.en --target law.de --out my-lawyer --for 10m",
            "fine-tune a model on other text",
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
    help="Source text; repeat for more corpora.",
)
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option(
    "--valid-source", multiple=True, metavar="FILE", group="Text", help="Validation text. Default: hold out some pairs."
)
@option("--valid-target", multiple=True, metavar="FILE", group="Text", help="Its translation.")
@option(
    "--pairs",
    multiple=True,
    metavar="FILE",
    group="Text",
    help=f"Both sides in one file: {options.PAIR_FORMATS}, text also .gz, .bz2, .xz, .zst; repeat for more corpora.",
)
@option("--valid-pairs", multiple=True, metavar="FILE", group="Text", help="The same for validation.")
@option(
    "--columns",
    type=options.Columns(),
    metavar="A,B",
    group="Text",
    help="Source and target column of --pairs, by number or name. Default: 1,2, or the languages.",
)
@option(
    "--weight",
    "weights",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    metavar="W",
    group="Text",
    help="Times that each pair is seen in an epoch; give one for all corpora, or one for each.",
)
@option(
    "--both-ways",
    is_flag=True,
    group="Text",
    help="Train one model for both directions, on the same pairs.",
)
@option(
    "--noise",
    "vary",
    aliases=["--vary"],
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="SHARE",
    group="Text",
    help="Repeat this share of the pairs with noise: lower case, CAPITALS, no full stop, emoji, …",
)
@option("--text", multiple=True, metavar="FILE", group="Text", help="Text for a language model, instead of pairs.")
@option("--valid-text", multiple=True, metavar="FILE", group="Text", help="Validation text for a language model.")
@option(
    "--from",
    "source_languages",
    multiple=True,
    metavar="LANG",
    group="Text",
    help="Language of --source. Default: from the file name.",
)
@option(
    "--to",
    "target_languages",
    multiple=True,
    metavar="LANG",
    group="Text",
    help="Language of --target. Default: from the file name.",
)
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    metavar="DIR",
    group="Result",
    help="Model directory. Run the same command again to resume.",
)
@option(
    "--from-model",
    metavar="MODEL",
    group="Result",
    help="Fine-tune this model, a directory or name; its tokenizer, architecture and languages are kept.",
)
@option(
    "--tokenizer",
    "tokenizer_path",
    type=click.Path(path_type=Path),
    metavar="PATH",
    group="Settings",
    help="Use this tokenizer.json, or that of a model (directory or name), instead of training one.",
)
@option(
    "--allow-changes",
    is_flag=True,
    group="Result",
    help="Resume even though the text or the settings have changed.",
)
@option("--tensorboard", is_flag=True, group="Result", help="Write TensorBoard logs to DIR/tensorboard.")
@option("--steps", type=click.IntRange(min=1), group="Budget (the first reached)", help="Optimiser steps.")
@option(
    "--epochs", type=click.IntRange(min=1), group="Budget (the first reached)", help="Passes over the training text."
)
@option(
    "--for",
    "seconds",
    type=options.Duration(),
    group="Budget (the first reached)",
    help="Time from the first step to the finished model, with validation: 90s, 20m, 1.5h. Reading the text and "
    "training the tokenizer come before.",
)
@option(
    "--preset",
    default="auto",
    metavar="NAME",
    group="Settings",
    help="auto, tiny, small, medium, base, big, gpt2, bert, …",
)
@option(
    "--objective",
    type=click.Choice(["translation", "causal", "masked"]),
    group="Settings",
    help="Training objective. Default: translation, or causal with --text.",
)
@option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Settings",
    help="Config file in TOML.",
)
@option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    group="Settings",
    help="Set one config key, e.g. model.d_model=256.",
)
@option("--seed", type=int, group="Settings", help="Short for --set train.seed=N.")
@option("--device", default="auto", metavar="NAME", group="Settings", help="Device: auto, cpu, cuda, cuda:1, …")
@option("--print-config", is_flag=True, group="Settings", help="Print every setting and its origin, then exit.")
def train(
    out: Path | None, from_model: str | None, tokenizer_path: Path | None, allow_changes: bool, tensorboard: bool,
    preset: str, objective: str | None, config_file: Path | None, assignments: tuple[str, ...], device: str,
    print_config: bool, **given: Any,
) -> None:  # fmt: skip
    """Train a translator from two text files, or a language model from one.

    Settings come from flags, then HEADWAY_CONFIG__SECTION__KEY in the environment, then --config, then the preset.
    --preset auto chooses one by the amount of text and logs its choice. Several GPUs: torchrun --nproc-per-node 4 -m
    headway train ..."""
    flags = {"objective": objective, **{name: given.pop(name) for name in ("steps", "epochs", "seconds", "seed")}}
    upper = override_layers(config_file, assignments, flags)
    if out is None and not print_config:
        raise click.UsageError("--out is missing: give a directory for the model.", click.get_current_context())
    if from_model and preset != "auto":
        raise click.UsageError(
            "--from-model and --preset were both given: the model has its own settings.",
            click.get_current_context(),
        )
    if from_model and tokenizer_path:
        raise click.UsageError(
            "--from-model and --tokenizer were both given: the model has its own tokenizer.",
            click.get_current_context(),
        )
    from headway.config.sources import compose, find_old_names, format_config
    from headway.storage.registry import model_directory
    from headway.train.setup import PretrainedModel, collect_layers
    from headway.train.sources import TrainingFiles, read_texts

    start = PretrainedModel.load(model_directory(from_model)) if from_model else None
    files = TrainingFiles(**given)
    if print_config:
        texts = read_texts(files)
        layers, _ = collect_layers(texts, files, preset, upper, start)
        for note in find_old_names(layers):
            log(note)
        click.echo(format_config(*compose(layers)), nl=False)
        return
    assert out is not None
    from headway.train.checkpoints import refuse_foreign_files
    from headway.train.distributed import join_process_group, leave_process_group

    refuse_foreign_files(out)
    group, where = join_process_group(device)
    settings.verbosity = settings.verbosity if group.is_main else -1
    try:
        with group.main_first():
            texts = read_texts(files)
            for note in texts.notes:
                log(note)
            for warning in texts.warnings:
                log(warning, "warning")
            layers, reason = collect_layers(texts, files, preset, upper, start)
            for note in find_old_names(layers):
                log(note)
            log(reason)
            prepared = prepare_training(out, layers, texts, start, where, tokenizer_path)
        run_training(prepared, out, where, group, tensorboard, allow_changes)
    finally:
        leave_process_group()
