"""`headway average`: average the weights of checkpoints or models."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.config.config import Config


@click.command(
    "average",
    cls=Verb,
    examples=[
        ("headway average --model my-model --last 5 --out averaged", "the last five checkpoints of a run"),
        ("headway average --model seed-1 --model seed-2 --out soup", "several models of the same architecture"),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    required=True,
    metavar="MODEL",
    help="Model directory or name; repeat to average models instead of checkpoints.",
)
@option("--last", type=click.IntRange(min=1), default=5, help="Number of checkpoints to average, of a single model.")
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Directory for the new model.",
)
@option("--overwrite", is_flag=True, help="Replace the model in --out.")
def average(models: tuple[str, ...], last: int, out: Path, overwrite: bool) -> None:
    """Average the last checkpoints of a run, or several models."""
    from headway.errors import HeadwayError
    from headway.storage.model_dir import WEIGHTS_FILE, average_weights, load_model, read_tensors, save_model
    from headway.storage.packing import is_packed
    from headway.storage.registry import model_directory
    from headway.text.shortlist import copy_shortlist
    from headway.train.checkpoints import list_checkpoints, refuse_nonempty
    from headway.train.history import History
    from headway.train.model_card import format_evaluate_command

    models = tuple(map(model_directory, models))
    if out.resolve() in [Path(model).resolve() for model in models]:
        raise click.UsageError(
            f"--out is {out}, one of the models: choose another directory.", click.get_current_context()
        )
    refuse_nonempty(out, overwrite, "other weights")
    loaded = [load_model(model) for model in models]
    first = loaded[0]
    for model, one in zip(models, loaded):
        if is_packed(one.config):
            raise HeadwayError(
                f"{model} is packed, and packed models cannot be averaged: their weights are quantised. Average the "
                "models that they were packed from, then run headway pack on the result."
            )
    if len(models) > 1:
        files = [Path(model) / WEIGHTS_FILE for model in models]
        if any(one.config.model != first.config.model for one in loaded):
            raise HeadwayError("these models have different architectures, so they cannot be averaged.")
        if any(_languages(one.config) != _languages(first.config) for one in loaded):
            raise HeadwayError("these models translate between different languages, so they cannot be averaged.")
        if len({one.tokenizers.fingerprints for one in loaded}) > 1:
            raise HeadwayError("these models have different tokenizers, so they cannot be averaged.")
    else:
        checkpoints = list_checkpoints(Path(models[0]))
        if not checkpoints:
            raise HeadwayError(f"{models[0]} has no checkpoints to average. Give several --model instead.")
        files = [checkpoint.folder / WEIGHTS_FILE for checkpoint in checkpoints[-last:]]
    weights = average_weights([read_tensors(file) for file in files])
    names = ", ".join(str(file.parent) for file in files)
    command = format_evaluate_command(first.config, ".")
    card = f"# An average of {len(files)} models\n\n{names}\n\nMeasure it: `{command}`\n"
    save_model(out, first.config, weights, first.tokenizers, card)
    copy_shortlist(models[0], out)
    history = History(out)
    history.add("average", 0, models=[str(file.parent) for file in files])
    history.close()
    log(f"averaged {len(files)}: {names}")
    log(f"next: {format_evaluate_command(first.config, out)}")


def _languages(config: "Config") -> tuple[set[str], set[str]]:
    return set(config.source_languages), set(config.target_languages)
