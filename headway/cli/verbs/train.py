"""`headway train`: train a translator or a language model."""

from pathlib import Path
from typing import Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.train_setup import print_settings, read_assignments, run_training
from headway.config.objective_kinds import TASKS

# Those that are keywords of headway.train under the same name; the rest is about files.
OPTION_NAMES = ("objective", "task", "steps", "epochs", "seconds", "seed", "device", "allow_changes", "index")


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
            "headway train --text corpus.txt --index corpus-index --out my-retro",
            "one that retrieves: see docs/retro.md",
        ),
        ("headway train --task classify --data mails.tsv --out my-classifier", "labels of texts: see docs/tasks.md"),
        ("headway train --task solve --data train.jsonl --out my-solver", "answers to problems: see docs/transnar.md"),
        ("headway train --images photos --out my-vit", "labels of pictures, a folder each: see docs/vit.md"),
        (
            "headway train --text mono.txt --objective span_corruption --out base",
            "pre-train a translator on text of either language: then --from-model base",
        ),
        (
            "headway train --pairs big.en-de.tsv.xz --pairs mine.en-de.tsv --weight 1 --weight 5 --out my-model",
            "two corpora, the second sampled five times as often",
        ),
        (
            "headway train --from-model my-model --source law.en --target law.de --out my-lawyer --for 10m",
            "fine-tune a model on other text",
        ),
        (
            "headway train --from-model en-de --lora 8 --source law.en --target law.de --out law --for 5m",
            "train a small adapter of it instead: see headway merge",
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
    "--prefix",
    "prefixes",
    multiple=True,
    metavar="TEXT",
    group="Text",
    help="Text before each source, which names the task; give one for all corpora, or one for each.",
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
    "--index", metavar="DIR", group="Text",
    help="With --text: a model that retrieves from this index, which headway index has made.",
)  # fmt: skip
@option(
    "--task",
    type=click.Choice(TASKS),
    group="Task",
    help="Learn a task on top of an encoder: label texts, tag words, compare two texts, or embed texts; or, with a "
    "decoder, solve problems.",
)
@option(
    "--data",
    multiple=True,
    metavar="FILE",
    group="Task",
    help="Its examples: .tsv, .csv, .jsonl, .conll or .conllu. Columns: text, label; words, tags; text1, text2, label "
    "or score; anchor, positive, perhaps negatives; text, answer, and in .jsonl graph.",
)
@option("--valid-data", multiple=True, metavar="FILE", group="Task", help="The same for validation.")
@option(
    "--images",
    multiple=True,
    metavar="PATH",
    group="Task",
    help="Label pictures: a folder with a folder for each label, or a TSV of path and label.",
)
@option("--valid-images", multiple=True, metavar="PATH", group="Task", help="The same for validation.")
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
    "--lora",
    type=click.IntRange(min=1),
    metavar="RANK",
    group="Result",
    help="With --from-model: train a LoRA adapter of this rank instead of all weights. Try 8.",
)
@option("--lora-alpha", type=click.FloatRange(min=0), metavar="A", group="Result", help="Its scale. Default: 2 · RANK.")
@option(
    "--lora-layers",
    default="*",
    metavar="NAMES",
    group="Result",
    help='Which linear layers, e.g. "*.query,*.value". Default: all.',
)
@option(
    "--tokenizer",
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
@option(
    "--log",
    default="",
    show_default=False,
    metavar="NAMES",
    group="Result",
    help="Log to tensorboard, wandb, mlflow or csv (DIR/metrics.csv); several with commas.",
)
@option("--tensorboard", is_flag=True, group="Result", help="Short for --log tensorboard: DIR/tensorboard.")
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
    type=click.Choice(
        ["translation", "causal", "masked", "permutation", "span_corruption", "denoising", "masked_target"]
    ),
    metavar="NAME",
    group="Settings",
    help="Training objective: translation (default), masked_target; with --text: causal (default), masked, "
    "permutation, span_corruption, denoising.",
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
    out: Path | None, from_model: str | None, tokenizer: Path | None, preset: str, config_file: Path | None,
    assignments: tuple[str, ...], print_config: bool, log: str, tensorboard: bool, lora: int | None,
    lora_alpha: float | None, lora_layers: str, **given: Any,
) -> None:  # fmt: skip
    """Train a translator from two text files, a language model from one, or a task on top of an encoder.

    Settings come from flags, then HEADWAY_CONFIG__SECTION__KEY in the environment, then --config, then the preset.
    --preset auto chooses one by the amount of text and logs its choice. Several GPUs: torchrun --nproc-per-node 4 -m
    headway train ..."""
    context = click.get_current_context()
    if out is None and not print_config:
        raise click.UsageError("--out is missing: give a directory for the model.", context)
    if lora and not from_model:
        raise click.UsageError("--lora adapts a model: name it with --from-model.", context)
    if (lora_alpha or lora_layers != "*") and not lora:
        raise click.UsageError("--lora-alpha and --lora-layers need --lora RANK.", context)
    for option_name, clash in (("--preset", preset != "auto"), ("--tokenizer", tokenizer)):
        if from_model and clash:
            own = "settings" if option_name == "--preset" else "tokenizer"
            raise click.UsageError(
                f"--from-model and {option_name} were both given: the model has its own {own}.", context
            )
    options: dict[str, Any] = {name: given.pop(name) for name in OPTION_NAMES}
    if given["images"] and not options["task"]:
        options["task"] = "classify"
    options |= {
        "from_model": from_model,
        "tokenizer": tokenizer,
        "preset": preset,
        "config": config_file,
        "flags": True,
    }
    options |= {"set": read_assignments(assignments), "log": f"{log},tensorboard" if tensorboard else log}
    from headway.nn.layers.lora import LoraConfig
    from headway.train.sources import TrainingFiles

    options["lora"] = LoraConfig(lora, lora_alpha or 0.0, lora_layers) if lora else None
    files = TrainingFiles(**given, task=options["task"] or "")
    if print_config:
        print_settings(files, options)
    else:
        assert out is not None
        run_training(files, out, options)
