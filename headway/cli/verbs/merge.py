"""`headway merge`: merge an adapter into its model."""

from pathlib import Path

import click

from headway.cli.app import Verb, option
from headway.cli.terminal import log


@click.command(
    "merge",
    cls=Verb,
    examples=[
        ("headway merge --adapter law --out law-model", "into the model that it was trained on"),
        ("headway merge --model en-de --adapter law --out law-model", "wherever that is now"),
    ],
)
@option("--adapter", required=True, metavar="DIR", help="Adapter directory, made by headway train --lora.")
@option(
    "--model", "-m", default="", metavar="MODEL", help="Its base, a directory or name. Default: as the adapter says."
)
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
def merge(adapter: str, model: str, out: Path, overwrite: bool) -> None:
    """Merge a LoRA adapter into its model.

    The result is a plain model directory: as fast as its base, and good for every command and engine. Its weights are
    float32; headway pack stores them in 8 bits."""
    from headway.storage.adapter import load_adapter, merge_adapter
    from headway.storage.model_dir import load_model, save_model
    from headway.storage.registry import model_directory
    from headway.text.shortlist import copy_shortlist
    from headway.train.checkpoints import refuse_nonempty
    from headway.train.model_card import format_evaluate_command

    given = load_adapter(adapter)
    folder = model_directory(model or given.base)
    if out.resolve() in (Path(folder).resolve(), Path(adapter).resolve()):
        raise click.UsageError(
            f"--out is {out}, which is given: choose another directory.", click.get_current_context()
        )
    refuse_nonempty(out, overwrite, "other weights")
    base = load_model(folder)
    weights = merge_adapter(base, folder, given)
    command = format_evaluate_command(base.config, ".")
    card = f"# {Path(folder).name} with the adapter {Path(adapter).name}\n\nMeasure it: `{command}`\n"
    save_model(out, base.config, weights, base.tokenizers, card)
    copy_shortlist(folder, out)
    log(f"merged {adapter} into {folder}: {len(given.weights) // 2} layers, rank {given.lora.rank}")
    log(f"next: {format_evaluate_command(base.config, out)}")
